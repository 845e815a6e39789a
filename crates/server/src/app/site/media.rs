//! The media type of a file, by the ending of its name, and whether compressing it is worth the time.

/// A media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Media {
    /// Its registered name.
    pub(super) name: &'static str,
    /// It is text, whose charset is said.
    pub(super) is_text: bool,
    pub(super) packing: Packing,
}

/// What compressing files of a type does to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// They get smaller, and are worth the time.
    Loose,
    /// Nobody knows: only what was compressed beforehand is sent.
    Unknown,
    /// They are compressed already.
    Packed,
}

impl Media {
    /// The media type of a file's name.
    pub(super) fn of(name: &str) -> Self {
        let name = match mime_guess::from_path(name).first_raw() {
            // The table has older names, or those of one maker. RFC 9239, RFC 8081, RFC 3555 and RFC 8216 made these the
            // standard's, and nginx and Apache have them so. A .ts is a part of a film: no browser runs TypeScript.
            Some("application/javascript") => "text/javascript",
            Some("application/font-woff") => "font/woff",
            Some("application/font-sfnt") => "font/otf",
            Some("video/vnd.dlna.mpeg-tts") => "video/mp2t",
            Some("audio/x-mpegurl") => "application/vnd.apache.mpegurl",
            Some(known) => known,
            None => "application/octet-stream",
        };
        Media { name, is_text: name.starts_with("text/"), packing: Packing::of(name) }
    }

    /// The value of Content-Type, for a site whose text is in a charset.
    pub(super) fn content_type(&self, charset: Option<&str>) -> String {
        match charset {
            Some(charset) if self.is_text => format!("{}; charset={charset}", self.name),
            _ => self.name.to_owned(),
        }
    }
}

impl Packing {
    fn of(name: &str) -> Self {
        const LOOSE: [&str; 14] = [
            "application/json",
            "application/ld+json",
            "application/manifest+json",
            "application/rtf",
            "application/vnd.apache.mpegurl",
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
        const PACKED: [&str; 13] = [
            "application/epub+zip",
            "application/gzip",
            "application/java-archive",
            "application/vnd.android.package-archive",
            "application/x-7z-compressed",
            "application/x-bzip2",
            "application/x-compressed",
            "application/x-rar-compressed",
            "application/x-xz",
            "application/zip",
            "application/zstd",
            "font/woff",
            "font/woff2",
        ];
        let kind = name.split('/').next().unwrap_or_default();
        if kind == "text" || name.ends_with("+xml") || name.ends_with("+json") || LOOSE.contains(&name) {
            Packing::Loose
        } else if ["audio", "image", "video"].contains(&kind) || PACKED.contains(&name) {
            Packing::Packed
        } else {
            Packing::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_a_charset_and_the_unknown_is_bytes() {
        use Packing::*;
        for (name, expected, packing) in [
            ("index.html", "text/html; charset=utf-8", Loose),
            ("style.CSS", "text/css; charset=utf-8", Loose),
            ("app.js", "text/javascript; charset=utf-8", Loose),
            ("app.mjs", "text/javascript; charset=utf-8", Loose),
            ("app.js.map", "text/plain; charset=utf-8", Loose),
            ("app.webmanifest", "application/manifest+json", Loose),
            ("logo.png", "image/png", Packed),
            ("photo.avif", "image/avif", Packed),
            ("image.svg", "image/svg+xml", Loose),
            ("favicon.ico", "image/x-icon", Loose),
            ("data.json", "application/json", Loose),
            ("module.wasm", "application/wasm", Loose),
            ("text.woff", "font/woff", Packed),
            ("text.woff2", "font/woff2", Packed),
            ("text.ttf", "font/ttf", Loose),
            ("text.otf", "font/otf", Loose),
            ("part.ts", "video/mp2t", Packed),
            ("film.m3u8", "application/vnd.apache.mpegurl", Loose),
            ("film.mp4", "video/mp4", Packed),
            ("paper.pdf", "application/pdf", Unknown),
            ("archive.zip", "application/zip", Packed),
            ("archive.tar.gz", "application/gzip", Packed),
            ("archive.7z", "application/x-7z-compressed", Packed),
            ("archive.xz", "application/x-xz", Packed),
            ("archive.bz2", "application/x-bzip2", Packed),
            ("feed.atom", "application/atom+xml", Loose),
            ("noending", "application/octet-stream", Unknown),
            ("strange.zzzz", "application/octet-stream", Unknown),
        ] {
            let media = Media::of(name);
            assert_eq!(
                (media.content_type(Some("utf-8")).as_str(), media.packing),
                (expected, packing),
                "{name}"
            );
            assert_eq!(media.content_type(None), media.name);
        }
    }
}
