//! Transfers that hang, or wait for a timer, as the lab plants them.

use recording::{RetransmitKind, sysctl};

use crate::{CLIENT, Dial, Fixture, Flow, Listen};

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
