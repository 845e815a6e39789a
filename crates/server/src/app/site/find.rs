//! From the path of a request to the open file that it names.

use std::os::fd::OwnedFd;
use std::sync::Once;

use rustix::fs::{FileType, fstat};
use wire::decode_path;

use super::missing::Missing;
use super::root::Root;
use super::settings::SiteSettings;
use crate::file::FileVersion;

/// The file for a request.
pub(super) struct Found {
    pub(super) file: OwnedFd,
    pub(super) version: FileVersion,
    /// Its path below the root; that of the file itself where one beside it stands in for it.
    pub(super) name: Vec<u8>,
}

/// Finds the file for the path of a request; for a directory, its index.
pub(super) fn find(root: &Root, settings: &SiteSettings, path: &str) -> Result<Found, Missing> {
    let mut name = Vec::with_capacity(path.len());
    decode_path(path, &mut name).map_err(|_| Missing::Malformed)?;
    if !settings.dotfiles && is_hidden(&name) {
        return Err(Missing::NotFound);
    }
    if name.is_empty() || name.ends_with(b"/") {
        return find_index(root, settings, name);
    }
    match open(root, &name)? {
        Opened::File { file, version } => Ok(Found { file, version, name }),
        Opened::Directory => Err(Missing::NoSlash),
    }
}

fn find_index(root: &Root, settings: &SiteSettings, directory: Vec<u8>) -> Result<Found, Missing> {
    for index in &settings.index {
        let name = [&directory, index.as_bytes()].concat();
        match open(root, &name) {
            Ok(Opened::File { file, version }) => return Ok(Found { file, version, name }),
            Ok(Opened::Directory) | Err(Missing::NotFound) => {}
            Err(missing) => return Err(missing),
        }
    }
    Err(Missing::NoIndex(directory))
}

enum Opened {
    File { file: OwnedFd, version: FileVersion },
    Directory,
}

/// Opens what is there; devices, pipes and sockets are not for visitors.
fn open(root: &Root, name: &[u8]) -> Result<Opened, Missing> {
    let file = root.get(name)?;
    let stat = fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Opened::File { file, version: FileVersion::of(&stat) }),
        FileType::Directory => Ok(Opened::Directory),
        _ => Err(Missing::NotFound),
    }
}

/// Opens a regular file that stands beside another one, if it is there. One that cannot be read is as good as none: the other
/// one can be sent.
pub(super) fn open_beside(root: &Root, name: Vec<u8>) -> Result<Option<Found>, Missing> {
    // Said once: every request for the file would say it again.
    static SAID: Once = Once::new();
    match open(root, &name) {
        Ok(Opened::File { file, version }) => Ok(Some(Found { file, version, name })),
        Ok(Opened::Directory) | Err(Missing::NotFound) => Ok(None),
        Err(Missing::NotNow) => Err(Missing::NotNow),
        Err(missing) => {
            SAID.call_once(|| {
                tracing::warn!(
                    file = %String::from_utf8_lossy(&name),
                    reason = ?missing,
                    "a file compressed beforehand is left out, since it cannot be read: let the server read it, or remove it; \
                     others like it are not named"
                );
            });
            Ok(None)
        }
    }
}

/// Whether a part of the path begins with a dot: `.git`, `.env` and the like are not for visitors.
/// `.well-known` is (RFC 8615).
pub(super) fn is_hidden(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'/').any(|segment| segment.starts_with(b".") && segment != b".well-known")
}
