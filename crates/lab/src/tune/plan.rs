//! The plans of the two experiments that tune a server, and how they share the time that there is.

use std::time::Duration;

use super::Wanted;
use super::choice::Finalist;

/// Most workers that are tried, where work waits.
const MOST_WORKERS: usize = 256;

/// Seconds of load in a run: enough for a rate, few enough for a search.
const EACH_S: f64 = 1.0;

/// Fewest seconds of load in a run of a validation for which there is little time.
const LEAST_S: f64 = 0.2;

/// Seconds of a run beside those of its load that are measured: the warm-up, the start of the server, and its end.
const WARMUP_S: f64 = 0.2;
const BESIDE_S: f64 = WARMUP_S + 0.4;

/// Share of the time that is for the validation, and fewest seconds of it, as long as that is no more than half.
const VALIDATION: f64 = 0.3;
const VALIDATION_S: f64 = 6.0;

/// Most settings that are validated.
pub(super) const MOST_FINALISTS: usize = 4;

/// Rounds of a validation: as many as an interval takes, or where there is little time as many as show that a figure is steady.
const ROUNDS: u32 = 5;
const FEWEST_ROUNDS: u32 = 3;

/// Most rounds: more of them say little more.
const MOST_ROUNDS: u32 = 10;

/// How much of a budget is for the validation.
pub(super) fn time_to_validate(budget: Duration) -> Duration {
    budget.mul_f64(VALIDATION).max(Duration::from_secs_f64(VALIDATION_S)).min(budget / 2)
}

/// How the time of a validation is spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rounds {
    /// Settings that are compared.
    pub(super) finalists: usize,
    pub(super) rounds: u32,
    /// Seconds of load in a run.
    pub(super) each_s: f64,
}

impl Rounds {
    /// The most settings for which there are rounds enough in this time; `None` where there is nothing to compare, or too little
    /// time for any.
    pub(super) fn within(time: Duration, finalists: usize) -> Option<Rounds> {
        let time = time.as_secs_f64();
        let rounds = |finalists: usize| (time / finalists as f64 / (EACH_S + BESIDE_S)) as u32;
        let most = finalists.min(MOST_FINALISTS);
        if let Some(finalists) = (2..=most).rev().find(|finalists| rounds(*finalists) >= ROUNDS) {
            let rounds = rounds(finalists).min(MOST_ROUNDS);
            return Some(Rounds { finalists, rounds, each_s: EACH_S });
        }
        let each_s = (time / 2.0 / f64::from(FEWEST_ROUNDS) - BESIDE_S).min(EACH_S);
        (most >= 2 && each_s >= LEAST_S).then_some(Rounds { finalists: 2, rounds: FEWEST_ROUNDS, each_s })
    }
}

/// The search, as a file that anybody can read and change.
pub(super) fn search(wanted: &Wanted, make_file: bool) -> String {
    let waits = wanted.work.as_ref().is_some_and(|(_, mode)| mode == "sleep");
    let levels = |most: usize| doubling(most).map(|count| count.to_string()).collect::<Vec<_>>().join(", ");
    let most_workers = if waits { MOST_WORKERS } else { wanted.cores * 4 };
    let (reactors, workers) = (levels(wanted.cores * 2), levels(most_workers));
    let mut text = head(wanted, "Which topology answers the most requests?", 5, EACH_S);
    text += &format!("\n[factor]\nreactors = [{reactors}]\nworkers = [{workers}]\n");
    text += &file(wanted, make_file);
    let models: [(&str, &[&str]); 11] = [
        // It finds its number of workers itself, as far as it can within a second.
        ("auto", &[]),
        ("thread-per-connection", &[]),
        ("thread-pool", &["workers"]),
        ("reactor", &[]),
        ("reactor-pool", &["workers"]),
        ("multi-reactor", &["reactors"]),
        ("multi-reactor-pool", &["reactors", "workers"]),
        ("reuseport", &["reactors"]),
        ("reuseport-pool", &["reactors", "workers"]),
        ("proactor", &["reactors"]),
        ("proactor-pool", &["reactors", "workers"]),
    ];
    for (model, factors) in models {
        let flags = factors.iter().flat_map(|factor| [format!("--{factor}"), format!("{{{factor}}}")]);
        text += &target(wanted, model, model, flags);
    }
    text
}

/// The best settings of a search side by side: each in every round, in an order of its own.
pub(super) fn validation(
    wanted: &Wanted,
    make_file: bool,
    finalists: &[Finalist],
    Rounds { rounds, each_s, .. }: &Rounds,
) -> String {
    let question = "Which of the best settings of the search answers the most requests?";
    let mut text = head(wanted, question, *rounds, *each_s) + &file(wanted, make_file);
    for Finalist { name, model, setting } in finalists {
        let flags = setting.iter().flat_map(|(factor, level)| [format!("--{factor}"), level.clone()]);
        text += &target(wanted, name, model, flags);
    }
    text
}

