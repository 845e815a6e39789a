//! Numbers and text on their way into a report.

use std::fmt::Write;

use crate::results::Estimate;

/// A number with as many decimals as its size bears, and its thousands set apart.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) =
        plain.split_once('.').map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-');
    let mut text = String::from(if whole.starts_with('-') { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        let _ = write!(text, ".{fraction}");
    }
    text
}

/// `median [low, high]`, or n/a.
pub(super) fn estimate(estimate: Option<Estimate>) -> String {
    match estimate {
        Some(Estimate { median, low, high }) => {
            format!("{} [{}, {}]", number(median), number(low), number(high))
        }
        None => "n/a".into(),
    }
}

/// Text that stands for itself in HTML, also within quotes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// JSON that can stand in a script element: nothing in it can end the element.
pub(super) fn json_for_script(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        for (value, expected) in [
            (0.0, "0.00"),
            (6.234, "6.23"),
            (62.34, "62.3"),
            (999.6, "1,000"),
            (1234.5, "1,234"),
            (1234567.0, "1,234,567"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn nothing_escapes_its_place() {
        assert_eq!(escape("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
        assert!(!json_for_script(&"</script><!--").contains('<'));
    }
}
