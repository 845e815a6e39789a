//! The rules of the repository, kept by a test: layers, first lines, unsafe code, lengths, documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which of our crates each may depend on: those below it.
const LAYERS: [(&str, &[&str]); 6] = [
    ("wire", &[]),
    ("engine", &[]),
    ("server", &["engine", "wire"]),
    ("load", &["engine", "wire"]),
    ("lab", &["load", "server", "engine", "wire"]),
    ("plimsoll", &["lab", "load", "server", "engine", "wire"]),
];

/// Longest file, in lines. One that needs more is listed in `LONGER_FILES` with its reason, at its present
/// length: it may shrink and not grow.
const FILE_LINES: usize = 400;

/// Longest function, in lines.
const FUNCTION_LINES: usize = 60;

const LONGER_FILES: [(&str, usize, &str); 1] =
    [("crates/engine/src/driver/epoll.rs", 456, "one driver, whose parts share their private state")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Files of the repository with this ending, as git knows them or would take them.
fn files(ending: &str) -> Vec<(String, String)> {
    let list = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    let names = String::from_utf8(list.stdout).unwrap();
    let names = names.lines().filter(|name| name.ends_with(ending));
    let mut files: Vec<_> = names
        .filter_map(|name| Some((name.to_string(), fs::read_to_string(root().join(name)).ok()?)))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no file ends in {ending}");
    files
}

fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Dependencies of a manifest on our own crates that its layer does not allow.
fn upward(name: &str, manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies = manifest["dependencies"].as_table().unwrap();
    let (_, allowed) = LAYERS.iter().find(|(layer, _)| *layer == name).unwrap();
    let ours = dependencies.keys().filter(|key| LAYERS.iter().any(|(layer, _)| layer == key));
    ours.filter(|key| !allowed.contains(&key.as_str()))
        .map(|key| format!("{name} must not depend on {key}"))
        .collect()
}

#[test]
fn crates_depend_downwards_only() {
    let crates: BTreeSet<_> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        crates,
        LAYERS.iter().map(|(name, _)| name.to_string()).collect(),
        "give a new crate its place in LAYERS"
    );
    let manifest = |name: &str| fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
    none(crates.iter().flat_map(|name| upward(name, &manifest(name))).collect());
    assert_eq!(upward("wire", "[dependencies]\nengine = \"1\"").len(), 1, "the check itself");
}

#[test]
fn every_module_says_first_what_it_is_for() {
    let says = |text: &str| text.starts_with("//! ") && text.lines().next().unwrap_or("").len() > 20;
    let silent = files(".rs").into_iter().filter(|(_, text)| !says(text));
    none(
        silent
            .map(|(name, _)| format!("{name}: begin with a line `//! ...` that says what it is for"))
            .collect(),
    );
    assert!(!says("use std::fs;\n") && !says("//! x\n"), "the check itself");
}

/// Unsafe code where it is not allowed, or without its reason.
fn unsafe_code(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let words: Vec<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        if !words.contains(&"unsafe") || code.contains('"') {
            continue;
        }
        if !name.starts_with("crates/engine/") {
            problems.push(format!("{name}:{}: unsafe code belongs in crates/engine", at + 1));
        } else if !lines[at.saturating_sub(4)..=at]
            .iter()
            // An unsafe function says what its caller must keep, instead of why it is sound.
            .any(|line| line.contains("SAFETY:") || line.contains("/// # Safety"))
        {
            problems.push(format!("{name}:{}: say with `// SAFETY:` why this is sound", at + 1));
        }
    }
    problems
}

#[test]
fn unsafe_code_is_in_the_engine_and_says_why_it_is_sound() {
    none(files(".rs").iter().flat_map(|(name, text)| unsafe_code(name, text)).collect());
    for name in ["wire", "server", "load", "lab", "plimsoll"] {
        let text = fs::read_to_string(root().join(format!("crates/{name}/src/lib.rs"))).unwrap();
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "crates/{name}/src/lib.rs: add #![forbid(unsafe_code)]"
        );
    }
    assert_eq!(
        unsafe_code("crates/wire/src/x.rs", "// SAFETY: no\nunsafe { x() }").len(),
        1,
        "the check itself"
    );
    assert_eq!(unsafe_code("crates/engine/src/x.rs", "unsafe { x() }").len(), 1, "the check itself");
    assert_eq!(
        unsafe_code("crates/engine/src/x.rs", "// SAFETY: so\nunsafe { x() }").len(),
        0,
        "the check itself"
    );
}

/// Functions longer than allowed: `file:line name (length)`.
fn long_functions(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut problems = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = [
            "fn ",
            "pub fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "async fn ",
            "pub async fn ",
            "pub(super) async fn ",
        ]
        .iter()
        .any(|start| code.starts_with(start));
        if !is_function {
            continue;
        }
        // A declaration in a trait has no body.
        let opens =
            lines[at..].iter().find(|line| line.ends_with('{') || line.ends_with(';') || line.ends_with('}'));
        if opens.is_none_or(|line| !line.ends_with('{')) {
            continue;
        }
        // The end is the first closing brace that stands as far in as the function does (rustfmt sees to that).
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        let length = lines[at..].iter().position(|line| *line == end).map_or(1, |length| length + 1);
        if length > FUNCTION_LINES {
            problems.push(format!(
                "{name}:{}: {length} lines; split it, so that it reads as a table of contents",
                at + 1
            ));
        }
    }
    problems
}

