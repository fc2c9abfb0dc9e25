//! C45 is reported when most SYN cookies do not come back: as a note while nothing else waits.

use recording::tables::Event;
use recording::{EventKind, TcpState};

use crate::causes::testing::{found, only, ruled_out};
use crate::{Level, explain};
use synth::{ACK, Dial, End, Fixture, Listen, SERVER, START_NS, SYN, place};

const ID: &str = "syn-flood";

/// A listener that sent this many cookies, this many of which came back, and accepted others meanwhile.
fn flooded(sent: i64, returned: i64, drops: i64) -> Fixture {
    let mut f = Fixture::new();
    f.count(SERVER, "TcpExt.SyncookiesSent", 0, sent);
    f.count(SERVER, "TcpExt.SyncookiesRecv", 0, returned);
    f.count(SERVER, "TcpExt.ListenDrops", 0, drops);
    f.listen(Listen {
        syn_queue: vec![0, 128, 128, 128],
        warned: true,
        ..Listen::default()
    });
    for sample in &mut f.listeners {
        sample.syn_queue_young = sample.syn_queue / 8;
    }
    let (addr, port, family) = place("10.79.0.1:5000");
    for i in 0..100u64 {
        let end = End {
            netns: SERVER,
            sock: 0,
            family,
            local: (addr, port),
            remote: (
                place(&format!("198.51.100.{}:1", i + 1)).0,
                1_024 + i as u16,
            ),
        };
        f.events.push(Event {
            state: Some(TcpState::NewSynRecv),
            ..end.stray(
                START_NS + (1_000 + i * 10) * 1_000_000,
                EventKind::SynAckRetransmit,
                SYN | ACK,
            )
        });
    }
    for i in 0..50u32 {
        f.dial(Dial {
            client: None,
            from: format!("10.79.0.2:{}", 30_000 + i),
            at_ms: 1_000.0 + f64::from(i) * 50.0,
            ends_ms: Some(1_020.0 + f64::from(i) * 50.0),
            ..Dial::default()
        });
    }
    f
}

#[test]
fn while_cookies_hold_it_is_a_note() {
    let f = flooded(5_000, 40, 0);
    assert!(found(&f).is_empty());
    let explanation = explain(&f.write().unwrap()).unwrap();
    let notes = explanation.notes;
    let note = notes.iter().find(|n| n.cause == ID).expect("a note");
    assert!(note.title.contains("flooded with SYNs"), "{}", note.title);
    assert!(note.because.starts_with("SYN cookies hold"));
}

#[test]
fn a_flood_that_harms_others_is_a_finding() {
    let f = only(&flooded(5_000, 40, 200), ID);
    assert_eq!((f.impact.affected, f.impact.of), (4_960, 5_000));
    assert!(f.fix.contains("do not raise the backlog"), "{}", f.fix);
    assert!(f.arithmetic.iter().all(|c| c.agrees));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(ruled_out(&f, "syn-queue-overflow").contains("TCPReqQFullDrop rose by 0"));
}

#[test]
fn clients_that_answer_are_no_flood() {
    let told = |f: &Fixture| {
        let explanation = explain(&f.write().unwrap()).unwrap();
        format!("{explanation:?}").contains("flooded with SYNs")
    };
    assert!(!told(&flooded(5_000, 4_800, 0)), "a burst of clients");
    assert!(!told(&flooded(60, 0, 0)), "a few");
}
