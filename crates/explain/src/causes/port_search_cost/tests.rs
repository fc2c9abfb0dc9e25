//! C03 is named when a search for local ports costs CPU, and only then.

use recording::{SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{CLIENT, Dial, Fixture, Listen, OnCpu, SERVER, cases};

const ID: &str = "port-search-cost";
const TO: &str = "10.79.0.1:5000";

/// `count` connections to one destination from 9,000 ports, even ones first.
fn filling(count: u32) -> Fixture {
    let mut f = Fixture::new();
    f.set(CLIENT, "net.ipv4.ip_local_port_range", "20000 28999");
    f.listen(Listen::default());
    for i in 0..count {
        let (port, took_ms) = match i {
            0..4_500 => (20_000 + 2 * i, 0.02),
            _ => (20_001 + 2 * (i - 4_500), 0.3),
        };
        f.dial(Dial {
            from: format!("10.79.0.2:{port}"),
            to: TO,
            at_ms: f64::from(i),
            took_ms,
            ..Dial::default()
        });
    }
    f.ports(CLIENT, "10.79.0.2:0", TO, [count.min(4_900), count]);
    f
}

/// CPU time of the client, ms: in a function below connect(), and elsewhere.
fn using(f: &mut Fixture, function: &str, inside: u64, elsewhere: u64) {
    let mut at = OnCpu {
        cpu: 0,
        pid: 700,
        comm: "proxy",
        softirq: false,
        stack: &[function, "inet_stream_connect", "__x64_sys_connect"],
    };
    f.on_cpu(at, 4_500, inside);
    at.stack = &["do_syscall_64"];
    f.on_cpu(at, 0, elsewhere);
    for event in f.events.iter_mut().filter(|e| e.netns == CLIENT) {
        event.pid = Some(700);
        event.comm = Some("proxy".into());
    }
}

fn searching() -> Fixture {
    let mut f = filling(7_000);
    using(&mut f, "__inet_hash_connect", 700, 500);
    f
}

#[test]
fn connects_beyond_the_first_half() {
    let f = only(&searching(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (2_500, 7_000));
    assert_eq!(
        (f.scope.pid, f.scope.comm.as_deref()),
        (Some(700), Some("proxy"))
    );
    assert_eq!(f.scope.function.as_deref(), Some("__inet_hash_connect"));
    assert_eq!(number(&f, "median_after_us"), &Number::Real(300.0));
    assert_eq!(number(&f, "even_before"), &Number::Real(1.0));
    assert_eq!(number(&f, "even_after"), &Number::Real(0.0));
    assert!(matches!(
        &f.advice[0].change,
        Some(Change::Sysctl { netns: CLIENT, value, .. }) if value == "10240 65535"
    ));
    assert!(ruled_out(&f, "ports-exhausted").starts_with("0 of 7,000 connects"));
}

#[test]
fn bind_searches_before_connect() {
    let mut f = filling(7_000);
    using(&mut f, "inet_csk_get_port", 2_000, 500);
    let f = only(&f, ID);
    assert!(f.title.starts_with("bind()"), "{}", f.title);
    let mut changes = f.advice.iter().filter_map(|a| a.change.as_ref());
    assert!(changes.any(|c| *c == Change::ConnectChoosesPort { pid: 700 }));
    assert_eq!(f.impact.added_latency_ms, None);
}

#[test]
fn a_range_that_cannot_grow_asks_for_addresses() {
    let mut f = searching();
    for row in &mut f.port_uses {
        (row.range_low, row.range_high) = (1_024, 65_535);
        row.ports_used = 50_000;
    }
    let f = only(&f, ID);
    assert!(matches!(
        f.advice[0].change,
        Some(Change::MoreAddresses { value: 2, .. })
    ));
}

#[test]
fn ports_in_use_that_nobody_searches_are_none() {
    let mut f = filling(7_000);
    using(&mut f, "tcp_connect", 700, 500);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn a_search_with_ports_to_spare_is_another_matter() {
    let mut f = filling(4_000);
    using(&mut f, "__inet_hash_connect", 700, 500);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn in_a_table_too_small_the_check_of_a_port_is_no_search() {
    let mut f = filling(4_000);
    using(&mut f, "__inet_check_established", 700, 500);
    f.lookup(CLIENT, "ehash", [0, 4_000, 4_000], Some(16));
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn losses_lower_the_confidence_and_without_a_profile_it_is_silent() {
    let mut f = searching();
    f.lose(SourceName::States, 10);
    assert_eq!(only(&f, ID).confidence.level, Level::Medium);
    f.samples.clear();
    assert_eq!(found(&f).len(), 0);
    assert_eq!(found(&cases::churn()).len(), 0);
}

/// The pid of a program that asks whether the server's port is free.
const ASKER: u32 = 900;

/// A server with this many connections, half a millisecond apart.
fn crowd(connections: u32, ends_ms: Option<f64>) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..connections {
        f.dial(Dial {
            client: None,
            from: format!("10.79.0.2:{}", 20_000 + i),
            to: TO,
            at_ms: f64::from(i) / 2.0,
            ends_ms,
            ..Dial::default()
        });
    }
    f
}

/// 400 calls of bind() for a place, each taking this long, and their CPU time.
fn asking(f: &mut Fixture, at: &str, took_us: u64) {
    f.refused_binds(at, (ASKER, "watchdog"), 400, took_us);
    let mut on_cpu = OnCpu {
        cpu: 0,
        pid: ASKER,
        comm: "watchdog",
        softirq: false,
        stack: &["inet_csk_get_port", "inet_bind", "__x64_sys_bind"],
    };
    f.on_cpu(on_cpu, 5_000, 400 * took_us / 1_000);
    (on_cpu.pid, on_cpu.comm, on_cpu.stack) = (812, "iperf3", &["tcp_recvmsg"]);
    f.on_cpu(on_cpu, 0, 200);
}

fn asked(connections: u32, at: &str, took_us: u64) -> Fixture {
    let mut f = crowd(connections, None);
    asking(&mut f, at, took_us);
    f
}

#[test]
fn bind_walks_the_connections_of_a_port_that_is_taken() {
    let f = only(&asked(8_000, "0.0.0.0:5000", 250), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.title.contains("8,000 connections"), "{}", f.title);
    assert_eq!((f.impact.affected, &*f.impact.counted), (400, "calls"));
    assert_eq!((f.scope.pid, f.scope.netns.inode), (Some(ASKER), SERVER));
    assert_eq!(f.scope.resource.as_deref(), Some("port 0.0.0.0:5000"));
    assert_eq!(f.scope.function.as_deref(), Some("inet_csk_get_port"));
    assert_eq!(number(&f, "owners"), &Number::Count(8_000));
    assert_eq!(number(&f, "calls_per_s"), &Number::Real(100.0));
    assert_eq!(number(&f, "owners_per_s"), &Number::Real(800_000.0));
    let change = Change::BindWithoutReuse { pid: ASKER };
    assert_eq!(f.advice[0].change, Some(change));
    assert!(ruled_out(&f, "cpu-contention").starts_with("100 ms of 100 ms in bind()"));
}

#[test]
fn of_one_address_only_its_connections_are_in_the_way() {
    let here = only(&asked(8_000, "10.79.0.1:5000", 250), ID);
    assert_eq!(number(&here, "owners"), &Number::Count(8_000));
    for other in ["10.79.0.9:5000", "0.0.0.0:5001"] {
        assert_eq!(found(&asked(8_000, other, 250)).len(), 0, "{other}");
    }
}

#[test]
fn a_port_refused_at_once_or_that_few_have_is_no_matter() {
    assert_eq!(found(&asked(8_000, "0.0.0.0:5000", 1)).len(), 0);
    assert_eq!(found(&asked(100, "0.0.0.0:5000", 250)).len(), 0);
    let mut f = asked(8_000, "0.0.0.0:5000", 250);
    f.calls.truncate(10);
    assert_eq!(found(&f).len(), 0, "ten calls are no pattern");
}

#[test]
fn connections_that_are_gone_are_in_nobodys_way_but_their_time_waits_are() {
    let mut f = crowd(8_000, Some(4_500.0));
    asking(&mut f, "0.0.0.0:5000", 250);
    assert_eq!(found(&f).len(), 0);
    let ends = |e: &&mut recording::tables::Event| e.state == Some(TcpState::Close);
    for end in f.events.iter_mut().filter(ends) {
        end.old_state = Some(TcpState::FinWait2);
    }
    assert_eq!(number(&only(&f, ID), "owners"), &Number::Count(8_000));
}

#[test]
fn a_walk_that_does_not_fit_its_length_is_less_sure() {
    let f = only(&asked(1_000, "0.0.0.0:5000", 250), ID);
    assert_eq!(f.confidence.level, Level::Low, "{:?}", f.confidence);
    let mut f = asked(8_000, "0.0.0.0:5000", 250);
    f.lose(SourceName::Calls, 5);
    assert_eq!(only(&f, ID).confidence.level, Level::Medium);
}

#[test]
fn the_advice_is_for_the_kernel_that_runs() {
    let own_range = |kernel: &str| {
        let mut f = searching();
        f.manifest.host.kernel = kernel.into();
        let f = only(&f, ID);
        let on_socket = |a: &&crate::Advice| a.action.contains("IP_LOCAL_PORT_RANGE on the socket");
        let advice = f.advice.iter().find(on_socket).expect("it is advised");
        let (_, kernel) = advice.action.rsplit_once('(').expect("what it needs");
        kernel.to_string()
    };
    assert_eq!(
        own_range("6.18.44-cloud-amd64"),
        "this kernel, 6.18, has it)."
    );
    assert_eq!(own_range(""), "needs Linux 6.8).", "not known");
    // It would search the same way without.
    assert_eq!(own_range("6.6.0"), "needs Linux 6.8, this host runs 6.6).");
}

/// Ports that closed connections hold are not needed at all if connections are reused.
#[test]
fn what_churns_is_told_first_to_keep_connections() {
    let first = |time_wait: bool| {
        let mut f = searching();
        for row in &mut f.port_uses {
            row.time_wait = if time_wait { row.ports_used } else { 0 };
        }
        only(&f, ID).advice.remove(0).change
    };
    assert!(matches!(first(true), Some(Change::KeepConnections { .. })));
    assert!(!matches!(
        first(false),
        Some(Change::KeepConnections { .. })
    ));
}
