//! The media type of a file, by the ending of its name.

use std::borrow::Cow;

/// The value of `Content-Type` for a file name.
pub(crate) fn content_type(name: &str) -> Cow<'static, str> {
    let Some(known) = mime_guess::from_path(name).first_raw() else {
        return Cow::Borrowed("application/octet-stream");
    };
    match known {
        // The table has the older name; RFC 9239 made this one the standard's.
        "application/javascript" => Cow::Borrowed("text/javascript; charset=utf-8"),
        "text/html" => Cow::Borrowed("text/html; charset=utf-8"),
        text if text.starts_with("text/") => Cow::Owned(format!("{text}; charset=utf-8")),
        other => Cow::Borrowed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_a_charset_and_the_unknown_is_bytes() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("style.CSS", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("logo.png", "image/png"),
            ("image.svg", "image/svg+xml"),
            ("data.json", "application/json"),
            ("noending", "application/octet-stream"),
            ("strange.zzzz", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name), expected, "{name}");
        }
    }
}
