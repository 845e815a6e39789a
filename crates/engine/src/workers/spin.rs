//! Looking for work for a moment before sleeping: a sleep and a wake-up cost two context switches.

use std::cell::Cell;
use std::sync::LazyLock;

use crate::sync::spin_loop;

/// Looks at most. A look is a few nanoseconds of waiting, so this is in the order of what a wake-up costs.
const MOST: u32 = if cfg!(shuttle) { 1 } else { 2048 };

/// Fewest looks where looking has been in vain lately, so that it is found out when it pays again.
const FEWEST: u32 = if cfg!(shuttle) { 1 } else { 16 };

/// With one processor what is waited for cannot happen meanwhile.
static ALONE: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1));

thread_local! {
    /// How often this worker looks, by what came of it lately.
    static LOOKS: Cell<u32> = const { Cell::new(FEWEST) };
}

/// Looks until `found`, or until it is not worth while.
pub(super) fn until(found: impl Fn() -> bool) {
    if !cfg!(shuttle) && *ALONE {
        return;
    }
    let most = LOOKS.get();
    for _ in 0..most {
        if found() {
            return LOOKS.set((most * 2).min(MOST));
        }
        spin_loop();
    }
    LOOKS.set((most / 2).max(FEWEST));
}
