//! Taking leave of what a server needs no more: files outside its directory, TCP connections to others, and signals to them.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// Whether the process restricts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sandbox {
    /// Where the kernel has it
    Auto,
    /// Or do not start
    On,
    /// Not at all
    Off,
}

/// What a server still needs.
pub(super) struct Needs<'a> {
    /// The directory that is served: read.
    pub(super) root: &'a Path,
    /// A file that is written to, and made anew when it was moved away.
    pub(super) log: Option<&'a Path>,
    /// A file that is written, and removed at the end.
    pub(super) pid_file: Option<&'a Path>,
    /// Files outside the root are served where links lead there.
    pub(super) follows_links: bool,
}

/// What was done: the state in a word or two, and the details.
pub(super) type Done = (&'static str, String);

/// The newest rights that are asked for; older kernels give what they have.
const NEWEST: ABI = ABI::V6;

/// Restricts the calling thread and all that it starts from now on.
///
/// # Errors
/// It was asked for in any case, and cannot be had.
pub(super) fn restrict(sandbox: Sandbox, needs: &Needs<'_>) -> anyhow::Result<Done> {
    match sandbox {
        Sandbox::Off => return Ok(("off", "--sandbox off".into())),
        Sandbox::Auto if needs.follows_links => {
            return Ok(("off", "--symlinks follow serves files outside the directory too".into()));
        }
        Sandbox::On if needs.follows_links => {
            anyhow::bail!(
                "--sandbox on: contradicts --symlinks follow, which serves files outside the directory too"
            )
        }
        Sandbox::Auto | Sandbox::On => {}
    }
    let (state, why) = match landlock(needs) {
        Ok(RulesetStatus::FullyEnforced) => ("on", ""),
        Ok(RulesetStatus::PartiallyEnforced) => ("in part", ", as far as this kernel can"),
        Ok(RulesetStatus::NotEnforced) => ("not to be had", "this kernel has no Landlock"),
        Err(error) if sandbox == Sandbox::Auto => return Ok(("not to be had", error.to_string())),
        Err(error) => return Err(anyhow::Error::new(error).context("--sandbox on")),
    };
    if state == "not to be had" {
        anyhow::ensure!(
            sandbox == Sandbox::Auto,
            "--sandbox on: {why}; give --sandbox auto to serve without"
        );
        return Ok((state, why.into()));
    }
    let (root, written) = (needs.root.display(), needs.written().join(" and "));
    let writes =
        if written.is_empty() { "writes nothing".into() } else { format!("writes in {written} only") };
    Ok((state, format!("Landlock: reads {root} only, {writes}, connects to nobody by TCP{why}")))
}

impl Needs<'_> {
    /// The directories that are written in, each once. What is made in one has no rule of its own, so it is the directory, with
    /// all below it, that is written to.
    fn written(&self) -> Vec<String> {
        let files = [self.log, self.pid_file].into_iter().flatten();
        let mut directories: Vec<_> = files.map(|file| directory_of(file).display().to_string()).collect();
        directories.dedup();
        directories
    }

    /// What the operator may not know of files that are written in the directory that is served, or above it.
    pub(super) fn warnings(&self, sandbox: Sandbox) -> Vec<String> {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
        let root = whole(self.root);
        let flags = [("--access-log", self.log), ("--pid-file", self.pid_file)];
        let written = flags.into_iter().filter_map(|(flag, file)| Some((flag, file?)));
        let warning = |(flag, file): (&str, &Path)| {
            let directory = whole(&directory_of(file));
            let what = if directory.starts_with(&root) {
                "is in the directory that is served, where all can read it"
            } else if root.starts_with(&directory) && sandbox != Sandbox::Off {
                "makes the sandbox let the server write in the directory that is served, which is below that of the file"
            } else {
                return None;
            };
            Some(format!("{flag} {} {what}: put the file elsewhere", file.display()))
        };
        written.filter_map(warning).collect()
    }
}

