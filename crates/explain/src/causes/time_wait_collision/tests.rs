//! C01 is named when TIME_WAIT refuses SYNs, and not for a few, nor for other delays.

use recording::tables::{Event, TableSize};
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out, sysctls};
use crate::{Change, Level, Number};
use synth::{CLIENT, Dial, Fixture, Listen, SERVER, START_NS, cases, place};

const ID: &str = "time-wait-collision";

/// 40 ports are reused 5 ms after an upload of 500 kB that took 3 ms, and refused; 200 other connects succeed.
fn collisions(how_many: u16, reason: &str) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for netns in [SERVER, CLIENT] {
        f.set(netns, "net.ipv4.tcp_timestamps", "0");
        f.set(netns, "net.ipv4.tcp_syn_linear_timeouts", "4");
        f.set(netns, "net.ipv4.ip_local_port_range", "40000 40255");
    }
    for i in 0..200u16 {
        let at_ms = 10.0 + f64::from(i) * 40.0;
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 50_000 + i),
            at_ms,
            took_ms: 0.05,
            ends_ms: Some(at_ms + 3.0),
            ..Dial::default()
        });
    }
    for i in 0..how_many {
        let at_ms = 1_000.0 + f64::from(i) * 50.0;
        let from = format!("10.79.0.2:{}", 40_000 + i);
        let upload = Dial {
            from: from.clone(),
            at_ms,
            took_ms: 0.05,
            sends: 500_000,
            ends_ms: Some(at_ms + 3.0),
            ..Dial::default()
        };
        f.dial(upload.clone());
        f.dial(Dial {
            at_ms: at_ms + 5.0,
            took_ms: 1_004.0,
            retries: 1,
            ends_ms: Some(at_ms + 1_200.0),
            ..upload
        });
        refuse(&mut f, &from, at_ms + 5.1, reason);
    }
    f
}

/// What a refusal leaves: the SYN dropped at the TIME_WAIT socket, and the client's reset.
fn refuse(f: &mut Fixture, from: &str, at_ms: f64, reason: &str) {
    let ((client, client_port, _), (server, server_port, _)) =
        (place(from), place("10.79.0.1:5000"));
    let syn = Event {
        time_ns: START_NS + (at_ms * 1e6) as u64,
        kind: EventKind::Drop,
        netns: SERVER,
        family: 4,
        local_addr: server,
        local_port: server_port,
        remote_addr: client,
        remote_port: client_port,
        state: Some(TcpState::TimeWait),
        reason: Some(reason.into()),
        location: Some("tcp_v4_rcv".into()),
        flags: Some(2),
        ..Event::default()
    };
    let reset = Event {
        time_ns: syn.time_ns + 20_000,
        kind: EventKind::ResetSent,
        netns: CLIENT,
        local_addr: client,
        local_port: client_port,
        remote_addr: server,
        remote_port: server_port,
        state: Some(TcpState::SynSent),
        reason: Some("TCP_INVALID_ACK_SEQUENCE".into()),
        location: None,
        flags: Some(16),
        ..syn.clone()
    };
    f.events.extend([syn, reset]);
    f.events.sort_by_key(|e| e.time_ns);
}

#[test]
fn an_upload_that_overtook_the_clock() {
    let f = only(&collisions(40, "NOT_SPECIFIED"), ID);
    assert_eq!(f.impact.affected, 40);
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert_eq!(f.confidence.level, Level::High);
    assert_eq!(number(&f, "refused_syns"), &Number::Count(40));
    let sequence = f.arithmetic.iter().find(|c| c.formula.contains("64 ns"));
    assert!(sequence.is_some_and(|c| c.agrees && c.measured == 40.0));
    assert!(
        f.fix.starts_with("Keep connections to 10.79.0.1:5000 open"),
        "{}",
        f.fix
    );
    assert!(ruled_out(&f, "path-loss").contains("incast"));
    let timer = f
        .arithmetic
        .iter()
        .find(|c| c.formula.contains("SYN timer"));
    assert!(timer.is_some_and(|c| c.agrees && c.measured == 40.0));
    let expected = [
        (SERVER, "net.ipv4.tcp_timestamps=1".to_string()),
        (CLIENT, "net.ipv4.tcp_timestamps=1".to_string()),
        (
            CLIENT,
            "net.ipv4.ip_local_port_range=32768 60999".to_string(),
        ),
    ];
    assert_eq!(sysctls(&f), expected);
    assert!(ruled_out(&f, "accept-queue-overflow").contains("by 0"));
    assert!(
        f.evidence[0]
            .says
            .contains("40 at 1 s (when Linux sends SYN 2)")
    );
    let constant = f
        .advice
        .iter()
        .any(|a| a.action.contains("no sysctl shortens"));
    assert!(constant, "TIME_WAIT cannot be tuned, and it says so");
}

