//! The rows of `event` in order of time, whole lives taken apart.

use arrow_array::Array;

use crate::tables::Event;
use crate::{Ahead, Batch, Error, RowRef, Scan};

/// Batches put in order together: more rows than a segment of ours has, and what they may take, bytes: twice what 18,000
/// connections a second leave in three seconds.
/// A foreign segment may hold more; then lives that reach farther back than this come late.
const MOST_BATCHES: usize = 128;
const MOST_BYTES: usize = 96 << 20;

/// Every event, in order of time within a segment. A row that is a whole life comes as its steps,
/// each with the row's place.
pub struct Events {
    batches_ahead: Ahead<Result<Batch<Event>, Error>>,
    /// Read, and of the next segment.
    ahead: Option<Batch<Event>>,
    batches: Vec<Batch<Event>>,
    /// What is to come, last first: time, batch, row in it, step of that row.
    order: Vec<(u64, u32, u32, u8)>,
}

impl Events {
    pub(crate) fn new(scan: Scan<Event>) -> Events {
        Events {
            batches_ahead: Ahead::new(scan),
            ahead: None,
            batches: Vec::new(),
            order: Vec::new(),
        }
    }

    /// The same of one batch.
    pub fn of(batch: Batch<Event>) -> impl Iterator<Item = (RowRef, Event)> {
        let batches = vec![batch];
        let mut order = order(&batches);
        std::iter::from_fn(move || Some(step(&batches, order.pop()?)))
    }

    /// Reads on to the end of a segment; false at the end of the table.
    fn advance(&mut self) -> Result<bool, Error> {
        self.batches.clear();
        self.batches.extend(self.ahead.take());
        let mut bytes: usize = self.batches.iter().map(|b| b.bytes).sum();
        while self.batches.len() < MOST_BATCHES && bytes < MOST_BYTES {
            let Some(batch) = self.batches_ahead.next().transpose()? else {
                break;
            };
            let segment = self.batches.first().map(|b| b.segment);
            if segment.is_some_and(|segment| segment != batch.segment) {
                self.ahead = Some(batch);
                break;
            }
            bytes += batch.bytes;
            self.batches.push(batch);
        }
        self.order = order(&self.batches);
        Ok(!self.batches.is_empty())
    }
}

impl Iterator for Events {
    type Item = Result<(RowRef, Event), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.order.pop() {
                return Some(Ok(step(&self.batches, next)));
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

/// The steps of all rows that are within the time that is asked for, last first.
fn order(batches: &[Batch<Event>]) -> Vec<(u64, u32, u32, u8)> {
    let mut order = Vec::with_capacity(batches.iter().map(Batch::len).sum());
    for (b, batch) in batches.iter().enumerate() {
        let r = &batch.reader;
        for i in 0..batch.len() {
            let row = batch.index(i);
            let mut steps = 0;
            let mut step = |time_ns| {
                if batch.span.is_none_or(|span| span.holds(time_ns)) {
                    order.push((time_ns, b as u32, i as u32, steps));
                }
                steps += 1;
            };
            if r.established_ns.is_valid(row) {
                if r.connect_ns.is_valid(row) {
                    step(r.connect_ns.value(row));
                }
                step(r.established_ns.value(row));
            }
            step(r.time_ns.value(row));
        }
    }
    if !order.is_sorted() {
        order.sort_unstable();
    }
    order.reverse();
    order
}

fn step(batches: &[Batch<Event>], at: (u64, u32, u32, u8)) -> (RowRef, Event) {
    let (_, batch, row, step) = at;
    let (place, event) = batches[batch as usize].row(row as usize);
    if event.established_ns.is_none() {
        return (place, event);
    }
    let steps = event.clone().steps().nth(step.into());
    (place, steps.unwrap_or(event))
}
