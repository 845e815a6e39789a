//! Which bytes of a representation a Range field asks for (RFC 9110, 14.1 and 14.2).

use std::ops::Range;

use crate::fields::{decimal, list};

/// Most ranges that one request may ask for; with more the whole is sent (CVE-2011-3192).
const MOST_RANGES: usize = 16;

/// What a Range field comes to, for a representation of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// It is to be ignored: another unit, malformed, too many ranges or overlapping ones. The whole is sent.
    Whole,
    /// Nothing that it asks for is there: 416.
    Unsatisfiable,
    /// These bytes, in the order asked for; none is empty, none overlaps another.
    Parts(Vec<Range<u64>>),
}

/// Resolves the value of a Range field against a representation of `length` bytes.
pub fn resolve_ranges(value: &[u8], length: u64) -> Ranges {
    let Some(set) = ranges_set(value) else { return Ranges::Whole };
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut asked = 0;
    for spec in list(set) {
        asked += 1;
        let part = match Spec::parse(spec) {
            Some(spec) if asked <= MOST_RANGES => spec.within(length),
            _ => return Ranges::Whole,
        };
        match part {
            Part::Bytes(part)
                if parts.iter().any(|other| part.start < other.end && other.start < part.end) =>
            {
                return Ranges::Whole;
            }
            Part::Bytes(part) => parts.push(part),
            Part::Nothing => {}
            Part::All => return Ranges::Whole,
        }
    }
    match (asked, parts.is_empty()) {
        (0, _) => Ranges::Whole,
        (_, true) => Ranges::Unsatisfiable,
        (_, false) => Ranges::Parts(parts),
    }
}

/// What stands behind `bytes=`; the unit's name may be in any case (RFC 9110, 14.1).
fn ranges_set(value: &[u8]) -> Option<&[u8]> {
    let equals = memchr::memchr(b'=', value)?;
    value[..equals].eq_ignore_ascii_case(b"bytes").then_some(&value[equals + 1..])
}

/// One range as it is asked for.
enum Spec {
    /// From a position on, up to another one if it says so; both count.
    From(u64, Option<u64>),
    /// The last bytes.
    Suffix(u64),
}

/// What one range comes to.
enum Part {
    Bytes(Range<u64>),
    Nothing,
    /// The last bytes of nothing: all of it, which no Content-Range can say.
    All,
}

impl Spec {
    fn parse(spec: &[u8]) -> Option<Self> {
        let dash = memchr::memchr(b'-', spec)?;
        let (first, last) = (&spec[..dash], &spec[dash + 1..]);
        if first.is_empty() {
            return position(last).map(Spec::Suffix);
        }
        let first = position(first)?;
        if last.is_empty() {
            return Some(Spec::From(first, None));
        }
        let last = position(last)?;
        (first <= last).then_some(Spec::From(first, Some(last)))
    }

    fn within(&self, length: u64) -> Part {
        match *self {
            Spec::Suffix(0) => Part::Nothing,
            Spec::Suffix(_) if length == 0 => Part::All,
            Spec::Suffix(n) => Part::Bytes(length.saturating_sub(n)..length),
            Spec::From(first, _) if first >= length => Part::Nothing,
            Spec::From(first, last) => {
                Part::Bytes(first..last.map_or(length, |last| last.saturating_add(1).min(length)))
            }
        }
    }
}

/// A position; one that does not fit in 64 bits is behind the end of everything.
fn position(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| decimal(digits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "these are ranges")]
    fn ranges_of_the_rfc_and_their_edges() {
        use Ranges::*;
        for (value, expected) in [
            ("bytes=0-499", Parts(vec![0..500])),
            ("bytes=500-999", Parts(vec![500..1000])),
            ("bytes=-500", Parts(vec![9500..10_000])),
            ("bytes=9500-", Parts(vec![9500..10_000])),
            ("bytes=0-0,-1", Parts(vec![0..1, 9999..10_000])),
            ("bytes= 0-0 , , 5-6 ", Parts(vec![0..1, 5..7])),
            ("Bytes=0-0", Parts(vec![0..1])),
            ("bytes=9999-99999999999999999999999", Parts(vec![9999..10_000])),
            ("bytes=-99999999999999999999999", Parts(vec![0..10_000])),
            ("bytes=0-0,10000-", Parts(vec![0..1])),
            ("bytes=10000-", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=5-4", Whole),
            ("bytes=0-9,5-14", Whole),
            ("bytes=", Whole),
            ("bytes=,", Whole),
            ("bytes=a-b", Whole),
            ("bytes=1", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=1-2-3", Whole),
            ("lines=0-1", Whole),
            ("bytes", Whole),
            ("", Whole),
        ] {
            assert_eq!(resolve_ranges(value.as_bytes(), 10_000), expected, "{value}");
        }
    }

    #[test]
    fn of_nothing_there_is_no_part() {
        assert_eq!(resolve_ranges(b"bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(resolve_ranges(b"bytes=-5", 0), Ranges::Whole);
    }

    #[test]
    fn hundreds_of_ranges_are_the_whole() {
        let many = |n: u32| {
            let specs: Vec<String> = (0..n).map(|at| format!("{}-{}", at * 2, at * 2)).collect();
            resolve_ranges(format!("bytes={}", specs.join(",")).as_bytes(), 10_000)
        };
        assert!(matches!(many(16), Ranges::Parts(parts) if parts.len() == 16));
        assert_eq!(many(17), Ranges::Whole);
        assert_eq!(many(1000), Ranges::Whole);
    }
}
