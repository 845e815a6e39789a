//! Looking for work for a moment before sleeping: a sleep and a wake-up cost two context switches.

use std::sync::LazyLock;

use crate::sync::spin_loop;

/// Looks at most. A look is a few nanoseconds of waiting, so this is in the order of what a wake-up costs.
const MOST: u32 = if cfg!(shuttle) { 1 } else { 2048 };

/// Fewest looks where looking has been in vain lately, so that it is found out when it pays again.
const FEWEST: u32 = if cfg!(shuttle) { 1 } else { 16 };

/// With one processor what is waited for cannot happen meanwhile.
static ALONE: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1));

/// How long one worker looks, by what came of it lately.
pub(super) struct Spin(std::cell::Cell<u32>);

thread_local! {
    static SPIN: Spin = const { Spin(std::cell::Cell::new(FEWEST)) };
}

/// Looks until `found`, or until it is not worth while; says whether it was found.
pub(super) fn until(found: impl Fn() -> bool) -> bool {
    if !cfg!(shuttle) && *ALONE {
        return false;
    }
    SPIN.with(|Spin(looks)| {
        let most = looks.get();
        for _ in 0..most {
            if found() {
                looks.set((most * 2).min(MOST));
                return true;
            }
            spin_loop();
        }
        looks.set((most / 2).max(FEWEST));
        false
    })
}
