//! The media type of a file, by the ending of its name, and whether compressing it is worth the time.

/// A media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Media {
    /// Its registered name.
    pub(super) name: &'static str,
    /// Its text is in UTF-8, and is said to be.
    pub(super) is_text: bool,
    /// Its files are not compressed already.
    pub(super) compressible: bool,
}

impl Media {
    /// The media type of a file's name.
    pub(super) fn of(name: &str) -> Self {
        let name = match mime_guess::from_path(name).first_raw() {
            // The table has the older name; RFC 9239 made this one the standard's.
            Some("application/javascript") => "text/javascript",
            Some(known) => known,
            None => "application/octet-stream",
        };
        let is_text = name.starts_with("text/");
        Media { name, is_text, compressible: is_text || is_compressible(name) }
    }

    /// The value of Content-Type.
    pub(super) fn content_type(&self) -> String {
        let charset = if self.is_text { "; charset=utf-8" } else { "" };
        format!("{}{charset}", self.name)
    }
}

/// Whether files of a type that is not text get much smaller.
fn is_compressible(name: &str) -> bool {
    const COMPRESSIBLE: [&str; 13] = [
        "application/json",
        "application/ld+json",
        "application/manifest+json",
        "application/rtf",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/xml",
        "application/x-javascript",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/svg+xml",
        "image/x-icon",
    ];
    COMPRESSIBLE.contains(&name) || name.ends_with("+xml") || name.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_a_charset_and_the_unknown_is_bytes() {
        for (name, expected, compressible) in [
            ("index.html", "text/html; charset=utf-8", true),
            ("style.CSS", "text/css; charset=utf-8", true),
            ("app.js", "text/javascript; charset=utf-8", true),
            ("logo.png", "image/png", false),
            ("image.svg", "image/svg+xml", true),
            ("data.json", "application/json", true),
            ("module.wasm", "application/wasm", true),
            ("archive.zip", "application/zip", false),
            ("feed.atom", "application/atom+xml", true),
            ("noending", "application/octet-stream", false),
            ("strange.zzzz", "application/octet-stream", false),
        ] {
            let media = Media::of(name);
            assert_eq!(media.content_type(), expected, "{name}");
            assert_eq!(media.compressible, compressible, "{name}");
        }
    }
}
