//! What a target comes to on this host: the words of its command with all filled in, and what it needs.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::key::CellKey;
use crate::plan::{Engine, Plan, Target, filled};

/// Directories of servers that are often not in the search path of a user.
const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// What is filled in for the words of a command.
pub(crate) struct Places<'a> {
    /// The directory that is served.
    pub(crate) root: &'a Path,
    /// A directory for the server's own files.
    pub(crate) dir: &'a Path,
    /// This program.
    pub(crate) program: &'a Path,
    /// Where the server has to listen, on 127.0.0.1.
    pub(crate) port: u16,
    /// The cell: levels of factors.
    pub(crate) cell: &'a CellKey,
}

impl Places<'_> {
    /// A text with everything filled in. Other braces are left as they are: configuration is full of them.
    pub(crate) fn fill(&self, text: &str) -> String {
        let text = filled(&filled(text, &self.cell.setting), &self.cell.condition);
        text.replace("{port}", &self.port.to_string())
            .replace("{root}", &self.root.display().to_string())
            .replace("{dir}", &self.dir.display().to_string())
            .replace("{bin_dir}", &bin_dir(self.program).display().to_string())
    }

    /// The command that starts a target: the file to execute, then its arguments.
    ///
    /// # Errors
    /// As [`installed`].
    pub(crate) fn command(&self, target: &Target) -> Result<(PathBuf, Vec<String>), String> {
        let file = installed(target, self.program)?;
        let rest = match &target.model {
            Some(model) => {
                let root = self.root.display().to_string();
                let listen = format!("127.0.0.1:{}", self.port);
                let own =
                    ["serve", &root, "--listen", &listen, "--model", &self.fill(model)].map(String::from);
                own.into_iter().chain(target.args.iter().map(|word| self.fill(word))).collect()
            }
            None => target.command[1..].iter().map(|word| self.fill(word)).collect(),
        };
        Ok((file, rest))
    }
}

/// The file that a target executes.
///
/// # Errors
/// It, or what it needs, is not on this host; with how to install it, as the plan says.
fn installed(target: &Target, program: &Path) -> Result<PathBuf, String> {
    let file = match target.command.first() {
        Some(first) => first.replace("{bin_dir}", &bin_dir(program).display().to_string()),
        None => program.display().to_string(),
    };
    let missing = |name: &str| {
        let how = target.install.as_ref().map_or(String::new(), |how| format!(": {how}"));
        format!("{name} is not installed{how}")
    };
    // What is needed may be a part of a server that nobody executes.
    let is_there = |name: &str| (name.contains('/') && Path::new(name).is_file()) || find(name).is_some();
    if let Some(needed) = target.needs.as_ref().filter(|name| !is_there(name)) {
        return Err(missing(needed));
    }
    find(&file).ok_or_else(|| missing(&file))
}

/// What an experiment needs and this host has not, each with how to install it and how many of its runs will fail.
pub fn missing(plan: &Plan, program: &Path) -> Vec<String> {
    let cells = plan.cells();
    let said = |why: String, is_affected: &dyn Fn(&CellKey) -> bool| {
        let runs = cells.iter().filter(|cell| is_affected(cell)).count() * plan.rounds as usize;
        (runs > 0).then(|| format!("{why}; {runs} of {} runs will fail", cells.len() * plan.rounds as usize))
    };
    let targets = plan.targets.iter().filter_map(|target| {
        let why = installed(target, program).err()?;
        said(format!("target {:?}: {why}", target.name), &|cell| cell.target == target.name)
    });
    let engines =
        plan.engines().into_iter().filter(|engine| *engine != Engine::Webbench).filter_map(|engine| {
            said(engine.program().err()?, &|cell| plan.engine_of(cell) == Ok(Some(engine)))
        });
    targets.chain(engines).collect()
}

/// The executable of a name, or at a path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(executable);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(executable)
}

fn bin_dir(program: &Path) -> &Path {
    program.parent().unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    fn target(text: &str) -> Target {
        toml::from_str(&format!("name = \"x\"\n{text}")).unwrap()
    }

    fn places() -> Places<'static> {
        static CELL: LazyLock<CellKey> = LazyLock::new(|| CellKey {
            setting: [("workers".to_string(), "16".to_string())].into(),
            ..CellKey::default()
        });
        let (root, dir) = (Path::new("/site"), Path::new("/own"));
        Places { root, dir, program: Path::new("/bin/sh"), port: 81, cell: &CELL }
    }

    #[test]
    fn words_are_filled_in_and_other_braces_stay() {
        let text = "events { } {workers} listen {port}; root {root}; pid {dir}/pid; {bin_dir} {unknown}";
        assert_eq!(places().fill(text), "events { } 16 listen 81; root /site; pid /own/pid; /bin {unknown}");
    }

    #[test]
    fn our_own_models_are_served_by_this_program() {
        let target = target("model = \"reactor\"\nargs = [\"--log\", \"{dir}/log\"]");
        let (file, words) = places().command(&target).unwrap();
        assert_eq!(file, Path::new("/bin/sh"));
        assert_eq!(words.join(" "), "serve /site --listen 127.0.0.1:81 --model reactor --log /own/log");
    }

    #[test]
    fn any_other_server_is_found_by_its_name_or_beside_this_program() {
        let (file, words) =
            places().command(&target("command = [\"{bin_dir}/sh\", \"-p\", \"{port}\"]")).unwrap();
        assert_eq!((file.as_path(), words), (Path::new("/bin/sh"), vec!["-p".to_string(), "81".into()]));
        assert!(find("sh").is_some_and(|file| file.is_absolute()));
    }

    #[test]
    fn what_is_missing_is_named_with_the_way_to_install_it() {
        let missing = |text: &str| installed(&target(text), Path::new("/bin/sh")).unwrap_err();
        assert_eq!(
            missing("command = [\"no-such-server\"]\ninstall = \"apt-get install x\""),
            "no-such-server is not installed: apt-get install x"
        );
        assert_eq!(missing("command = [\"sh\"]\nneeds = \"no-such-tool\""), "no-such-tool is not installed");
        assert_eq!(
            missing("command = [\"sh\"]\nneeds = \"/no/such/module.so\""),
            "/no/such/module.so is not installed"
        );
        let module = target("command = [\"sh\"]\nneeds = \"/etc/passwd\"");
        assert!(installed(&module, Path::new("/bin/sh")).is_ok(), "it need not be a program");
        // A directory, and a file that may not be executed, are not programs.
        assert!(find("/etc").is_none() && find("/etc/passwd").is_none());
    }

    #[test]
    fn every_target_that_is_missing_is_named_before_anything_runs() {
        let plan = "title = \"t\"\nconnections = [1, 2]\npaths = [\"/\"]\nduration_s = 1\n\
            [[target]]\nname = \"here\"\ncommand = [\"sh\"]\n\
            [[target]]\nname = \"one\"\ncommand = [\"no-such-one\"]\ninstall = \"apt-get install one\"\n\
            [[target]]\nname = \"two\"\ncommand = [\"no-such-two\"]\n";
        let said = missing(&Plan::parse(plan, "x.toml").unwrap(), Path::new("/bin/sh"));
        let expected = [
            "target \"one\": no-such-one is not installed: apt-get install one; 6 of 18 runs will fail",
            "target \"two\": no-such-two is not installed; 6 of 18 runs will fail",
        ];
        assert_eq!(said, expected);
    }
}
