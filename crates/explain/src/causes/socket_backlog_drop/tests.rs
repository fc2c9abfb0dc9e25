//! C37 is named when segments find the backlog of a socket full.

use crate::Level;
use crate::causes::testing::{found, only, softnet, sysctls};
use recording::tables::Event;
use recording::{EventKind, counter};
use synth::{Fixture, SERVER, cases};

const ID: &str = "socket-backlog-drop";

/// Some of 10,000 received segments found the backlog full; the kernel counts as many.
fn full(dropped: u64, reason: &str) -> Fixture {
    let mut f = cases::bulk();
    let to = f
        .sockets
        .iter()
        .find(|s| s.netns == SERVER)
        .cloned()
        .unwrap();
    f.events.extend((0..dropped).map(|nth| Event {
        time_ns: to.time_ns + nth,
        kind: EventKind::Drop,
        netns: SERVER,
        family: 4,
        local_addr: to.local_addr,
        local_port: to.local_port,
        remote_addr: to.remote_addr,
        remote_port: to.remote_port,
        flags: Some(synth::PSH_ACK),
        reason: Some(reason.into()),
        ..Event::default()
    }));
    f.raise(SERVER, counter::IN_SEGS, 10_000);
    f.raise(SERVER, counter::TCP_BACKLOG_DROP, dropped as i64);
    softnet(&mut f, 0);
    f
}

#[test]
fn a_backlog_that_is_full() {
    let f = only(&full(40, "SOCKET_BACKLOG"), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(
        (f.impact.affected, f.scope.comm.as_deref()),
        (40, Some("iperf3"))
    );
    assert_eq!(
        sysctls(&f),
        [(SERVER, "net.ipv4.tcp_rmem=4096 131072 12582912".to_string())]
    );
    assert!(f.arithmetic[0].agrees);
}

#[test]
fn counted_but_not_seen() {
    let mut f = full(40, "SOCKET_BACKLOG");
    f.without(recording::SourceName::Drops);
    assert_eq!(only(&f, ID).confidence.level, Level::Medium);
}

#[test]
fn few_are_not_it() {
    assert!(found(&full(15, "SOCKET_BACKLOG")).is_empty());
    let mut share = full(40, "SOCKET_BACKLOG");
    share.raise(SERVER, counter::IN_SEGS, 90_000);
    assert!(found(&share).is_empty());
}
