//! How much longer a round trip takes while transfers keep a queue on its path filled.

use ahash::AHashMap;
use recording::Addr;

use crate::Story;
use crate::conn::Conn;
use crate::stats::{median, ratio};
use crate::transfers::Transfer;

/// What transfers say of the paths that they fill, by namespace and address.
pub(super) struct Queued(AHashMap<(u32, Addr), Filled>);

#[derive(Default)]
struct Filled {
    /// Round trips of the transfers, µs: their segments are acknowledged by themselves, and not with an answer.
    rtts: Vec<u32>,
    /// The longest that one of them had something to send, µs.
    busy_us: u64,
}

impl Queued {
    pub(super) fn of(story: &Story) -> Queued {
        let mut paths: AHashMap<(u32, Addr), Filled> = AHashMap::new();
        for (id, conn) in (0..).zip(&story.conns) {
            let Some(transfer) = story.transfers.of(id).filter(|t| t.fills_path()) else {
                continue;
            };
            let filled = paths.entry((conn.netns, conn.remote.addr)).or_default();
            filled.rtts.extend(usual_us(transfer));
            filled.busy_us = filled.busy_us.max(transfer.busy_us());
        }
        Queued(paths)
    }

    /// What waiting in that queue adds to the shortest round trip of a connection that asks beside them, ns, averaged over
    /// its time. Its own round trips are no shorter than the path's, as answers come with acknowledgements; so
    /// where they are, its packets do not wait in that queue.
    pub(super) fn adds_ns(&self, conn: &Conn, own: &Transfer) -> u64 {
        let filled = self.0.get(&(conn.netns, conn.remote.addr));
        let Some((filled, own_us)) = filled.zip(usual_us(own)) else {
            return 0;
        };
        let queue_us = median(&mut filled.rtts.clone()).unwrap_or(0);
        let longer_us = queue_us.min(own_us).saturating_sub(own.min_rtt_us);
        let stood = ratio(filled.busy_us as f64 * 1e3, own.span_ns as f64);
        let stood = stood.map_or(0.0, |share| share.min(1.0));
        (f64::from(longer_us) * 1e3 * stood) as u64
    }
}

fn usual_us(transfer: &Transfer) -> Option<u32> {
    median(&mut transfer.rtts.all().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use synth::{CLIENT, Fixture, cases};

    /// What is added to the round trips of who sends little beside three uploads, in each case, ms.
    fn beside(f: &Fixture) -> Vec<u64> {
        let written = f.write().unwrap();
        let story = Story::read(&written.recording).unwrap();
        let queued = Queued::of(&story);
        let ends = (0..).zip(&story.conns).filter(|(_, c)| c.netns == CLIENT);
        let ends = ends.filter_map(|(id, c)| Some((c, story.transfers.of(id)?)));
        let small = ends.filter(|(_, t)| !t.fills_path());
        small
            .map(|(c, t)| queued.adds_ns(c, t) / 1_000_000)
            .collect()
    }

    #[test]
    fn who_asks_beside_transfers_waits_in_their_queue() {
        // Their round trips are 230 ms, those of the uploads 240; the shortest is 20.
        assert_eq!(beside(&cases::bloated()), [209, 209]);
    }

    #[test]
    fn a_queue_of_each_connections_own_is_nobody_elses() {
        let mut fair = cases::bloated();
        for socket in fair.sockets.iter_mut().filter(|s| s.local_port >= 41_000) {
            socket.rtt_us = socket.min_rtt_us;
        }
        assert_eq!(beside(&fair), [0, 0]);
    }
}