fn landlock(needs: &Needs<'_>) -> Result<RulesetStatus, landlock::RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let make = AccessFs::WriteFile | AccessFs::MakeReg;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    // The process itself, for its metrics; how busy its processors are, and their quota, which may change.
    let own = [Path::new("/proc/self"), Path::new("/sys/fs/cgroup")];
    rules = allow(rules, Path::new("/proc/stat"), AccessFs::ReadFile.into())?;
    for path in own.into_iter().chain([needs.root]) {
        rules = allow(rules, path, read)?;
    }
    rules = allow(rules, Path::new("/dev/null"), AccessFs::WriteFile.into())?;
    // A log that was moved away is made anew, so a rule for the file itself would not do.
    if let Some(log) = needs.log {
        rules = allow(rules, &directory_of(log), make)?;
    }
    if let Some(file) = needs.pid_file {
        rules = allow(rules, &directory_of(file), make | AccessFs::RemoveFile)?;
        // One that was left behind is written over.
        rules = allow(rules, file, AccessFs::Truncate.into())?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Allows something to a file, or below a directory; one that is not there needs no rule.
fn allow(
    rules: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    match PathFd::new(path) {
        Ok(fd) => rules.add_rule(PathBeneath::new(fd, access)),
        Err(_) => Ok(rules),
    }
}

/// The directory that a file is in, or will be.
fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => ".".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::PermissionDenied;
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::{fs, thread};

    use super::*;

    fn denied(result: std::io::Result<()>, what: &str) {
        assert_eq!(result.unwrap_err().kind(), PermissionDenied, "{what}");
    }

    /// What a server does with its log and its pid file.
    fn write_as_a_server_does(log: &Path, pid_file: &Path) {
        for what in ["made", "opened again"] {
            let mut log = fs::OpenOptions::new().append(true).create(true).open(log).expect(what);
            log.write_all(b"line\n").unwrap();
        }
        // Left behind by another, removed, and made.
        fs::write(pid_file, "1\n").unwrap();
        fs::remove_file(pid_file).unwrap();
        fs::write(pid_file, "2\n").unwrap();
    }

    /// What only newer kernels deny.
    fn is_denied_by_new_kernels(dir: &Path, other: SocketAddr) {
        for name in ["logs/other", "run/other"] {
            let emptied = fs::File::options().write(true).truncate(true).open(dir.join(name));
            denied(emptied.map(drop), "emptying what is beside the log and the pid file");
        }
        denied(TcpStream::connect(other).map(drop), "connecting");
        assert!(TcpListener::bind("127.0.0.1:0").is_ok());
        if let Some(parent) = rustix::process::getppid() {
            denied(rustix::process::test_kill_process(parent).map_err(Into::into), "signals to others");
        }
    }

    #[test]
    fn a_restricted_thread_reads_its_directory_and_writes_its_logs_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["root/below", "logs", "run", "elsewhere"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["root/below/page", "elsewhere/secret", "logs/other", "run/other", "run/pid"] {
            fs::write(at(name), "content").unwrap();
        }
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        thread::scope(|scope| {
            let restricted = scope.spawn(|| {
                let (root, log, pid_file) = (at("root"), at("logs/access.log"), at("run/pid"));
                let needs =
                    Needs { root: &root, log: Some(&log), pid_file: Some(&pid_file), follows_links: false };
                let (state, why) = restrict(Sandbox::Auto, &needs).unwrap();
                if state == "not to be had" {
                    eprintln!("skipped: {why}");
                    return;
                }
                assert!(why.contains("logs and ") && why.contains("/run only"), "{why}");
                assert_eq!(fs::read_to_string(at("root/below/page")).unwrap(), "content");
                write_as_a_server_does(&log, &pid_file);
                fs::read_dir("/proc/self/fd").unwrap();
                denied(fs::read(at("elsewhere/secret")).map(drop), "reading elsewhere");
                denied(fs::read("/etc/passwd").map(drop), "reading /etc");
                denied(fs::write(at("root/new"), ""), "writing in the directory");
                denied(fs::remove_file(at("root/below/page")), "removing in the directory");
                denied(fs::remove_file(at("logs/other")), "removing another log");
                denied(std::process::Command::new("/bin/true").status().map(drop), "running a program");
                if state == "on" {
                    is_denied_by_new_kernels(dir.path(), other.local_addr().unwrap());
                }
            });
            restricted.join().unwrap();
        });
        // The thread's leave was its own.
        assert!(fs::read("/etc/passwd").is_ok());
    }

    #[test]
    fn files_that_are_written_where_the_site_is_draw_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("site/below")).unwrap();
        fs::create_dir(at("logs")).unwrap();
        let (root, other) = (at("site"), at("logs/file"));
        for (name, auto, off) in [
            ("site/access.log", Some("all can read it"), Some("all can read it")),
            ("logs/../site/below/access.log", Some("all can read it"), Some("all can read it")),
            ("access.log", Some("let the server write"), None),
            ("logs/access.log", None, None),
        ] {
            let file = at(name);
            for (log, pid_file, flag) in [(&file, &other, "--access-log"), (&other, &file, "--pid-file")] {
                let needs =
                    Needs { root: &root, log: Some(log), pid_file: Some(pid_file), follows_links: false };
                for (sandbox, expected) in [(Sandbox::Auto, auto), (Sandbox::Off, off)] {
                    let warnings = needs.warnings(sandbox);
                    assert_eq!(warnings.len(), usize::from(expected.is_some()), "{name}: {warnings:?}");
                    assert!(warnings.iter().all(|warning| {
                        warning.starts_with(flag) && warning.contains(expected.unwrap_or_default())
                    }));
                }
            }
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_and_what_is_off_is_said() {
        let root = Path::new(".");
        let needs = |follows_links| Needs { root, log: None, pid_file: None, follows_links };
        let error = restrict(Sandbox::On, &needs(true)).unwrap_err().to_string();
        assert!(error.contains("--symlinks follow"), "{error}");
        assert_eq!(restrict(Sandbox::Auto, &needs(true)).unwrap().0, "off");
        assert_eq!(restrict(Sandbox::Off, &needs(false)).unwrap().0, "off");
    }
}
