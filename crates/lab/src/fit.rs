//! Models of how a server's rate grows with its load: the Universal Scalability Law, bounds of closed loops, and knees.
//! Each says when it does not hold.

mod bend;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use bend::{Bend, bend, knee};

/// Fewest levels of load that a fit needs.
pub(crate) const FEWEST: usize = 6;

/// Least share of the variation that a fit must explain.
const LEAST_R2: f64 = 0.9;

/// Resamples behind an interval.
const RESAMPLES: usize = 200;

/// The Universal Scalability Law (Gunther: Guerrilla Capacity Planning, 2007): X(N) = g N / (1 + a (N - 1) + b N (N - 1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// Rate of one client, g, per second.
    pub gamma: f64,
    /// Contention, a: the share that cannot be done side by side.
    pub alpha: f64,
    /// Coherency, b: what keeping in step costs each pair.
    pub beta: f64,
    /// Share of the variation of the rates that the law explains.
    pub r2: f64,
    /// The load at which the rate is highest, sqrt((1 - a) / b), with its 95 % interval.
    pub peak: (f64, f64, f64),
}

fn rate([gamma, alpha, beta]: &[f64; 3], n: f64) -> f64 {
    gamma * n / (1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0))
}

/// Fits the law to rates at loads.
///
/// # Errors
/// Why it does not hold: too few levels, too much that it does not explain, or no highest rate within reach.
pub fn usl(points: &[(f64, f64)], seed: u64) -> Result<Usl, String> {
    if points.len() < FEWEST {
        return Err(format!("{} levels of load are too few for a fit: at least {FEWEST}", points.len()));
    }
    let found = fit(points);
    let r2 = explained(points, &found);
    if r2 < LEAST_R2 {
        return Err(format!("the law explains {:.0} % of the variation only", r2 * 100.0));
    }
    let residuals = residuals(points, &found);
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut peaks: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut drawn =
                |n: f64| rate(&found, n) * (1.0 + residuals[dice.random_range(0..residuals.len())]);
            let resampled: Vec<(f64, f64)> = points.iter().map(|(n, _)| (*n, drawn(*n))).collect();
            peak(&fit(&resampled))
        })
        .collect();
    peaks.sort_by(f64::total_cmp);
    let at = |p: f64| peaks[((RESAMPLES - 1) as f64 * p).round() as usize];
    let most = points.iter().map(|(n, _)| *n).fold(0.0, f64::max);
    let peak = (peak(&found), at(0.025), at(0.975));
    if peak.2 > 2.0 * most {
        return Err(format!(
            "no highest rate is within reach: it may be beyond twice the highest load, {most:.0}"
        ));
    }
    let [gamma, alpha, beta] = found;
    Ok(Usl { gamma, alpha, beta, r2, peak })
}

/// What is drawn anew around a fit: how far each rate is from the law, relative. They are centred, and larger by sqrt(n / (n - 3))
/// since three parameters have fitted a part of them away (Davison and Hinkley: Bootstrap Methods and their Application, 1997,
/// 6.2), and by Student's quantile over the normal one since n is small. Without both the interval of the peak is too narrow.
fn residuals(points: &[(f64, f64)], found: &[f64; 3]) -> Vec<f64> {
    let off: Vec<f64> = points.iter().map(|(n, x)| x / rate(found, *n).max(1e-9) - 1.0).collect();
    let count = off.len() as f64;
    let free = count - found.len() as f64;
    let mean = off.iter().sum::<f64>() / count;
    let larger = (count / free).sqrt() * student(free) / NORMAL;
    off.iter().map(|off| (off - mean) * larger).collect()
}

/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.96;

/// That of Student's, of three and more degrees of freedom, by its series in their inverse (Abramowitz and Stegun, 26.7.5).
fn student(free: f64) -> f64 {
    let z = NORMAL;
    z + (z.powi(3) + z) / (4.0 * free)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * free.powi(2))
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * free.powi(3))
}

fn peak([_, alpha, beta]: &[f64; 3]) -> f64 {
    if *beta <= 0.0 { f64::INFINITY } else { ((1.0 - alpha).max(0.0) / beta).sqrt() }
}

fn explained(points: &[(f64, f64)], found: &[f64; 3]) -> f64 {
    let mean = points.iter().map(|(_, x)| x).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|(_, x)| (x - mean).powi(2)).sum();
    let left: f64 = points.iter().map(|(n, x)| (x - rate(found, *n)).powi(2)).sum();
    if total > 0.0 { 1.0 - left / total } else { 0.0 }
}

