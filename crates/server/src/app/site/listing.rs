//! What is in a directory, for people and for programs.

mod kept;

use std::borrow::Cow;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use rustix::fs::{AtFlags, Dir, FileType, fstat, statat};
use serde::Serialize;
use wire::{HttpDate, accepts};

use super::find::is_hidden;
use super::missing::Missing;
use super::present::present;
use super::representation::Representation;
use super::root::Root;
use super::settings::SiteSettings;
use super::variant::Wish;
use super::{Site, codings_of};
use crate::file::FileVersion;
use crate::handler::{Request, Response};

pub(super) use kept::Kept;

/// Most entries of a listing, and so how many files are looked at for it; likewise how many links.
const MOST: usize = 10_000;

/// Most names of a directory that are read for a listing.
const MOST_NAMES: usize = 100_000;

/// What is encoded in a link: all that is not unreserved (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An entry of a directory.
#[derive(Serialize)]
struct Entry {
    name: String,
    /// The name as it stands in a path, if it is not UTF-8, so that `name` does not have all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoded: Option<String>,
    #[serde(rename = "type")]
    kind: Kind,
    /// In bytes; only files have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Seconds since 1970.
    modified: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Directory,
    File,
}

/// A listing, as it is sent to programs.
#[derive(Serialize)]
struct Listing {
    path: String,
    entries: Vec<Entry>,
    /// There are more entries than are listed.
    truncated: bool,
}

impl Site {
    /// Answers with what is in a directory, as JSON if the client would rather have that.
    pub(super) fn list(
        &self,
        directory: Vec<u8>,
        request: &Request<'_>,
        response: &mut Response,
    ) -> Result<(), Missing> {
        let head = request.head;
        let is_json = accepts(head, "application/json") > accepts(head, "text/html");
        let form = Form { is_json, wish: Wish::of(codings_of(head)) };
        let page = match self.listings.fresh(&directory, form, request.now) {
            Some(page) => page,
            None if request.may_be_left => return Err(Missing::TakesLong),
            None => {
                let page = Arc::new(self.page(&directory, form)?);
                self.listings.keep(directory, form, &page, request.now);
                page
            }
        };
        present(head, &page, response);
        Ok(())
    }

    /// What is in a directory, in a form.
    fn page(&self, directory: &[u8], form: Form) -> Result<Representation, Missing> {
        let listing = Listing::read(&self.root, &self.settings, directory)?;
        let (page, media) = match form.is_json {
            true => (serde_json::to_vec(&listing).unwrap_or_default(), "application/json"),
            false => (listing.page().into_bytes(), "text/html; charset=utf-8"),
        };
        Representation::of_page(page, media, form.wish, &self.settings, self.compressor.as_ref())
    }
}

/// In what form a listing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    is_json: bool,
    wish: Wish,
}

impl Listing {
    /// Reads all names first, then looks at the files among them that are listed: a look at each takes far longer.
    fn read(root: &Root, settings: &SiteSettings, directory: &[u8]) -> Result<Self, Missing> {
        let fd = root.get(directory)?;
        let (mut names, mut truncated, mut links) = (Vec::new(), false, 0);
        for (at, found) in Dir::read_from(&fd)?.enumerate() {
            if at == MOST_NAMES {
                truncated = true;
                break;
            }
            let found = found?;
            let name = found.file_name().to_bytes();
            let is_own = name == b"." || name == b"..";
            if is_own || !can_be_asked_for(name) || (!settings.dotfiles && is_hidden(name)) {
                continue;
            }
            match found.file_type() {
                FileType::RegularFile => names.push((Kind::File, name.to_vec())),
                FileType::Directory => names.push((Kind::Directory, name.to_vec())),
                FileType::Symlink | FileType::Unknown if links == MOST => truncated = true,
                // What it is has to be known for its place in the order.
                FileType::Symlink | FileType::Unknown => {
                    links += 1;
                    names.extend(
                        Entry::of(root, &fd, directory, name).map(|entry| (entry.kind, name.to_vec())),
                    );
                }
                _ => {}
            }
        }
        names.sort();
        truncated |= names.len() > MOST;
        names.truncate(MOST);
        let entries = names.iter().filter_map(|(_, name)| Entry::of(root, &fd, directory, name)).collect();
        Ok(Listing { path: format!("/{}", String::from_utf8_lossy(directory)), entries, truncated })
    }

    fn page(&self) -> String {
        let title = escape(&self.path);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>Index of {title}</title>\n<style>{STYLE}</style>\n\
             <h1>Index of {title}</h1>\n<table>\n<thead><tr><th>Name<th>Size<th>Changed</thead>\n"
        );
        if self.path != "/" {
            page.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
        }
        for entry in &self.entries {
            entry.put_row(&mut page);
        }
        page.push_str("</table>\n");
        if self.truncated {
            let _ = writeln!(page, "<p>There is more than is listed here.");
        }
        page
    }
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
                     table{width:100%;border-collapse:collapse}td,th{text-align:left;padding:.1em .5em}\
                     td:nth-child(2),th:nth-child(2){text-align:right}tr:hover{background:#8882}";

impl Entry {
    /// What there is under a name of a directory; nothing if it would not be served.
    fn of(root: &Root, fd: &OwnedFd, directory: &[u8], name: &[u8]) -> Option<Self> {
        let mut stat = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            // Listed as what it leads to, if the root lets it.
            stat = fstat(root.get(&[directory, name].concat()).ok()?).ok()?;
        }
        let version = FileVersion::of(&stat);
        let (kind, size) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (Kind::File, Some(version.len())),
            FileType::Directory => (Kind::Directory, None),
            _ => return None,
        };
        let modified =
            version.modified().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let text = String::from_utf8_lossy(name);
        let encoded = matches!(text, Cow::Owned(_)).then(|| percent_encode(name, ENCODED).to_string());
        Some(Entry { name: text.into_owned(), encoded, kind, size, modified })
    }

    fn put_row(&self, page: &mut String) {
        let slash = if self.kind == Kind::Directory { "/" } else { "" };
        let size = self.size.map(|size| size.to_string()).unwrap_or_default();
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(self.modified);
        let date = HttpDate::from(time);
        let link = match &self.encoded {
            Some(encoded) => encoded.clone(),
            None => utf8_percent_encode(&self.name, ENCODED).to_string(),
        };
        // "./" keeps a name with a colon from being read as a scheme.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{link}{slash}\">{}{slash}</a><td>{size}<td>{}",
            escape(&self.name),
            String::from_utf8_lossy(date.as_bytes()),
        );
    }
}

/// Whether a path can have this name in it: [`decode_path`](wire::decode_path) refuses these bytes.
fn can_be_asked_for(name: &[u8]) -> bool {
    !name.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\')
}

/// Text without characters that mean something in HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
