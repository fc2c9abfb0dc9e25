//! C39 is named when connections were used after their server had closed them for being idle; not for a
//! restart, pauses of all lengths, or those that were closed in time.

use recording::tables::Socket;
use recording::{EventKind, TcpState};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{Broken, CLIENT, Dial, Fixture};

const ID: &str = "idle-timeout-mismatch";
const AT: &str = "192.0.2.9:443";

/// Older connections of a pool that are reset one after the other.
fn pool(n: u32) -> Fixture {
    let mut f = Fixture::new();
    f.count(CLIENT, "Tcp.EstabResets", 0, n.into());
    for i in 0..n {
        f.break_off(Broken {
            dial: Dial {
                server: None,
                from: format!("10.79.0.2:{}", 30_000 + i),
                to: AT,
                at_ms: 500.0,
                took_ms: 0.0,
                older: true,
                ..Dial::default()
            },
            at_ms: reset_ms(i),
            by: None,
            moved: [0, 0],
            ..Broken::default()
        });
    }
    // The request that the reset answers.
    let ends = f.events.iter_mut().filter_map(|e| e.bytes_unacked.as_mut());
    ends.for_each(|bytes| *bytes = 200);
    f
}

fn reset_ms(i: u32) -> f64 {
    4_000.0 + f64::from(i) * 300.0
}

/// The same after a pause of this length, without a known FIN.
fn pooled(idle_s: impl Fn(u32) -> f64) -> Fixture {
    let mut f = pool(8);
    for (i, sample) in (0..).zip(&mut f.sockets) {
        let before_ms = idle_s(i) * 1_000.0 - (reset_ms(i) - 500.0);
        sample.last_ack_recv_ms = Some(before_ms as u32);
    }
    f
}

/// The same when their server closed them this long before the reset, ms, after a pause of this length.
fn closed(fin_ms: impl Fn(u32) -> f64, idle_ms: impl Fn(u32) -> f64) -> Fixture {
    let mut f = pool(8);
    for event in f.events.iter_mut() {
        match event.kind {
            EventKind::State => event.old_state = Some(TcpState::CloseWait),
            _ => event.state = Some(TcpState::CloseWait),
        }
    }
    for (i, sample) in (0..).zip(&mut f.sockets) {
        // Sampled half a second after the FIN.
        let sampled_ms = reset_ms(i) - fin_ms(i) + 500.0;
        *sample = Socket {
            time_ns: synth::START_NS + (sampled_ms * 1e6) as u64,
            state: TcpState::CloseWait,
            last_ack_recv_ms: Some(500),
            last_data_recv_ms: Some((500.0 + idle_ms(i)) as u32),
            last_data_sent_ms: Some((505.0 + idle_ms(i)) as u32),
            ..sample.clone()
        };
    }
    f
}

#[test]
fn connections_that_were_used_after_the_server_had_closed_them() {
    let f = only(&closed(|_| 1_200.0, |i| 2_000.0 + f64::from(i)), ID);
    assert_eq!((f.impact.affected, f.impact.of), (8, 8));
    assert!(
        f.title.starts_with("192.0.2.9:443 closes after 2"),
        "{}",
        f.title
    );
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    let Number::Real(late_ms) = number(&f, "late") else {
        panic!("a measure");
    };
    assert!((1_190.0..1_210.0).contains(late_ms), "{late_ms}");
    assert!(ruled_out(&f, "injected-reset").contains("had closed 8 of 8"));
    assert!(ruled_out(&f, "reset-by-peer").starts_with("0 of 8"));
    let close = Change::CloseIdle {
        to: AT.into(),
        seconds: 2,
    };
    assert_eq!(f.advice[0].change, Some(close));
}

/// The same when the program had closed, too, before the reset came; this many of its requests had no answer.
fn closed_by_both(unanswered: u64) -> Fixture {
    let mut f = closed(|_| 1_200.0, |i| 2_000.0 + f64::from(i));
    for event in f.events.iter_mut() {
        match event.kind {
            EventKind::State => event.old_state = Some(TcpState::LastAck),
            _ => event.state = Some(TcpState::LastAck),
        }
        // Nothing but its own FIN was left.
        event.bytes_unacked = event.bytes_unacked.map(|_| 1);
    }
    let (addr, port, _) = synth::place(AT);
    f.requests.push(recording::tables::Request {
        time_ns: synth::START_NS + 9_000_000_000,
        netns: CLIENT,
        role: recording::Role::Client,
        addr,
        port,
        exchanges: 20,
        await_ns: 40_000_000,
        unanswered,
        ..Default::default()
    });
    f
}

#[test]
fn a_program_that_reads_the_fin_and_closes_has_lost_its_request() {
    let f = only(&closed_by_both(8), ID);
    assert!(f.arithmetic.iter().all(|c| c.agrees));
    assert_eq!(number(&f, "never_answered"), &Number::Count(8));
    // It closed what it had not used again.
    assert!(found(&closed_by_both(0)).is_empty());
}

/// Samples half a second before each reset, in which nothing has moved since `idle_ms` before the reset.
fn sampled_before(f: &mut Fixture, idle_ms: impl Fn(u32) -> f64) {
    for (i, sample) in (0..).zip(&mut f.sockets) {
        sample.time_ns = synth::START_NS + ((reset_ms(i) - 500.0) * 1e6) as u64;
        sample.last_ack_recv_ms = Some((idle_ms(i) - 500.0) as u32);
        sample.last_data_recv_ms = sample.last_ack_recv_ms;
        sample.last_data_sent_ms = sample.last_ack_recv_ms;
    }
}