#[test]
fn files_and_functions_are_short() {
    let sources = files(".rs");
    let mut problems: Vec<String> = sources
        .iter()
        .filter(|(name, _)| !name.contains("/tests/"))
        .flat_map(|(name, text)| long_functions(name, text))
        .collect();
    for (name, text) in &sources {
        let exception = LONGER_FILES.iter().find(|(file, ..)| file == name);
        let (most, lines) = (exception.map_or(FILE_LINES, |(_, most, _)| *most), text.lines().count());
        if lines > most {
            problems.push(format!("{name}: {lines} lines, where {most} are allowed; is it still one role?"));
        }
    }
    none(problems);
    assert_eq!(
        long_functions("x", &format!("fn a() {{\n{}}}\n", "x\n".repeat(60))).len(),
        1,
        "the check itself"
    );
}

/// What stands between `<!-- help: COMMAND -->` and `<!-- end -->`, by command.
fn helps(text: &str) -> BTreeMap<String, String> {
    let blocks = text.split("<!-- help: ").skip(1);
    blocks
        .map(|block| {
            let (command, rest) = block.split_once(" -->").unwrap();
            let (block, _) = rest.split_once("<!-- end -->").expect("a help block ends with <!-- end -->");
            (
                command.to_string(),
                block.trim().trim_start_matches("```text").trim_end_matches("```").trim().to_string(),
            )
        })
        .collect()
}

#[test]
fn the_help_in_the_readme_is_the_programs() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let helps = helps(&readme);
    assert_eq!(
        helps.keys().collect::<Vec<_>>(),
        ["bench", "capacity", "lab predict", "lab run", "serve", "tune"],
        "the README shows these commands"
    );
    for (command, shown) in helps {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(command.split(' '))
            .arg("-h")
            .env("COLUMNS", "100")
            .output()
            .unwrap();
        let actual = String::from_utf8(output.stdout).unwrap();
        assert_eq!(shown, actual.trim(), "README.md: `make readme` puts it in its place");
    }
}

#[test]
fn every_flag_is_documented() {
    for command in ["serve", "bench", "lab run", "lab predict"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(command.split(' ')).arg("-h").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let bare = text.lines().filter(|line| {
            line.trim_start().starts_with('-') && line.split("  ").filter(|part| !part.is_empty()).count() < 2
        });
        none(bare.map(|line| format!("plimsoll {command}: no help for {line}")).collect());
    }
}

/// Relative links of a document that lead nowhere.
fn dead_links(name: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let relative =
        links.filter(|link| !link.contains("://") && !link.starts_with('#') && !link.starts_with("mailto:"));
    let dead = relative.filter(|link| {
        let path = link.split('#').next().unwrap_or(link);
        !exists(&root().join(name).parent().unwrap().join(path))
    });
    dead.map(|link| format!("{name}: {link} leads nowhere")).collect()
}

#[test]
fn links_in_documents_are_alive() {
    none(files(".md").iter().flat_map(|(name, text)| dead_links(name, text, |path| path.exists())).collect());
    assert_eq!(
        dead_links("README.md", "[a](b.md) [c](https://x) [d](#e)", |_| false).len(),
        1,
        "the check itself"
    );
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[workspace.dependencies]").unwrap();
    let (dependencies, _) = dependencies.split_once("\n[").unwrap();
    // A comment covers the lines directly below it.
    let bare =
        dependencies.split("\n\n").filter(|block| !block.trim().is_empty() && !block.trim().starts_with('#'));
    none(bare.map(|block| format!("Cargo.toml: say above it what this is for: {}", block.trim())).collect());
}

#[test]
fn the_json_of_a_bench_is_documented() {
    let document = fs::read_to_string(root().join("docs/bench-json.md")).unwrap();
    let outcome = load::Outcome {
        offered: Some(load::Offered::default()),
        server: Some(load::sample::ServerUse {
            threads: vec![load::sample::ThreadUse::default()],
            moments: vec![load::sample::Moment::default()],
            ..load::sample::ServerUse::default()
        }),
        timeline: vec![load::Second::default()],
        ..load::Outcome::empty(&load::Plan::new("http://x/"))
    };
    let mut names = BTreeSet::new();
    keys(&serde_json::to_value(outcome).unwrap(), &mut names);
    assert!(names.len() > 40, "{names:?}");
    let missing = names.iter().filter(|name| !document.contains(&format!("`{name}`")));
    none(missing.map(|name| format!("docs/bench-json.md: say what `{name}` is")).collect());
    assert!(document.contains(load::SCHEMA));
}

fn keys(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                names.insert(name.clone());
                keys(value, names);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, names)),
        _ => {}
    }
}
