//! Going on with an experiment: its results stay those that were begun, and what is another since then is marked.

use crate::results::Results;

/// Stands between the name of a fact about the host and the number of the first run it holds for.
const SINCE: &str = " since run ";

/// Facts that are others at every moment, and tell nothing of what was measured before.
const MOMENTARY: [&str; 1] = ["load average at the start"];

/// The results of an experiment that is gone on with after so many runs: the command that began it and when, and the host as it
/// was then. Where it, or the program, is another now, a row of the environment says so.
pub(crate) fn gone_on_with(before: Results, now: Results, runs: usize) -> Results {
    let mut environment = before.environment;
    for (name, value) in &now.environment {
        let marked = format!("{name}{SINCE}");
        let is_of = |known: &str| known == name || known.starts_with(&marked);
        let last = environment.iter().rev().find(|(known, _)| is_of(known));
        let is_same = last.is_some_and(|(_, known)| known == value);
        if !is_same && !MOMENTARY.contains(&name.as_str()) {
            environment.push((format!("{marked}{runs}"), value.clone()));
        }
    }
    Results { command: before.command, started: before.started, environment, ..now }
}

/// Why an experiment is suspect that was gone on with by another program, or on another host.
pub(crate) fn reason(results: &Results) -> Option<String> {
    let is_marked =
        |name: &&str| name.rsplit_once(SINCE).is_some_and(|(_, run)| run.parse::<usize>().is_ok());
    let others: Vec<&str> =
        results.environment.iter().map(|(name, _)| name.as_str()).filter(is_marked).collect();
    (!others.is_empty()).then(|| {
        format!(
            "it was gone on with under other conditions (see its environment): another {}",
            others.join(", another ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn results(command: &str, started: &str, environment: &[(&str, &str)]) -> Results {
        let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Results {
            command: command.into(),
            started: started.into(),
            environment: environment.collect(),
            ..fake::results(&["a"], 3, |_, _| (1_000.0, 10.0))
        }
    }

    #[test]
    fn what_began_stays_and_another_program_is_marked() {
        let load = "load average at the start";
        let before =
            results("lab run x --quick", "then", &[("plimsoll", "sha256 1"), ("kernel", "6"), (load, "0")]);
        let now = results(
            "lab run x --resume out",
            "now",
            &[("plimsoll", "sha256 2"), ("kernel", "6"), (load, "9")],
        );
        let same = gone_on_with(
            before.clone(),
            Results { environment: before.environment.clone(), ..now.clone() },
            2,
        );
        assert_eq!((same.command.as_str(), same.started.as_str()), ("lab run x --quick", "then"));
        assert_eq!((&same.environment, reason(&same)), (&before.environment, None));
        let other = gone_on_with(before.clone(), now.clone(), 2);
        assert_eq!(other.environment[..3], before.environment);
        assert_eq!(other.environment[3..], [("plimsoll since run 2".to_string(), "sha256 2".to_string())]);
        let why =
            "it was gone on with under other conditions (see its environment): another plimsoll since run 2";
        assert_eq!(reason(&other).as_deref(), Some(why));
        // With the same program once more nothing is new, and with the first one again something is.
        assert_eq!(gone_on_with(other.clone(), now, 5).environment, other.environment);
        assert_eq!(gone_on_with(other, before, 7).environment.len(), 5);
    }
}
