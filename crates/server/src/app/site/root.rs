//! The directory that is served, and the only door into it: nothing outside can be opened through it.

mod place;
mod within;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use place::{Directory, Place};

/// How a file is opened: for reading, without waiting for a writer if it is a pipe, and without ever becoming
/// the terminal of this process.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How often an open is tried that something else comes in between of.
const TRIES: usize = 64;

/// A directory whose files can be opened, and nothing else.
#[derive(Debug)]
pub struct Root {
    place: Place,
    beneath: Beneath,
    links: Links,
}

/// What happens to symbolic links below the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// They are followed as long as they stay within.
    #[default]
    Within,
    /// None is followed.
    Deny,
    /// They are followed wherever they lead, also outside.
    Follow,
}

/// What keeps an open beneath the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beneath {
    /// The kernel: openat2 with `RESOLVE_BENEATH`.
    Kernel,
    /// A walk from directory to directory that follows no symbolic link at all; for kernels before 5.6, and
    /// sandboxes that forbid openat2.
    Walk,
    /// Nothing: links are followed wherever they lead.
    Nothing,
}

impl Root {
    /// Opens a directory as a root, and finds out what can keep it.
    ///
    /// # Errors
    /// It is not there, not a directory, or not readable.
    pub fn open(path: &Path, links: Links) -> io::Result<Self> {
        let place = Place::open(path)?;
        let beneath = match open_beneath(&place.directory().fd, b".", OPEN, resolve(links)) {
            _ if links == Links::Follow => Beneath::Nothing,
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Beneath::Walk,
            _ => Beneath::Kernel,
        };
        Ok(Root { place, beneath, links })
    }

    /// The same root with another way to keep it.
    pub fn with(self, beneath: Beneath) -> Self {
        Root { beneath, ..self }
    }

    /// What happens to symbolic links.
    pub fn links(&self) -> Links {
        self.links
    }

    /// What keeps opens beneath the root.
    pub fn beneath(&self) -> Beneath {
        self.beneath
    }

    /// Opens a file or directory by its path below the root; the empty path is the root itself.
    ///
    /// # Errors
    /// The kernel's; `EXDEV` or `ELOOP` where the path would leave the root, `EAGAIN` where renames, or a lease, do not let it
    /// be opened now.
    pub fn get(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let directory = self.place.directory();
        match self.beneath {
            Beneath::Kernel => self.get_beneath(&directory, path),
            Beneath::Walk => walk(&directory.fd, path),
            Beneath::Nothing => follow(&directory.fd, path),
        }
    }

    fn get_beneath(&self, directory: &Directory, path: &[u8]) -> Result<OwnedFd, Errno> {
        match open_beneath(&directory.fd, path, OPEN, resolve(self.links)) {
            // The kernel takes every absolute link for one that leads out.
            Err(Errno::XDEV) if self.links == Links::Within => within::open(directory, path),
            result => result,
        }
    }
}

fn resolve(links: Links) -> ResolveFlags {
    match links {
        Links::Deny => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Links::Within | Links::Follow => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
    }
}

