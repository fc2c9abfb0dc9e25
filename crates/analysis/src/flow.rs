//! How fast a connection ran and what held it: rate, window, waiting for the peer.

use recording::RowRef;

use super::Story;
use super::conn::{BULK_BYTES, Conn, ConnId, Sample};
use super::stats::ratio;

/// A bulk transfer over one connection, seen from its sender when that is on this host.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Bytes per second while there was something to send.
    pub rate: f64,
    /// Smoothed round-trip time, µs.
    pub rtt_us: Option<u32>,
    /// The sender's; `None` when only the receiver is on this host.
    pub cwnd: Option<u32>,
    /// Window of the peer, bytes.
    pub snd_wnd: Option<u32>,
    /// Share of the busy time spent waiting for the peer's window.
    pub rwnd_share: Option<f64>,
    /// The sample.
    pub row: Option<RowRef>,
}

impl Story {
    /// The bulk transfer that a connection carried, over both of its ends; `None` when it moved
    /// little or its pace was not seen.
    pub fn flow(&self, id: ConnId) -> Option<Flow> {
        let near = self.conn(id)?;
        let far = near.peer.and_then(|peer| self.conn(peer));
        let sender = [Some(near), far].into_iter().flatten();
        let sender = sender.max_by_key(|c| c.bytes_acked)?;
        if sender.bytes_acked >= BULK_BYTES.max(sender.bytes_received) {
            return self.sent(sender);
        }
        let receiver = [Some(near), far].into_iter().flatten();
        let receiver = receiver.max_by_key(|c| c.bytes_received)?;
        if receiver.bytes_received < BULK_BYTES {
            return None;
        }
        self.received(receiver)
    }

    fn sent(&self, conn: &Conn) -> Option<Flow> {
        let samples = self.samples(conn);
        // The socket's own busy time leaves out the pauses of the application.
        let paced = samples.and_then(|s| {
            let rate = |bytes: u64, us: u64| ratio(bytes as f64 * 1e6, us as f64);
            let moved = s.last.bytes_acked.saturating_sub(s.first.bytes_acked);
            let busy = s.last.busy_us.saturating_sub(s.first.busy_us);
            if moved >= BULK_BYTES {
                rate(moved, busy)
            } else if s.last.bytes_acked >= BULK_BYTES {
                rate(s.last.bytes_acked, s.last.busy_us)
            } else {
                None
            }
        });
        let rate = paced.or_else(|| self.over_life(conn, conn.bytes_acked, |s| s.bytes_acked))?;
        let known = |v: u32| (v > 0).then_some(v);
        let sampled = |of: fn(&super::conn::Sampled) -> u32| samples.map(of).and_then(known);
        Some(Flow {
            rate,
            rtt_us: sampled(|s| s.last.rtt_us).or(known(conn.rtt_us)),
            cwnd: sampled(|s| s.cwnd_max).max(known(conn.close_cwnd)),
            snd_wnd: sampled(|s| s.snd_wnd_max),
            rwnd_share: samples
                .and_then(|s| ratio(s.last.rwnd_limited_us as f64, s.last.busy_us as f64))
                .map(|share| share.min(1.0)),
            row: samples
                .map(|s| s.last.row)
                .or(conn.close_row.map(Into::into)),
        })
    }

    fn received(&self, conn: &Conn) -> Option<Flow> {
        let samples = self.samples(conn);
        let paced = samples.and_then(|s| {
            let moved = s.last.bytes_received.saturating_sub(s.first.bytes_received);
            let ns = s.last.time_ns.saturating_sub(s.first.time_ns);
            (moved >= BULK_BYTES).then(|| ratio(moved as f64 * 1e9, ns as f64))?
        });
        let rate =
            paced.or_else(|| self.over_life(conn, conn.bytes_received, |s| s.bytes_received))?;
        let rtt = samples.map(|s| s.last.rtt_us).filter(|rtt| *rtt > 0);
        Some(Flow {
            rate,
            rtt_us: rtt.or((conn.rtt_us > 0).then_some(conn.rtt_us)),
            cwnd: None,
            snd_wnd: None,
            rwnd_share: None,
            row: samples
                .map(|s| s.last.row)
                .or(conn.close_row.map(Into::into)),
        })
    }

    /// The mean rate of a connection whose beginning we saw, up to its last sample, or its end if it has none. If it
    /// had moved next to nothing by then, its pace was not seen: it may have been idle for most of its life.
    fn over_life(&self, conn: &Conn, bytes: u64, sampled: fn(&Sample) -> u64) -> Option<f64> {
        let (until, bytes) = match self.samples(conn) {
            Some(s) => (s.last.time_ns, sampled(&s.last)),
            None => (conn.ended_ns?, bytes),
        };
        let ns = until.checked_sub(conn.established_ns?)?;
        (bytes >= BULK_BYTES).then(|| ratio(bytes as f64 * 1e9, ns as f64))?
    }
}
