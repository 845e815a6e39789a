//! What a client would rather have: content codings and media types by their quality (RFC 9110, 12.4.2).

use crate::fields::list;
use crate::request::RequestHead;

/// A content coding, in the order in which the server would choose where the client has no preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// RFC 8878
    Zstd,
    /// RFC 7932
    Brotli,
    /// RFC 1952
    Gzip,
    /// None.
    Identity,
}

impl Coding {
    /// All of them.
    pub const ALL: [Coding; 4] = [Coding::Zstd, Coding::Brotli, Coding::Gzip, Coding::Identity];

    /// The registered name.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
            Coding::Identity => "identity",
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        // RFC 9110, 8.4.1.3: x-gzip is to be taken for gzip.
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// The codings that a client takes, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codings {
    /// Each as its number plus one, in three bits, the best in the lowest; 0 is the end.
    order: u16,
}

impl Codings {
    /// No coding at all: what a client gets that does not say.
    pub const IDENTITY: Codings = Codings { order: Coding::Identity as u16 + 1 };

    /// What the Accept-Encoding fields of a request come to (RFC 9110, 12.5.3).
    pub fn of(head: &RequestHead<'_>) -> Self {
        let mut values = head.values("Accept-Encoding").peekable();
        if values.peek().is_none() {
            return Codings::IDENTITY;
        }
        let mut qualities = [None; Coding::ALL.len()];
        let mut others = None;
        for member in values.flat_map(list) {
            let Some((name, quality)) = weighted(member) else { continue };
            match Coding::named(name) {
                Some(coding) => qualities[coding as usize] = Some(quality),
                None if name == b"*" => others = Some(quality),
                None => {}
            }
        }
        let quality = |coding: Coding| match (qualities[coding as usize], others, coding) {
            (Some(quality), ..) | (None, Some(quality), _) => quality,
            // Not named, it is still taken, but nothing that was named is worth less.
            (None, None, Coding::Identity) => 1,
            (None, None, _) => 0,
        };
        let mut taken = Coding::ALL.map(|coding| (quality(coding), coding));
        // A stable sort: where qualities are equal the server's order stays.
        taken.sort_by_key(|(quality, _)| std::cmp::Reverse(*quality));
        let order = taken.iter().filter(|(quality, _)| *quality > 0).rev();
        Codings { order: order.fold(0, |order, (_, coding)| order << 3 | (*coding as u16 + 1)) }
    }

    /// Them, best first; none if the client takes nothing that is known here.
    pub fn iter(self) -> impl Iterator<Item = Coding> {
        let mut order = self.order;
        std::iter::from_fn(move || {
            let coding = Coding::ALL.get(usize::from((order & 7).checked_sub(1)?)).copied();
            order >>= 3;
            coding
        })
    }

    /// Bytes that stand for them, to tell them apart in a key.
    pub fn to_bytes(self) -> [u8; 2] {
        self.order.to_le_bytes()
    }
}

/// How much a client wants a media type, in thousandths, by its Accept fields: the most specific range that covers the
/// type says it (RFC 9110, 12.5.1). Without any field everything is wanted.
pub fn accepts(head: &RequestHead<'_>, media_type: &str) -> u16 {
    let mut values = head.values("Accept").peekable();
    if values.peek().is_none() {
        return 1000;
    }
    let kind = media_type.split('/').next().unwrap_or_default();
    let (mut best, mut any) = ((0, 0), false);
    for (range, quality) in values.flat_map(list).filter_map(weighted) {
        any = true;
        let specific = match range {
            b"*/*" => 1,
            range if range.strip_suffix(b"/*").is_some_and(|r| r.eq_ignore_ascii_case(kind.as_bytes())) => 2,
            range if range.eq_ignore_ascii_case(media_type.as_bytes()) => 3,
            _ => continue,
        };
        best = best.max((specific, quality));
    }
    // What says nothing that can be understood is as good as nothing.
    if any { best.1 } else { 1000 }
}

