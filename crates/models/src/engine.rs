//! The event core: a virtual clock and a queue of what is due, in a fixed order.
//!
//! Ours, because it is a heap and a counter. The crates for discrete events bring executors, threads
//! or coroutines for models made of many components; these models are one loop over one kind of
//! event, run a hundred times in a sweep, and must give the same bytes for the same seed, for which
//! the order of events that are due at the same time has to be part of the contract.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// What is due, the earliest first; of equal times, what was scheduled first.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    due: BinaryHeap<Due<E>>,
    /// What is known to come in this order: a queue of its own costs a fraction of a heap.
    in_turn: VecDeque<Due<E>>,
    now_ns: u64,
    scheduled: u64,
}

#[derive(Debug)]
struct Due<E> {
    at_ns: u64,
    nth: u64,
    event: E,
}

impl<E> Queue<E> {
    /// An empty queue at time 0.
    pub(crate) fn new() -> Queue<E> {
        Queue {
            due: BinaryHeap::new(),
            in_turn: VecDeque::new(),
            now_ns: 0,
            scheduled: 0,
        }
    }

    /// The virtual time, ns: that of the event last taken.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Has `event` happen at `at_ns`; in the past means now, as time never goes back.
    pub(crate) fn schedule(&mut self, at_ns: u64, event: E) {
        let due = self.due(at_ns, event);
        self.due.push(due);
    }

    /// The same of an event that is not due before any that was scheduled in turn; any other event
    /// is welcome too and costs more.
    pub(crate) fn schedule_in_turn(&mut self, at_ns: u64, event: E) {
        let due = self.due(at_ns, event);
        if self
            .in_turn
            .back()
            .is_none_or(|last| last.at_ns <= due.at_ns)
        {
            self.in_turn.push_back(due)
        } else {
            self.due.push(due)
        }
    }

    fn due(&mut self, at_ns: u64, event: E) -> Due<E> {
        self.scheduled += 1;
        Due {
            at_ns: at_ns.max(self.now_ns),
            nth: self.scheduled,
            event,
        }
    }

    /// Takes what is due next and sets the clock; `None` when nothing is, or not before `until_ns`.
    pub(crate) fn next_before(&mut self, until_ns: u64) -> Option<E> {
        // Greater is earlier.
        let in_turn = self.in_turn.front() > self.due.peek();
        let next = if in_turn {
            self.in_turn.front()
        } else {
            self.due.peek()
        };
        if next?.at_ns >= until_ns {
            return None;
        }
        let due = if in_turn {
            self.in_turn.pop_front()
        } else {
            self.due.pop()
        }?;
        self.now_ns = due.at_ns;
        Some(due.event)
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // A BinaryHeap gives the greatest first.
        (other.at_ns, other.nth).cmp(&(self.at_ns, self.nth))
    }
}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Due<E> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Queue;

    proptest! {
        #[test]
        fn the_clock_never_goes_back_and_equal_times_keep_their_order(
            times in prop::collection::vec((0u64..20, any::<bool>()), 1..200),
        ) {
            let mut queue = Queue::new();
            let mut given = Vec::new();
            for (nth, (at, in_turn)) in times.iter().enumerate() {
                // Half are scheduled while others are taken.
                if nth % 2 == 1 && let Some(taken) = queue.next_before(u64::MAX) {
                    given.push((queue.now_ns(), taken));
                }
                let event = (nth, (*at).max(queue.now_ns()));
                match in_turn {
                    true => queue.schedule_in_turn(*at, event),
                    false => queue.schedule(*at, event),
                }
            }
            while let Some(taken) = queue.next_before(u64::MAX) {
                given.push((queue.now_ns(), taken));
            }
            prop_assert_eq!(given.len(), times.len());
            for pair in given.windows(2) {
                prop_assert!(pair[0].0 <= pair[1].0);
                if pair[0].0 == pair[1].0 {
                    prop_assert!(pair[0].1.0 < pair[1].1.0);
                }
            }
            prop_assert!(given.iter().all(|(now, (_, due))| now == due));
        }
    }

    #[test]
    fn what_is_due_later_stays() {
        let mut queue = Queue::new();
        queue.schedule(5, "five");
        assert_eq!(queue.next_before(5), None);
        assert_eq!((queue.next_before(6), queue.now_ns()), (Some("five"), 5));
    }
}
