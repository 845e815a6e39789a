//! Processes that are started: they begin with no signal blocked, whatever this process waits for.

use std::ffi::c_int;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A set of signals, as the C library has it: 1,024 bits.
#[repr(C)]
struct Signals([u64; 16]);

// SAFETY: this is sigprocmask(2) of the C library, which reads the one set and writes the other, where there is one.
unsafe extern "C" {
    safe fn sigprocmask(how: c_int, set: &Signals, before: Option<&mut Signals>) -> c_int;
}

/// What replaces the whole mask.
const SETMASK: c_int = 2;

/// Has a command start with no signal blocked.
///
/// A process inherits the signals that its parent has blocked, and one that waits for SIGTERM and SIGINT (sigwait(3)) has
/// blocked those: a child that does not look at its mask, as Apache and lighttpd do not, could not be asked to end.
pub fn with_all_signals(command: &mut Command) -> &mut Command {
    let unblock = || match sigprocmask(SETMASK, &Signals([0; 16]), None) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: what runs between fork(2) and execve(2) may call nothing but what is safe in a signal handler, and sigprocmask(2)
    // is (signal-safety(7)); it takes no lock, and no memory but that of the stack.
    unsafe { command.pre_exec(unblock) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocked signals of a process that is started while this thread has blocked SIGTERM.
    fn blocked(change: impl Fn(&mut Command) -> &mut Command) -> u64 {
        const BLOCK: c_int = 0;
        let (mut term, mut before) = (Signals([0; 16]), Signals([0; 16]));
        term.0[0] = 1 << (15 - 1);
        assert_eq!(sigprocmask(BLOCK, &term, Some(&mut before)), 0);
        let mut command = Command::new("grep");
        let output = change(command.args(["SigBlk", "/proc/self/status"])).output();
        assert_eq!(sigprocmask(SETMASK, &before, None), 0);
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        u64::from_str_radix(text.split_whitespace().nth(1).unwrap(), 16).unwrap()
    }

    #[test]
    fn a_child_begins_with_no_signal_blocked() {
        assert_eq!((blocked(|command| command), blocked(with_all_signals)), (1 << 14, 0));
    }
}