/// A member of a list and its quality in thousandths; none if that is malformed: to take such a member for unwanted could
/// refuse a client all that it would take.
fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find(|part| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"q")
    });
    let quality = match weight {
        // There is no white space around its "=", nor is there a weight without one.
        Some([b'q' | b'Q', b'=', weight @ ..]) => thousandths(weight)?,
        Some(_) => return None,
        None => 1000,
    };
    Some((name, quality))
}

/// `0`, `1`, or one of them with up to three digits behind a point, and at most 1 (RFC 9110, 12.4.2).
fn thousandths(weight: &[u8]) -> Option<u16> {
    let (whole, digits) = match weight {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    let mut value = u16::from(whole - b'0');
    for at in 0..3 {
        let digit = digits.get(at).copied().unwrap_or(b'0');
        value = value * 10 + digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
    }
    (value <= 1000).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Limits, parse_request};

    fn with_head<R>(fields: &str, act: impl FnOnce(&RequestHead<'_>) -> R) -> R {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let (head, _) = parse_request(text.as_bytes(), &Limits::default()).unwrap().unwrap();
        act(&head)
    }

    #[test]
    fn codings_by_quality_and_then_as_the_server_likes() {
        use Coding::*;
        for (value, expected) in [
            ("gzip, deflate, br, zstd", vec![Zstd, Brotli, Gzip, Identity]),
            ("gzip", vec![Gzip, Identity]),
            ("x-gzip", vec![Gzip, Identity]),
            ("GZIP;q=0.5, br;q=0.8", vec![Brotli, Gzip, Identity]),
            ("gzip;q=1.000, br;q=0", vec![Gzip, Identity]),
            ("identity, gzip;q=0.5", vec![Identity, Gzip]),
            ("gzip, identity;q=0", vec![Gzip]),
            ("*", vec![Zstd, Brotli, Gzip, Identity]),
            ("*;q=0", vec![]),
            ("br, *;q=0", vec![Brotli]),
            ("identity;q=0", vec![]),
            ("", vec![Identity]),
            ("deflate", vec![Identity]),
            ("gzip;q=2", vec![Identity]),
            ("gzip;q=0.1234", vec![Identity]),
            ("gzip;q=x, br ; q=0.001", vec![Brotli, Identity]),
            ("*;q=1.0000", vec![Identity]),
            ("identity;q=-1", vec![Identity]),
            ("gzip;q =0", vec![Identity]),
            ("gzip;q= 0.5, br", vec![Brotli, Identity]),
            ("gzip;Q", vec![Identity]),
            ("gzip;Q=0.5;x=y, br;x=y;q=0.4", vec![Gzip, Brotli, Identity]),
            ("br;quality=0", vec![Brotli, Identity]),
        ] {
            let codings = with_head(&format!("Accept-Encoding: {value}\r\n"), Codings::of);
            assert_eq!(codings.iter().collect::<Vec<_>>(), expected, "{value}");
        }
        assert_eq!(with_head("", Codings::of), Codings::IDENTITY);
        let twice = with_head("Accept-Encoding: br;q=0.5\r\nAccept-Encoding: gzip\r\n", Codings::of);
        assert_eq!(twice.iter().collect::<Vec<_>>(), [Gzip, Brotli, Identity]);
    }

    #[test]
    fn the_most_specific_range_says_how_much_a_type_is_wanted() {
        for (value, html, json) in [
            ("application/json", 0, 1000),
            ("text/html,application/xhtml+xml,*/*;q=0.8", 1000, 800),
            ("text/*;q=0.5, */*;q=0.1", 500, 100),
            ("text/html;q=0, text/*", 0, 0),
            ("*/*", 1000, 1000),
            ("text/html;q=1.0000", 1000, 1000),
            ("text/html;q=1.0000, application/json;q=0.5", 0, 500),
        ] {
            let (h, j) = with_head(&format!("Accept: {value}\r\n"), |head| {
                (accepts(head, "text/html"), accepts(head, "application/json"))
            });
            assert_eq!((h, j), (html, json), "{value}");
        }
        assert_eq!(with_head("", |head| accepts(head, "text/html")), 1000);
    }
}
