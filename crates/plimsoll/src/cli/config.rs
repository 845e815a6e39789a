//! Settings from a file: each line of it stands for a flag, and flags that are given come after it and win.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use clap::{ArgAction, Command};

/// The arguments of this program, with the settings of the file behind `serve --config` put in as flags.
///
/// # Errors
/// The file cannot be read, or holds what is no setting of `serve`.
pub(crate) fn expanded(
    arguments: impl Iterator<Item = OsString>,
    command: &Command,
) -> anyhow::Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.get(1).is_none_or(|word| word != "serve") {
        return Ok(arguments);
    }
    let Some(file) = file_of(&arguments) else { return Ok(arguments) };
    let text = fs::read_to_string(&file)
        .with_context(|| format!("--config {}: cannot be read", Path::new(&file).display()))?;
    let serve = command.find_subcommand("serve").context("there is no command serve")?;
    let flags = flags(&text, serve).with_context(|| format!("--config {}", Path::new(&file).display()))?;
    arguments.splice(2..2, flags.into_iter().map(OsString::from));
    Ok(arguments)
}

/// The file that `--config` names.
fn file_of(arguments: &[OsString]) -> Option<OsString> {
    arguments.iter().enumerate().find_map(|(at, word)| match word.to_str()? {
        "--config" => arguments.get(at + 1).cloned(),
        word => word.strip_prefix("--config=").map(OsString::from),
    })
}

/// The flags that a text stands for.
fn flags(text: &str, serve: &Command) -> anyhow::Result<Vec<String>> {
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| anyhow::anyhow!("{}", error.message()))?;
    let mut flags = Vec::new();
    for (name, value) in &table {
        let known = serve.get_arguments().find(|known| known.get_long() == Some(name) && name != "config");
        let Some(known) = known else {
            let names: Vec<&str> = serve.get_arguments().filter_map(clap::Arg::get_long).collect();
            bail!("there is no setting {name:?}{}", lab::did_you_mean(name, &names));
        };
        let is_switch = matches!(known.get_action(), ArgAction::SetTrue);
        match value {
            toml::Value::Boolean(on) if is_switch => flags.extend(on.then(|| format!("--{name}"))),
            _ if is_switch => bail!("{name} must be true or false"),
            toml::Value::Array(values) => {
                for value in values {
                    flags.push(format!("--{name}={}", word(name, value)?));
                }
            }
            value => flags.push(format!("--{name}={}", word(name, value)?)),
        }
    }
    Ok(flags)
}

fn word(name: &str, value: &toml::Value) -> anyhow::Result<String> {
    ensure!(!value.is_table() && !value.is_array(), "{name} must be a word, a number, or a list of them");
    Ok(value.as_str().map_or_else(|| value.to_string(), String::from))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Args;

    fn of(text: &str) -> Result<Vec<String>, String> {
        let command = Args::command();
        flags(text, command.find_subcommand("serve").unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_of_a_setting_becomes_its_flag() {
        let text = "model = \"reactor-pool\"\nworkers = 16\nworkloads = true\nlisting = false\nheader = [\"A: b\", \"C: d\"]\n";
        let expected =
            ["--header=A: b", "--header=C: d", "--model=reactor-pool", "--workers=16", "--workloads"];
        let mut found = of(text).unwrap();
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_file_is_named_in_either_way() {
        for words in
            [&["plimsoll", "serve", "--config", "a.toml"][..], &["plimsoll", "serve", ".", "--config=a.toml"]]
        {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(file_of(&words), Some("a.toml".into()));
        }
        assert_eq!(file_of(&["plimsoll".into(), "serve".into()]), None);
    }

    #[test]
    fn what_is_no_setting_is_explained() {
        assert_eq!(
            of("worker = 1").unwrap_err(),
            "there is no setting \"worker\"; did you mean \"workers\"?"
        );
        assert_eq!(of("workloads = 1").unwrap_err(), "workloads must be true or false");
        assert!(of("workers = { a = 1 }").unwrap_err().contains("must be a word"));
        assert!(of("workers = ").is_err() && of("config = \"x\"").is_err());
    }
}
