//! How full an accept queue is: one rule for everything that says "full".

use recording::tables::Listener;

/// The accept queue of a listener at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptQueue {
    /// Connections that wait for accept().
    pub waiting: u32,
    /// Its limit; one more than this may wait.
    pub backlog: u32,
}

impl AcceptQueue {
    /// That of a sample.
    pub fn of(sample: &Listener) -> AcceptQueue {
        AcceptQueue {
            waiting: sample.accept_queue,
            backlog: sample.backlog,
        }
    }

    /// Whether the next connection is refused: the kernel's `sk_acceptq_is_full`.
    pub fn is_full(self) -> bool {
        self.waiting > self.backlog
    }

    /// Whether it is at least three quarters full: one that overflows is seldom sampled at its fullest.
    pub fn is_crowded(self) -> bool {
        self.waiting > 0 && u64::from(self.waiting) * 4 >= u64::from(self.backlog) * 3
    }

    /// How full it is, from 0 on; 1 is full.
    pub fn share(self) -> f64 {
        f64::from(self.waiting) / (f64::from(self.backlog) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_than_the_backlog_may_wait() {
        let queue = |waiting, backlog| AcceptQueue { waiting, backlog };
        assert!(!queue(8, 8).is_full() && queue(9, 8).is_full());
        assert!(queue(6, 8).is_crowded() && !queue(5, 8).is_crowded());
        assert!(!queue(0, 0).is_crowded() && queue(1, 0).is_full());
        assert_eq!(queue(9, 8).share(), 1.0);
    }
}
