//! C07 is named when options vanish between two ends that have them, and cookies are not the reason.

use recording::SourceName;

use crate::causes::testing::{found, only, ruled_out};
use crate::{Change, Level, Role};
use synth::{CLIENT, Dial, Fixture, Listen, SERVER, cases};

const ID: &str = "middlebox-strips-options";

#[test]
fn both_ends_here() {
    let f = only(&cases::stripped(), ID);
    assert_eq!((f.impact.affected, f.impact.of), (6, 8));
    assert_eq!(f.confidence.level, Level::High);
    assert_eq!(f.scope.pid, Some(812));
    assert_eq!(f.impact.throughput_ratio, Some(0.05));
    let keep = Change::KeepOptions {
        listener: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(keep));
    assert!(ruled_out(&f, "syn-cookie-options-lost").starts_with("none of them were made"));
}

#[test]
fn cookies_are_not_ruled_out_where_the_making_was_not_seen() {
    let mut recording = cases::stripped();
    for event in &mut recording.events {
        event.cookie = None;
    }
    let f = only(&recording, ID);
    let says = "none of them were made from a cookie; SyncookiesRecv rose by 0";
    assert_eq!(ruled_out(&f, "syn-cookie-options-lost"), says);
    // Some came back before the recording, fewer than there are connections.
    recording.count(SERVER, "TcpExt.SyncookiesRecv", 3, 0);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Medium);
    assert!(
        f.ruled_out
            .iter()
            .all(|r| r.cause != "syn-cookie-options-lost")
    );
}

#[test]
fn only_the_server_here() {
    let mut recording = cases::stripped();
    recording.seen_from(SERVER);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, f.impact.of), (6, 8));
    // Those clients may never have offered options; none of them has any elsewhere.
    assert_eq!(f.confidence.level, Level::Low);
}

#[test]
fn the_same_client_with_and_without_makes_it_likelier() {
    let mut recording = cases::stripped();
    for socket in &mut recording.sockets {
        if socket.netns == SERVER {
            socket.remote_addr = synth::place("10.79.0.2:1").0;
        }
    }
    for event in &mut recording.events {
        if event.netns == SERVER {
            event.remote_addr = synth::place("10.79.0.2:1").0;
        }
    }
    recording.seen_from(SERVER);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
}

#[test]
fn a_path_that_is_full_is_not_the_windows_fault() {
    let mut recording = cases::stripped();
    for socket in &mut recording.sockets {
        // 10 ms each, 8 of them in a queue.
        socket.min_rtt_us = socket.rtt_us.map(|us| us / 5);
        socket.unacked = Some(40);
    }
    assert!(found(&recording).is_empty());
    // All but one began while the queue stood, and have not measured the path without it.
    let ports = recording.sockets.iter().map(|s| s.local_port);
    let one = ports.filter(|port| *port >= 30_000).min();
    for socket in &mut recording.sockets {
        if ![socket.local_port, socket.remote_port].contains(&one.unwrap()) {
            socket.min_rtt_us = socket.rtt_us;
        }
    }
    assert!(found(&recording).is_empty());
    // Others on the same path have the options, and take what these do not get.
    let [theirs, same] = ["10.79.0.3:1", "10.79.0.2:1"].map(|at| synth::place(at).0);
    let rows: &mut synth::Collected = &mut recording;
    let sockets = rows.sockets.iter_mut();
    let sockets = sockets.flat_map(|s| [&mut s.local_addr, &mut s.remote_addr]);
    let events = rows.events.iter_mut();
    let events = events.flat_map(|e| [&mut e.local_addr, &mut e.remote_addr]);
    for addr in sockets.chain(events).filter(|addr| **addr == theirs) {
        *addr = same;
    }
    only(&recording, ID);
}

#[test]
fn others_that_were_idle_when_sampled_are_no_measure() {
    let mut recording = cases::stripped();
    assert!(only(&recording, ID).impact.throughput_ratio.is_some());
    // They moved their data after the last sample, and may have been idle for most of their lives.
    let theirs = synth::place("10.79.0.3:1").0;
    let of_theirs =
        |s: &&mut recording::tables::Socket| s.local_addr == theirs || s.remote_addr == theirs;
    for socket in recording.sockets.iter_mut().filter(of_theirs) {
        (socket.bytes_acked, socket.bytes_received) = (Some(1), Some(0));
    }
    let f = only(&recording, ID);
    assert!(f.impact.throughput_ratio.is_none(), "{:?}", f.impact);
    assert!(
        f.impact.says.contains("can move no more than"),
        "{}",
        f.impact.says
    );
}

#[test]
fn only_the_client_here() {
    let mut recording = cases::stripped();
    recording.seen_from(CLIENT);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Low);
    assert_eq!((f.scope.role, f.scope.pid), (Role::Client, Some(77)));
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
}

#[test]
fn cookies_are_told_apart_on_the_same_host() {
    let ids: Vec<_> = found(&cases::syn_cookies())
        .iter()
        .map(|f| f.cause)
        .collect();
    assert_eq!(ids, ["syn-cookie-options-lost"]);
}

#[test]
fn settings_that_switch_options_off_are_no_box() {
    for netns in [SERVER, CLIENT] {
        let mut recording = cases::stripped();
        recording.set(netns, "net.ipv4.tcp_sack", "0");
        recording.set(netns, "net.ipv4.tcp_window_scaling", "0");
        assert_eq!(found(&recording).len(), 0);
    }
}

#[test]
fn a_peer_that_lacks_them_and_does_not_suffer_is_healthy() {
    // A sensor with a small TCP: no options, little data, never at the window's limit.
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..50u16 {
        f.dial(Dial {
            client: None,
            from: format!("10.9.0.2:{}", 40_000 + i),
            options: [false, false, false],
            sends: if i == 0 { 400_000 } else { 2_000 },
            rate: 50_000,
            ..Dial::default()
        });
    }
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn sack_alone_may_be_stripped() {
    let mut recording = cases::stripped();
    for event in &mut recording.events {
        event.window_scaling = event.window_scaling.map(|_| true);
    }
    let f = only(&recording, ID);
    assert!(f.title.contains("strips SACK of 6"), "{}", f.title);
    assert!(f.impact.says.contains("recover from each loss"));
}

#[test]
fn a_lost_socket_source_lowers_the_confidence() {
    let mut recording = cases::stripped();
    recording.lose(SourceName::Sockets, 9);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
}