#[test]
fn a_slow_upload_does_not_explain_it() {
    let mut f = collisions(40, "NOT_SPECIFIED");
    for event in &mut f.events {
        event.bytes_acked = event.bytes_acked.map(|b| b.min(1_000));
    }
    let f = only(&f, ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert!(f.arithmetic.iter().any(|c| !c.agrees));
}

#[test]
fn older_timestamps_are_told_apart() {
    let mut recording = collisions(40, "TCP_RFC7323_TW_PAWS");
    recording.set(SERVER, "net.ipv4.tcp_timestamps", "1");
    let f = only(&recording, ID);
    assert_eq!(number(&f, "paws"), &Number::Count(40));
    let closes = Change::ClientClosesFirst {
        at: "10.79.0.1:5000".into(),
    };
    let keeps = Change::KeepConnections {
        to: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(keeps));
    assert_eq!(f.advice[1].change, Some(closes));
    assert!(f.fix.contains("NAT"));
}

#[test]
fn resets_that_do_not_end_time_wait() {
    let mut recording = collisions(40, "NOT_SPECIFIED");
    recording.set(SERVER, "net.ipv4.tcp_rfc1337", "1");
    let f = only(&recording, ID);
    assert_eq!(
        sysctls(&f)[0],
        (SERVER, "net.ipv4.tcp_rfc1337=0".to_string())
    );
}

#[test]
fn one_side_is_enough() {
    let mut server = collisions(40, "NOT_SPECIFIED");
    server.seen_from(SERVER);
    let f = only(&server, ID);
    assert_eq!((f.impact.affected, &*f.impact.counted), (40, "SYNs"));

    let mut client = collisions(40, "NOT_SPECIFIED");
    client.seen_from(CLIENT);
    // A server that never closes first has no TIME_WAIT sockets: it has connections that were forgotten.
    assert!(found(&client).is_empty());

    client.server_closes_first();
    let f = only(&client, ID);
    assert_eq!(f.confidence.level, Level::Medium);
    assert!(f.confidence.because[0].contains("not on this host"));
}

#[test]
fn time_wait_sockets_are_counted() {
    let mut recording = collisions(40, "NOT_SPECIFIED");
    for (time_ns, entries) in [(START_NS, 3), (recording.manifest.end_ns, 43)] {
        recording.table_sizes.push(TableSize {
            time_ns,
            netns: SERVER,
            structure: "time-wait".into(),
            entries,
            ..TableSize::default()
        });
    }
    recording.server_closes_first();
    let f = only(&recording, ID);
    let little = f
        .arithmetic
        .iter()
        .find(|c| c.formula.contains("closed first"));
    let little = little.expect("there is a count");
    // 200 healthy ports and 40 reused ones, and 3 that existed before.
    assert_eq!(
        (little.expected, little.measured, little.agrees),
        (243.0, 43.0, false)
    );
    assert_eq!(number(&f, "time_wait"), &Number::Count(43));
}

#[test]
fn illumos_is_told_by_its_settings() {
    let mut recording = collisions(40, "NOT_SPECIFIED");
    for (name, value) in [
        ("tcp_iss_incr", "250000"),
        ("tcp_strong_iss", "1"),
        ("tcp_time_wait_interval", "60000"),
    ] {
        recording.set(CLIENT, name, value);
    }
    // Not `only`: no change that a program on this host could apply sets an illumos tunable.
    let explanation = crate::explain(&recording.write().unwrap()).unwrap();
    let [f] = &explanation.findings[..] else {
        panic!("{:?}", explanation.findings)
    };
    assert_eq!(f.cause, ID);
    assert!(f.fix.contains("tcp_iss_incr=25000"), "{}", f.fix);
    assert!(sysctls(f).is_empty(), "no sysctl of Linux");
    assert_eq!(number(f, "half_around"), &Number::Count(17_179));
    // That few connections do not make its sequence numbers wrap around: something else refused them.
    let sequence = f.arithmetic.iter().find(|c| c.formula.contains("iss"));
    assert!(sequence.is_some_and(|c| !c.agrees && c.expected == 0.0 && c.measured == 40.0));
    assert_eq!(f.confidence.level, Level::Medium);
}

#[test]
fn a_few_are_no_finding() {
    assert!(found(&collisions(4, "NOT_SPECIFIED")).is_empty());
    assert!(found(&cases::churn()).is_empty());
}

#[test]
fn what_was_lost_is_said() {
    let mut recording = collisions(40, "NOT_SPECIFIED");
    recording.lose(SourceName::Drops, 5);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Medium);
}