/// A request and the FIN of an idle timeout cross: the program reads the FIN and closes, then the reset comes.
fn crossed(unacked: u32, idle_ms: impl Fn(u32) -> f64) -> Fixture {
    let mut f = pool(8);
    for event in f.events.iter_mut() {
        match event.kind {
            EventKind::State => event.old_state = Some(TcpState::LastAck),
            _ => event.state = Some(TcpState::LastAck),
        }
        event.bytes_unacked = event.bytes_unacked.map(|_| unacked);
        // The FIN.
        event.bytes_received = event.bytes_received.map(|_| 1);
    }
    sampled_before(&mut f, idle_ms);
    f
}

#[test]
fn fins_that_no_sample_saw_hide_no_timeout() {
    let mut f = closed(|_| 1_200.0, |i| 2_000.0 + f64::from(i));
    // A busy sampler saw two of the eight before their FIN, and then not again.
    let rows = &mut *f;
    let (sockets, events) = (&mut rows.sockets, &mut rows.events);
    for (i, sample) in (0..).zip(sockets).skip(6) {
        let spoke_ms = reset_ms(i) - 1_200.0 - (2_000.0 + f64::from(i));
        sample.time_ns = synth::START_NS + ((spoke_ms + 400.0) * 1e6) as u64;
        sample.state = TcpState::Established;
        sample.last_ack_recv_ms = Some(400);
        (sample.last_data_recv_ms, sample.last_data_sent_ms) = (Some(400), Some(400));
        let port = sample.local_port;
        for event in events.iter_mut().filter(|e| e.local_port == port) {
            event.bytes_unacked = event.bytes_unacked.map(|_| 201);
            event.bytes_received = event.bytes_received.map(|_| 1);
        }
    }
    let f = only(&f, ID);
    assert_eq!((f.impact.affected, f.impact.of), (8, 8));
    assert!(
        f.title.starts_with("192.0.2.9:443 closes after 2"),
        "{}",
        f.title
    );
}

#[test]
fn a_request_that_crosses_the_fin() {
    let f = only(&crossed(201, |i| 1_010.0 + f64::from(i)), ID);
    assert!(f.title.contains("as requests come: 8 of 8"), "{}", f.title);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    let close = Change::CloseIdle {
        to: AT.into(),
        seconds: 1,
    };
    assert_eq!(f.advice[0].change, Some(close));
    // Only the FIN of its own was under way: it closed what it had not used.
    assert!(found(&crossed(1, |i| 1_010.0 + f64::from(i))).is_empty());
    // No pause: data was under way, and the server cut it off.
    assert!(found(&crossed(201, |i| 600.0 + f64::from(i))).is_empty());
    // Pauses of all lengths.
    assert!(found(&crossed(201, |i| 1_010.0 + f64::from(i) * 400.0)).is_empty());
}

/// The same, recorded at the server.
fn met_at_the_server(reason: &'static str, idle_ms: impl Fn(u32) -> f64) -> Fixture {
    let mut f = Fixture::new();
    f.listen(synth::Listen::default());
    for i in 0..8 {
        f.break_off(Broken {
            dial: Dial {
                client: None,
                from: format!("10.79.0.2:{}", 30_000 + i),
                at_ms: 500.0,
                took_ms: 0.0,
                older: true,
                ..Dial::default()
            },
            at_ms: reset_ms(i),
            reason: Some(reason),
            from: TcpState::FinWait1,
            moved: [0, 0],
            ..Broken::default()
        });
    }
    sampled_before(&mut f, idle_ms);
    f
}

#[test]
fn a_server_that_closes_as_requests_come() {
    let idle_ms = |i| 1_010.0 + f64::from(i);
    let f = only(&met_at_the_server("TCP_ABORT_ON_DATA", idle_ms), ID);
    assert_eq!((f.impact.affected, f.impact.of), (8, 8));
    assert_eq!(
        (f.scope.pid, f.scope.role),
        (Some(812), crate::Role::Listener)
    );
    let keep = Change::KeepIdle {
        listener: "10.79.0.1:5000".into(),
        seconds: 2,
    };
    assert_eq!(f.advice[0].change, Some(keep));
    assert!(ruled_out(&f, "reset-unread-data").contains("sent 0 resets"));
    assert!(found(&met_at_the_server("TCP_FLAGS", idle_ms)).is_empty());
    // It closed while data was still coming: an upload that it does not want.
    let busy = |i| 600.0 + f64::from(i);
    assert!(found(&met_at_the_server("TCP_ABORT_ON_DATA", busy)).is_empty());
}

#[test]
fn a_restart_of_the_server_is_no_timeout() {
    // Their FINs came at one moment, after pauses that happen to be alike.
    let at_once = |i| f64::from(i) * 300.0 + 600.0;
    assert!(found(&closed(at_once, |i| 2_000.0 + f64::from(i) * 20.0)).is_empty());
    // Pauses of all lengths.
    assert!(found(&closed(|_| 1_200.0, |i| 1_500.0 + f64::from(i) * 900.0)).is_empty());
    // Less than a second: data was under way.
    assert!(found(&closed(|_| 1_200.0, |i| 200.0 + f64::from(i))).is_empty());
}

#[test]
fn an_idle_timeout_that_resets() {
    let f = only(&pooled(|i| 60.0 + f64::from(i) * 0.02), ID);
    let title = "192.0.2.9:443 resets connections after 60.1 s of silence";
    assert!(f.title.starts_with(title), "{}", f.title);
    assert_eq!(f.confidence.level, Level::Low);
    let close = Change::CloseIdle {
        to: AT.into(),
        seconds: 60,
    };
    assert_eq!(f.advice[0].change, Some(close));
    // Pauses of all lengths are no timeout.
    assert!(found(&pooled(|i| 5.0 + f64::from(i) * 11.0)).is_empty());
}