fn open_beneath(
    directory: &OwnedFd,
    path: &[u8],
    how: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    for _ in 0..TRIES {
        // EAGAIN: something was renamed while the kernel walked the path (openat2(2)); or there is a lease on the file, whose
        // holder has not given it up yet (fcntl(2)), which it may take its time for.
        match fs::openat2(directory, OsStr::from_bytes(path), how, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens what a path leads to. The path itself has no `..` (it was [decoded](wire::decode_path)), so only links lead out.
fn follow(directory: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    if path.starts_with(b"/") || path.split(|byte| *byte == b'/').any(|segment| segment == b"..") {
        return Err(Errno::XDEV);
    }
    loop {
        match fs::openat(directory, OsStr::from_bytes(path), OPEN, Mode::empty()) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn walk(directory: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut segments = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).peekable();
    while let Some(segment) = segments.next() {
        if segment == b".." {
            return Err(Errno::XDEV);
        }
        let flags = match segments.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            None => OPEN | OFlags::NOFOLLOW,
        };
        let from = at.as_ref().unwrap_or(directory);
        at = Some(fs::openat(from, OsStr::from_bytes(segment), flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn site() -> tempfile::TempDir {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "inside").unwrap();
        symlink("a/b/file", root.join("inner")).unwrap();
        symlink("../secret", root.join("outer")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink(root.join("a/b/file"), root.join("a/absolute-inner")).unwrap();
        symlink(root.join("a"), root.join("absolute-directory")).unwrap();
        symlink(root.join("a/../../secret"), root.join("absolute-out")).unwrap();
        symlink(root.join("loop"), root.join("loop")).unwrap();
        outer
    }

    fn read(root: &Root, path: &str) -> Result<String, Errno> {
        let mut text = String::new();
        let fd = root.get(path.as_bytes())?;
        fs::File::from(fd).read_to_string(&mut text).map_err(|_| Errno::ISDIR)?;
        Ok(text)
    }

    #[test]
    fn nothing_outside_can_be_opened_whoever_keeps_the_root() {
        let outer = site();
        for beneath in [Beneath::Kernel, Beneath::Walk] {
            let root = Root::open(&outer.path().join("root"), Links::Within).unwrap().with(beneath);
            assert_eq!(read(&root, "a/b/file").as_deref(), Ok("inside"), "{beneath:?}");
            assert_eq!(read(&root, "a//b/./file").as_deref(), Ok("inside"), "{beneath:?}");
            for path in ["../secret", "a/../../secret", "outer", "absolute", "up/secret", "/etc/passwd"] {
                assert!(read(&root, path).is_err(), "{path} was opened under {beneath:?}");
            }
        }
    }

    #[test]
    fn links_inside_are_followed_by_the_kernel_and_refused_by_the_walk() {
        let outer = site();
        let root = Root::open(&outer.path().join("root"), Links::Within).unwrap();
        assert_eq!(read(&root, "inner").as_deref(), Ok("inside"));
        assert_eq!(read(&root.with(Beneath::Walk), "inner"), Err(Errno::LOOP));
    }

    #[test]
    fn links_are_followed_as_the_policy_says() {
        let outer = site();
        let root = |links| Root::open(&outer.path().join("root"), links).unwrap();
        for (links, inner, outside) in [
            (Links::Within, Ok("inside"), Err(Errno::XDEV)),
            (Links::Deny, Err(Errno::LOOP), Err(Errno::LOOP)),
            (Links::Follow, Ok("inside"), Ok("secret")),
        ] {
            let root = root(links);
            for path in [
                "inner",
                "a/absolute-inner",
                "absolute-directory/b/file",
                "absolute-directory/absolute-inner",
            ] {
                assert_eq!(read(&root, path).as_deref(), inner.as_deref(), "{path} under {links:?}");
            }
            for path in ["outer", "absolute-out", "up/secret"] {
                assert_eq!(read(&root, path).as_deref(), outside.as_deref(), "{path} under {links:?}");
            }
            assert_eq!(read(&root, "loop"), Err(Errno::LOOP), "{links:?}");
            for path in ["../secret", "a/../../secret", "/../secret", "//etc/passwd"] {
                assert!(read(&root, path).is_err(), "{path} was opened under {links:?}");
            }
        }
    }

    #[test]
    fn a_root_that_is_reached_by_a_link_knows_its_files_by_either_name() {
        let outer = site();
        symlink("root", outer.path().join("current")).unwrap();
        let root = Root::open(&outer.path().join("current"), Links::Within).unwrap();
        symlink(outer.path().join("current/a/b/file"), outer.path().join("root/by-link")).unwrap();
        for path in ["by-link", "a/absolute-inner"] {
            assert_eq!(read(&root, path).as_deref(), Ok("inside"), "{path}");
        }
    }

    #[test]
    fn links_that_are_swapped_while_they_are_walked_lead_nowhere_else() {
        let outer = site();
        let at = |name: &str| outer.path().join("root").join(name);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let roots = [Beneath::Kernel, Beneath::Walk]
            .map(|beneath| Root::open(&at(""), Links::Within).unwrap().with(beneath));
        struct StopAtTheEnd<'a>(&'a std::sync::atomic::AtomicBool);
        impl Drop for StopAtTheEnd<'_> {
            fn drop(&mut self) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        std::thread::scope(|scope| {
            let _stop = StopAtTheEnd(&stop);
            scope.spawn(|| {
                // A directory, a link to one inside, and links that lead out take turns under one name.
                let targets = [at("a"), outer.path().into(), "../../".into(), "a".into()];
                for round in 0.. {
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    symlink(&targets[round % 4], at("next")).unwrap();
                    fs::rename(at("next"), at("swapped")).unwrap();
                    if round % 8 == 0 {
                        fs::remove_file(at("swapped")).unwrap();
                        fs::rename(at("a"), at("swapped")).unwrap();
                        fs::rename(at("swapped"), at("a")).unwrap();
                    }
                }
            });
            // However slow the host is: until all that can happen has been seen, too.
            let (start, mut seen) = (std::time::Instant::now(), Seen::default());
            for round in 0.. {
                let at = round % 2;
                for path in ["swapped/secret", "swapped/root/../secret", "swapped/../secret"] {
                    let refused = read(&roots[at], path).expect_err("it leads out");
                    seen.refused[at].insert(refused.raw_os_error());
                }
                match read(&roots[at], "swapped/b/file") {
                    Ok(text) => {
                        assert_eq!(text, "inside");
                        seen.opened[at] += 1;
                    }
                    Err(errno) => {
                        seen.refused[at].insert(errno.raw_os_error());
                    }
                }
                if round >= 20_000 && seen.is_all() {
                    break;
                }
                assert!(start.elapsed() < std::time::Duration::from_secs(60), "not all was seen: {seen:?}");
            }
        });
    }

    /// What opens under a name that is swapped came to, by the kernel and by the walk.
    #[derive(Debug, Default)]
    struct Seen {
        opened: [usize; 2],
        refused: [std::collections::BTreeSet<i32>; 2],
    }

    impl Seen {
        /// The name was there and not, as a link that leads out and as what is inside.
        fn is_all(&self) -> bool {
            let refused = |at: usize, errno: Errno| self.refused[at].contains(&errno.raw_os_error());
            self.opened.iter().all(|opened| *opened > 0)
                && refused(0, Errno::XDEV)
                // It is no directory where it is a link that is not followed.
                && (refused(1, Errno::NOTDIR) || refused(1, Errno::LOOP))
                && [0, 1].into_iter().all(|at| refused(at, Errno::NOENT))
        }
    }

    #[test]
    fn a_root_must_be_a_directory() {
        let outer = site();
        assert!(Root::open(&outer.path().join("secret"), Links::Within).is_err());
        assert!(Root::open(&outer.path().join("missing"), Links::Within).is_err());
    }
}
