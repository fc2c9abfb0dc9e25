//! C13 is named when resets came that no socket sent, and not when a kernel of this host sent them or the sender is
//! unknown.

use recording::tables::Event;
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{Broken, CLIENT, Dial, Fixture, HOST, Listen, SERVER, cases};

const ID: &str = "injected-reset";

/// The drops of a firewall in `netns` that rejects each packet which a reset answered.
fn reject(f: &mut Fixture, netns: u32) {
    let received = f
        .events
        .iter()
        .filter(|e| e.kind == EventKind::ResetReceived);
    let dropped = received.map(|e| Event {
        time_ns: e.time_ns - 20_000,
        kind: EventKind::Drop,
        netns,
        family: e.family,
        local_addr: e.remote_addr,
        local_port: e.remote_port,
        remote_addr: e.local_addr,
        remote_port: e.local_port,
        reason: Some("NETFILTER_DROP".into()),
        location: Some("nf_hook_slow".into()),
        flags: Some(match e.state {
            Some(TcpState::SynSent) => 2,
            _ => 24,
        }),
        ..Event::default()
    });
    let dropped: Vec<Event> = dropped.collect();
    f.events.extend(dropped);
}

/// Connects that are refused although the server listens, and its kernel does not report any refusal.
fn refused_by_another() -> Fixture {
    let mut f = cases::refused();
    f.events.retain(|e| e.netns == CLIENT);
    f.counters.retain(|c| &*c.name != "OutRsts");
    f.listen(Listen {
        at: "10.79.0.1:7000",
        ..Listen::default()
    });
    f
}

#[test]
fn a_firewall_here_rejects_syns() {
    let mut recording = refused_by_another();
    reject(&mut recording, SERVER);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (300, 300));
    assert_eq!(f.scope.netns.inode, SERVER);
    assert_eq!(
        (&*f.scope.listener, f.scope.pid),
        ("10.79.0.1:7000", Some(77))
    );
    assert_eq!(number(&f, "rejected"), &Number::Count(300));
    assert!(ruled_out(&f, "connection-refused").contains("refused 0"));
    let pass = Change::PassPackets {
        netns: Some(SERVER),
        at: "10.79.0.1:7000".into(),
    };
    assert_eq!(f.advice[0].change, Some(pass));
}

#[test]
fn a_firewall_of_the_clients_own_host_needs_no_server() {
    let mut recording = cases::refused();
    recording.seen_from(CLIENT);
    reject(&mut recording, CLIENT);
    let f = only(&recording, ID);
    assert_eq!((f.scope.netns.inode, f.impact.affected), (CLIENT, 300));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
}

#[test]
fn something_on_the_path_answers_for_the_server() {
    let f = only(&refused_by_another(), ID);
    assert!(f.title.starts_with("Something on the path"), "{}", f.title);
    assert_eq!(f.scope.resource.as_deref(), Some("path"));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    let pass = Change::PassPackets {
        netns: None,
        at: "10.79.0.1:7000".into(),
    };
    assert_eq!(f.advice[0].change, Some(pass));
}

#[test]
fn where_nothing_listens_it_is_another_cause() {
    only(&cases::refused(), "connection-refused");
    // Only the client is here: who sent them is unknown.
    let mut recording = cases::refused();
    recording.seen_from(CLIENT);
    only(&recording, "connection-refused");
}

#[test]
fn an_address_that_is_translated_may_have_been_refused_elsewhere() {
    let mut recording = refused_by_another();
    // The server's kernel refused as many, on the port that the address is translated to.
    let mut behind = cases::refused();
    let resets = behind
        .events
        .drain(..)
        .filter(|e| e.kind == EventKind::ResetSent);
    recording.events.extend(resets.map(|e| Event {
        local_port: 7001,
        ..e
    }));
    assert!(found(&recording).iter().all(|f| f.cause != ID));
}

