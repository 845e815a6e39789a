//! A line of the access log: noted when a request comes, recorded when its answer is out.

use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::{HttpDate, RequestHead, Status, put_decimal};

use super::address::put_address;
use super::first_line::FirstLine;
use super::json::Noted;
use super::{AccessLog, Format};

/// Most bytes of a target in a line.
const TARGET: usize = 2048;

/// Most bytes of a field in a line.
const FIELD: usize = 512;

/// Most bytes of what is added to a note when its answer is out.
const OUTCOME: usize = 128;

/// What is known of a request when it comes.
#[derive(Debug, Default)]
pub(crate) struct Note {
    /// The part of the line that stands before the outcome, and the one behind it.
    text: Vec<u8>,
    split: usize,
    begun: Option<Instant>,
}

impl Note {
    /// Forgets what was noted, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.begun = None;
    }

    /// Bytes of memory that it keeps.
    pub(crate) fn capacity(&self) -> usize {
        self.text.capacity()
    }

    /// Notes the same as another.
    pub(crate) fn copy(&mut self, other: &Note) {
        self.text.clone_from(&other.text);
        (self.split, self.begun) = (other.split, other.begun);
    }
}

/// The access log, for the connections of one thread.
pub(crate) struct Logger {
    log: Arc<AccessLog>,
    thread: usize,
    stamp: RefCell<Stamp>,
}

impl Logger {
    /// The log for the connections of the thread with this number.
    pub(crate) fn new(log: Arc<AccessLog>, thread: usize) -> Self {
        Logger { log, thread, stamp: RefCell::default() }
    }

    /// Notes a request, by its head, or by what has come of one that cannot be read.
    pub(crate) fn note(
        &self,
        note: &mut Note,
        head: Result<&RequestHead<'_>, &[u8]>,
        peer: SocketAddr,
        id: Option<&str>,
        now: Instant,
    ) {
        note.clear();
        note.begun = Some(now);
        let stamp = &mut *self.stamp.borrow_mut();
        let micros = stamp.refresh(now, SystemTime::now);
        let FirstLine { method, target, version } = head.map_or_else(FirstLine::unread, FirstLine::of);
        let target = &target[..target.len().min(TARGET)];
        let fields = head.map_or([None; 2], |head| head.first_values(["Referer", "User-Agent"]));
        let [referer, user_agent] = fields.map(|value| value.map(|value| &value[..value.len().min(FIELD)]));
        let text = &mut note.text;
        match self.log.format {
            Format::Combined => {
                put_address(text, peer.ip());
                for part in [" - - [", stamp.common(), "] \""] {
                    text.extend_from_slice(part.as_bytes());
                }
                put_escaped(text, method);
                text.push(b' ');
                put_escaped(text, target);
                text.push(b' ');
                put_escaped(text, version);
                text.push(b'"');
                note.split = text.len();
                for value in [referer, user_agent] {
                    let Some(value) = value else {
                        text.extend_from_slice(b" \"-\"");
                        continue;
                    };
                    text.extend_from_slice(b" \"");
                    put_escaped(text, value);
                    text.push(b'"');
                }
            }
            Format::Json => {
                let time = stamp.rfc3339(micros);
                let [method, target, version] = [method, target, version].map(String::from_utf8_lossy);
                let [referer, user_agent] =
                    [referer, user_agent].map(|value| value.map(String::from_utf8_lossy));
                let (time, method, target, version) = (&*time, &*method, &*target, &*version);
                Noted { time, peer, id, method, target, version, referer, user_agent }.put(text);
                // The closing brace comes behind the outcome.
                text.pop();
                note.split = text.len();
            }
        }
    }

    /// Records the outcome of a request that was noted: the answer's status and length, and whether all of it was sent.
    pub(crate) fn record(&self, note: &Note, status: Status, bytes: u64, complete: bool) {
        let Some(begun) = note.begun else { return };
        let (before, behind) = note.text.split_at(note.split);
        // Of three digits (RFC 9110, 15).
        let code = [100, 10, 1].map(|place| b'0' + (status.code() / place % 10) as u8);
        self.log.add(self.thread, note.text.len() + OUTCOME, |line| {
            line.extend_from_slice(before);
            match self.log.format {
                Format::Combined => {
                    line.extend_from_slice(&[b' ', code[0], code[1], code[2], b' ']);
                    if complete { put_decimal(line, bytes) } else { line.push(b'-') }
                }
                Format::Json => {
                    line.extend_from_slice(b",\"status\":");
                    line.extend_from_slice(&code);
                    line.extend_from_slice(b",\"bytes\":");
                    put_decimal(line, bytes);
                    let said: &[u8] = if complete { b",\"complete\":true" } else { b",\"complete\":false" };
                    line.extend_from_slice(said);
                    line.extend_from_slice(b",\"duration_us\":");
                    put_decimal(line, begun.elapsed().as_micros() as u64);
                    line.push(b'}');
                }
            }
            line.extend_from_slice(behind);
            line.push(b'\n');
        });
    }
}

