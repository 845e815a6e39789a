//! Which figures are bounds: the load's own limit stood before the server's, or a search or a run ended first.

use load::sample::ServerUse;
use load::verdict::client_is_at_its_limit;
use load::{Arrivals, Outcome};

use crate::environment::SERVER_CORES;
use crate::plan::Metric;
use crate::recovery;
use crate::results::{Cell, Estimate, Results, Run};

/// Which way a figure may be off: the true one may be more, or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slack {
    /// It is a lower bound.
    pub more: bool,
    /// It is an upper bound.
    pub less: bool,
}

impl Slack {
    /// Of a cell: of clients where a search ended at another limit than the server's, of a recovery where the load ended first
    /// in some round, and of rates and times where the load of some round was busier than the server.
    pub(crate) fn of(results: &Results, cell: &Cell, metric: Metric) -> Self {
        let any = |is: &dyn Fn(&Run) -> bool| results.sound(&cell.key).any(is);
        let is_under_way = |run: &Run| run.outcome.as_ref().is_some_and(recovery::is_under_way);
        let cores = server_cores(results);
        let is_loads = |run: &Run| is_limited(run.outcome.as_ref(), run.server.as_ref(), cores);
        let is_beside = |run: &Run| is_limited(run.beside.as_ref(), run.server.as_ref(), cores);
        let (more, less) = match metric {
            Metric::ClientsHeld => (cell.held.as_ref().is_some_and(|held| held.at_least), false),
            Metric::RecoveryS => (any(&is_under_way), false),
            Metric::RequestsPerSecond | Metric::BytesPerSecond => (any(&is_loads), false),
            Metric::MeanUs | Metric::P50Us | Metric::P99Us => (false, any(&is_loads)),
            Metric::BesideRequestsPerSecond => (any(&is_beside), false),
            Metric::BesideP99Us => (false, any(&is_beside)),
            Metric::ServerCpuUsPerRequest
            | Metric::RequestsPerCpuSecond
            | Metric::PeakRssBytes
            | Metric::WorkersVariation => (false, false),
        };
        Slack { more, less }
    }

    /// Of the best of several cells: where more is better any of them may be the best.
    pub(crate) fn of_best<'a>(
        results: &Results,
        best: &Cell,
        mut all: impl Iterator<Item = &'a Cell>,
        metric: Metric,
    ) -> Self {
        let own = Slack::of(results, best, metric);
        let more =
            own.more || metric.more_is_better() && all.any(|cell| Slack::of(results, cell, metric).more);
        Slack { more, ..own }
    }

    /// What stands before such a figure.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Slack { more: true, .. } => "at least ",
            Slack { less: true, .. } => "at most ",
            _ => "",
        }
    }

    /// Of two figures together.
    pub(crate) fn or(self, other: Slack) -> Self {
        Slack { more: self.more || other.more, less: self.less || other.less }
    }

    /// The ends of an interval of a figure with this slack, over one with that of `other`; `None` where it has none.
    pub(crate) fn widen(self, found: Estimate, other: Slack) -> Option<(f64, f64)> {
        let (low, high) = found.interval()?;
        let low = if self.less || other.more { 0.0 } else { low };
        Some((low, if self.more || other.less { f64::INFINITY } else { high }))
    }
}

/// Whether what was measured may be the limit of the load: one of its threads used more of its core than the gate allows, and
/// more than the server did of its own. Of the stations of a closed loop the one that is used most bounds the rate (Denning and
/// Buzen, The Operational Analysis of Queueing Network Models, 1978). What comes at times of its own is not bounded by that.
fn is_limited(load: Option<&Outcome>, server: Option<&ServerUse>, cores: Option<usize>) -> bool {
    let Some(load) = load.filter(|load| matches!(load.plan.arrivals, Arrivals::Closed { .. })) else {
        return false;
    };
    let share = load.client.busiest_thread_share;
    client_is_at_its_limit(load) && server.is_none_or(|server| used(server, cores) < share)
}

