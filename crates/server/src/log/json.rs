//! A request as JSON, for the access log: no byte of it moves a terminal's cursor.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::SocketAddr;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// What JSON has of a request when it comes.
#[derive(Serialize)]
pub(super) struct Noted<'a> {
    pub(super) time: &'a str,
    pub(super) peer: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) referer: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_agent: Option<Cow<'a, str>>,
}

impl Noted<'_> {
    /// Puts it into a line.
    pub(super) fn put(&self, line: &mut Vec<u8>) {
        // It fails only where writing does, and this is memory.
        let _ = self.serialize(&mut Serializer::with_formatter(line, Escaping));
    }
}

/// JSON without control characters: RFC 8259 (section 7) asks for the escaping of those below U+0020 only, but terminals obey
/// those from U+007F to U+009F too.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        // Nearly always there is nothing of the kind, which is found out faster for all bytes at once.
        if !rest.bytes().fold(false, |any, byte| any | matches!(byte, 0x7f | 0xc2)) {
            return writer.write_all(rest.as_bytes());
        }
        while let Some(at) = rest.find(|character| matches!(character, '\u{7f}'..='\u{9f}')) {
            let (before, behind) = rest.split_at(at);
            let mut characters = behind.chars();
            let code = characters.next().map_or(0, u32::from);
            write!(writer, "{before}\\u{code:04x}")?;
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}
