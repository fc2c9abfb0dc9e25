//! C41 is named when nothing comes back from an address, and not when something does.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Level, Number};
use recording::TcpState;
use synth::{CLIENT, Dial, Fixture, Listen, SERVER, START_NS, cases};

const ID: &str = "peer-gone";

/// As the client's host sees it.
fn silent() -> Fixture {
    let mut f = cases::silent();
    f.seen_from(CLIENT);
    f
}

#[test]
fn the_client_alone() {
    let f = only(&silent(), ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (3, 3));
    assert_eq!(f.scope.place(), "peer 10.79.0.1");
    assert_eq!(number(&f, "most_in_a_row"), &Number::Count(5));
    assert!(
        f.title.contains("has not answered for 7.85 s"),
        "{}",
        f.title
    );
    assert!(
        f.evidence[1].says.ends_with("it was one event."),
        "{}",
        f.evidence[1].says
    );
    assert!(f.arithmetic.iter().all(|c| c.agrees), "{:?}", f.arithmetic);
    assert!(ruled_out(&f, "path-loss").contains("with random loss one"));
    // Each lost all of its recorded time but the first 150 ms.
    let lost = f.lost_s.seconds().unwrap();
    assert!((23.0..24.0).contains(&lost), "{lost}");
    let mut server = cases::silent();
    server.seen_from(SERVER);
    assert!(found(&server).is_empty(), "the receiver sees nothing");
}

#[test]
fn an_address_falls_silent_with_the_last_word_that_any_of_them_heard() {
    let mut f = silent();
    // One of them had been at rest since before the recording, and others heard the address meanwhile.
    let first = f.sockets.iter().find(|s| s.rto_count.is_some());
    let at_rest = first.expect("some hang").local_port;
    for row in f.sockets.iter_mut().filter(|s| s.local_port == at_rest) {
        let age_ns = row.time_ns.saturating_sub(START_NS) + 5_000_000_000;
        row.last_ack_recv_ms = Some((age_ns / 1_000_000) as u32);
    }
    let since = only(&f, ID).since.expect("is dated");
    assert!(!since.says.contains("before"), "{since:?}");
}

#[test]
fn what_hung_before_the_recording_is_told_so() {
    let mut f = silent();
    f.events.clear();
    for row in f.sockets.iter_mut().filter(|s| s.rto_count.is_some()) {
        row.rto_count = Some(9);
        row.backoff = Some(9);
        row.last_ack_recv_ms = Some(300_000);
    }
    let f = only(&f, ID);
    assert!(f.since.unwrap().says.contains("before the recording"));
    assert!(
        f.title.contains("5 min") || f.title.contains("300 s"),
        "{}",
        f.title
    );
}

#[test]
fn an_address_that_answers_others_is_told_so() {
    let mut f = cases::silent();
    for i in 0..10 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 42_000 + i),
            at_ms: 500.0 + f64::from(i) * 700.0,
            ends_ms: Some(520.0 + f64::from(i) * 700.0),
            ..Dial::default()
        });
    }
    f.seen_from(CLIENT);
    let busy = only(&f, ID);
    assert!(
        busy.title.ends_with("while others are answered."),
        "{}",
        busy.title
    );
    assert!(!busy.title.contains("after a pause"), "{}", busy.title);
    // The same after a pause: their last acknowledgement came 4 s before the segments that hang were sent.
    for row in f.sockets.iter_mut().filter(|s| s.rto_count.is_some()) {
        row.last_ack_recv_ms = row.last_ack_recv_ms.map(|ms| ms + 4_000);
    }
    let idle = only(&f, ID);
    assert!(idle.title.contains("after a pause"), "{}", idle.title);
    assert!(idle.fix.contains("keep-alives"), "{}", idle.fix);
    // The pause itself costs nothing.
    let lost = |f: &crate::Finding| f.lost_s.seconds().unwrap();
    assert!(
        lost(&idle) <= lost(&busy) + 3.0,
        "{} {}",
        lost(&idle),
        lost(&busy)
    );
}

