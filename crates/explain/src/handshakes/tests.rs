//! Handshakes are told where a caller gave up connections that it needed again, and each cost it a long round trip.

use synth::{Dial, Fixture, RequestMix};

use crate::{NotTcp, TimeOf, explain};

/// 60 requests that take so long; before each, a connect that takes so long, to a connection that ends after so long,
/// ms; and ten connections made in 1 ms, which it keeps.
fn connects(took_ms: f64, lasts_ms: Option<f64>, usual_ms: f64) -> Fixture {
    let mut f = Fixture::new();
    f.ask(RequestMix {
        here: [false, true],
        usual: (60, usual_ms),
        slow: (0, 0.0),
        ..RequestMix::default()
    });
    for i in 0..60 {
        let at_ms = 1_000.0 + 100.0 * f64::from(i);
        f.dial(Dial {
            server: None,
            from: format!("10.79.0.2:{}", 50_000 + i),
            at_ms,
            took_ms,
            rtt_us: (took_ms * 1e3) as u32,
            ends_ms: lasts_ms.map(|ms| at_ms + ms),
            ..Dial::default()
        });
    }
    f
}

fn told(f: &Fixture) -> Option<NotTcp> {
    let explained = explain(&f.write().unwrap()).unwrap();
    assert!(explained.findings.is_empty(), "{:#?}", explained.findings);
    explained.summary.not_tcp
}

#[test]
fn half_of_a_wait_is_a_handshake_that_a_pool_spares() {
    let told = told(&connects(40.0, Some(90.0), 41.0)).expect("it costs half");
    assert_eq!(told.whose, TimeOf::Handshakes);
    let says = "opened 59 connections to 10.79.0.1:5000 for 60 requests and could have kept earlier ones: connecting \
                takes 34.4 ms each, 45 % of what it waits. wrk (pid 77) closes them";
    assert!(told.says.contains(says), "{}", told.says);
}

#[test]
fn who_closes_them_is_who_has_to_keep_them() {
    let mut f = connects(40.0, Some(90.0), 41.0);
    f.server_closes_first();
    let told = told(&f).expect("it costs as much");
    let says =
        "10.79.0.1:5000 closes them after the answer: turn on keepalive there, or ask for it.";
    assert!(told.says.ends_with(says), "{}", told.says);
}

#[test]
fn a_short_round_trip_costs_nobody_anything() {
    assert_eq!(told(&connects(0.2, Some(90.0), 0.3)), None);
}

#[test]
fn connections_that_are_all_held_were_needed() {
    assert_eq!(told(&connects(40.0, None, 41.0)), None);
}

#[test]
fn a_slow_peer_comes_before_the_handshakes() {
    let told = told(&connects(40.0, Some(90.0), 150.0)).expect("it is slow");
    assert_eq!(told.whose, TimeOf::Peer);
}
