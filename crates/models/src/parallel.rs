//! Independent runs on every CPU, their results in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::Error;

/// Runs `work` for 0 to `count` - 1 on as many threads as there are CPUs; the first error in order
/// is the result's.
pub(crate) fn parallel<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                return done;
            }
            done.push((nth, work(nth)));
        }
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(take)).collect();
        let mut all = take();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(nth, _)| *nth);
    all.into_iter().map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_error_counts() {
        assert_eq!(parallel(100, |n| Ok(n * 2)).unwrap()[99], 198);
        assert!(parallel(0, Ok::<usize, Error>).unwrap().is_empty());
        let odd = |n: usize| match n % 2 {
            0 => Ok(n),
            _ => Err(Error::UnknownModel(n.to_string())),
        };
        assert!(matches!(parallel(9, odd), Err(Error::UnknownModel(n)) if n == "1"));
    }
}
