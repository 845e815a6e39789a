//! Models of how a server's rate grows with its load: the Universal Scalability Law, bounds of closed loops, and knees.
//! Each says when it does not hold.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

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
    // Residuals are drawn anew around the fit.
    let residuals: Vec<f64> = points.iter().map(|(n, x)| x / rate(&found, *n).max(1e-9)).collect();
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut peaks: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut drawn = |n: f64| rate(&found, n) * residuals[dice.random_range(0..residuals.len())];
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

/// The knee of a curve that rises and bends (Satopaa, Albrecht, Irwin, Raghavan: Finding a "Kneedle" in a Haystack, 2011):
/// the load from which more of it brings less than in proportion. `None` where it never bends.
pub fn knee(points: &[(f64, f64)]) -> Option<f64> {
    const SENSITIVITY: f64 = 1.0;
    let (first, last) = (points.first()?, points.last()?);
    let most = points.iter().map(|(_, x)| *x).fold(f64::MIN, f64::max);
    let least = points.iter().map(|(_, x)| *x).fold(f64::MAX, f64::min);
    // What changes by less than a fifth is flat, and has no knee but that of its noise.
    if points.len() < 3 || last.0 <= first.0 || most - least < 0.2 * most {
        return None;
    }
    let scaled: Vec<(f64, f64)> = points
        .iter()
        .map(|(n, x)| ((n - first.0) / (last.0 - first.0), (x - least) / (most - least)))
        .collect();
    let above: Vec<f64> = scaled.iter().map(|(n, x)| x - n).collect();
    let step = scaled.windows(2).map(|pair| pair[1].0 - pair[0].0).sum::<f64>() / (scaled.len() - 1) as f64;
    let (at, highest) = above.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    // A straight line is above itself by nothing.
    let threshold = highest - SENSITIVITY * step;
    let falls = above[at..].iter().any(|distance| *distance < threshold);
    (highest > 0.05 && falls).then(|| points[at].0)
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
    fn its_interval_holds_the_true_peak_nine_times_in_ten() {
        let truth = [1000.0, 0.05, 0.0005];
        let holds = |seed: u64| {
            let found = usl(&points(truth, 0.05, seed), seed).ok();
            found.is_some_and(|found| (found.peak.1..=found.peak.2).contains(&peak(&truth)))
        };
        let held = (0..200).filter(|seed| holds(*seed)).count();
        assert!(held >= 160, "{held} of 200");
    }

    #[test]
    fn where_it_does_not_hold_it_says_so() {
        assert!(usl(&points([1000.0, 0.0, 0.0], 0.0, 1), 1).unwrap_err().contains("within reach"));
        assert!(usl(&points([1000.0, 0.1, 0.001], 0.0, 1)[..4], 1).unwrap_err().contains("too few"));
        let saw: Vec<(f64, f64)> =
            LOADS.iter().enumerate().map(|(at, n)| (*n, if at % 2 == 0 { 100.0 } else { 900.0 })).collect();
        assert!(usl(&saw, 1).unwrap_err().contains("explains"), "{:?}", usl(&saw, 1));
    }

    #[test]
    fn the_knee_is_where_a_curve_bends() {
        // Rises to 1000 at a load of 20, and is flat from there on.
        let bent: Vec<(f64, f64)> = (1..=50).map(|n| (f64::from(n), f64::from(n.min(20)) * 50.0)).collect();
        assert_eq!(knee(&bent), Some(20.0));
        let straight: Vec<(f64, f64)> = (1..=50).map(|n| (f64::from(n), f64::from(n) * 50.0)).collect();
        assert_eq!(knee(&straight), None);
        let flat: Vec<(f64, f64)> =
            (1..=50).map(|n| (f64::from(n), 1000.0 + f64::from(n % 7) * 10.0)).collect();
        assert_eq!((knee(&flat), knee(&[])), (None, None));
    }
}
