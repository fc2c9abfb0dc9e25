//! C56 is named when a connection's two ends are one socket; not for one with another port, or that ended at once.

use crate::causes::testing::{found, only, sysctls};
use crate::{Change, Role};
use synth::{CLIENT, Dial, Fate, Fixture};

const ID: &str = "self-connected";

/// A client that is refused, and then meets itself, for this long.
fn meets_itself(from: &str, ends_ms: Option<f64>) -> Fixture {
    let mut f = Fixture::new();
    f.set(CLIENT, "net.ipv4.ip_local_port_range", "32768\t60999");
    f.set(CLIENT, "net.ipv4.ip_local_reserved_ports", "8080,9000-9010");
    for i in 0..4 {
        f.dial(Dial {
            server: None,
            from: format!("127.0.0.1:{}", 41_000 + i),
            to: "127.0.0.1:40000",
            at_ms: 100.0 + f64::from(i) * 50.0,
            took_ms: 0.05,
            fate: Fate::Refused,
            ..Dial::default()
        });
    }
    f.dial(Dial {
        server: None,
        from: from.into(),
        to: "127.0.0.1:40000",
        at_ms: 400.0,
        took_ms: 0.05,
        ends_ms,
        ..Dial::default()
    });
    f
}

#[test]
fn a_client_that_meets_itself_holds_the_port() {
    let f = only(&meets_itself("127.0.0.1:40000", None), ID);
    assert!(
        f.title
            .contains("is connected to itself at 127.0.0.1:40000"),
        "{}",
        f.title
    );
    assert_eq!((f.scope.role, f.scope.pid), (Role::Client, Some(77)));
    let start = Change::StartListener {
        at: "127.0.0.1:40000".into(),
    };
    assert_eq!(f.advice[0].change, Some(start));
    let reserve = "net.ipv4.ip_local_reserved_ports=8080,9000-9010,40000";
    assert_eq!(sysctls(&f), [(CLIENT, reserve.to_string())]);
    let says = |what: &str| f.evidence.iter().any(|s| s.says.contains(what));
    assert!(says("4 connects there were refused") && says("from 32768 to 60999"));
}

#[test]
fn one_that_has_ended_held_it() {
    let f = only(&meets_itself("127.0.0.1:40000", Some(3_000.0)), ID);
    assert!(f.title.contains("was connected to itself"), "{}", f.title);
    assert!(matches!(f.advice[0].change, Some(Change::Sysctl { .. })));
}

#[test]
fn one_that_ends_at_once_or_has_another_port_is_none() {
    let ids = |f: &Fixture| {
        found(f)
            .iter()
            .map(|f| f.cause.as_str())
            .collect::<Vec<_>>()
    };
    assert!(!ids(&meets_itself("127.0.0.1:40000", Some(500.0))).contains(&ID));
    assert!(!ids(&meets_itself("127.0.0.1:40001", None)).contains(&ID));
}

#[test]
fn what_the_recording_says_is_reserved_is_no_command() {
    let mut f = meets_itself("127.0.0.1:40000", None);
    f.set(CLIENT, "net.ipv4.ip_local_reserved_ports", "1; reboot");
    let reserve = "net.ipv4.ip_local_reserved_ports=40000";
    assert_eq!(sysctls(&only(&f, ID)), [(CLIENT, reserve.to_string())]);
}