#[test]
fn a_peer_that_is_heard_and_hears_nothing_is_cut_off_one_way() {
    let mut f = silent();
    for row in &mut f.sockets {
        row.last_ack_recv_ms = Some(100);
    }
    let f = only(&f, ID);
    assert!(f.evidence[1].says.contains("only the path to it is cut"));
}

#[test]
fn look_alikes_are_not_it() {
    // The window is closed.
    let mut closed = silent();
    closed
        .sockets
        .iter_mut()
        .for_each(|row| row.snd_wnd = Some(0));
    only(&closed, "zero-window");
    only(&cases::black_hole(), "pmtu-black-hole");
    for recording in [cases::lossy(), cases::tails(), cases::bloated()] {
        assert!(found(&recording).iter().all(|f| f.cause.as_str() != ID));
    }
}

#[test]
fn what_its_program_had_closed_before_keeps_nobody_waiting() {
    // The sockets of a process that has ended.
    let mut f = silent();
    f.events.clear();
    for row in &mut f.sockets {
        row.state = TcpState::FinWait1;
    }
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

/// A server's answer hangs since before the recording, and its client waits for it on the same host.
fn answer_hangs() -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen {
        netns: CLIENT,
        at: "10.79.0.2:40000",
        ..Listen::default()
    });
    f.hang("10.79.0.2:40000", 1, 300);
    f.events.clear();
    for row in f.sockets.iter_mut().filter(|s| s.rto_count.is_some()) {
        row.rto_count = Some(9);
        row.backoff = Some(9);
        row.last_ack_recv_ms = Some(300_000);
    }
    f
}

#[test]
fn a_client_that_still_waits_on_this_host_has_not_vanished() {
    let told = only(&answer_hangs(), ID);
    assert!(told.fix.contains("both ends are open"), "{}", told.fix);
    let step = |s: &crate::Step| s.says.contains("Their other ends are on this host");
    assert!(told.evidence.iter().any(step), "{:?}", told.evidence);
    // The server's host alone: clients vanish every day.
    let mut server = answer_hangs();
    server.seen_from(CLIENT);
    assert!(found(&server).is_empty());
    let explained = crate::explain(&server.write().expect("writes")).expect("reads");
    let notes: Vec<_> = explained
        .notes
        .iter()
        .map(|n| (n.cause.as_str(), &n.because))
        .collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].0 == ID && notes[0].1.starts_with("clients vanish"),
        "{notes:?}"
    );
    // Its program has closed it: nobody waits for the answer.
    let mut closed = answer_hangs();
    for row in closed.sockets.iter_mut().filter(|s| s.netns == SERVER) {
        row.state = TcpState::FinWait2;
    }
    assert!(found(&closed).iter().all(|f| f.cause.as_str() != ID));
    // Cut in both directions: one connection, told from the end that asks.
    let mut both = answer_hangs();
    let hung = both.sockets.iter().find(|s| s.netns == CLIENT).cloned();
    let hung = hung.expect("a sample of the server");
    for row in both.sockets.iter_mut().filter(|s| s.netns == SERVER) {
        (row.rto_count, row.backoff) = (Some(9), Some(9));
        (row.unacked, row.send_queue) = (hung.unacked, hung.send_queue);
        (row.bytes_acked, row.rto_us) = (hung.bytes_acked, hung.rto_us);
        (row.data_segs_out, row.delivered) = (hung.data_segs_out, hung.delivered);
        (row.last_ack_recv_ms, row.snd_wnd) = (hung.last_ack_recv_ms, hung.snd_wnd);
        (row.snd_mss, row.pmtu) = (hung.snd_mss, hung.pmtu);
    }
    assert_eq!(only(&both, ID).scope.place(), "peer 10.79.0.2");
}
