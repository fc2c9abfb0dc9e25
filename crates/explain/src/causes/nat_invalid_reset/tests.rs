//! C57 is named when a segment comes from a peer's other address and its reset breaks the connection; not for what a
//! port's former user is sent, nor where the connection goes on.

use recording::tables::Event;
use recording::{EventKind, TcpState};

use crate::causes::testing::found;
use crate::{Finding, Level};
use synth::{Broken, CLIENT, Dial, Fixture};

const ID: &str = "nat-invalid-reset";
const AT: &str = "192.0.2.9:80";

/// The resets of an end for want of a socket, to `to`, this long before the connection is reset.
fn answered(f: &mut Fixture, from: u16, to: &str, at_ms: f64) {
    let (local_addr, ..) = synth::place("10.79.0.2:1");
    let (remote_addr, remote_port, _) = synth::place(to);
    f.events.push(Event {
        time_ns: synth::START_NS + (at_ms * 1e6) as u64,
        kind: EventKind::ResetSent,
        netns: CLIENT,
        family: 4,
        local_addr,
        local_port: from,
        remote_addr,
        remote_port,
        reason: Some("NO_SOCKET".into()),
        flags: Some(0x18),
        ..Event::default()
    });
}

/// Downloads, each of which is reset after its port has answered `to`.
fn downloads(n: u16, to: &str, reset: bool) -> Fixture {
    let mut f = Fixture::new();
    f.count(CLIENT, "Tcp.EstabResets", 0, n.into());
    for i in 0..n {
        let (port, at_ms) = (30_000 + i, 300.0 + f64::from(i) * 300.0);
        let dial = Dial {
            server: None,
            from: format!("10.79.0.2:{port}"),
            to: AT,
            at_ms,
            ends_ms: (!reset).then_some(at_ms + 200.0),
            ..Dial::default()
        };
        answered(&mut f, port, to, at_ms + 100.0);
        if reset {
            f.break_off(Broken {
                dial,
                at_ms: at_ms + 150.0,
                by: None,
                moved: [80, 500_000],
                ..Broken::default()
            });
        } else {
            f.dial(dial);
        }
    }
    f
}

fn ours(f: &Fixture) -> Option<Finding> {
    found(f).into_iter().find(|f| f.cause == ID)
}

#[test]
fn a_segment_from_the_servers_own_address() {
    let f = ours(&downloads(8, "10.83.2.2:8080", true)).expect("told");
    assert_eq!((f.impact.affected, f.impact.of), (8, 8));
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert!(f.title.contains("10.83.2.2:8080"), "{}", f.title);
}

#[test]
fn what_goes_on_or_came_from_the_peer_itself_is_none() {
    assert!(
        ours(&downloads(8, "10.83.2.2:8080", false)).is_none(),
        "all went on"
    );
    assert!(ours(&downloads(8, AT, true)).is_none(), "its own peer");
}

#[test]
fn a_former_user_of_the_port_is_sent_late_data() {
    let mut f = downloads(8, "10.83.2.2:8080", true);
    for i in 0..8 {
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 30_000 + i),
            to: "10.83.2.2:8080",
            at_ms: 10.0,
            took_ms: 1.0,
            ends_ms: Some(20.0),
            ..Dial::default()
        });
    }
    assert!(ours(&f).is_none());
}

#[test]
fn a_download_that_hangs_after_it() {
    let mut f = Fixture::new();
    f.dial(Dial {
        server: None,
        from: "10.79.0.2:30000".into(),
        to: AT,
        at_ms: 500.0,
        took_ms: 0.0,
        older: true,
        ..Dial::default()
    });
    for sample in &mut f.sockets {
        sample.time_ns = synth::START_NS + 4_000_000_000;
        sample.last_ack_recv_ms = Some(3_000);
        sample.state = TcpState::Established;
    }
    answered(&mut f, 30_000, "10.83.2.2:8080", 1_001.0);
    assert!(
        ours(&f).is_some(),
        "it got nothing for the rest of the recording"
    );
}