fn head(wanted: &Wanted, question: &str, rounds: u32, each_s: f64) -> String {
    let Wanted { path, connections, close, cores, .. } = wanted;
    // Servers share the cores with the load. One thread alone would be the slower one of several reactors.
    let threads = (cores / 2).clamp(1, *connections as usize);
    let path = toml::Value::from(path.as_str());
    format!(
        "title = \"The best settings for this host and its work\"\nquestion = \"{question}\"\n\
         paths = [{path}]\nconnections = [{connections}]\nclose = [{close}]\nrounds = {rounds}\nduration_s = {each_s}\n\
         warmup_s = {WARMUP_S}\nthreads = {threads}\nseed = 1\n"
    )
}

fn file(wanted: &Wanted, make_file: bool) -> String {
    if !make_file {
        return String::new();
    }
    let file = wanted.path.trim_start_matches('/').split('?').next().unwrap_or_default();
    let file = toml::Value::from(if file.is_empty() { "index.html" } else { file });
    format!("\n[[file]]\npath = {file}\nbytes = 1024\n")
}

fn target(wanted: &Wanted, name: &str, model: &str, flags: impl Iterator<Item = String>) -> String {
    let work = wanted.work.iter().flat_map(|(time, mode)| ["--work", time, "--work-mode", mode]);
    let args: Vec<String> = work.map(String::from).chain(flags).collect();
    format!("\n[[target]]\nname = \"{name}\"\nmodel = \"{model}\"\nargs = {args:?}\n")
}

/// 1, 2, 4 and so on, up to a number.
fn doubling(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |count| Some(count * 2)).take_while(move |count| *count <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::tune::tests::wanted;

    #[test]
    fn the_plan_is_sound_and_sleeping_work_gets_more_workers() {
        let workers = |mode: &str| {
            let plan = Plan::parse(&search(&wanted(mode), true), "tune").unwrap();
            assert_eq!(plan.targets.len(), 11);
            plan.factors["workers"].len()
        };
        assert_eq!((workers("sleep"), workers("spin")), (9, 5));
        Plan::parse(&search(&Wanted { work: None, ..wanted("spin") }, false), "tune").unwrap();
    }

    #[test]
    fn the_load_has_half_as_many_threads_as_there_are_cores() {
        for (cores, connections, threads) in [(1, 64, 1), (2, 64, 1), (3, 64, 1), (16, 64, 8), (64, 4, 4)] {
            let wanted = Wanted { cores, connections, ..wanted("sleep") };
            assert_eq!(Plan::parse(&search(&wanted, true), "tune").unwrap().threads, threads);
        }
    }

    #[test]
    fn the_validation_has_each_setting_in_every_round() {
        let finalist = |model: &str, setting: &[(&str, &str)]| {
            let setting = setting.iter().map(|(name, level)| (name.to_string(), level.to_string())).collect();
            Finalist { name: format!("{model} as it is"), model: model.into(), setting }
        };
        let finalists =
            [finalist("reactor", &[]), finalist("reuseport-pool", &[("reactors", "2"), ("workers", "8")])];
        let rounds = Rounds { finalists: 2, rounds: 5, each_s: 0.5 };
        let plan = Plan::parse(&validation(&wanted("sleep"), true, &finalists, &rounds), "tune").unwrap();
        assert_eq!((plan.cells().len(), plan.rounds, plan.duration_s), (2, 5, 0.5));
        let args = &plan.targets[1].args;
        assert_eq!(args.join(" "), "--work 200us --work-mode sleep --reactors 2 --workers 8");
    }

    #[test]
    fn little_time_is_for_fewer_settings_and_then_for_fewer_rounds() {
        let within = |budget: u64, finalists| {
            let time = time_to_validate(Duration::from_secs(budget));
            Rounds::within(time, finalists).map(|rounds| (rounds.finalists, rounds.rounds))
        };
        assert_eq!(within(3600, 9), Some((4, 10)));
        assert_eq!(within(120, 9), Some((4, 5)));
        assert_eq!(within(60, 9), Some((2, 5)));
        assert_eq!(within(15, 9), Some((2, 3)));
        assert_eq!(within(5, 9), None);
        assert_eq!(within(120, 1), None);
        // What is planned takes no longer than there is.
        for budget in 5..600 {
            let time = time_to_validate(Duration::from_secs(budget));
            if let Some(Rounds { finalists, rounds, each_s }) = Rounds::within(time, 9) {
                let takes = finalists as f64 * f64::from(rounds) * (each_s + BESIDE_S);
                assert!(takes <= time.as_secs_f64() + 1e-9 && each_s >= LEAST_S, "{budget}: {takes}");
            }
        }
    }
}