/// Established connections, every fourth of which gets a reset.
fn broken(n: u32, by: Option<u32>) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.count(CLIENT, "Tcp.EstabResets", 0, i64::from(n / 4));
    for i in 0..n {
        let at_ms = 100.0 + f64::from(i) * 10.0;
        let dial = Dial {
            from: format!("10.79.0.2:{}", 30_000 + i),
            at_ms,
            ..Dial::default()
        };
        match i % 4 {
            0 => f.break_off(Broken {
                at_ms: at_ms + 40.0,
                by,
                reason: Some("TCP_ABORT_ON_DATA"),
                dial,
                ..Broken::default()
            }),
            _ => f.dial(Dial {
                ends_ms: Some(at_ms + 60.0),
                ..dial
            }),
        }
    }
    f
}

#[test]
fn in_the_middle_of_connections() {
    let mut recording = broken(200, None);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, f.impact.of), (50, 200));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(number(&f, "broken"), &Number::Count(50));
    reject(&mut recording, HOST);
    let f = only(&recording, ID);
    assert!(
        f.title.starts_with("A firewall of this host"),
        "{}",
        f.title
    );
    assert_eq!(f.scope.netns.inode, HOST);
}

#[test]
fn a_reset_that_the_other_end_sent_is_its_own() {
    assert!(found(&broken(200, Some(SERVER))).is_empty());
    // For a socket that is gone the kernel sends it without one.
    let mut gone = broken(200, Some(SERVER));
    for event in &mut gone.events {
        if event.kind == EventKind::ResetSent {
            (event.sock, event.reason) = (None, Some("NO_SOCKET".into()));
        }
    }
    assert!(found(&gone).is_empty());
}

#[test]
fn when_the_other_end_is_elsewhere_nobody_knows() {
    let mut recording = broken(200, None);
    recording.seen_from(CLIENT);
    assert!(found(&recording).is_empty());
}

#[test]
fn a_few_are_healthy() {
    assert!(found(&broken(16, None)).is_empty());
    assert_eq!(found(&broken(20, None)).len(), 1);
}

#[test]
fn data_that_comes_after_a_close_is_no_reset() {
    let mut recording = broken(200, None);
    for event in &mut recording.events {
        if event.kind == EventKind::ResetReceived {
            event.state = Some(TcpState::FinWait2);
        }
    }
    assert!(found(&recording).is_empty());
}

#[test]
fn kernels_that_do_not_tell_of_all_resets_and_lost_events() {
    for recording in [refused_by_another(), broken(200, None)] {
        let mut old = recording.clone();
        old.without(SourceName::ResetsUnmatched);
        assert!(found(&old).iter().all(|f| f.cause != ID));
        let mut lossy = recording;
        lossy.lose(SourceName::ResetsSent, 4);
        assert_eq!(only(&lossy, ID).confidence.level, Level::Medium);
        lossy.lose(SourceName::ResetsSent, 1_000);
        assert!(found(&lossy).iter().all(|f| f.cause != ID));
    }
}

#[test]
fn hostile_rows_do_no_harm() {
    let mut recording = broken(200, None);
    for (i, event) in recording.events.iter_mut().enumerate() {
        event.time_ns = if i % 2 == 0 { 0 } else { u64::MAX };
        event.bytes_acked = Some(u64::MAX);
    }
    found(&recording);
}

#[test]
fn the_reset_of_a_known_peer_is_its_own_whatever_address_it_has() {
    // The client called a virtual address, like a cluster's service; its peer is known all the same.
    let theirs = |by: Option<u32>| {
        let story = analysis::Story::read(&broken(8, by).write().unwrap().recording).unwrap();
        let of_client = |c: &&analysis::Conn| c.netns == CLIENT && c.peer.is_some();
        let mut conn = story.conns.iter().find(of_client).unwrap().clone();
        conn.remote.addr = synth::place("10.96.0.10:1").0;
        super::may_be_the_peers(&story, &conn)
    };
    assert!(theirs(Some(SERVER)));
    assert!(!theirs(None));
}
