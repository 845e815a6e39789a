//! What can be set about a site, and how each setting is written on a command line.

use std::str::FromStr;

use wildmatch::WildMatch;
use wire::Status;

/// What can be set about a site.
#[derive(Clone, Debug)]
pub struct SiteSettings {
    /// What is served for a directory: the first of these files that it has.
    pub index: Vec<String>,
    /// Whether a directory without any of them is listed.
    pub listing: bool,
    /// Whether files are served whose name, or whose directory's name, begins with a dot.
    pub dotfiles: bool,
    /// The path of the page that stands in for pages that are not there, for applications that run in the browser.
    pub fallback: Option<String>,
    /// Pages that are sent with errors.
    pub error_pages: Vec<ErrorPage>,
    /// Which files may be kept by clients, and how long; the first rule that matches a path counts.
    pub cache_rules: Vec<CacheRule>,
    /// Field lines that every answer of the site has, each with its CRLF.
    pub extra_fields: Vec<u8>,
    /// What the text of the site is in; nothing is said where files say it themselves.
    pub charset: Option<String>,
    /// Whether files are compressed on the fly, and which.
    pub compression: Option<Compression>,
    /// Memory for small files, compressed ones and listings, in bytes, over all threads.
    pub memory: usize,
    /// Threads that will ask for files.
    pub threads: usize,
}

impl Default for SiteSettings {
    fn default() -> Self {
        SiteSettings {
            index: vec!["index.html".into()],
            listing: false,
            dotfiles: false,
            fallback: None,
            error_pages: Vec::new(),
            cache_rules: Vec::new(),
            extra_fields: Vec::new(),
            charset: Some("utf-8".into()),
            compression: Some(Compression::default()),
            memory: 64 * 1024 * 1024,
            threads: 1,
        }
    }
}

impl SiteSettings {
    /// Memory for what was compressed: a quarter, if anything is.
    pub(super) fn compressed_bytes(&self) -> usize {
        if self.compression.is_some() { self.memory / 4 } else { 0 }
    }

    /// Memory for listings: an eighth, if there are any.
    pub(super) fn listing_bytes(&self) -> usize {
        if self.listing { self.memory / 8 } else { 0 }
    }

    /// Memory for what was sent last.
    pub(super) fn cache_bytes(&self) -> usize {
        self.memory - self.compressed_bytes() - self.listing_bytes()
    }

    /// The value of Cache-Control for a file's path below the root.
    pub(super) fn cache_control(&self, name: &[u8]) -> Option<&str> {
        if self.cache_rules.is_empty() {
            return None;
        }
        let path = format!("/{}", String::from_utf8_lossy(name));
        self.cache_rules.iter().find(|rule| rule.pattern.matches(&path)).map(|rule| rule.value.as_str())
    }

    /// The path of the page for a status.
    pub(super) fn error_page(&self, status: Status) -> Option<&str> {
        self.error_pages.iter().find(|page| page.status == status).map(|page| page.path.as_str())
    }
}

/// Which files are compressed on the fly: those of types that get smaller, of these lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Shortest file, in bytes: less fits in one packet anyway.
    pub min: u64,
    /// Longest file, in bytes: this bounds the time that one takes.
    pub max: u64,
    /// How many may be compressed at the same time; further ones are sent as they are.
    pub at_once: usize,
}

impl Default for Compression {
    fn default() -> Self {
        Compression { min: 1024, max: 1024 * 1024, at_once: 1 }
    }
}

/// A page that is sent with an error: `404=/missing.html`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    status: Status,
    path: String,
}

impl ErrorPage {
    /// The errors that a site answers with. Others are answered before anything is looked up in it.
    const STATUSES: [Status; 10] = [
        Status::BAD_REQUEST,
        Status::FORBIDDEN,
        Status::NOT_FOUND,
        Status::METHOD_NOT_ALLOWED,
        Status::NOT_ACCEPTABLE,
        Status::PRECONDITION_FAILED,
        Status::RANGE_NOT_SATISFIABLE,
        Status::INTERNAL_SERVER_ERROR,
        Status::NOT_IMPLEMENTED,
        Status::SERVICE_UNAVAILABLE,
    ];
}

/// What Cache-Control says about the files of a pattern: `/assets/*=max-age=31536000, immutable`. In the pattern `*`
/// stands for anything and `?` for one character.
#[derive(Clone, Debug)]
pub struct CacheRule {
    pattern: WildMatch,
    value: String,
}

/// A field that every answer of the site has: `X-Frame-Options: DENY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraField {
    line: Vec<u8>,
}