/// The share of a core that the server's busiest thread used, or of all of its cores where that is more.
fn used(server: &ServerUse, cores: Option<usize>) -> f64 {
    let of_thread = server.threads.iter().map(|thread| thread.cpu_share).fold(0.0, f64::max);
    let of_all = cores.map_or(0.0, |cores| server.cpu_s / (server.window_s * cores as f64));
    of_thread.max(of_all)
}

/// How many cores the server was kept on; `None` where it had all that the load had too.
fn server_cores(results: &Results) -> Option<usize> {
    let (_, cores) = results.environment.iter().find(|(name, _)| name == SERVER_CORES)?;
    cores
        .split(", ")
        .map(|core| core.parse::<usize>().ok())
        .collect::<Option<Vec<_>>>()
        .map(|cores| cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::summary::summarise;

    /// What is found of a rate and a mean time where the load used such a share of its core, and the server so many
    /// microseconds of the second for each of 1,000 requests.
    fn slack(share: f64, cpu_us: f64, change: impl FnOnce(&mut Results)) -> [Slack; 2] {
        let mut results = fake::results(&["a"], 3, |_, _| (1_000.0, cpu_us));
        results.environment.push((SERVER_CORES.into(), "0".into()));
        for run in &mut results.runs {
            run.outcome.as_mut().unwrap().client.busiest_thread_share = share;
        }
        change(&mut results);
        summarise(&mut results, &fake::plan(&["a"], ""));
        [Metric::RequestsPerSecond, Metric::MeanUs]
            .map(|metric| Slack::of(&results, &results.cells[0], metric))
    }

    #[test]
    fn a_load_that_was_busier_than_the_server_leaves_bounds() {
        let (none, more, less) =
            (Slack::default(), Slack { more: true, less: false }, Slack { more: false, less: true });
        assert_eq!(slack(0.95, 700.0, |_| {}), [more, less]);
        assert_eq!(slack(0.95, 980.0, |_| {}), [none; 2], "the server was busier");
        assert_eq!(slack(0.75, 700.0, |_| {}), [none; 2], "it could have sent more");
        // On all cores of the host nobody knows how many were the server's; but one thread is one core's.
        let shared = |results: &mut Results| results.environment[0].1 = "all".into();
        assert_eq!(slack(0.95, 980.0, shared), [more, less]);
        let of_one = |results: &mut Results| {
            shared(results);
            let thread = load::sample::ThreadUse { name: "reactor-0".into(), cpu_share: 0.97 };
            results
                .runs
                .iter_mut()
                .for_each(|run| run.server.as_mut().unwrap().threads = vec![thread.clone()]);
        };
        assert_eq!(slack(0.95, 700.0, of_one), [none; 2]);
        let open = |results: &mut Results| {
            for run in &mut results.runs {
                run.outcome.as_mut().unwrap().plan.arrivals = Arrivals::Open {
                    rate: load::Rate::Steady { rate: 1_000.0 },
                    spacing: load::Spacing::Poisson,
                    seed: 1,
                    session: None,
                };
            }
        };
        assert_eq!(slack(0.95, 700.0, open), [none; 2], "it sends when it is time");
    }

    #[test]
    fn an_interval_is_as_wide_as_the_slack_of_both_sides() {
        let found = Estimate { median: 2.0, low: Some(1.5), high: Some(2.5) };
        let (more, less) = (Slack { more: true, less: false }, Slack { more: false, less: true });
        let none = Slack::default();
        let inf = f64::INFINITY;
        for (own, other, expected) in [
            (none, none, (1.5, 2.5)),
            (more, none, (1.5, inf)),
            (none, more, (0.0, 2.5)),
            (less, none, (0.0, 2.5)),
            (none, less, (1.5, inf)),
            (more, more, (0.0, inf)),
        ] {
            assert_eq!(own.widen(found, other), Some(expected), "{own:?} {other:?}");
        }
        assert_eq!(more.widen(Estimate { median: 2.0, low: None, high: None }, none), None);
    }
}
