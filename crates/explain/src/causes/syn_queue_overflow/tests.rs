//! C05 is named when SYNs are dropped for lack of cookies, and not when the accept queue is full.

use recording::tables::Event;
use recording::{EventKind, SourceName};

use crate::causes::testing::{found, number, only, ruled_out, sysctls};
use crate::{Change, Level, Number};
use synth::{Fixture, Listen, SERVER, START_NS, cases, place};

const ID: &str = "syn-queue-overflow";

#[test]
fn both_ends_here() {
    let f = only(&cases::syn_queue(), ID);
    assert_eq!((f.impact.affected, f.impact.of), (2_400, 4_000));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(
        sysctls(&f),
        [
            (SERVER, "net.ipv4.tcp_syncookies=1".to_string()),
            (SERVER, "net.ipv4.tcp_max_syn_backlog=2048".to_string())
        ]
    );
    let backlogs = f
        .advice
        .iter()
        .filter(|a| matches!(a.change, Some(Change::Backlog { .. })));
    assert_eq!(backlogs.count(), 1);
    assert!(f.arithmetic.iter().all(|c| c.agrees) && f.arithmetic.len() == 4);
    assert_eq!(number(&f, "longest_syn_queue"), &Number::Count(17));
    assert_eq!(number(&f, "tcp_syncookies"), &Number::Count(0));
    assert!(ruled_out(&f, "accept-queue-overflow").starts_with("ListenOverflows rose by 0"));
}

#[test]
fn only_the_server_here() {
    let mut recording = cases::syn_queue();
    recording.seen_from(SERVER);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, &*f.impact.counted), (2_400, "SYNs"));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
}

#[test]
fn with_timestamps_off_cookies_are_not_recommended_alone() {
    let mut recording = cases::syn_queue();
    recording.set(SERVER, "net.ipv4.tcp_timestamps", "0");
    let f = only(&recording, ID);
    assert!(sysctls(&f).contains(&(SERVER, "net.ipv4.tcp_timestamps=1".into())));
    assert!(f.advice[0].risk.contains("lose SACK"));
}

/// A SYN flood: requests in SYN_RECV whose clients never answer.
fn flood() -> Fixture {
    let mut f = Fixture::new();
    f.set(SERVER, "net.ipv4.tcp_syncookies", "0");
    f.listen(Listen {
        backlog: 64,
        syn_queue: vec![65, 65, 65],
        drops: 5_000,
        ..Listen::default()
    });
    for row in &mut f.listeners {
        row.syn_queue_young = 2;
    }
    f.count(SERVER, "TcpExt.TCPReqQFullDrop", 0, 5_000);
    f.count(SERVER, "TcpExt.ListenDrops", 0, 5_000);
    let (server, port, _) = place("10.79.0.1:5000");
    for i in 0..300u64 {
        let (client, client_port, _) = place(&format!("192.0.2.{}:1024", i % 100));
        f.events.push(Event {
            time_ns: START_NS + i * 10_000_000,
            kind: EventKind::SynAckRetransmit,
            netns: SERVER,
            family: 4,
            local_addr: server,
            local_port: port,
            remote_addr: client,
            remote_port: client_port,
            ..Event::default()
        });
    }
    f
}

#[test]
fn a_flood_is_told_from_a_burst() {
    let f = only(&flood(), ID);
    assert!(
        f.title.contains("do not complete handshakes"),
        "{}",
        f.title
    );
    assert_eq!(f.fix, "Set net.ipv4.tcp_syncookies=1.");
    assert_eq!(number(&f, "synack_retransmits"), &Number::Count(300));
}

#[test]
fn the_early_limit_of_tcp_max_syn_backlog_is_found() {
    let mut f = Fixture::new();
    f.set(SERVER, "net.ipv4.tcp_syncookies", "0");
    f.set(SERVER, "net.ipv4.tcp_max_syn_backlog", "256");
    f.listen(Listen {
        backlog: 4_096,
        syn_queue: vec![192, 192, 192],
        drops: 900,
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.ListenDrops", 0, 900);
    let f = only(&f, ID);
    assert_eq!(number(&f, "early_drops"), &Number::Count(900));
    assert_eq!(f.confidence.level, Level::Medium);
    assert_eq!(f.arithmetic[0].expected, 192.0);
}

#[test]
fn a_full_accept_queue_is_the_cause_of_a_full_syn_queue() {
    let mut recording = cases::accept_queue();
    recording.set(SERVER, "net.ipv4.tcp_syncookies", "0");
    let ids: Vec<_> = found(&recording).iter().map(|f| f.cause).collect();
    assert_eq!(ids, ["accept-queue-overflow"]);
}

#[test]
fn listen_drops_without_a_full_queue_are_another_matter() {
    // ListenDrops also rises when there is no route back for the SYN-ACK.
    let mut f = Fixture::new();
    f.set(SERVER, "net.ipv4.tcp_syncookies", "0");
    f.listen(Listen {
        drops: 500,
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.ListenDrops", 0, 500);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn lost_counters_lower_the_confidence() {
    let mut recording = cases::syn_queue();
    recording.lose(SourceName::Counters, 3);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Medium);
}
