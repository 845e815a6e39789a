//! Taking leave of what a server needs no more: files outside its directory, and connecting to others.

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
    /// Files that are written, made anew or removed; their directories are meant.
    pub(super) written: Vec<&'a Path>,
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
    Ok((state, format!("Landlock: reads {} only, connects to nobody{why}", needs.root.display())))
}

fn landlock(needs: &Needs<'_>) -> Result<RulesetStatus, landlock::RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(Scope::AbstractUnixSocket)?
        .create()?;
    // The process itself, for its metrics; how busy its processors are, and their quota, which may change.
    let own = [Path::new("/proc/self"), Path::new("/sys/fs/cgroup")];
    rules = allow(rules, Path::new("/proc/stat"), AccessFs::ReadFile.into())?;
    for path in own.into_iter().chain([needs.root]) {
        rules = allow(rules, path, read)?;
    }
    rules = allow(rules, Path::new("/dev/null"), AccessFs::WriteFile.into())?;
    for path in &needs.written {
        rules = allow(rules, &directory_of(path), write)?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Allows something below a path; one that is not there needs no rule.
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
    use std::net::{TcpListener, TcpStream};
    use std::{fs, thread};

    use super::*;

    #[test]
    fn a_restricted_thread_reads_its_directory_and_writes_its_logs_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["root/below", "logs", "elsewhere"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("root/below/page"), "page").unwrap();
        fs::write(at("elsewhere/secret"), "secret").unwrap();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = other.local_addr().unwrap();
        thread::scope(|scope| {
            let restricted = scope.spawn(|| {
                let (root, log) = (at("root"), at("logs/access.log"));
                let needs = Needs { root: &root, written: vec![&log], follows_links: false };
                let (state, why) = restrict(Sandbox::Auto, &needs).unwrap();
                if state == "not to be had" {
                    eprintln!("skipped: {why}");
                    return;
                }
                assert_eq!(fs::read_to_string(at("root/below/page")).unwrap(), "page");
                fs::write(&log, "line\n").unwrap();
                fs::read_dir("/proc/self/fd").unwrap();
                let denied = |result: std::io::Result<()>, what: &str| {
                    assert_eq!(result.unwrap_err().kind(), PermissionDenied, "{what}");
                };
                denied(fs::read(at("elsewhere/secret")).map(drop), "reading elsewhere");
                denied(fs::read("/etc/passwd").map(drop), "reading /etc");
                denied(fs::write(at("root/new"), ""), "writing in the directory");
                denied(fs::remove_file(at("root/below/page")), "removing in the directory");
                denied(std::process::Command::new("/bin/true").status().map(drop), "running a program");
                if state == "on" {
                    denied(TcpStream::connect(other).map(drop), "connecting");
                    assert!(TcpListener::bind("127.0.0.1:0").is_ok());
                }
            });
            restricted.join().unwrap();
        });
        // The thread's leave was its own.
        assert!(fs::read("/etc/passwd").is_ok());
    }

    #[test]
    fn what_contradicts_itself_is_refused_and_what_is_off_is_said() {
        let root = Path::new(".");
        let needs = |follows_links| Needs { root, written: Vec::new(), follows_links };
        let error = restrict(Sandbox::On, &needs(true)).unwrap_err().to_string();
        assert!(error.contains("--symlinks follow"), "{error}");
        assert_eq!(restrict(Sandbox::Auto, &needs(true)).unwrap().0, "off");
        assert_eq!(restrict(Sandbox::Off, &needs(false)).unwrap().0, "off");
    }
}
