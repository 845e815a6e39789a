//! Flags of the bounds of a connection.

use std::time::Duration;

use bytesize::ByteSize;
use engine::Topology;
use engine::listen::BACKLOG;
use server::{InFlight, Limits, Rate, Rules};

use crate::cli::topology::Choice;
use crate::cli::value::of_path;

/// Most that a request body may be allowed to have; it is held in memory.
const MOST_BODY: ByteSize = ByteSize(1 << 30);

/// How long requests may wait in the long run where nobody says it and the server finds its other settings: no work that is
/// done in time otherwise is turned away for it (docs/adr/0011-a-wait-that-nobody-chose.md).
const BACKSTOP: Duration = Duration::from_secs(10);

/// The bounds that are the same for every server, for the end of the help: what is bounded, where, and what happens past it.
pub(super) const WITHOUT_FLAG: &str = "\
Limits without a flag:
  A method of 32 bytes: 501 past it. 100 fields in a head: 431
  Extensions of 256 bytes for each chunk of a body and 16KiB for all of them, and trailers of 16KiB:
  400
  A body that nobody wants is read over up to 64KiB and for 5s; past that the connection is closed
  behind the answer. It is then read on for up to 5s, as after an error, so that the client can read
  the answer
  16 ranges of a file, none of them overlapping: the whole file past it
  1MiB of lines of the access log that wait to be written, for each reactor: dropped past it";

/// The bounds of a connection.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitFlags {
    /// Largest head of a request: 431 past it, at most 16KiB
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    header_bytes: ByteSize,
    /// Longest target of a request: 414 past it
    #[arg(long, value_name = "SIZE", default_value = "8KiB")]
    target_bytes: ByteSize,
    /// Largest request body that is given to an application: 413 past it, at most 1GiB
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    body_bytes: ByteSize,
    /// Time for a whole request body: 408 past it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    body_timeout: Duration,
    /// Time for a whole request head: 408 past it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    header_timeout: Duration,
    /// How long a connection may stay open between requests
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    idle_timeout: Duration,
    /// How long a client may take nothing of its response before it is cut off
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    send_timeout: Duration,
    /// Bytes in a second that a client must send of a body and take of a response, on the average after 10s: 408, or it is
    /// cut off; 0 for no such limit
    #[arg(long, value_name = "SIZE", default_value = "500B")]
    min_rate: ByteSize,
    /// Time for a whole request, from its first byte to the last one of its answer: 503, or it is cut off; 0s for no limit. A
    /// worker is not waited for any longer than that, though it is not interrupted; where there are none, the answer is ready
    /// before the time is looked at
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    request_timeout: Duration,
    /// How long requests may wait for a worker in the long run: where none of their class has waited less for 100ms, those that
    /// have waited twice as long get 503, and the others are answered in time. With --order lifo or adaptive, whoever has
    /// waited twice as long and 100ms. 0s for no limit [default: 10s where the number of workers follows the work, as in
    /// the model auto; otherwise 0s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    queue_delay: Option<Duration>,
    /// Requests in a second that each client (address, or /64 network of IPv6) may make of paths that begin so: /api/=10, or
    /// /api/=10:100 for 100 at once after a pause; 429 past it. May be repeated; the longest path that fits counts
    #[arg(long, value_name = "PATH=RATE[:BURST]", value_parser = parse_rate)]
    rate_limit: Vec<(String, Rate)>,
    /// Requests of paths that begin so which may be with the workers at once, shared fairly between clients: /=500, /api/=20, or
    /// /=auto for as many as wait about as long as their work takes, by what is measured of all workers; 503 past it. May be
    /// repeated
    #[arg(long, value_name = "PATH=N|auto", value_parser = parse_in_flight)]
    in_flight: Vec<(String, InFlight)>,
    /// Requests after which a connection is closed; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    requests_per_connection: u32,
    /// Connections that one address may have at the same time, or one /64 network of IPv6: 503 past it; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    connections_per_address: u32,
    /// Connections that may wait to be accepted (the kernel caps it at net.core.somaxconn)
    #[arg(long, value_name = "N", default_value_t = BACKLOG)]
    pub(super) backlog: u32,
    /// How long requests under way may take to finish after SIGTERM or SIGINT
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(super) drain: Duration,
}

impl LimitFlags {
    /// How long requests may wait for a worker in the long run, and why; `None` for as long as it takes.
    pub(super) fn queue_delay(&self, topology: &Topology) -> (Option<Duration>, &'static str) {
        match self.queue_delay {
            Some(delay) => ((!delay.is_zero()).then_some(delay), "--queue-delay"),
            None if topology.is_elastic() => {
                (Some(BACKSTOP), "the default where the number of workers follows the work")
            }
            None => (None, "the default"),
        }
    }

