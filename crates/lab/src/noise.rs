//! What else happened on the host while an experiment ran: time taken away, other processes, and rates that drift.

use load::Outcome;
use load::sample::ServerUse;

use crate::results::{Cell, Results, Run};
use crate::stats::{median, permutation_p};

/// Share of the host's processor time that other processes may use.
const OTHERS_SHARE: f64 = 0.05;

/// Seconds by which the kernel's ticks may be wrong on each processor: one at each end.
const ROUNDING_S: f64 = 0.02;

/// How far the last round may be from the first, relative.
const DRIFT: f64 = 0.05;

/// How likely by chance a drift may be that is told of.
const CHANCE: f64 = 0.05;

/// What the rows of the environment that are about this begin with.
const LABEL: &str = "noise during: ";

/// What other processes used while a server was loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Others {
    /// Cores, on average.
    pub(crate) cores: f64,
    /// The same as a share of the host's processor time, 0 to 1.
    pub(crate) share: f64,
    /// More than may be, whatever the ticks lost.
    pub(crate) too_many: bool,
}

/// What processes used beside the loads and the server; `None` where the host does not tell.
pub(crate) fn others(outcome: &Outcome, server: &ServerUse, beside: Option<&Outcome>) -> Option<Others> {
    let (processes, all) = (outcome.host.processes_s, outcome.host.processors_s);
    if all <= 0.0 || server.window_s <= 0.0 {
        return None;
    }
    let loads = outcome.client.cpu_s + beside.map_or(0.0, |beside| beside.client.cpu_s);
    let others = (processes - loads - server.cpu_s).max(0.0);
    let processors = (all / server.window_s).round().max(1.0);
    Some(Others {
        cores: others / server.window_s,
        share: others / all,
        too_many: others > OTHERS_SHARE * all + ROUNDING_S * processors,
    })
}

/// Why a run is suspect for what other processes used.
pub(crate) fn disturbed(outcome: &Outcome, server: &ServerUse, beside: Option<&Outcome>) -> Option<String> {
    let Others { cores, share, too_many } = others(outcome, server, beside)?;
    let share = share * 100.0;
    too_many.then(|| format!("other processes used {cores:.2} of a core ({share:.0} % of the host)"))
}

/// The same about many runs.
pub(crate) const DISTURBED: &str = "other processes used more than 5 % of the host's processor time";

/// How far the rates of the last round are from those of the first, all cells taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drift {
    /// Relative: -0.1 is a tenth slower.
    pub(crate) change: f64,
    /// How likely so large a change is if nothing drifts.
    pub(crate) chance: f64,
}

impl Drift {
    /// Compares the two rounds, each rate over the median of its cell; `None` where there are no two.
    pub(crate) fn of(results: &Results) -> Option<Self> {
        // A search looks again at what came out well, which is no drift.
        let rounds = |cell: &Cell| results.runs.iter().filter(|run| run.cell == cell.key).count();
        let looked = || results.cells.iter().map(rounds).filter(|rounds| *rounds > 0);
        let (least, most) = (looked().min()?, looked().max()?);
        if most > least + 1 {
            return None;
        }
        let sound = || results.runs.iter().filter(|run| run.is_sound());
        let first = sound().map(|run| run.round).min()?;
        let last = sound().map(|run| run.round).max().filter(|last| *last > first)?;
        let relative = |run: &Run| {
            let cell = results.cells.iter().find(|cell| cell.key == run.cell)?;
            // A cell that was not looked at in both rounds would say something about itself.
            let in_round = |round| results.sound(&run.cell).any(|other| other.round == round);
            (in_round(first) && in_round(last)).then_some(run.rate()? / cell.requests_per_second.median)
        };
        let of = |round| {
            let rates = sound().filter(|run| run.round == round).filter_map(relative);
            rates.filter(|rate| rate.is_finite()).collect::<Vec<f64>>()
        };
        let (before, after) = (of(first), of(last));
        let change = median(&after)? / median(&before)? - 1.0;
        let chance = permutation_p(&before, &after, results.seed);
        change.is_finite().then_some(Drift { change, chance })
    }

    /// Why an experiment is suspect for it.
    pub(crate) fn reason(&self) -> Option<String> {
        let is_large = self.change.abs() > DRIFT && self.chance < CHANCE;
        is_large.then(|| format!("the host changed meanwhile: {}", self.words()))
    }

    fn words(&self) -> String {
        let (percent, way) = (self.change.abs() * 100.0, if self.change < 0.0 { "below" } else { "above" });
        format!("the last round is {percent:.1} % {way} the first")
    }
}

/// Rows for the environment of an experiment.
fn rows(results: &Results, drift: Option<Drift>) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut add = |name: &str, value: String| rows.push((format!("{LABEL}{name}"), value));
    let cores =
        |run: &Run| Some(others(run.outcome.as_ref()?, run.server.as_ref()?, run.beside.as_ref())?.cores);
    let others: Vec<f64> = results.runs.iter().filter_map(cores).collect();
    if let Some(usual) = median(&others) {
        let measured = results.runs.iter().filter_map(|run| run.outcome.as_ref());
        let stolen = measured.map(|outcome| outcome.host.stolen_share).fold(0.0, f64::max);
        add("time taken away by the host's host", format!("{:.1} % at most", stolen * 100.0));
        let most = others.iter().copied().fold(0.0, f64::max);
        add("other processes", format!("{most:.2} of a core at most, {usual:.2} in the median run"));
    }
    if let Some(drift) = drift {
        add("drift", format!("{}, all cells together (p = {:.2})", drift.words(), drift.chance));
    }
    rows
}

