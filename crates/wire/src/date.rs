//! Dates of HTTP as they are written: in the one form that is allowed (RFC 9110, 5.6.7).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment as `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpDate([u8; 29]);

impl HttpDate {
    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<SystemTime> for HttpDate {
    fn from(time: SystemTime) -> Self {
        // The form has years of four digits; a clock set outside of 1970 to 9999 is read as the nearest end.
        const LAST: Duration = Duration::from_secs(253_402_300_799);
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().min(LAST);
        let mut text = [0; 29];
        let mut rest = &mut text[..];
        // 29 bytes are what this form takes for every such year.
        let _ = std::io::Write::write_fmt(
            &mut rest,
            format_args!("{}", httpdate::HttpDate::from(UNIX_EPOCH + since)),
        );
        HttpDate(text)
    }
}

/// The `Date` field line, made once per second.
#[derive(Clone, Debug)]
pub struct DateField {
    second: u64,
    line: [u8; 37],
}

impl DateField {
    /// The line for a moment.
    pub fn new(now: SystemTime) -> Self {
        let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        line[6..35].copy_from_slice(HttpDate::from(now).as_bytes());
        DateField { second: seconds(now), line }
    }

    /// Makes the line anew if the second has changed.
    pub fn refresh(&mut self, now: SystemTime) {
        if seconds(now) != self.second {
            *self = DateField::new(now);
        }
    }

    /// The line, with its CRLF.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn dates_are_written_in_the_first_form() {
        assert_eq!(HttpDate::from(at(784_111_777)).as_bytes(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(
            HttpDate::from(UNIX_EPOCH - Duration::from_secs(1)).as_bytes(),
            b"Thu, 01 Jan 1970 00:00:00 GMT"
        );
        assert_eq!(HttpDate::from(at(u32::MAX as u64 * 100)).as_bytes(), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn the_field_follows_the_clock() {
        let mut field = DateField::new(at(0));
        assert_eq!(field.line(), b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
        field.refresh(at(784_111_777));
        assert_eq!(field.line(), b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }
}
