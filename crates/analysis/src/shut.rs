//! Windows that peers keep closed while something waits to be sent.

use recording::tables::Socket;
use recording::{RowRef, TcpState};

/// A window that a peer keeps closed while something waits to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Shut {
    /// When it was first seen closed, or data was last sent if that was before the recording, ns.
    pub since_ns: u64,
    /// When it was last seen closed, ns.
    pub until_ns: u64,
    /// Samples that found it closed.
    pub samples: u32,
    /// Bytes that wait.
    pub unsent: u32,
    /// How often the timer of window probes was doubled.
    pub backoff: u8,
    /// The retransmission timeout that it was doubled from, µs.
    pub rto_us: u32,
    /// The first and the last sample.
    pub rows: [RowRef; 2],
    acked: u64,
}

impl Shut {
    /// For how long it was seen closed, ns.
    pub fn lasts_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.since_ns)
    }

    /// What a sample shows, after what those before it showed.
    pub(super) fn after(before: Option<Shut>, at: RowRef, row: &Socket) -> Option<Shut> {
        // After close() an end still has to send what was written; the FIN after it is no data.
        let fin = match row.state {
            TcpState::Established | TcpState::CloseWait => 0,
            TcpState::FinWait1 | TcpState::Closing | TcpState::LastAck => 1,
            _ => return None,
        };
        let unsent = row.notsent_bytes.unwrap_or(0).saturating_sub(fin);
        let closed = row
            .snd_wnd
            .is_some_and(|wnd| wnd < row.snd_mss.unwrap_or(0));
        if !closed || unsent == 0 {
            return None;
        }
        let acked = row.bytes_acked.unwrap_or(0);
        let idle_ns = u64::from(row.last_data_sent_ms.unwrap_or(0)) * 1_000_000;
        let first = Shut {
            since_ns: row.time_ns.saturating_sub(idle_ns),
            until_ns: row.time_ns,
            samples: 0,
            unsent,
            backoff: 0,
            rto_us: 0,
            rows: [at, at],
            acked,
        };
        let shut = before.filter(|b| b.acked == acked).unwrap_or(first);
        Some(Shut {
            until_ns: row.time_ns,
            samples: shut.samples.saturating_add(1),
            unsent,
            backoff: row.backoff.unwrap_or(0),
            rto_us: row.rto_us.unwrap_or(0),
            rows: [shut.rows[0], at],
            ..shut
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, state: TcpState, unsent: u32) -> Socket {
        Socket {
            time_ns: second * 1_000_000_000,
            state,
            snd_wnd: Some(0),
            snd_mss: Some(1_448),
            notsent_bytes: Some(unsent),
            bytes_acked: Some(7),
            ..Socket::default()
        }
    }

    #[test]
    fn a_window_stays_closed_to_who_has_closed_himself() {
        let at = RowRef {
            table: "socket",
            segment: 1,
            row: 0,
        };
        let open = Shut::after(None, at, &sample(1, TcpState::Established, 1_000)).unwrap();
        let shut = Shut::after(Some(open), at, &sample(5, TcpState::FinWait1, 1_001)).unwrap();
        assert_eq!((shut.lasts_ns(), shut.unsent), (4_000_000_000, 1_000));
        let fin_alone = sample(6, TcpState::FinWait1, 1);
        assert!(Shut::after(Some(shut), at, &fin_alone).is_none());
        assert!(Shut::after(Some(shut), at, &sample(6, TcpState::TimeWait, 1_000)).is_none());
    }
}
