//! Data that the sender's own kernel cannot hand to the network: a rule of the output, a program of the cgroup.

use recording::tables::Socket;
use recording::{RowRef, TcpState};

/// The stretch of samples up to the last in which nothing got out.
#[derive(Clone, Copy, Debug)]
pub struct HeldHere {
    /// The first of these samples, ns.
    pub since_ns: u64,
    /// The last, ns.
    pub last_ns: u64,
    /// The last.
    pub row: RowRef,
}

impl HeldHere {
    /// What a further sample of the same socket makes of it.
    pub(crate) fn after(before: Option<HeldHere>, at: RowRef, row: &Socket) -> Option<HeldHere> {
        is_held(row).then_some(HeldHere {
            since_ns: before.map_or(row.time_ns, |held| held.since_ns),
            last_ns: row.time_ns,
            row: at,
        })
    }

    /// For how long, ns.
    pub fn ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.since_ns)
    }
}

/// Whether a sample shows that the kernel failed to send. Its transmit returned an error, so that the data counts as
/// unsent and the probe timer runs (`tcp_check_probe_timer`), although nothing is in flight and the peer's window has
/// room for a segment. A corked message is sent by the first such probe, and a closed window has no room.
pub(crate) fn is_held(row: &Socket) -> bool {
    let unsent = row.notsent_bytes.unwrap_or(0);
    let segment = unsent.min(row.snd_mss.unwrap_or(u32::MAX));
    row.state == TcpState::Established
        && unsent > 0
        && row.unacked.unwrap_or(0) == 0
        && row.probes.is_some_and(|n| n > 0)
        && row.snd_wnd.is_some_and(|window| window >= segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, probes: u8) -> Socket {
        Socket {
            time_ns: second * 1_000_000_000,
            state: TcpState::Established,
            snd_wnd: Some(64_000),
            snd_mss: Some(1_448),
            unacked: Some(0),
            notsent_bytes: Some(5),
            probes: Some(probes),
            ..Socket::default()
        }
    }

    #[test]
    fn a_probe_that_fails_with_room_in_the_window_failed_here() {
        let at = RowRef {
            table: "socket",
            segment: 1,
            row: 0,
        };
        let first = HeldHere::after(None, at, &sample(1, 1)).unwrap();
        let later = HeldHere::after(Some(first), at, &sample(5, 3)).unwrap();
        assert_eq!(later.ns(), 4_000_000_000);
        // Corked: the first probe sends it.
        assert!(HeldHere::after(Some(later), at, &sample(6, 0)).is_none());
        let closed = Socket {
            snd_wnd: Some(0),
            ..sample(6, 3)
        };
        assert!(HeldHere::after(Some(later), at, &closed).is_none());
        let flying = Socket {
            unacked: Some(1),
            ..sample(6, 3)
        };
        assert!(HeldHere::after(Some(later), at, &flying).is_none());
        let silly = Socket {
            notsent_bytes: Some(9_000),
            snd_wnd: Some(500),
            ..sample(6, 3)
        };
        assert!(HeldHere::after(Some(later), at, &silly).is_none());
    }
}
