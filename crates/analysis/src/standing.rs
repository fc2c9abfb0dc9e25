//! The state of a connection in one sample: which of the kernel's numbers were measured, and what waits.

use recording::TcpState;
use recording::tables::Socket;

/// An answer to a SYN that was sent more than once is timed by its timestamp alone, whose tick is a
/// millisecond: what comes of that is one tick, however short the path.
const TICK_US: u32 = 1_000;

/// The smoothed round trip time, if one was measured.
pub fn round_trip_us(row: &Socket) -> Option<u32> {
    let us = row.rtt_us.filter(|us| *us > 0)?;
    let one_tick = us == TICK_US && row.min_rtt_us == Some(TICK_US);
    // The deviation of a first measurement is half of it.
    let estimated = one_tick && row.rttvar_us == Some(TICK_US / 2);
    let connecting = row.state == TcpState::SynSent;
    (!estimated && !connecting).then_some(us)
}

/// For how long its queues have been waiting, ms: what the application has not read, since it came; what the
/// peer has not acknowledged, since it last acknowledged anything. `None` when nothing waits.
pub fn waiting_ms(row: &Socket) -> Option<u32> {
    let waits = |queue: Option<u32>, since: Option<u32>| {
        let waits = queue.is_some_and(|bytes| bytes > 0);
        waits.then(|| since.unwrap_or(0))
    };
    let unread = waits(row.recv_queue, row.last_data_recv_ms);
    let unsent = waits(row.send_queue, row.last_ack_recv_ms);
    unread.max(unsent)
}

/// Whether it waits for accept(): established, and without a file.
pub fn waits_for_accept(row: &Socket) -> bool {
    let whole = matches!(row.state, TcpState::Established | TcpState::CloseWait);
    whole && row.inode.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rtt: u32, var: u32, least: Option<u32>) -> Socket {
        Socket {
            state: TcpState::Established,
            rtt_us: Some(rtt),
            rttvar_us: Some(var),
            min_rtt_us: least,
            ..Socket::default()
        }
    }

    #[test]
    fn one_tick_of_the_timestamps_is_no_measurement() {
        assert_eq!(round_trip_us(&sample(1_000, 500, Some(1_000))), None);
        assert_eq!(round_trip_us(&sample(1_000, 480, Some(1_000))), Some(1_000));
        assert_eq!(round_trip_us(&sample(1_000, 500, Some(900))), Some(1_000));
        assert_eq!(round_trip_us(&sample(0, 0, None)), None);
        let connecting = Socket {
            state: TcpState::SynSent,
            ..sample(7, 3, None)
        };
        assert_eq!(round_trip_us(&connecting), None);
    }

    #[test]
    fn what_waits_is_as_old_as_the_silence() {
        let quiet = Socket {
            last_data_recv_ms: Some(90),
            last_ack_recv_ms: Some(70),
            ..Socket::default()
        };
        assert_eq!(waiting_ms(&quiet), None);
        let unread = Socket {
            recv_queue: Some(1),
            ..quiet.clone()
        };
        assert_eq!(waiting_ms(&unread), Some(90));
        let unsent = Socket {
            send_queue: Some(1),
            ..quiet
        };
        assert_eq!(waiting_ms(&unsent), Some(70));
    }
}
