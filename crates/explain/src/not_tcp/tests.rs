//! Whose time it was: proxies, pools, events and transfers are told apart.

use analysis::account::{Slept, Slow, Spent, State, Whose};
use analysis::{Endpoint, Netns};

use super::held::Departure;
use super::*;

fn of_services(services: &[Service]) -> Option<NotTcp> {
    super::of_services(services, &Arrivals::default(), &Departures::default())
}

/// A client whose 100 requests waited 480 of 500 ms for the peer.
fn asks(p99_s: f64) -> Option<NotTcp> {
    let requests = Requests {
        exchanges: 100,
        total_s: 0.5,
        whose_s: Whose {
            peer: 0.48,
            ..Whose::default()
        },
        response: Some(Percentiles {
            p50_s: 0.0016,
            p90_s: 0.002,
            p99_s,
        }),
        ..Requests::default()
    };
    of_services(&[service(Role::Client, "10.0.0.9:443", "app", requests)])
}

fn service(role: Role, at: &str, comm: &str, requests: Requests) -> Service {
    let (addr, port, _) = synth::place(at);
    Service {
        netns: Netns {
            inode: 1,
            name: None,
        },
        role,
        at: Endpoint::new(addr, port),
        pid: Some(7),
        comm: Some(comm.into()),
        home: None,
        name: None,
        ends: 1,
        duplex: 0,
        bytes: 0,
        unread_ms: 0,
        samples: 0,
        total_s: 0.5,
        spent_s: Spent::default(),
        opened: None,
        requests: Some(requests),
    }
}

/// So many requests that took so long each, almost all of it the application's or the peer's.
fn took(exchanges: u64, each_s: f64, role: Role) -> Requests {
    let total_s = exchanges as f64 * each_s;
    let its_own = 0.99 * total_s;
    let whose_s = match role {
        Role::Server => Whose {
            application: its_own,
            ..Whose::default()
        },
        _ => Whose {
            peer: its_own,
            ..Whose::default()
        },
    };
    Requests {
        exchanges,
        total_s,
        whose_s,
        spent_s: Parts {
            think: its_own,
            ..Parts::default()
        },
        ..Requests::default()
    }
}

fn served(at: &str, comm: &str, exchanges: u64, each_s: f64) -> Service {
    service(
        Role::Server,
        at,
        comm,
        took(exchanges, each_s, Role::Server),
    )
}

fn asked(at: &str, comm: &str, exchanges: u64, each_s: f64) -> Service {
    service(
        Role::Client,
        at,
        comm,
        took(exchanges, each_s, Role::Client),
    )
}

#[test]
fn a_proxy_is_not_blamed_for_whom_it_asks() {
    let proxy = || served("0.0.0.0:8080", "haproxy", 100, 0.510);
    let told = of_services(&[proxy(), asked("10.0.0.9:8081", "haproxy", 100, 0.5)]).unwrap();
    assert_eq!((told.whose, told.share), (TimeOf::Peer, 0.9804));
    let says = "10.0.0.9:8081, behind haproxy (pid 7) at 0.0.0.0:8080, takes 500 ms of 510 ms (98 %) per request on \
                average; haproxy adds 10 ms.";
    assert_eq!(told.says, says);
    // The one that it asks is here, and asks a third in its turn.
    let services = [
        proxy(),
        asked("10.0.0.9:8081", "haproxy", 100, 0.5),
        served("0.0.0.0:8081", "shop", 100, 0.5),
        asked("10.0.0.7:5432", "shop", 300, 0.16),
        served("10.0.0.7:5432", "postgres", 300, 0.16),
    ];
    let told = of_services(&services).unwrap();
    assert_eq!((told.whose, told.share), (TimeOf::Application, 0.9412));
    let says = "postgres (pid 7) at 10.0.0.7:5432, behind shop (pid 7) at 0.0.0.0:8081 and haproxy (pid 7) at \
                0.0.0.0:8080, takes 480 ms of 510 ms (94 %) per request on average; the others add 30 ms.";
    assert_eq!(told.says, says);
}

#[test]
fn a_proxy_that_gives_up_on_its_server_is_not_blamed() {
    let mut backend = asked("10.0.0.9:8081", "haproxy", 0, 0.0);
    let r = backend.requests.as_mut().unwrap();
    (r.given_up, r.given_up_s) = (100, 99.0);
    let told = of_services(&[served("0.0.0.0:8080", "haproxy", 100, 1.0), backend]).unwrap();
    assert!(
        told.says.starts_with(
            "10.0.0.9:8081, behind haproxy (pid 7) at 0.0.0.0:8080, takes 990 ms of 1 s"
        ),
        "{}",
        told.says
    );
}