/// Puts what is known so far into the environment.
pub(crate) fn note(results: &mut Results, drift: Option<Drift>) {
    let rows = rows(results, drift);
    results.environment.retain(|(name, _)| !name.starts_with(LABEL));
    results.environment.extend(rows);
}

/// The same in a sentence; `None` where nothing is known.
pub(crate) fn sentence(results: &Results) -> Option<String> {
    let rows =
        results.environment.iter().filter_map(|(name, value)| Some((name.strip_prefix(LABEL)?, value)));
    let parts: Vec<String> = rows.map(|(name, value)| format!("{name}: {value}")).collect();
    (!parts.is_empty()).then(|| format!("Noise during the runs: {}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

    /// A second on two processors, in which the load used 0.5 s and the server 0.02 s.
    fn run(processes_s: f64) -> (Outcome, ServerUse) {
        let (mut outcome, server) = fake::measured(&fake::key("a", 10), 1_000.0, 20.0);
        (outcome.host.processes_s, outcome.host.processors_s) = (processes_s, 2.0);
        (outcome, server)
    }

    #[test]
    fn what_is_neither_the_loads_nor_the_servers_is_that_of_others() {
        let seen = |processes_s| {
            let (outcome, server) = run(processes_s);
            others(&outcome, &server, None)
                .map(|others| ((others.cores * 1e3).round() / 1e3, others.too_many))
        };
        assert_eq!(seen(0.52), Some((0.0, false)));
        // Ticks lose more than they count at times.
        assert_eq!(seen(0.4), Some((0.0, false)));
        // 5 % of two seconds, and a tick at each end of either processor.
        assert_eq!(seen(0.52 + 0.139), Some((0.139, false)));
        assert_eq!(seen(0.52 + 0.141), Some((0.141, true)));
        let (outcome, server) = run(1.52);
        let why = disturbed(&outcome, &server, None).unwrap();
        assert_eq!(why, "other processes used 1.00 of a core (50 % of the host)");
        assert_eq!(others(&fake::measured(&fake::key("a", 10), 1_000.0, 20.0).0, &server, None), None);
    }

    #[test]
    fn a_load_beside_is_none_of_the_others() {
        let (outcome, server) = run(1.02);
        let (mut beside, _) = run(0.0);
        assert!(disturbed(&outcome, &server, None).is_some());
        assert_eq!(disturbed(&outcome, &server, Some(&beside)), None);
        beside.client.cpu_s = 0.1;
        assert!(disturbed(&outcome, &server, Some(&beside)).is_some());
    }

    /// Five cells over three rounds, whose rates are those of a cell times a factor of the round.
    fn drifting(rounds: [f64; 3]) -> Results {
        let targets = ["a", "b", "c", "d", "e"];
        let rate = |target: &str, round: u32| {
            let own = 1_000.0 + 10.0 * f64::from(target.as_bytes()[0]);
            (own * rounds[round as usize] * (1.0 + 0.001 * f64::from(target.as_bytes()[0] % 4)), 10.0)
        };
        let mut results = fake::results(&targets, 3, rate);
        summarise(&mut results, &fake::plan(&targets, ""));
        results
    }

    #[test]
    fn a_host_that_slows_down_is_noticed_and_one_that_wavers_is_not() {
        let results = drifting([1.0, 0.96, 0.91]);
        let why = "the host changed meanwhile: the last round is 9.0 % below the first";
        assert!(results.verdict.reasons().contains(&why.to_string()), "{:?}", results.verdict);
        assert_eq!(drifting([1.0, 0.9, 0.98]).verdict, load::Verdict::Valid);
        // One cell alone has too little to tell by.
        let mut one = drifting([1.0, 0.96, 0.91]);
        one.runs.retain(|run| run.cell.target == "a");
        assert_eq!(Drift::of(&one).unwrap().reason(), None);
    }

    #[test]
    fn the_environment_has_it_once_however_often_it_is_summed_up() {
        let mut results = drifting([1.0, 0.99, 1.01]);
        for run in &mut results.runs {
            let outcome = run.outcome.as_mut().unwrap();
            (outcome.host.processes_s, outcome.host.processors_s) = (0.75, 2.0);
            outcome.host.stolen_share = 0.004;
        }
        let drift = Drift::of(&results);
        note(&mut results, drift);
        note(&mut results, drift);
        let noise: Vec<&str> = results.environment.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(noise.len(), 3, "{noise:?}");
        assert_eq!(noise[0], "0.4 % at most");
        assert!(
            noise[1].starts_with("0.2") && noise[2].starts_with("the last round is 1.0 % above"),
            "{noise:?}"
        );
        assert!(sentence(&results).unwrap().starts_with("Noise during the runs: time taken away"));
    }
}
