//! Access logs to be asked for again: what was asked for, and when, from lines in the combined format or in JSON.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use crate::error::Error;

/// Most requests of one log; each takes some 24 bytes and its path.
const MOST: usize = 10_000_000;

/// Longest line that is looked at.
const LONGEST_LINE: u64 = 64 * 1024;

/// The requests of a log.
#[derive(Debug, Default)]
pub struct Log {
    /// Each with the seconds since the first.
    pub(crate) entries: Vec<Entry>,
    /// Every path that is asked for, once.
    pub(crate) paths: Vec<String>,
    /// Lines that are no GET or cannot be read.
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) at_s: f64,
    /// Number of its path.
    pub(crate) path: u32,
}

impl Log {
    /// Reads a log. Only GET is asked for again: what other methods had as content no log says.
    ///
    /// # Errors
    /// The file cannot be read, there is no request in it, or there are too many.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let bad = |what: String| Error::Plan(format!("log {}: {what}", file.display()));
        let mut reader = BufReader::new(File::open(file).map_err(|error| bad(error.to_string()))?);
        let mut log = Log::default();
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = (&mut reader)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line)
                .map_err(|error| bad(error.to_string()))?;
            if length == 0 {
                break;
            }
            match parse(&String::from_utf8_lossy(&line)) {
                Some((at_s, path)) => {
                    let next = known.len() as u32;
                    log.entries.push(Entry { at_s, path: *known.entry(path).or_insert(next) });
                }
                None => log.skipped += 1,
            }
            if log.entries.len() > MOST {
                return Err(bad(format!("there are more than {MOST} requests in it; cut it into parts")));
            }
        }
        if log.entries.is_empty() {
            return Err(bad(
                "there is no GET in it; it must be in the combined log format, or in JSON as `plimsoll serve \
                 --log-format json` writes it"
                    .into(),
            ));
        }
        log.paths = vec![String::new(); known.len()];
        known.into_iter().for_each(|(path, number)| log.paths[number as usize] = path);
        log.order();
        Ok(log)
    }

    /// How many requests it has.
    pub fn requests(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Brings the requests in order, from second 0, and spreads those of a second over it where the log tells seconds only.
    fn order(&mut self) {
        // A log is written when answers end, so neighbours may be in the wrong order. Sorting keeps that of equals.
        self.entries.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let first = self.entries.first().map_or(0.0, |entry| entry.at_s.floor());
        let mut begin = 0;
        while begin < self.entries.len() {
            let at_s = self.entries[begin].at_s;
            let same = self.entries[begin..].iter().take_while(|entry| entry.at_s == at_s).count();
            let whole = at_s.fract() == 0.0;
            for (nth, entry) in self.entries[begin..begin + same].iter_mut().enumerate() {
                let within = if whole { nth as f64 / same as f64 } else { 0.0 };
                entry.at_s = at_s - first + within;
            }
            begin += same;
        }
    }
}

/// A line as `plimsoll serve --log-format json` writes it; other fields do not matter.
#[derive(Deserialize)]
struct Line<'a> {
    time: &'a str,
    method: &'a str,
    target: String,
}

/// When a line's request came, in seconds since some day, and its path; `None` if it is no GET.
fn parse(line: &str) -> Option<(f64, String)> {
    let line = line.trim();
    let (at_s, target) = if line.starts_with('{') {
        let Line { time, method, target } = serde_json::from_str(line).ok()?;
        let time = humantime::parse_rfc3339(time).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        (time.as_secs_f64(), (method == "GET").then_some(target)?)
    } else {
        let (_, rest) = line.split_once('[')?;
        let (time, rest) = rest.split_once("] \"GET ")?;
        (clf_seconds(time)?, rest.split([' ', '"']).next()?.to_owned())
    };
    let sendable = target.starts_with('/') && target.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    (sendable && !target.contains("{{")).then_some((at_s, target))
}

/// Reads `10/Oct/2000:13:55:36 -0700` as seconds since 1970.
fn clf_seconds(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(':')?;
    let (clock, zone) = rest.split_once(' ')?;
    let mut date = date.split('/');
    let (day, month, year) = (date.next()?, date.next()?, date.next()?);
    // The date forms of HTTP are those of RFC 5322, with another order; the day of the week is not looked at.
    let http = format!("{day} {month} {year} {clock} GMT");
    let utc = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
        .iter()
        .find_map(|name| httpdate::parse_http_date(&format!("{name}, {http}")).ok())?;
    let seconds = utc.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64();
    let (sign, zone) = zone.split_at_checked(1)?;
    let (hours, minutes) = zone.split_at_checked(2)?;
    let offset = hours.parse::<f64>().ok()? * 3600.0 + minutes.parse::<f64>().ok()? * 60.0;
    Some(if sign == "-" { seconds + offset } else { seconds - offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Log, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Log::read(file.path())
    }

    fn entries(log: &Log) -> Vec<(f64, &str)> {
        log.entries.iter().map(|entry| (entry.at_s, &*log.paths[entry.path as usize])).collect()
    }

    #[test]
    fn a_combined_log_is_spread_over_its_seconds() {
        let log = read(
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /a?b HTTP/1.1\" 200 5 \"-\" \"x [y] z\"\n\
             1.2.3.4 - frank [10/Oct/2000:13:55:36 -0700] \"GET /b HTTP/1.0\" 404 -\n\
             1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"POST /c HTTP/1.1\" 200 5\n\
             1.2.3.4 - - [10/Oct/2000:22:55:38 +0200] \"GET /a?b HTTP/1.1\" 200 5\n\
             nonsense\n",
        )
        .unwrap();
        assert_eq!(entries(&log), [(0.0, "/a?b"), (0.5, "/b"), (2.0, "/a?b")]);
        assert_eq!((log.skipped, log.paths.len(), log.requests()), (2, 2, 3));
    }

    #[test]
    fn a_json_log_has_its_own_times() {
        let line = |time: &str, target: &str| {
            format!("{{\"time\":\"{time}\",\"method\":\"GET\",\"target\":\"{target}\",\"status\":200}}\n")
        };
        let text = line("2026-11-21T10:00:01.500Z", "/late") + &line("2026-11-21T10:00:00.250Z", "/early");
        assert_eq!(entries(&read(&text).unwrap()), [(0.25, "/early"), (1.5, "/late")]);
    }

    #[test]
    fn a_log_without_requests_is_refused() {
        for text in
            ["", "GET / HTTP/1.1\n", "a [b] \"GET \n", "a [1/Foo/2000:1:2:3 +0000] \"GET / HTTP/1.1\"\n"]
        {
            assert!(read(text).unwrap_err().to_string().contains("no GET"), "{text}");
        }
        assert!(Log::read(Path::new("/nowhere")).is_err());
    }
}