/// The present second, as lines have it.
#[derive(Default)]
struct Stamp {
    /// When the system's clock was read, and the microseconds that it was into its second.
    read: Option<(Instant, u32)>,
    common: String,
    rfc3339: String,
}

impl Stamp {
    /// Makes the texts anew if the second is over; gives the microseconds into it. The system's clock is read once a second.
    fn refresh(&mut self, now: Instant, clock: impl FnOnce() -> SystemTime) -> u32 {
        let micros = |(read, into): (Instant, u32)| {
            now.saturating_duration_since(read).as_micros().saturating_add(into.into())
        };
        if let Some(micros) = self.read.map(micros).filter(|micros| *micros < 1_000_000) {
            return micros as u32;
        }
        let since = clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(since.as_secs()));
        let date = String::from_utf8_lossy(date.as_bytes());
        // "Sun, 06 Nov 1994 08:49:37 GMT"
        let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
        self.common = format!("{day}/{month}/{year}:{time} +0000");
        self.rfc3339 = format!("{year}-{:02}-{day}T{time}", number(month));
        self.read = Some((now, since.subsec_micros()));
        since.subsec_micros()
    }

    fn common(&self) -> &str {
        &self.common
    }

    fn rfc3339(&self, micros: u32) -> String {
        format!("{}.{micros:06}Z", self.rfc3339)
    }
}

/// The number of a month.
fn number(month: &str) -> usize {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    MONTHS.find(month).map_or(0, |at| at / 3 + 1)
}

