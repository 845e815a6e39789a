//! Files that somebody depends on, written so that they are the old ones or the new ones.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a file: whoever looks, and whenever this process or the host ends, finds the old one or the new one, whole. What is no
/// plain file, such as `/dev/stdout`, is written as it is.
///
/// # Errors
/// It cannot be written, as on a full disk; what was there before is there still.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    // Where it is a link, what it leads to is replaced.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        return fs::write(file, text);
    }
    let mut name = file.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".part");
    let part = file.with_file_name(name);
    // Synced first: the name could be on the disk before what it names.
    let put = |mut file: File| file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let written = File::create(&part).and_then(put).and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        // A part of it takes room, and is of no use.
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_old_one_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("plimsoll.toml");
        replace(&file, "old").unwrap();
        replace(&file, "new").unwrap();
        let holds = |file: &Path| fs::read_to_string(file).unwrap();
        assert_eq!((holds(&file).as_str(), fs::read_dir(dir.path()).unwrap().count()), ("new", 1));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "by its link").unwrap();
        assert!(link.is_symlink() && holds(&file) == "by its link");
        // Something is in the way of the part, as where the disk is full.
        fs::create_dir(dir.path().join("plimsoll.toml.part")).unwrap();
        assert!(replace(&file, "newest").is_err() && holds(&file) == "by its link");
        replace(Path::new("/dev/null"), "x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
