//! Dates of HTTP as they are read: in all three forms that ever were (RFC 9110, 5.6.7). The library that writes them reads years
//! of two digits by another rule than that of the RFC, and none before 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SHORT_DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

const LONG_DAYS: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const SECONDS_OF_A_DAY: i64 = 86_400;

/// Reads a date in any of the three forms. The name of a day has to be one, but nobody looks whether it is that of the date.
pub fn parse_date(text: &[u8]) -> Option<SystemTime> {
    parse(text, SystemTime::now)
}

/// The same, with a clock: a year of two digits depends on the present one.
fn parse(text: &[u8], clock: impl FnOnce() -> SystemTime) -> Option<SystemTime> {
    imf_fixdate(text).or_else(|| asctime(text)).or_else(|| rfc850(text, clock))?.moment()
}

/// A date as it is written.
#[derive(Clone, Copy, Debug)]
struct Date {
    year: i64,
    /// From 1.
    month: i64,
    day: i64,
    /// Seconds of the day.
    time: i64,
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<Date> {
    let (name, rest) = text.split_at_checked(3)?;
    if !SHORT_DAYS.contains(&name) {
        return None;
    }
    let [b',', b' ', d0, d1, b' ', m0, m1, m2, b' ', year @ .., b' ', b'G', b'M', b'T'] = rest else {
        return None;
    };
    let (year, time) = year.split_at_checked(4)?;
    let (month, day) = (month(&[*m0, *m1, *m2])?, number(&[*d0, *d1])?);
    Some(Date { year: number(year)?, month, day, time: time_of_day(time.strip_prefix(b" ")?)? })
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<Date> {
    let (name, rest) = text.split_at_checked(3)?;
    if !SHORT_DAYS.contains(&name) {
        return None;
    }
    let [b' ', m0, m1, m2, b' ', d0, d1, b' ', time @ .., b' ', y0, y1, y2, y3] = rest else { return None };
    let tens = if *d0 == b' ' { b'0' } else { *d0 };
    let (month, day) = (month(&[*m0, *m1, *m2])?, number(&[tens, *d1])?);
    Some(Date { year: number(&[*y0, *y1, *y2, *y3])?, month, day, time: time_of_day(time)? })
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], clock: impl FnOnce() -> SystemTime) -> Option<Date> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    let (name, rest) = text.split_at(comma);
    if !LONG_DAYS.contains(&name) {
        return None;
    }
    let [b',', b' ', d0, d1, b'-', m0, m1, m2, b'-', y0, y1, b' ', time @ .., b' ', b'G', b'M', b'T'] = rest
    else {
        return None;
    };
    let (month, day) = (month(&[*m0, *m1, *m2])?, number(&[*d0, *d1])?);
    let date = Date { year: number(&[*y0, *y1])?, month, day, time: time_of_day(time)? };
    Some(date.near(seconds_since_epoch(clock())))
}

/// `08:49:37`, where the last minute of a day may have a second more.
fn time_of_day(text: &[u8]) -> Option<i64> {
    let [h0, h1, b':', m0, m1, b':', s0, s1] = text else { return None };
    let (hour, minute, second) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?, number(&[*s0, *s1])?);
    (hour < 24 && minute < 60 && second <= 60).then_some((hour * 60 + minute) * 60 + second)
}

/// The number that all these bytes are digits of.
fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

fn month(name: &[u8]) -> Option<i64> {
    MONTHS.iter().position(|month| *month == name).map(|at| at as i64 + 1)
}

impl Date {
    /// The same in the century in which it is meant, where the year has two digits: what would be more than 50 years in the
    /// future is in the past.
    fn near(self, now: i64) -> Date {
        // From the present century, and the next one where its end is near.
        let century = year_of(now).div_euclid(100);
        let in_century = |century| Date { year: century * 100 + self.year, ..self };
        let is_past = |date: &Date| Date { year: date.year - 50, ..*date }.seconds() <= now;
        [century + 1, century].map(in_century).into_iter().find(is_past).unwrap_or(in_century(century - 1))
    }

    /// Seconds since 1970, or before if negative.
    fn seconds(self) -> i64 {
        days_since_epoch(self.year, self.month, self.day) * SECONDS_OF_A_DAY + self.time
    }