impl ExtraField {
    /// The field line, with its CRLF.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

/// What is wrong with a setting, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSetting(String);

impl FromStr for ErrorPage {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        let bad = |what: &str| BadSetting(format!("{what}; write STATUS=PATH, such as 404=/missing.html"));
        let (status, path) = text.split_once('=').ok_or_else(|| bad("there is no ="))?;
        let code: u16 = status.trim().parse().map_err(|_| bad("the status is no number"))?;
        let status = Status::from_code(code).filter(|status| ErrorPage::STATUSES.contains(status));
        let status = status.ok_or_else(|| {
            let statuses = ErrorPage::STATUSES.map(|status| status.code().to_string()).join(", ");
            bad(&format!("a site has no answer with {code}, but with {statuses}"))
        })?;
        Ok(ErrorPage { status, path: site_path(path.trim()).map_err(|BadSetting(what)| bad(&what))? })
    }
}

impl FromStr for CacheRule {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        let bad =
            |what: &str| BadSetting(format!("{what}; write PATTERN=VALUE, such as '/assets/*=max-age=3600'"));
        let (pattern, value) = text.split_once('=').ok_or_else(|| bad("there is no ="))?;
        if !pattern.starts_with(['/', '*']) {
            return Err(bad("the pattern begins with neither / nor *"));
        }
        if value.is_empty() {
            return Err(bad("there is no value"));
        }
        let mut line = Vec::new();
        wire::put_field(&mut line, "Cache-Control", value.as_bytes())
            .map_err(|_| bad("the value has a character that no field may have"))?;
        Ok(CacheRule { pattern: WildMatch::new(pattern), value: value.to_owned() })
    }
}

impl FromStr for ExtraField {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        const OWN: [&str; 13] = [
            "accept-ranges",
            "allow",
            "connection",
            "content-encoding",
            "content-length",
            "content-range",
            "content-type",
            "date",
            "etag",
            "last-modified",
            "location",
            "transfer-encoding",
            "vary",
        ];
        let bad =
            |what: &str| BadSetting(format!("{what}; write NAME: VALUE, such as 'X-Frame-Options: DENY'"));
        let (name, value) = text.split_once(':').ok_or_else(|| bad("there is no colon"))?;
        if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(BadSetting(format!("{name} is the server's own affair")));
        }
        let mut line = Vec::new();
        wire::put_field(&mut line, name, value.trim().as_bytes())
            .map_err(|_| bad("the name or the value has a character that it may not have"))?;
        Ok(ExtraField { line })
    }
}

/// What the text of a site is in: utf-8, iso-8859-1; `none` if nothing is to be said.
///
/// # Errors
/// It cannot be the name of a charset (RFC 9110, 8.3.2: a token).
pub fn charset(text: &str) -> Result<String, BadSetting> {
    match wire::is_token(text) {
        true => Ok(text.to_owned()),
        false => Err(BadSetting("a charset is a word such as utf-8 or iso-8859-1".into())),
    }
}

/// The path of a page of the site: it begins with a slash.
///
/// # Errors
/// It does not.
pub fn site_path(text: &str) -> Result<String, BadSetting> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(BadSetting("the path of a page of the site begins with /".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_or_say_how_they_are_written() {
        let page: ErrorPage = "404=/missing.html".parse().unwrap();
        assert_eq!((page.status, page.path.as_str()), (Status::NOT_FOUND, "/missing.html"));
        for bad in ["404", "404=missing.html", "200=/ok.html", "408=/slow.html", "x=/y"] {
            let error = bad.parse::<ErrorPage>().unwrap_err().to_string();
            assert!(error.contains("404=/missing.html"), "{error}");
        }
        for bad in ["/a", "a=b", "/a=", "/a=b\r\nX: y"] {
            assert!(bad.parse::<CacheRule>().is_err(), "{bad}");
        }
        assert_eq!(charset("iso-8859-1").as_deref(), Ok("iso-8859-1"));
        assert!(charset("").is_err() && charset("utf-8; x").is_err());
        assert_eq!("X-A: b".parse::<ExtraField>().unwrap().line(), b"X-A: b\r\n");
        for bad in ["X-A", "X A: b", "X-A: b\nc", "Content-Length: 5"] {
            assert!(bad.parse::<ExtraField>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = ["/assets/*=max-age=1", "*.js=no-store", "*=no-cache"];
        let cache_rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let settings = SiteSettings { cache_rules, ..SiteSettings::default() };
        for (name, value) in
            [("assets/a/b.js", "max-age=1"), ("a.js", "no-store"), ("index.html", "no-cache")]
        {
            assert_eq!(settings.cache_control(name.as_bytes()), Some(value), "{name}");
        }
    }
}