/// Puts text of a request between quotes: what could end them, or move a terminal's cursor, is written as nginx does.
fn put_escaped(line: &mut Vec<u8>, text: &[u8]) {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..);
    // Nearly always there is nothing of the kind, which is found out faster for all bytes at once.
    if !text.iter().fold(false, |any, byte| any | is_special(byte)) {
        return line.extend_from_slice(text);
    }
    let mut rest = text;
    while let Some(at) = rest.iter().position(is_special) {
        line.extend_from_slice(&rest[..at]);
        let _ = write!(line, "\\x{:02X}", rest[at]);
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Destination;

    fn line_of(format: Format, request: Result<&[u8], &[u8]>, complete: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let log = AccessLog::start(Destination::File(path.clone()), format, 1).unwrap();
        let logger = Logger::new(log.clone(), 0);
        let head =
            request.map(|bytes| wire::parse_request(bytes, &wire::Limits::default()).unwrap().unwrap().0);
        let mut note = Note::default();
        let head = head.as_ref().map_err(|unread| *unread);
        logger.note(&mut note, head, ([10, 0, 0, 7], 4711).into(), Some("id-1"), Instant::now());
        logger.record(&note, Status::OK, 42, complete);
        log.finish();
        assert_eq!(log.dropped(), 0);
        std::fs::read_to_string(path).unwrap()
    }

    const REQUEST: &[u8] =
        b"GET /a\"b HTTP/1.1\r\nHost: a\r\nUser-Agent: evil\\\x1b\"agent \xe9\r\nReferer: http://x/\r\n\r\n";

    #[test]
    fn combined_lines_are_as_apache_writes_them_and_cannot_be_forged() {
        // The tokenizer lets no control byte through, so one is put in by hand.
        let mut line = Vec::new();
        put_escaped(&mut line, b"a\x1b[31m\"\n\\ \xe9");
        assert_eq!(line, br"a\x1B[31m\x22\x0A\x5C \xE9");
        let request = REQUEST.iter().copied().filter(|byte| *byte != 0x1b).collect::<Vec<_>>();
        let line = line_of(Format::Combined, Ok(&request), true);
        let (peer, rest) = line.split_once(" - - [").unwrap();
        let (time, rest) = rest.split_once("] ").unwrap();
        assert_eq!((peer, time.len()), ("10.0.0.7", 26), "{line}");
        assert_eq!(rest, "\"GET /a\\x22b HTTP/1.1\" 200 42 \"http://x/\" \"evil\\x5C\\x22agent \\xE9\"\n");
    }

    #[test]
    fn a_head_that_cannot_be_read_has_a_line_with_what_can_be_seen_of_it() {
        for (unread, expected) in [
            (&b""[..], "- - -"),
            (b"\r\n\r\nGET /a b\"c HTTP/1.1\r\nHost : a", "GET /a b\\x22c HTTP/1.1"),
            (b"\x16\x03\x01 \xe9", "- \\x16\\x03\\x01 \\xE9 -"),
            (b"GET /hello HT", "GET /hello HT"),
            (b"GET /hello", "GET /hello -"),
        ] {
            let line = line_of(Format::Combined, Err(unread), false);
            assert!(line.ends_with(&format!("] \"{expected}\" 200 - \"-\" \"-\"\n")), "{line}");
        }
        let long = [b"GET /", &[b'x'; 10_000][..], b" HTTP/1.1\r\n"].concat();
        let line = line_of(Format::Combined, Err(&long), false);
        assert!(line.contains("xxx HTTP/1.1\" ") && line.len() < TARGET + 128, "{} bytes", line.len());
        let line = line_of(Format::Json, Err(b"GET /\x9b HTTP/1.1\n"), false);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let parts = ["method", "target", "version"].map(|name| line[name].as_str().unwrap());
        assert_eq!(parts, ["GET", "/\u{fffd}", "HTTP/1.1"]);
    }

    #[test]
    fn no_target_makes_a_line_longer_than_its_bound() {
        // The bound is inside of a character.
        let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "\u{e9}".repeat(4000));
        for (format, most) in [(Format::Combined, 4 * TARGET + 128), (Format::Json, TARGET + 256)] {
            let line = line_of(format, Ok(request.as_bytes()), true);
            assert!(line.len() < most, "{} bytes", line.len());
        }
    }

    #[test]
    fn json_lines_are_json_whatever_the_request_has_in_it() {
        let request = REQUEST.iter().copied().filter(|byte| *byte != 0x1b).collect::<Vec<_>>();
        let line: serde_json::Value =
            serde_json::from_str(&line_of(Format::Json, Ok(&request), true)).unwrap();
        assert_eq!((&line["target"], &line["method"]), (&"/a\"b".into(), &"GET".into()));
        assert_eq!(line["user_agent"], "evil\\\"agent \u{fffd}");
        // U+009B begins a command to a terminal, as ESC [ does.
        let request =
            b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a\xc2\x9b31m\xc2\x80\xc3\xa9\xc2\xa0\r\n\r\n";
        let text = line_of(Format::Json, Ok(request), true);
        assert!(text.contains("\"a\\u009b31m\\u0080\u{e9}\u{a0}\""), "{text}");
        assert_eq!((line["status"].as_u64(), line["bytes"].as_u64()), (Some(200), Some(42)));
        assert_eq!((&line["peer"], &line["id"]), (&"10.0.0.7:4711".into(), &"id-1".into()));
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == "2026-11-21T07:48:06.000000Z".len() && time.ends_with('Z'), "{time}");
        let unread: serde_json::Value =
            serde_json::from_str(&line_of(Format::Json, Err(b""), false)).unwrap();
        assert_eq!((&unread["method"], &unread["complete"]), (&"-".into(), &false.into()));
    }

    /// A log into a pipe, and what it notes of a request.
    fn into_a_pipe(writing: &std::io::PipeWriter) -> (Arc<AccessLog>, Logger, Note) {
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(writing));
        let log = AccessLog::start(Destination::File(path.into()), Format::Combined, 1).unwrap();
        let logger = Logger::new(log.clone(), 0);
        let mut note = Note::default();
        logger.note(&mut note, Err(b""), ([10, 0, 0, 7], 1).into(), None, Instant::now());
        (log, logger, note)
    }

    #[test]
    fn lines_that_come_too_fast_are_dropped_and_counted() {
        // A pipe that nobody reads holds 64 KiB; the writer waits for it, and must hold up nobody.
        let (reading, writing) = std::io::pipe().unwrap();
        let (log, logger, note) = into_a_pipe(&writing);
        let lines = 100_000;
        for _ in 0..lines {
            logger.record(&note, Status::OK, 1, true);
        }
        let dropped = log.dropped();
        assert!(dropped > 0 && dropped < lines, "{dropped}");
        drop(writing);
        let reader = std::thread::spawn(move || std::io::read_to_string(reading).unwrap().lines().count());
        log.finish();
        drop((logger, log));
        assert_eq!(reader.join().unwrap() as u64 + dropped, lines);
    }

    #[test]
    fn a_pipe_that_nobody_reads_keeps_nobody_from_stopping() {
        let (reading, writing) = std::io::pipe().unwrap();
        let (log, logger, note) = into_a_pipe(&writing);
        for _ in 0..5_000 {
            logger.record(&note, Status::OK, 1, true);
        }
        log.finish();
        assert!((1..=5_000).contains(&log.dropped()), "{}", log.dropped());
        drop(reading);
    }

    #[test]
    fn time_is_written_in_both_ways() {
        let (mut stamp, now) = (Stamp::default(), Instant::now());
        let clock = |micros: u64| move || UNIX_EPOCH + Duration::from_micros(784_111_777_000_042 + micros);
        let micros = stamp.refresh(now, clock(0));
        assert_eq!(stamp.common(), "06/Nov/1994:08:49:37 +0000");
        assert_eq!(stamp.rfc3339(micros), "1994-11-06T08:49:37.000042Z");
        // In between the clock is not asked.
        let micros = stamp.refresh(now + Duration::from_micros(999_957), || unreachable!());
        assert_eq!(stamp.rfc3339(micros), "1994-11-06T08:49:37.999999Z");
        let micros = stamp.refresh(now + Duration::from_micros(999_958), clock(1_000_000));
        assert_eq!(stamp.rfc3339(micros), "1994-11-06T08:49:38.000042Z");
    }
}
