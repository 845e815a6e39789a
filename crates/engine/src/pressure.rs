//! Whether memory is scarce: one thread looks and says so, and those that accept heed it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The share of the limit from which on memory is scarce, and below which it is not any more.
const SCARCE: f64 = 0.9;
const ENOUGH: f64 = 0.88;

/// Whether memory is scarce.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pressure(Arc<AtomicBool>);

impl Pressure {
    /// Whether it is: idle connections end then, and no more are accepted.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Judges one more look, at the share of the limit that is in use.
    pub(crate) fn look(&self, in_use: f64) {
        let is_on = in_use >= if self.is_on() { ENOUGH } else { SCARCE };
        let was_on = self.0.swap(is_on, Ordering::Relaxed);
        let percent = (100.0 * in_use).round();
        match (was_on, is_on) {
            (false, true) => {
                tracing::warn!(percent, "memory is scarce: idle connections end, and accepting pauses");
            }
            (true, false) => tracing::warn!(percent, "memory is not scarce any more"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_at_nine_tenths_and_does_not_flutter() {
        let pressure = Pressure::default();
        let seen = [0.0, 0.89, 0.9, 0.89, 1.2, 0.87, 0.89, 0.91, 0.5].map(|in_use| {
            pressure.look(in_use);
            pressure.is_on()
        });
        assert_eq!(seen, [false, false, true, true, true, false, false, true, false]);
    }
}
