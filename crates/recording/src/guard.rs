//! Calls into the Parquet library, whose panics are damage to report, not bugs to print.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use crate::Error;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call into the Parquet library. It reports damage as errors, but a panic on some input
/// nobody thought of must not end a diagnosis either: it becomes the same error, in silence.
pub(crate) fn guarded<T, E: ToString>(
    path: &Path,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, Error> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                others(panic);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(outer);
    match result {
        Ok(result) => result.map_err(|e| Error::damaged(path, e)),
        Err(_) => Err(Error::damaged(path, "the Parquet reader gave up on it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn only_panics_of_the_library_are_silent() {
        static HEARD: AtomicUsize = AtomicUsize::new(0);
        let path = Path::new("event/000001.parquet");
        // Whatever hook there is is asked for panics outside; installed before the first guarded call
        // of this process or after, ours stays quiet within.
        let panics = || -> Result<(), String> { panic!("within") };
        let error = guarded(path, panics).unwrap_err().to_string();
        assert!(
            error.contains("the Parquet reader gave up on it"),
            "{error}"
        );
        let before = panic::take_hook();
        panic::set_hook(Box::new(|_| {
            HEARD.fetch_add(1, Ordering::Relaxed);
        }));
        let outside = catch_unwind(|| panic!("outside"));
        panic::set_hook(before);
        assert!(outside.is_err() && HEARD.load(Ordering::Relaxed) > 0);
        assert!(!GUARDED.get(), "a panic within ends the silence");
    }
}