#[test]
fn a_far_backend_is_not_slow() {
    let far = |each_s: f64, network: f64, connecting_ns: u64| {
        let mut backend = asked("10.0.0.9:8081", "haproxy", 100, each_s);
        backend.requests.as_mut().unwrap().whose_s.network = network;
        backend.spent_s.add(State::Connecting, connecting_ns);
        of_services(&[served("0.0.0.0:8080", "haproxy", 100, 0.17), backend])
    };
    // 80 ms of connecting and 80 ms of a round trip.
    assert_eq!(far(0.08, 7.9, 8_000_000_000), None);
    // It takes most of that itself.
    let told = far(0.15, 0.1, 800_000_000).unwrap();
    assert_eq!(told.whose, TimeOf::Peer, "{}", told.says);
}

#[test]
fn hosts_of_one_machine_that_listen_at_the_same_port_are_told_apart() {
    let inside = |inode, mut service: Service| {
        service.netns.inode = inode;
        service
    };
    let services = [
        inside(1, served("0.0.0.0:8000", "haproxy", 100, 0.51)),
        inside(1, asked("10.9.1.2:8000", "haproxy", 100, 0.505)),
        inside(3, served("0.0.0.0:8000", "python3", 100, 0.5)),
        inside(2, served("0.0.0.0:8000", "haproxy", 100, 0.505)),
        inside(2, asked("10.9.3.2:8000", "haproxy", 100, 0.5)),
    ];
    let to = |at: &str| {
        let (addr, port, _) = synth::place(at);
        Endpoint::new(addr, port)
    };
    let arrivals = [((1, to("10.9.1.2:8000")), 2), ((2, to("10.9.3.2:8000")), 3)];
    let told = super::of_services(
        &services,
        &Arrivals(arrivals.into()),
        &Departures::default(),
    )
    .unwrap();
    assert!(
        told.says
            .starts_with("python3 (pid 7) at 0.0.0.0:8000, behind haproxy"),
        "{}",
        told.says
    );
}

#[test]
fn who_asks_others_now_and_then_is_slow_itself() {
    let server = || served("0.0.0.0:8080", "shop", 100, 0.5);
    let own = |others: Service| {
        let told = of_services(&[server(), others]).unwrap();
        assert!(
            told.says
                .starts_with("shop (pid 7) at 0.0.0.0:8080 takes 495 ms of 500 ms"),
            "{}",
            told.says
        );
    };
    // A long poll: seldom, and long. A cache: often, and short. Another program's requests.
    own(asked("10.0.0.9:9092", "shop", 3, 20.0));
    own(asked("10.0.0.9:6379", "shop", 300, 0.001));
    own(asked("10.0.0.9:8081", "other", 100, 0.49));
}

#[test]
fn what_an_event_ends_is_held_and_not_worked_on() {
    let woken = |from: Option<&str>, by: &str| Slept {
        slept_s: 0.05,
        awaited: from.map(|at| {
            let (addr, port, _) = synth::place(at);
            Endpoint::new(addr, port)
        }),
        woken_by: by.into(),
        ..Slept::default()
    };
    let says = |each_s: f64, last: Slept, others: Option<Service>| {
        let mut server = served("0.0.0.0:6379", "redis", 100, each_s);
        let (remote, port, _) = synth::place("10.0.0.1:40000");
        let slow = Slow {
            took_s: each_s,
            remote: Endpoint::new(remote, port),
            answered_after: Some(last),
            ..Slow::default()
        };
        server.requests.as_mut().unwrap().slowest = vec![slow; 3];
        let services: Vec<_> = std::iter::once(server).chain(others).collect();
        of_services(&services)
    };
    // BRPOP until another client pushes; a heartbeat of 4 s.
    assert_eq!(
        says(1.3, woken(Some("10.0.0.2:50000"), "softirq"), None),
        None
    );
    assert_eq!(says(4.0, woken(None, "timer"), None), None);
    // A rate limit; a worker behind a Unix socket; the caller's own next piece; a database asked now and then.
    assert!(says(0.5, woken(None, "timer"), None).is_some());
    assert!(says(4.0, woken(None, "php-fpm"), None).is_some());
    let own = woken(Some("10.0.0.1:40000"), "softirq");
    assert!(says(1.3, own, None).is_some());
    let database = asked("10.0.0.9:5432", "redis", 30, 0.2);
    let answered = woken(Some("10.0.0.9:5432"), "softirq");
    assert!(says(1.3, answered, Some(database)).is_some());
}

