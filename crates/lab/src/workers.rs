//! The number of a server's workers over time: how steady it is once the server had time to settle.

use load::sample::ServerUse;

use crate::stats::variation;

/// Seconds of a measurement that a server is given to settle.
const SETTLING_S: f64 = 5.0;

/// How many workers there were after the first [`SETTLING_S`] seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Workers {
    /// Fewest.
    pub(crate) least: u64,
    /// Most.
    pub(crate) most: u64,
    /// Coefficient of variation.
    pub(crate) variation: f64,
    /// Times that they became more after they had become fewer, or the other way round: a cycle has two for each period.
    pub(crate) turns: usize,
}

impl Workers {
    /// What was seen of a server; `None` where it has no workers that are known as such, or was not looked at for so long.
    pub(crate) fn of(server: &ServerUse) -> Option<Self> {
        let settled = server.moments.iter().filter(|moment| moment.at_s > SETTLING_S);
        let counts: Vec<u64> = settled.map(|moment| moment.workers).collect();
        let (least, most) = (*counts.iter().min()?, *counts.iter().max()?);
        let values: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        let variation = variation(&values).filter(|_| most > 0)?;
        let changes = counts.windows(2).filter(|pair| pair[0] != pair[1]).map(|pair| pair[1] > pair[0]);
        let changes: Vec<bool> = changes.collect();
        let turns = changes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        Some(Workers { least, most, variation, turns })
    }
}

#[cfg(test)]
mod tests {
    use load::sample::Moment;

    use super::*;

    /// A server with so many workers, a second apart.
    fn of(counts: &[u64]) -> Option<Workers> {
        let moment = |(at, workers): (u32, &u64)| Moment {
            at_s: f64::from(at),
            workers: *workers,
            ..Moment::default()
        };
        let moments = (1..).zip(counts).map(moment).collect();
        Workers::of(&ServerUse { moments, ..ServerUse::default() })
    }

    #[test]
    fn the_first_seconds_do_not_count() {
        let seen = of(&[1, 2, 4, 8, 16, 10, 10, 10]).unwrap();
        assert_eq!(seen, Workers { least: 10, most: 10, variation: 0.0, turns: 0 });
        assert_eq!(of(&[1, 2, 4, 8, 16, 10]), None, "one look is no variation");
    }

    #[test]
    fn a_cycle_turns_twice_in_each_period_and_a_climb_never() {
        let seen = of(&[0, 0, 0, 0, 0, 8, 10, 12, 10, 8, 10, 12, 12, 10, 8]).unwrap();
        assert_eq!((seen.least, seen.most, seen.turns), (8, 12, 3));
        assert!((seen.variation - 0.163).abs() < 0.001, "{seen:?}");
        assert_eq!(of(&[0, 0, 0, 0, 0, 8, 9, 9, 10]).unwrap().turns, 0);
    }

    #[test]
    fn a_server_without_workers_that_are_known_has_no_variation() {
        assert_eq!(of(&[0; 10]), None);
    }
}
