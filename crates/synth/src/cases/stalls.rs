//! Transfers that hang, or wait for a timer, as the lab plants them.

use recording::tables::Socket;
use recording::{RetransmitKind, TcpState, sysctl};

use crate::fixture::at_ms;
use crate::{CLIENT, Dial, End, Fixture, Flow, Listen};

/// Four uploads of which no full segment arrives, beside small requests that pass.
pub fn black_hole() -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.set(CLIENT, sysctl::TCP_MTU_PROBING, "0");
    for i in 0..4 {
        f.hang(&format!("10.79.0.2:{}", 40_000 + i), 10, 14_000);
    }
    for i in 0..20 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 42_000 + i),
            at_ms: 200.0 + f64::from(i) * 300.0,
            ends_ms: Some(220.0 + f64::from(i) * 300.0),
            ..Dial::default()
        });
    }
    f
}

/// Three connections whose requests a host does not answer any more.
pub fn silent() -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..3 {
        f.hang(&format!("10.79.0.2:{}", 40_000 + i), 1, 300);
    }
    f
}

/// Five connections with small messages, of which two a second and connection wait for a timer.
pub fn tails() -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..5 {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", 40_000 + i),
            rate: 40 * 1_448,
            rtt_us: [4_000, 500, 3_900],
            unacked: 1,
            unsent: 0,
            cwnd: 10,
            again: vec![(RetransmitKind::Tlp, 4_000), (RetransmitKind::Rto, 4_000)],
            ..Flow::default()
        });
    }
    f
}

/// Connections whose requests nothing answers, sent so many ms after the start (below zero: before it), each sampled
/// once by both ends; `spoke`: something had been answered on them 20 ms earlier.
pub fn unanswered(asked_ms: &[f64], spoke: bool) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for (nth, asked_ms) in asked_ms.iter().enumerate() {
        word(
            &mut f,
            &format!("10.79.0.2:{}", 40_000 + nth),
            *asked_ms,
            spoke,
        );
    }
    f
}

/// The client's last word on a connection, then.
fn word(f: &mut Fixture, from: &str, asked_ms: f64, spoke: bool) {
    let dial = Dial {
        from: from.into(),
        at_ms: asked_ms - 40.0,
        older: asked_ms < 100.0,
        ..Dial::default()
    };
    let [Some(client), Some(server)] = dial.rows(f) else {
        return;
    };
    let sampled_ms = asked_ms.max(0.0) + 500.0;
    let (said, heard) = (
        (sampled_ms - asked_ms) as u32,
        (sampled_ms - asked_ms + 20.0) as u32,
    );
    let words = u32::from(spoke);
    let sample = |end: &End, ago: [u32; 2], segments: [u32; 2]| Socket {
        inode: Some(end.sock),
        congestion: Some("cubic".into()),
        unacked: Some(0),
        notsent_bytes: Some(0),
        recv_queue: Some(0),
        snd_mss: Some(1_448),
        last_data_sent_ms: Some(ago[0]),
        last_data_recv_ms: Some(ago[1]),
        last_ack_recv_ms: Some(said),
        data_segs_out: Some(segments[0]),
        data_segs_in: Some(segments[1]),
        bytes_acked: Some(1 + 100 * u64::from(segments[0])),
        bytes_received: Some(100 * u64::from(segments[1])),
        ..end.sample(at_ms(sampled_ms), TcpState::Established)
    };
    f.sockets
        .push(sample(&client, [said, heard], [1 + words, words]));
    f.sockets
        .push(sample(&server, [heard, said], [words, 1 + words]));
    f.sockets.sort_by_key(|s| s.time_ns);
}
