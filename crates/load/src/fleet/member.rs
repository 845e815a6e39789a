//! The processes of a load: how one is started, told what to do, and ended.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::{Order, PATIENCE, Report};
use crate::error::Error;
use crate::responder::Wanted;

/// One process, which ends when it is dropped.
pub(super) struct Member {
    child: Child,
    /// Where nobody gives orders any more it ends.
    pub(super) orders: Option<ChildStdin>,
}

impl Member {
    pub(super) fn start(
        program: &Path,
        arguments: &[&str],
        index: u32,
        reports: Sender<(usize, Report)>,
    ) -> Result<Self, Error> {
        let mut child =
            Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take();
        if let Some(output) = child.stdout.take() {
            thread::Builder::new().name(format!("process-{index}")).spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let report = serde_json::from_str(&line)
                        .unwrap_or_else(|error| Report::Failed(format!("it said {line:?}: {error}")));
                    let _ = reports.send((index as usize, report));
                }
                let _ = reports.send((index as usize, Report::Failed("it ended before its time".into())));
            })?;
        }
        Ok(Member { child, orders })
    }

    pub(super) fn tell(&mut self, order: &Order) -> Result<(), Error> {
        let Some(orders) = &mut self.orders else { return Ok(()) };
        let text = serde_json::to_string(order).map_err(std::io::Error::from)?;
        Ok(writeln!(orders, "{text}")?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that answers a load, which ends when this is dropped.
pub(crate) struct Responding {
    address: SocketAddr,
    /// Ends with it.
    _member: Member,
}

impl Responding {
    /// Starts one: `program` with `arguments`, which must call [`serve`].
    ///
    /// # Errors
    /// It cannot be started, or does not get ready.
    pub(crate) fn start(program: &Path, arguments: &[&str], wanted: Wanted) -> Result<Self, Error> {
        let (sender, reports) = mpsc::channel();
        let mut member = Member::start(program, arguments, 0, sender)?;
        member.tell(&Order::Respond(wanted))?;
        let failed = |why: &str| Err(Error::Nothing(format!("the process that answers the check: {why}")));
        match reports.recv_timeout(PATIENCE) {
            Ok((_, Report::Responds(address))) => Ok(Responding { address, _member: member }),
            Ok((_, Report::Failed(why))) => failed(&why),
            Ok(_) | Err(_) => failed("it does not get ready"),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
