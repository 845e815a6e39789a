//! Requests with places that are filled in anew each time: `{{seq}}`, `{{random:1..100}}`, `{{hex:16}}`; `{{{{` stands for two
//! braces.

use std::fmt::Write;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Most digits that a place may ask for.
const MOST_DIGITS: usize = 64;

/// Text with places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The number of the request: 0, 1 and so on, over all threads.
    Sequence,
    /// A whole number between two, both of which may come.
    Random(u64, u64),
    /// So many random hexadecimal digits.
    Hex(usize),
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// What stands in a place is not known, and what would be.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            let (before, place) = rest.split_at(at);
            // Twice the braces are the braces themselves.
            if let Some(behind) = place.strip_prefix("{{{{") {
                pieces.push(Piece::Text(format!("{before}{{{{")));
                rest = behind;
                continue;
            }
            let (place, behind) = place[2..].split_once("}}").ok_or_else(|| bad(&place[2..]))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.into()));
            }
            pieces.push(Piece::parse(place).ok_or_else(|| bad(place))?);
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.into()));
        }
        Ok(Template(pieces))
    }

    /// Whether there is nothing to fill in.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Writes the text of one request.
    pub(crate) fn fill(&self, into: &mut String, sequence: u64, dice: &mut ChaCha8Rng) {
        for piece in &self.0 {
            // Writing to a string cannot fail.
            let _ = match piece {
                Piece::Text(text) => into.write_str(text),
                Piece::Sequence => write!(into, "{sequence}"),
                Piece::Random(from, to) => write!(into, "{}", dice.random_range(*from..=*to)),
                Piece::Hex(digits) => {
                    (0..*digits).try_for_each(|_| write!(into, "{:x}", dice.random_range(0..16u8)))
                }
            };
        }
    }
}

impl Piece {
    fn parse(place: &str) -> Option<Self> {
        let (name, argument) = place.trim().split_once(':').unwrap_or((place.trim(), ""));
        match name {
            "seq" if argument.is_empty() => Some(Piece::Sequence),
            "random" => {
                let (from, to) = argument.split_once("..")?;
                let (from, to) = (from.parse().ok()?, to.parse().ok()?);
                (from <= to).then_some(Piece::Random(from, to))
            }
            "hex" => {
                argument.parse().ok().filter(|digits| (1..=MOST_DIGITS).contains(digits)).map(Piece::Hex)
            }
            _ => None,
        }
    }
}

fn bad(place: &str) -> String {
    let place: String = place.chars().take(40).collect();
    format!(
        "{{{{{place}}}}}: there are {{{{seq}}}} (the number of the request), {{{{random:1..100}}}} and {{{{hex:16}}}} (of at most \
         {MOST_DIGITS} digits); for the braces themselves write them twice"
    )
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn fill(text: &str, sequence: u64) -> String {
        let mut filled = String::new();
        Template::parse(text).unwrap().fill(&mut filled, sequence, &mut ChaCha8Rng::seed_from_u64(1));
        filled
    }

    #[test]
    fn places_are_filled_in() {
        assert_eq!(fill("/a?b={c}", 1), "/a?b={c}");
        assert_eq!(fill("/{{seq}}/{{ seq }}", 7), "/7/7");
        assert_eq!(fill("{{random:5..5}}", 0), "5");
        assert_eq!(fill("a{{{{seq}}b{{seq}}", 3), "a{{seq}}b3");
        let number: u64 = fill("{{random:10..12}}", 0).parse().unwrap();
        assert!((10..=12).contains(&number));
        let hex = fill("x{{hex:8}}y", 0);
        assert!(hex.len() == 10 && hex[1..9].bytes().all(|byte| byte.is_ascii_hexdigit()), "{hex}");
        assert!(Template::parse("plain").unwrap().is_plain());
    }

    #[test]
    fn what_is_not_known_is_explained() {
        for bad in ["{{", "{{what}}", "{{random:2..1}}", "{{random}}", "{{hex:0}}", "{{hex:65}}", "{{seq:1}}"]
        {
            assert!(Template::parse(bad).unwrap_err().contains("{{seq}}"), "{bad}");
        }
    }
}