/// The best parameters, none below 0. N / X = (1 + a (N - 1) + b N (N - 1)) / g is linear in 1/g, a/g and b/g; its least
/// squares, weighted by X^2 / N so that errors count as those of X, are found with each of a and b free or at 0.
fn fit(points: &[(f64, f64)]) -> [f64; 3] {
    let columns = |n: f64| [1.0, n - 1.0, n * (n - 1.0)];
    let mut best: Option<(f64, [f64; 3])> = None;
    for used in [&[0usize, 1, 2][..], &[0, 1], &[0, 2], &[0]] {
        let size = used.len();
        let mut normal = [[0.0; 4]; 3];
        for (n, x) in points {
            let weight = (x * x / n).powi(2);
            let row = columns(*n);
            for (i, &a) in used.iter().enumerate() {
                for (j, &b) in used.iter().enumerate() {
                    normal[i][j] += weight * row[a] * row[b];
                }
                normal[i][3] += weight * row[a] * n / x;
            }
        }
        let Some(solved) = solve(&mut normal, size) else { continue };
        let mut linear = [0.0; 3];
        used.iter().zip(solved).for_each(|(&column, value)| linear[column] = value);
        if linear[0] <= 0.0 || linear.iter().any(|value| *value < 0.0) {
            continue;
        }
        let found = [1.0 / linear[0], linear[1] / linear[0], linear[2] / linear[0]];
        let error: f64 = points.iter().map(|(n, x)| (x - rate(&found, *n)).powi(2)).sum();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, found));
        }
    }
    best.map_or([0.0; 3], |(_, found)| found)
}

/// Solves a small system of linear equations by Gauss's elimination with pivots; `None` if it has no one solution.
fn solve(rows: &mut [[f64; 4]; 3], size: usize) -> Option<[f64; 3]> {
    for column in 0..size {
        let pivot =
            (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let lead = rows[column];
        if lead[column].abs() < 1e-300 {
            return None;
        }
        for (at, row) in rows.iter_mut().enumerate().take(size) {
            if at != column {
                let times = row[column] / lead[column];
                row.iter_mut().zip(lead).for_each(|(value, lead)| *value -= times * lead);
            }
        }
    }
    let mut solution = [0.0; 3];
    (0..size).for_each(|at| solution[at] = rows[at][3] / rows[at][at]);
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0];

    fn points(truth: [f64; 3], noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let mut noisy = |n: f64| rate(&truth, n) * (1.0 + noise * (2.0 * dice.random::<f64>() - 1.0));
        LOADS.iter().map(|n| (*n, noisy(*n))).collect()
    }

    #[test]
    fn the_law_is_found_again_in_its_own_rates() {
        let found = usl(&points([1000.0, 0.05, 0.0005], 0.0, 1), 1).unwrap();
        assert!((found.gamma - 1000.0).abs() < 1e-3 && (found.alpha - 0.05).abs() < 1e-9, "{found:?}");
        // sqrt(0.95 / 0.0005) = 43.6.
        assert!((found.peak.0 - 43.59).abs() < 0.01 && found.r2 > 0.9999, "{found:?}");
    }

    #[test]
    fn its_interval_has_the_true_peak_as_often_as_is_said() {
        let truth = [1000.0, 0.05, 0.0005];
        for (levels, noise) in [(6, 0.02), (10, 0.05)] {
            let found =
                (0..400).filter_map(|seed| usl(&points(truth, noise, seed)[10 - levels..], seed).ok());
            let held: Vec<bool> =
                found.map(|found| (found.peak.1..=found.peak.2).contains(&peak(&truth))).collect();
            let share = held.iter().filter(|held| **held).count() as f64 / held.len() as f64;
            println!("over {levels} levels: {share:.3} of {}", held.len());
            // Three standard errors of a share of 200, and what a bootstrap of few points may be off.
            assert!(
                held.len() > 150 && (0.9..=1.0).contains(&share),
                "{share} of {} over {levels}",
                held.len()
            );
        }
    }

    #[test]
    fn students_quantile_is_that_of_the_tables() {
        for (free, quantile) in [(3.0, 3.182), (5.0, 2.571), (7.0, 2.365), (30.0, 2.042)] {
            assert!((student(free) - quantile).abs() < 0.03, "{free}: {}", student(free));
        }
    }

    #[test]
    fn where_it_does_not_hold_it_says_so() {
        assert!(usl(&points([1000.0, 0.0, 0.0], 0.0, 1), 1).unwrap_err().contains("within reach"));
        assert!(usl(&points([1000.0, 0.1, 0.001], 0.0, 1)[..4], 1).unwrap_err().contains("too few"));
        let saw: Vec<(f64, f64)> =
            LOADS.iter().enumerate().map(|(at, n)| (*n, if at % 2 == 0 { 100.0 } else { 900.0 })).collect();
        assert!(usl(&saw, 1).unwrap_err().contains("explains"), "{:?}", usl(&saw, 1));
    }
}
