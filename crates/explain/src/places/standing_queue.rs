//! A queue that transfers keep standing on a path, and what waits in it.

use analysis::stats::median;

use crate::limits;

use super::path::{End, Path, lost, median_of, rate, rwnd_share, usual_rtt};

/// The round trip from which on something waits in the transfers' queue: where the queue is much deeper than the path,
/// one that is nearer (as a factor) to their round trip than to the shortest.
pub(crate) fn alike_us(rtt_us: u32, shortest_us: u32) -> f64 {
    let (rtt, shortest) = (f64::from(rtt_us), f64::from(shortest_us));
    (limits::QUEUE_ALIKE.share() * rtt).min((rtt * shortest).sqrt())
}

/// The round trip from which on a queue counts as deep, on a path with this shortest round trip and these senders.
pub(crate) fn least_us(shortest: u32, ends: &[End]) -> u32 {
    let times = if all_bbr(ends) {
        limits::QUEUE_TIMES_BBR.times()
    } else {
        limits::QUEUE_TIMES.times()
    };
    let times = (f64::from(shortest) * times) as u32;
    times.max(shortest.saturating_add(limits::QUEUE_DELAY.us()))
}

/// Whether all ends that fill a link use BBR.
pub(crate) fn all_bbr(ends: &[End]) -> bool {
    let mut bulk = ends.iter().filter(|e| is_bulk(e)).peekable();
    bulk.peek().is_some() && bulk.all(|e| e.transfer.congestion.starts_with("bbr"))
}

/// Transfers of a path whose packets wait in a queue, and what waits with them.
pub(crate) struct Queue<'a> {
    pub(crate) path: &'a Path<'a>,
    pub(crate) bulk: Vec<End<'a>>,
    /// The others that suffer.
    pub(crate) late: Vec<End<'a>>,
    /// Everything but bulk transfers, late or not.
    pub(crate) beside: Vec<End<'a>>,
    /// The shortest round trip of the path, and that of the transfers, µs.
    pub(crate) min_rtt_us: u32,
    pub(crate) rtt_us: u32,
}

impl<'a> Queue<'a> {
    /// The queue of a path, if a deep one stands there.
    pub(crate) fn of(path: &'a Path<'a>) -> Option<Queue<'a>> {
        let min_rtt_us = path.min_rtt_us()?;
        let least = least_us(min_rtt_us, &path.ends);
        let is_late = |e: &End| usual_rtt(e).is_some_and(|rtt| rtt >= least);
        let (all_bulk, beside): (Vec<End>, Vec<End>) = path.ends.iter().copied().partition(is_bulk);
        let bulk: Vec<End> = all_bulk.iter().copied().filter(is_late).collect();
        // Every transfer that fills the queue waits in it.
        if bulk.is_empty() || !limits::MOST.reached(bulk.len(), all_bulk.len()) {
            return None;
        }
        let rtt_us = median_rtt(&bulk)?;
        // The transfers, in flight all the time, tell how deep it is.
        let alike = alike_us(rtt_us, min_rtt_us);
        let waits = |e: &End| usual_rtt(e).is_some_and(|rtt| f64::from(rtt) >= alike);
        let queue = Queue {
            path,
            rtt_us,
            bulk,
            late: beside.iter().copied().filter(waits).collect(),
            beside,
            min_rtt_us,
        };
        let deep = !queue.late.is_empty() || queue.wait_us() >= limits::QUEUE_DELAY_ALONE.us();
        let little = queue.loss() <= limits::QUEUE_LOSS.share() || queue.is_full(least);
        (deep && little && rwnd_share(&queue.bulk) <= limits::MOST.share()).then_some(queue)
    }

    /// Packets were lost when it was this long: its end drops.
    fn is_full(&self, least_us: u32) -> bool {
        let at_loss = self.bulk.iter().flat_map(|e| e.transfer.resends.rtts.all());
        let usual = median(&mut at_loss.copied().collect::<Vec<u32>>());
        usual.is_some_and(|us| us >= least_us)
    }

    /// The share of their segments that was lost.
    pub(crate) fn loss(&self) -> f64 {
        let sent: u64 = self.bulk.iter().map(|e| e.transfer.segments()).sum();
        lost(&self.bulk) as f64 / sent.max(1) as f64
    }

    /// Bytes that all transfers together move in this time at their rate.
    pub(crate) fn bytes_in(&self, us: u32) -> f64 {
        rate(&self.bulk) * f64::from(us) / 1e6
    }

    /// How long packets wait in it, µs.
    pub(crate) fn wait_us(&self) -> u32 {
        self.rtt_us - self.min_rtt_us
    }
}

/// Round trip of ends while they had data in flight (median), µs.
pub(crate) fn median_rtt(ends: &[End]) -> Option<u32> {
    Some(median_of(ends, |e| Some(usual_rtt(e)?.into()))? as u32)
}

fn is_bulk(end: &End) -> bool {
    end.transfer.fills_path()
}
