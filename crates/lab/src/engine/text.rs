//! Finding figures in what load generators print.

/// The first word behind a label at the beginning of a line.
pub(super) fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    rest.split_whitespace().next()
}

/// The number behind a label; 0 where there is none.
pub(super) fn count(text: &str, label: &str) -> u64 {
    after(text, label).and_then(|word| word.trim_end_matches(',').parse().ok()).unwrap_or(0)
}

/// The number before a word.
pub(super) fn number_before(line: &str, word: &str) -> u64 {
    let parts: Vec<&str> = line.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    let before = parts.windows(2).find(|pair| pair[1] == word).map(|pair| pair[0]);
    before.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Reads `1.23ms`, `450us` or `2.00s`.
pub(super) fn micros(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..at].parse().ok()?;
    let times = match &text[at..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number * times)
}

/// Reads `512.00B`, `4.12MB` or `1.50GB`, which are of 1,024.
pub(super) fn bytes(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..at].parse().ok()?;
    let power = ["B", "KB", "MB", "GB", "TB"].iter().position(|unit| *unit == &text[at..])?;
    Some(number * 1024_f64.powi(power as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        let read = ["512.00B", "1.50KB", "4MB", "1.25GB", "4XB", "MB"].map(bytes);
        let gb = 1024_f64.powi(3);
        assert_eq!(read, [Some(512.0), Some(1536.0), Some(4_194_304.0), Some(1.25 * gb), None, None]);
    }
}