    /// The same, as a line for whoever starts the server, if any requests wait for workers.
    pub(super) fn choice(&self, topology: &Topology) -> Option<Choice> {
        let (delay, why) = self.queue_delay(topology);
        let value = delay.map_or("none".into(), |delay| humantime::format_duration(delay).to_string());
        (topology.pools() > 0).then(|| Choice { setting: "queue-delay", value, why: why.into() })
    }

    /// What was asked for and has no effect with this topology.
    pub(super) fn warnings(&self, topology: &Topology) -> Vec<String> {
        let waits = self.queue_delay(topology).0.is_some();
        let asked = [
            (
                !self.in_flight.is_empty(),
                "--in-flight has no effect: no requests go to workers in this model",
            ),
            (waits, "--queue-delay has no effect: no requests wait for workers in this model"),
        ];
        let ignored = asked.iter().filter(|(asked, _)| *asked && topology.pools() == 0);
        ignored.map(|(_, why)| (*why).to_owned()).collect()
    }

    /// Who is let in.
    pub(super) fn rules(&self) -> Rules {
        Rules { rates: self.rate_limit.clone(), in_flight: self.in_flight.clone() }
    }

    /// The bounds, for a server with this topology.
    pub(super) fn resolve(&self, topology: &Topology) -> anyhow::Result<Limits> {
        let (queue_delay, _) = self.queue_delay(topology);
        let most = engine::BUF_BYTES as u64;
        anyhow::ensure!(
            (64..=most).contains(&self.header_bytes.0),
            "--header-bytes {}: must be 64 B to {}",
            self.header_bytes,
            ByteSize(most)
        );
        anyhow::ensure!(
            (1..=self.header_bytes.0).contains(&self.target_bytes.0),
            "--target-bytes {}: must be at least 1 B and no more than --header-bytes ({})",
            self.target_bytes,
            self.header_bytes
        );
        anyhow::ensure!(
            self.body_bytes <= MOST_BODY,
            "--body-bytes {}: must be at most {MOST_BODY}",
            self.body_bytes
        );
        anyhow::ensure!(self.backlog > 0, "--backlog 0: must be at least 1");
        for (flag, time) in [
            ("--header-timeout", self.header_timeout),
            ("--body-timeout", self.body_timeout),
            ("--idle-timeout", self.idle_timeout),
            ("--send-timeout", self.send_timeout),
        ] {
            anyhow::ensure!(!time.is_zero(), "{flag} 0s: must be longer; nothing could be served");
        }
        Ok(Limits {
            head: wire_limits(self.header_bytes.0 as usize, self.target_bytes.0 as usize),
            head_time: self.header_timeout,
            body_bytes: self.body_bytes.0,
            body_time: self.body_timeout,
            idle_time: self.idle_timeout,
            send_time: self.send_timeout,
            least_rate: self.min_rate.0,
            request_time: (!self.request_timeout.is_zero()).then_some(self.request_timeout),
            queue_delay,
            requests_per_connection: self.requests_per_connection,
            connections_per_address: self.connections_per_address,
            ..Limits::default()
        })
    }
}

fn wire_limits(head_bytes: usize, target_bytes: usize) -> server::HeadLimits {
    server::HeadLimits { head_bytes, target_bytes, ..server::HeadLimits::default() }
}

fn parse_rate(text: &str) -> Result<(String, Rate), String> {
    let (path, value) = of_path(text, "PATH=RATE or PATH=RATE:BURST, as in /api/=10:100")?;
    let (rate, burst) = value.split_once(':').map_or((value, None), |(rate, burst)| (rate, Some(burst)));
    let per_second: f64 = rate.parse().map_err(|_| format!("rate {rate:?}: expected a number"))?;
    if !(0.001..=1e6).contains(&per_second) {
        return Err(format!("rate {rate}: must be 0.001 to 1000000 requests per second"));
    }
    let burst = match burst {
        Some(text) => text.parse().ok().filter(|burst| (1..=1_000_000).contains(burst)),
        // What may come in a second may come at once.
        None => Some(per_second.ceil() as u32),
    };
    let burst = burst.ok_or("burst: must be 1 to 1000000")?;
    Ok((path.into(), Rate { per_second, burst }))
}

fn parse_in_flight(text: &str) -> Result<(String, InFlight), String> {
    let (path, value) = of_path(text, "PATH=N or PATH=auto, as in /api/=20")?;
    let limit = match value {
        "auto" => InFlight::Adaptive,
        number => match number.parse() {
            Ok(limit @ 1..=1_000_000) => InFlight::Fixed(limit),
            _ => return Err(format!("{number:?}: must be 1 to 1000000, or auto")),
        },
    };
    Ok((path.into(), limit))
}

