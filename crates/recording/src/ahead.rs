//! What an iterator gives, worked out by a thread of its own while whoever takes it is at work.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Items worked out before the thread waits: of batches of events some 2 MB in all.
const MOST: usize = 4;

/// The items of an iterator, in its order.
pub struct Ahead<T> {
    origin: Origin<T>,
}

enum Origin<T> {
    /// A thread.
    Worker(Worker<T>),
    /// The iterator itself, where there is no second CPU, or no thread to be had.
    Here(Box<dyn Iterator<Item = T> + Send>),
}

struct Worker<T> {
    items: Receiver<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Ahead<T> {
    /// Begins to work out `items`.
    pub fn new(items: impl Iterator<Item = T> + Send + 'static) -> Ahead<T> {
        let cpus = thread::available_parallelism();
        if cpus.is_ok_and(|n| n.get() > 1) {
            Ahead::by_thread(items)
        } else {
            Ahead::here(items)
        }
    }

    fn here(items: impl Iterator<Item = T> + Send + 'static) -> Ahead<T> {
        Ahead {
            origin: Origin::Here(Box::new(items)),
        }
    }

    fn by_thread(items: impl Iterator<Item = T> + Send + 'static) -> Ahead<T> {
        let (give, taken) = sync_channel(MOST);
        // The items follow their thread: where none can be had they are still here.
        let (hand, handed) = channel();
        let thread = thread::Builder::new().name("reader".into()).spawn(move || {
            if let Ok(items) = handed.recv() {
                give_all(items, &give);
            }
        });
        let Ok(thread) = thread else {
            return Ahead::here(items);
        };
        if let Err(back) = hand.send(items) {
            return Ahead::here(back.0);
        }
        Ahead {
            origin: Origin::Worker(Worker {
                items: taken,
                thread: Some(thread),
            }),
        }
    }
}

/// Until all are given, or nobody takes them any more.
fn give_all<T>(items: impl Iterator<Item = T>, to: &SyncSender<T>) {
    for item in items {
        if to.send(item).is_err() {
            return;
        }
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.origin {
            Origin::Worker(worker) => worker.next(),
            Origin::Here(items) => items.next(),
        }
    }
}

impl<T> Worker<T> {
    fn next(&mut self) -> Option<T> {
        let item = self.items.recv().ok();
        if item.is_none()
            && let Some(Err(why)) = self.thread.take().map(JoinHandle::join)
        {
            // What it panicked of is no end of the items.
            std::panic::resume_unwind(why);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn all_come_in_order() {
        let n = 5 * MOST + 7;
        for ahead in [Ahead::by_thread(0..n), Ahead::here(0..n)] {
            assert!(ahead.eq(0..n));
        }
        let mut none = Ahead::by_thread(0..0);
        assert_eq!((none.next(), none.next()), (None, None));
    }

    #[test]
    fn what_panics_there_panics_here() {
        let bad = (0..2 * MOST).inspect(|i| assert!(*i < MOST, "damage"));
        let mut ahead = Ahead::by_thread(bad);
        assert_eq!(ahead.by_ref().take(MOST).last(), Some(MOST - 1));
        let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ahead.next()));
        assert!(next.is_err());
    }

    /// A thread that works out more than is taken would hold its files, and its memory, to the end.
    #[test]
    fn the_thread_ends_when_nobody_takes_more() {
        let alive = Arc::new(());
        let held = alive.clone();
        let mut ahead = Ahead::by_thread((0u64..).inspect(move |_| {
            let _ = &held;
        }));
        assert_eq!(ahead.next(), Some(0));
        drop(ahead);
        while Arc::strong_count(&alive) > 1 {
            thread::yield_now();
        }
    }
}
