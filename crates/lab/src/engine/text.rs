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
