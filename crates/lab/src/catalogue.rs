//! The experiments that come with the program, and how one is found by its name or file.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::plan::{Plan, did_you_mean};

/// An experiment that can be run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// Its plan, as TOML.
    pub plan: String,
}

/// Name and plan of each, from `experiments/`.
const KNOWN: [(&str, &str); 22] = [
    ("architectures", include_str!("../../../experiments/architectures.toml")),
    ("auto", include_str!("../../../experiments/auto.toml")),
    ("fast-slow", include_str!("../../../experiments/fast-slow.toml")),
    ("fast-slow-queue", include_str!("../../../experiments/fast-slow-queue.toml")),
    ("fast-slow-soak", include_str!("../../../experiments/fast-slow-soak.toml")),
    ("floor", include_str!("../../../experiments/floor.toml")),
    ("highest-concurrency", include_str!("../../../experiments/highest-concurrency.toml")),
    ("large-files", include_str!("../../../experiments/large-files.toml")),
    ("models", include_str!("../../../experiments/models.toml")),
    ("noise", include_str!("../../../experiments/noise.toml")),
    ("oscillation", include_str!("../../../experiments/oscillation.toml")),
    ("overload", include_str!("../../../experiments/overload.toml")),
    ("reactor-clients", include_str!("../../../experiments/reactor-clients.toml")),
    ("reactor-open", include_str!("../../../experiments/reactor-open.toml")),
    ("reactor-study", include_str!("../../../experiments/reactor-study.toml")),
    ("recovery", include_str!("../../../experiments/recovery.toml")),
    ("server-comparison", include_str!("../../../experiments/server-comparison.toml")),
    ("server-long-run", include_str!("../../../experiments/server-long-run.toml")),
    ("site", include_str!("../../../experiments/site.toml")),
    ("ten-thousand", include_str!("../../../experiments/ten-thousand.toml")),
    ("thread-pool-ab", include_str!("../../../experiments/thread-pool-ab.toml")),
    ("thread-pool-scaling", include_str!("../../../experiments/thread-pool-scaling.toml")),
];

/// The experiments that come with the program: names and titles.
pub fn known() -> Vec<(&'static str, String)> {
    let title =
        |text: &str, name| Plan::parse(text, name).map_or_else(|error| error.to_string(), |plan| plan.title);
    KNOWN.iter().map(|(name, text)| (*name, title(text, name))).collect()
}

/// Finds an experiment by its name, or by the path of its file.
///
/// # Errors
/// There is none of that name, or the file cannot be read.
pub fn find(name: &str) -> Result<Experiment, Error> {
    if let Some((name, plan)) = KNOWN.iter().find(|(known, _)| *known == name) {
        return Ok(Experiment { name: name.to_string(), plan: plan.to_string() });
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|ending| ending != "toml") {
        let names = KNOWN.map(|(known, _)| known);
        return Err(Error::Unknown(format!(
            "there is no experiment {name:?}{}; `plimsoll lab list` shows those there are, and a file must end in .toml",
            did_you_mean(name, names)
        )));
    }
    let plan = fs::read_to_string(path).map_err(Error::file(path))?;
    let name = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy().into_owned());
    Ok(Experiment { name, plan })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_that_comes_with_the_program_is_sound() {
        for (name, text) in KNOWN {
            let plan = Plan::parse(text, name).unwrap();
            assert!(!plan.question.is_empty(), "{name} asks nothing");
            assert!(plan.quicker().estimate_s() <= 300.0, "{name} --quick takes more than five minutes");
        }
    }

    #[test]
    fn every_experiment_is_in_the_list_of_the_documents() {
        let document = include_str!("../../../docs/experiments.md");
        let missing = KNOWN.iter().filter(|(name, _)| !document.contains(&format!("| `{name}` | ")));
        assert_eq!(missing.map(|(name, _)| *name).collect::<Vec<_>>(), [""; 0], "docs/experiments.md");
    }

    #[test]
    fn every_claim_is_about_cells_that_are_measured() {
        for (name, text) in KNOWN {
            let plan = Plan::parse(text, name).unwrap();
            let cells = plan.cells();
            for claim in &plan.claims {
                let missing = claim.sides().find(|(_, side)| !cells.iter().any(|cell| side.names(cell)));
                assert!(missing.is_none(), "{name}: {:?} of {:?}", missing.map(|(key, _)| key), claim.text);
            }
        }
    }

    #[test]
    fn a_name_that_is_almost_right_is_helped() {
        let message = find("model").unwrap_err().to_string();
        assert!(message.contains("did you mean \"models\"?"), "{message}");
        assert!(find("/nowhere/x.toml").is_err());
    }
}