#[test]
fn who_waits_until_another_client_leaves_waits_for_the_service() {
    let (other, port, _) = synth::place("10.0.0.2:50000");
    let other = Endpoint::new(other, port);
    let mut server = served("0.0.0.0:6432", "pgbouncer", 100, 0.7);
    let slow = Slow {
        took_s: 0.7,
        after_start_s: 3.1,
        answered_after: Some(Slept {
            slept_s: 0.05,
            awaited: Some(other),
            woken_by: "softirq".into(),
            ..Slept::default()
        }),
        ..Slow::default()
    };
    server.requests.as_mut().unwrap().slowest = vec![slow; 3];
    let left_at = |after_s: f64| {
        let at = (1, 6432);
        Departures([(other, Departure { after_s, at })].into())
    };
    let mut told = |departures: &Departures, unanswered: u64| {
        server.requests.as_mut().unwrap().unanswered = unanswered;
        super::of_services(&[server.clone()], &Arrivals::default(), departures)
    };
    let says = told(&left_at(3.8), 1).expect("is told").says;
    assert!(
        says.ends_with("or its limit of connections, is full."),
        "{says}"
    );
    // It spoke then, and left later: an event.
    assert_eq!(told(&left_at(4.8), 1), None);
    assert_eq!(told(&Departures::default(), 1), None);
    // It got an answer and left: what it said may be what the other waits for (RPUSH).
    assert_eq!(told(&left_at(3.8), 0), None);
}

#[test]
fn a_queue_before_the_server_is_told_apart_from_its_work() {
    let mut server = served("0.0.0.0:80", "gunicorn", 20, 3.0);
    let r = server.requests.as_mut().unwrap();
    (r.spent_s.accept, r.spent_s.think) = (54.0, 5.4);
    let told = of_services(&[server.clone()]).unwrap().says;
    let says = "gunicorn (pid 7) at 0.0.0.0:80 takes 2.97 s of 3 s (99 %) per request on average, 2.7 s of it \
                before accept().";
    assert_eq!(told, says);
    // A proxy that lets one request through at a time.
    let mut backend = asked("10.0.0.9:8081", "haproxy", 20, 0.3);
    backend.requests.as_mut().unwrap().response = Some(Percentiles {
        p50_s: 0.3,
        p90_s: 0.3,
        p99_s: 0.3,
    });
    let told = of_services(&[served("0.0.0.0:80", "haproxy", 20, 3.0), backend])
        .unwrap()
        .says;
    assert!(
        told.ends_with("; 10.0.0.9:8081 answers half of its requests within 300 ms."),
        "{told}"
    );
}

#[test]
fn half_of_them_are_not_one_in_a_hundred() {
    let mut asks = asked("10.0.0.9:25", "app", 100, 1.5);
    asks.requests.as_mut().unwrap().response = Some(Percentiles {
        p50_s: 0.004,
        p90_s: 3.0,
        p99_s: 3.0,
    });
    let told = of_services(&[asks]).unwrap().says;
    assert!(
        told.contains("and one in ten takes 3 s or longer"),
        "{told}"
    );
}

#[test]
fn a_download_at_full_speed_is_nobodys_time() {
    let mut server = served("0.0.0.0:80", "nginx", 100, 0.02);
    server.bytes = 100 * 20_000_000;
    assert_eq!(of_services(&[server.clone()]), None);
    server.bytes /= 10;
    assert!(of_services(&[server]).is_some());
}

#[test]
fn few_that_take_long_are_felt_though_the_mean_is_short() {
    let not_tcp = asks(0.09).unwrap();
    assert_eq!((not_tcp.whose, not_tcp.share), (TimeOf::Peer, 0.96));
    let says = not_tcp.says;
    let told = "10.0.0.9:443 answers half of the requests of app (pid 7) within 1.6 ms, and one in a hundred takes \
                90 ms or longer; 96 % of that time is the peer's. A round trip takes 0 µs.";
    assert_eq!(says, told);
    assert_eq!(asks(0.015), None);
    assert_eq!(asks(0.009), None);
}
