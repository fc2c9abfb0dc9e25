//! How much longer a round trip takes while transfers keep a queue on its path filled.

use ahash::AHashMap;
use recording::Addr;

use crate::conn::Conn;
use crate::stats::{median, ratio};
use crate::transfers::{Transfer, Transfers};

/// What transfers say of the paths that they fill, by namespace and address.
pub(super) struct Queued(AHashMap<(u32, Addr), Filled>);

struct Filled {
    /// Median round trip of the transfers, µs: their segments are acknowledged by themselves, and not with an answer.
    rtt_us: u32,
    /// The longest that one of them had something to send, µs.
    busy_us: u64,
}

impl Queued {
    pub(super) fn of(conns: &[Conn], transfers: &Transfers) -> Queued {
        let mut paths: AHashMap<(u32, Addr), (Vec<u32>, u64)> = AHashMap::new();
        for (id, conn) in (0..).zip(conns) {
            let Some(transfer) = transfers.of(id).filter(|t| t.fills_path()) else {
                continue;
            };
            let (rtts, busy_us) = paths.entry((conn.netns, conn.remote.addr)).or_default();
            rtts.extend(median(&mut transfer.rtts.all().to_vec()));
            *busy_us = transfer.busy_us().max(*busy_us);
        }
        let filled = paths.into_iter().filter_map(|(path, (mut rtts, busy_us))| {
            let rtt_us = median(&mut rtts)?;
            Some((path, Filled { rtt_us, busy_us }))
        });
        Queued(filled.collect())
    }

    /// How a connection that asks beside them waits in that standing queue. Answers come with acknowledgements, so
    /// its own round trips are no shorter than the path's; if they are shorter than the queue's, its packets do not
    /// wait there.
    pub(super) fn beside(&self, conn: &Conn, own: &Transfer) -> Wait {
        let filled = self.0.get(&(conn.netns, conn.remote.addr));
        let longest_us = own.rtts.all().iter().max();
        let Some((filled, longest_us)) = filled.zip(longest_us) else {
            return Wait::default();
        };
        let queued_us = filled.rtt_us.min(*longest_us);
        let longer_us = queued_us.saturating_sub(own.min_rtt_us);
        let stood = ratio(filled.busy_us as f64 * 1e3, own.span_ns as f64);
        let stood = stood.map_or(0.0, |share| share.min(1.0));
        let of_each = ratio(f64::from(longer_us), f64::from(queued_us)).unwrap_or(0.0);
        Wait {
            each_ns: (f64::from(longer_us) * 1e3 * stood) as u64,
            most_ns: (own.span_ns as f64 * stood * of_each) as u64,
        }
    }
}

/// How long connections wait in a queue that transfers fill.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Wait {
    /// What it adds to a round trip on average over the whole time, ns: for requests that come at any time.
    each_ns: u64,
    /// The longest that can have been spent waiting in it while it stood, ns: a client that asks as soon as it is
    /// answered asks less often meanwhile.
    most_ns: u64,
}

impl Wait {
    /// Adds another end's.
    pub(super) fn add(&mut self, other: Wait) {
        self.each_ns = self.each_ns.saturating_add(other.each_ns);
        self.most_ns = self.most_ns.saturating_add(other.most_ns);
    }

    /// What it adds to each exchange, given so many ends and exchanges in all, s.
    pub(super) fn of_each(&self, ends: u64, exchanges: u64) -> f64 {
        let each = self.each_ns as f64 / ends.max(1) as f64;
        each.min(self.most_ns as f64 / exchanges.max(1) as f64) / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Story;
    use synth::{CLIENT, Fixture, cases};

    /// How connections that send little wait beside three uploads.
    fn beside(f: &Fixture) -> Vec<Wait> {
        let written = f.write().unwrap();
        let story = Story::read(&written.recording).unwrap();
        let queued = Queued::of(&story.conns, &story.transfers);
        let ends = (0..).zip(&story.conns).filter(|(_, c)| c.netns == CLIENT);
        let ends = ends.filter_map(|(id, c)| Some((c, story.transfers.of(id)?)));
        let small = ends.filter(|(_, t)| !t.fills_path());
        small.map(|(c, t)| queued.beside(c, t)).collect()
    }

    #[test]
    fn who_asks_beside_transfers_waits_in_their_queue() {
        // Their round trips are 230 ms, those of the uploads 240; the shortest is 20.
        let waits = beside(&cases::bloated());
        let mut all = Wait::default();
        waits.iter().for_each(|w| all.add(*w));
        assert_eq!((all.of_each(2, 20) * 1e3) as u64, 209);
        // Each waits 209 of every 230 ms for eight seconds, however many requests that is.
        let seconds = all.of_each(2, 100_000) * 1e5;
        assert!((14.0..14.7).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_queue_of_each_connections_own_is_nobody_elses() {
        let mut fair = cases::bloated();
        for socket in fair.sockets.iter_mut().filter(|s| s.local_port >= 41_000) {
            socket.rtt_us = socket.min_rtt_us;
        }
        assert_eq!(beside(&fair), [Wait::default(); 2]);
    }
}
