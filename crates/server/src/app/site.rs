//! A directory as a web site.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use engine::FileRange;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;
use thread_local::ThreadLocal;
use wire::{HttpDate, Method, Status, decode_path};

use super::cache::{Cache, FileVersion, SMALL};
use super::media::content_type;
use super::root::Root;
use crate::handler::{Body, Handler, Request, Response};

/// What is served for a directory.
const INDEX: &str = "index.html";

/// A directory served as a web site: GET and HEAD of its regular files, `index.html` for its directories.
pub struct Site {
    root: Root,
    /// Nothing is shared between threads when a request is answered from memory.
    caches: ThreadLocal<RefCell<Cache>>,
}

impl Site {
    /// Serves a directory.
    ///
    /// # Errors
    /// It is not there, not a directory, or not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Site::new(Root::open(path)?))
    }

    /// Serves a root that has been opened already.
    pub fn new(root: Root) -> Self {
        Site { root, caches: ThreadLocal::new() }
    }

    /// The directory behind the site.
    pub fn root(&self) -> &Root {
        &self.root
    }

    fn answer(&self, path: &str, response: &mut Response) -> Result<(), Missing> {
        let now = Instant::now();
        let cache = self.caches.get_or_default();
        if let Some(entry) = cache.borrow_mut().fresh(path, now) {
            response.field_lines(&entry.fields).body(Body::Shared(entry.content.clone()));
            return Ok(());
        }
        let found = self.find(path)?;
        let version = FileVersion::of(&found.stat);
        if let Some(entry) = cache.borrow_mut().still(path, version, now) {
            response.field_lines(&entry.fields).body(Body::Shared(entry.content.clone()));
            return Ok(());
        }
        put_fields(response, &found);
        let length = found.stat.st_size as u64;
        if length > SMALL {
            let range = FileRange { file: Arc::new(found.file), offset: 0, length };
            response.body(Body::File(range));
            return Ok(());
        }
        let content = read_whole(&found.file, length as usize)?;
        // A file that changed while it was read is sent as it was found, but not kept.
        if FileVersion::of(&fstat(&found.file)?) == version && content.len() as u64 == length {
            cache.borrow_mut().keep(path, &response.fields, content.clone(), version, now);
        }
        response.body(Body::Shared(content));
        Ok(())
    }

    /// Finds the file for the path of a request.
    fn find(&self, path: &str) -> Result<Found, Missing> {
        let mut name = Vec::with_capacity(path.len() + INDEX.len());
        decode_path(path, &mut name).map_err(|_| Missing::Malformed)?;
        if is_hidden(&name) {
            return Err(Missing::NotFound);
        }
        let is_directory = name.is_empty() || name.ends_with(b"/");
        if is_directory {
            name.extend_from_slice(INDEX.as_bytes());
        }
        let file = self.root.get(&name)?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Found { file, stat, name }),
            FileType::Directory if !is_directory => Err(Missing::IsDirectory),
            _ => Err(Missing::NotFound),
        }
    }
}

/// The file for a request.
struct Found {
    file: OwnedFd,
    stat: Stat,
    /// Its path below the root.
    name: Vec<u8>,
}

/// Why there is no file for a request.
enum Missing {
    /// There is none, or none that may be seen.
    NotFound,
    /// It is a directory, and the path lacks the slash at its end.
    IsDirectory,
    /// The path cannot be the path of a file.
    Malformed,
    /// It is there, but may not be read.
    Forbidden,
    /// It cannot be opened now, for want of descriptors or memory.
    Exhausted,
    /// Reading failed.
    Unreadable(Errno),
}

impl From<Errno> for Missing {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO => {
                Missing::NotFound
            }
            Errno::ACCESS | Errno::PERM => Missing::Forbidden,
            // A 404 here would be wrong, and caches would keep it.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Missing::Exhausted,
            errno => Missing::Unreadable(errno),
        }
    }
}

impl Handler for Site {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        if !matches!(request.head.method, Method::Get | Method::Head) {
            response.plain(Status::METHOD_NOT_ALLOWED).field("Allow", b"GET, HEAD");
            return;
        }
        let path = request.head.path();
        if let Err(missing) = self.answer(path, response) {
            response.clear();
            explain(missing, path, request.head.query(), response);
        }
    }
}

fn explain(missing: Missing, path: &str, query: Option<&str>, response: &mut Response) {
    match missing {
        Missing::NotFound => response.plain(Status::NOT_FOUND),
        Missing::Malformed => response.plain(Status::BAD_REQUEST),
        Missing::Forbidden => response.plain(Status::FORBIDDEN),
        Missing::Exhausted => response.plain(Status::SERVICE_UNAVAILABLE).field("Retry-After", b"1"),
        Missing::IsDirectory => {
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            // One leading slash only: "//host/" would send the client to another host.
            let location = format!("/{}/{query}", path.trim_start_matches('/'));
            response.plain(Status::MOVED_PERMANENTLY).field("Location", location.as_bytes())
        }
        Missing::Unreadable(error) => {
            tracing::warn!(path, %error, "a file cannot be read");
            response.plain(Status::INTERNAL_SERVER_ERROR)
        }
    };
}

/// Whether a part of the path begins with a dot: `.git`, `.env` and the like are not for visitors.
/// `.well-known` is (RFC 8615).
fn is_hidden(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'/').any(|segment| segment.starts_with(b".") && segment != b".well-known")
}

fn put_fields(response: &mut Response, found: &Found) {
    let name = String::from_utf8_lossy(&found.name);
    response.field("Content-Type", content_type(&name).as_bytes());
    if let Ok(seconds) = u64::try_from(found.stat.st_mtime) {
        let modified = HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds));
        response.field("Last-Modified", modified.as_bytes());
    }
}

fn read_whole(file: &OwnedFd, length: usize) -> Result<Arc<[u8]>, Errno> {
    let mut content = vec![0; length];
    let mut read = 0;
    while read < length {
        match rustix::io::pread(file, &mut content[read..], read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    content.truncate(read);
    Ok(content.into())
}
