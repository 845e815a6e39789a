//! Links with an absolute target that stays within the root: the kernel's walk beneath a root refuses all of them.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, OFlags, ResolveFlags, fstat, readlinkat};
use rustix::io::Errno;

use super::place::Directory;
use super::{OPEN, open_beneath};

/// Most links of a path, as the kernel has it (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// How a part of a path is looked at: a link as itself.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Nothing is followed by the kernel, and nothing is opened outside.
const STRICT: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Opens a path below a directory, whose links may be absolute: it is walked part by part. What a link says is only text that
/// makes another path below the directory; whatever it is, it is opened by the kernel beneath the directory.
pub(super) fn open(directory: &Directory, path: &[u8]) -> Result<OwnedFd, Errno> {
    let (mut done, mut links): (Vec<u8>, usize) = (Vec::new(), 0);
    // What is still to be walked, the next part last.
    let mut rest = parts(path);
    while let Some(part) = rest.pop() {
        if part == b".." {
            if done.is_empty() {
                return Err(Errno::XDEV);
            }
            done.truncate(done.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
            continue;
        }
        let length = done.len();
        if length > 0 {
            done.push(b'/');
        }
        done.extend_from_slice(&part);
        let seen = open_beneath(&directory.fd, &done, LOOK, STRICT)?;
        if FileType::from_raw_mode(fstat(&seen)?.st_mode) != FileType::Symlink {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(&seen, "", Vec::new())?.into_bytes();
        done.truncate(length);
        if target.starts_with(b"/") {
            rest.extend(parts(below(directory, &target).ok_or(Errno::XDEV)?));
            done.clear();
        } else {
            rest.extend(parts(&target));
        }
    }
    let path = if done.is_empty() { b"." } else { &done[..] };
    open_beneath(&directory.fd, path, OPEN, STRICT)
}

/// The parts of a path, the last one first.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').rev();
    parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect()
}

/// What stands in an absolute path behind that of the directory.
fn below<'a>(directory: &Directory, target: &'a [u8]) -> Option<&'a [u8]> {
    let target = Path::new(OsStr::from_bytes(target));
    let below = directory.paths.iter().find_map(|path| target.strip_prefix(path).ok())?;
    Some(below.as_os_str().as_bytes())
}