    /// The moment, if there is such a day.
    fn moment(self) -> Option<SystemTime> {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let days = match self.month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if !(1..=days).contains(&self.day) {
            return None;
        }
        let seconds = self.seconds();
        let distance = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
    }
}

/// Days from 1 January 1970 to a day of the Gregorian calendar. (H. Hinnant, chrono-Compatible Low-Level Date Algorithms:
/// years begin in March, so that the day that is not always there is the last one.)
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

/// The year in which a second is.
fn year_of(seconds: i64) -> i64 {
    let days = seconds.div_euclid(SECONDS_OF_A_DAY);
    // By the average length, which is wrong by one at most.
    let guess = 1970 + (days * 400).div_euclid(146_097);
    let has_begun = |year: &i64| days_since_epoch(*year, 1, 1) <= days;
    [guess + 1, guess].into_iter().find(has_begun).unwrap_or(guess - 1)
}

fn seconds_since_epoch(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::HttpDate;

    fn at(seconds: i64) -> SystemTime {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }

    /// Of a clock that stands at the first second of 22 November 2026.
    fn in_2026(text: &str) -> Option<SystemTime> {
        parse(text.as_bytes(), || at(1_795_305_600))
    }

    #[test]
    fn the_three_forms_are_one_moment() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(in_2026(text), Some(at(784_111_777)), "{text}");
            assert_eq!(parse_date(text.as_bytes()), in_2026(text), "{text}");
        }
    }

    #[test]
    fn a_year_of_two_digits_is_at_most_fifty_years_ahead() {
        for (text, seconds) in [
            ("Saturday, 21-Nov-26 23:59:59 GMT", 1_795_305_599),
            ("Wednesday, 01-Jan-70 00:00:00 GMT", 3_155_760_000),
            ("Sunday, 22-Nov-76 00:00:00 GMT", 3_373_228_800),
            ("Monday, 22-Nov-76 00:00:01 GMT", 217_468_801),
            ("Friday, 31-Dec-99 23:59:59 GMT", 946_684_799),
            ("Saturday, 01-Jan-00 00:00:00 GMT", 946_684_800),
        ] {
            assert_eq!(in_2026(text), Some(at(seconds)), "{text}");
        }
        // Near the end of a century, and at the end of 1999.
        let in_2099 = parse(b"Friday, 01-Jan-10 00:00:00 GMT", || at(4_099_680_000));
        assert_eq!(in_2099, parse(b"Wed, 01 Jan 2110 00:00:00 GMT", || at(0)));
        let in_1999 = parse(b"Saturday, 01-Jan-00 00:00:00 GMT", || at(946_684_799));
        assert_eq!(in_1999, Some(at(946_684_800)));
    }

    #[test]
    fn years_before_1970_and_leap_seconds_are_read() {
        assert_eq!(in_2026("Thu, 01 Jan 1960 00:00:00 GMT"), Some(at(-315_619_200)));
        assert_eq!(in_2026("Wed, 31 Dec 1969 23:59:59 GMT"), Some(at(-1)));
        assert_eq!(in_2026("Sat, 31 Dec 2016 23:59:60 GMT"), Some(at(1_483_228_800)));
        assert_eq!(in_2026("Tue, 29 Feb 2000 00:00:00 GMT"), Some(at(951_782_400)));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "yesterday",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Son, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Mon, 29 Feb 1900 00:00:00 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 +8:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "\u{ff}",
        ] {
            assert_eq!(in_2026(text), None, "{text}");
        }
        assert_eq!(parse_date(b"\xff"), None);
    }

    #[test]
    fn every_day_is_read_as_it_is_written() {
        for day in (0..2_932_896).step_by(13) {
            let moment = at(day * SECONDS_OF_A_DAY + day % SECONDS_OF_A_DAY);
            let date = HttpDate::from(moment);
            assert_eq!(parse_date(date.as_bytes()), Some(moment), "{date:?}");
            let year = number(&date.as_bytes()[12..16]);
            assert_eq!(Some(year_of(seconds_since_epoch(moment))), year, "{date:?}");
        }
    }
}