#[cfg(test)]
mod tests {
    use clap::{Args, Parser};
    use engine::{BUF_BYTES, Model, Settings};
    use server::RATE_GRACE;

    use super::*;

    /// The flags of a command line.
    fn flags(given: &[&str]) -> LimitFlags {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            limits: LimitFlags,
        }
        Line::parse_from([&["serve"], given].concat()).limits
    }

    #[test]
    fn without_a_flag_the_bounds_are_those_of_every_server() {
        let (flags, own) = (flags(&[]), Settings::new(Model::Reactor.row(1, 16), ([127, 0, 0, 1], 0).into()));
        let bounds = flags.resolve(&own.topology).unwrap();
        assert_eq!(format!("{bounds:?}"), format!("{:?}", Limits::default()));
        assert_eq!((flags.backlog, flags.drain), (own.backlog, own.drain));
    }

    /// The word of a text that stands behind others.
    fn behind<'a>(text: &'a str, words: &str) -> &'a str {
        let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("{words:?} is not in {text:?}"));
        rest.trim_start().split([' ', ',', ';', ':', '\n']).next().unwrap_or_default()
    }

    #[test]
    fn the_help_names_the_numbers_that_are_in_the_code() {
        let command = LimitFlags::augment_args(clap::Command::new("serve"));
        let help = |flag: &str| {
            let mut flags = command.get_arguments();
            flags.find(|known| known.get_id() == flag).and_then(|known| known.get_help()).unwrap().to_string()
        };
        let size = |text: &str, words: &str| behind(text, words).parse::<ByteSize>().unwrap().0;
        let time = |text: &str, words: &str| humantime::parse_duration(behind(text, words)).unwrap();
        assert_eq!(size(&help("header_bytes"), "at most"), BUF_BYTES as u64);
        assert_eq!(size(&help("body_bytes"), "at most"), MOST_BODY.0);
        assert_eq!(time(&help("min_rate"), "after"), RATE_GRACE);
        assert_eq!(time(&help("queue_delay"), "[default:"), BACKSTOP);
        let Limits { head, discard_bytes, discard_time, .. } = Limits::default();
        assert_eq!(behind(WITHOUT_FLAG, "501 past it."), head.fields.to_string());
        assert_eq!(size(WITHOUT_FLAG, "is read over up to"), discard_bytes);
        assert_eq!(time(WITHOUT_FLAG, "64KiB and for"), discard_time);
        assert_eq!(time(WITHOUT_FLAG, "read on for up to"), discard_time);
    }

    #[test]
    fn the_wait_is_bounded_where_the_server_finds_its_settings_unless_it_is_said() {
        let wait =
            |model: Model, given: &[&str]| flags(given).resolve(&model.row(4, 16)).unwrap().queue_delay;
        assert_eq!(wait(Model::Auto, &[]), Some(BACKSTOP));
        assert_eq!(wait(Model::ReactorPool, &[]), None);
        assert_eq!(wait(Model::Auto, &["--queue-delay", "0s"]), None);
        let given = Some(Duration::from_millis(20));
        assert_eq!(wait(Model::ReactorPool, &["--queue-delay", "20ms"]), given);
    }

    #[test]
    fn bounds_for_paths() {
        let rate = |per_second, burst| Rate { per_second, burst };
        assert_eq!(parse_rate("/api/=10"), Ok(("/api/".into(), rate(10.0, 10))));
        assert_eq!(parse_rate("/a=b=0.5:100"), Ok(("/a=b".into(), rate(0.5, 100))));
        assert_eq!(parse_in_flight("/=auto"), Ok(("/".into(), InFlight::Adaptive)));
        assert_eq!(parse_in_flight("/x=20"), Ok(("/x".into(), InFlight::Fixed(20))));
        for bad in ["10", "api=10", "/=0", "/=-1", "/=x", "/=NaN", "/=1:0", "/=1:x", "/=1e99"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
        for bad in ["10", "api=10", "/=0", "/=1.5", "/=automatic", "/="] {
            assert!(parse_in_flight(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_has_no_effect_without_workers_is_said() {
        let bounds = flags(&["--in-flight", "/=20", "--queue-delay", "20ms"]);
        assert_eq!(bounds.warnings(&Model::ReactorPool.row(4, 16)), [""; 0]);
        let warnings = bounds.warnings(&Model::Reactor.row(4, 16));
        assert!(warnings[0].starts_with("--in-flight has no effect"), "{warnings:?}");
        assert!(warnings[1].starts_with("--queue-delay has no effect"), "{warnings:?}");
        assert!(flags(&["--queue-delay", "0s"]).warnings(&Model::Reactor.row(4, 16)).is_empty());
    }
}
