//! C34 is named when packets walk a structure, and only then.

use recording::SourceName;

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{CLIENT, Dial, Fixture, Listen, OnCpu, SERVER, START_NS, cases};

const ID: &str = "lookup-table-growth";

/// `count` samples in softirq, in the look-up of a connection or in the rest of receiving.
fn receiving(f: &mut Fixture, inside: &str, from_ms: u64, count: u64) {
    let at = OnCpu {
        cpu: 1,
        pid: 0,
        comm: "swapper/1",
        softirq: true,
        stack: &[inside, "net_rx_action", "handle_softirqs"],
    };
    f.on_cpu(at, from_ms, count);
}

/// 12,000 connections in 16 buckets; the look-up grows to 1 s of CPU time in 10 s.
fn growing() -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.set(SERVER, "net.ipv4.tcp_ehash_entries", "16");
    f.set(CLIENT, "net.ipv4.tcp_ehash_entries", "-262144");
    for i in 0..12_000u32 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 20_000 + i),
            at_ms: f64::from(i) * 0.5,
            took_ms: 0.05,
            ..Dial::default()
        });
    }
    f.lookup(SERVER, "ehash", [0, 10_000, 12_000], Some(16));
    f.lookup(CLIENT, "ehash", [0, 10_000, 12_000], Some(262_144));
    f.count(SERVER, "Tcp.InSegs", 0, 120_000);
    receiving(&mut f, "tcp_v4_rcv", 0, 400);
    receiving(&mut f, "__inet_lookup_established", 5_000, 1_000);
    f
}

#[test]
fn a_small_table_full_of_connections() {
    let f = only(&growing(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.scope.resource.as_deref(), Some("ehash"));
    assert_eq!(f.scope.netns.inode, SERVER);
    assert_eq!(
        f.scope.function.as_deref(),
        Some("__inet_lookup_established")
    );
    assert_eq!(number(&f, "mean_chain"), &Number::Real(750.0));
    assert_eq!(number(&f, "growth_per_s"), &Number::Real(1_200.0));
    assert_eq!(number(&f, "accepted"), &Number::Count(12_000));
    assert_eq!(
        f.advice[0].change,
        Some(Change::HashBuckets {
            netns: SERVER,
            table: "ehash".into(),
            value: 65_536
        })
    );
    assert!(ruled_out(&f, "port-search-cost").starts_with("0 samples"));
}

#[test]
fn the_table_of_the_host_is_sized_at_boot() {
    let mut f = growing();
    f.table_sizes.clear();
    f.lookup(0, "ehash", [11_000, 12_000, 12_000], Some(1_024));
    let f = only(&f, ID);
    assert!(f.advice[0].action.contains("thash_entries="));
    assert!(matches!(
        f.advice[0].change,
        Some(Change::HashBuckets { netns: 0, .. })
    ));
}

#[test]
fn thousands_of_rules() {
    let mut f = growing();
    f.table_sizes.clear();
    f.samples.clear();
    f.lookup(SERVER, "ehash", [0, 10_000, 12_000], Some(262_144));
    f.lookup(SERVER, "nft-rules", [4_000; 3], None);
    receiving(&mut f, "tcp_v4_rcv", 0, 400);
    receiving(&mut f, "nft_do_chain", 1_000, 2_000);
    let f = only(&f, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.scope.resource.as_deref(), Some("nft-rules"));
    assert_eq!(f.scope.function.as_deref(), Some("nft_do_chain"));
    assert!(matches!(
        f.advice[0].change,
        Some(Change::RulesToSet { netns: SERVER, .. })
    ));
}

#[test]
fn a_rule_set_that_costs_a_tenth_is_what_its_owner_wants() {
    let mut f = growing();
    f.table_sizes.clear();
    f.samples.clear();
    f.lookup(SERVER, "nft-rules", [4_000; 3], None);
    receiving(&mut f, "tcp_v4_rcv", 0, 4_000);
    receiving(&mut f, "nft_do_chain", 5_000, 500);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn a_table_with_room_is_none_however_often_it_is_looked_up() {
    let mut f = growing();
    for row in &mut f.table_sizes {
        row.buckets = Some(65_536);
    }
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn long_chains_that_cost_nothing_are_none() {
    let mut f = growing();
    f.samples.clear();
    receiving(&mut f, "tcp_v4_rcv", 0, 4_000);
    receiving(&mut f, "__inet_lookup_established", 5_000, 100);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn time_in_connect_is_not_time_in_softirq() {
    let mut f = growing();
    for sample in &mut f.samples {
        sample.softirq = false;
    }
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn too_few_segments_for_the_time_lower_the_confidence() {
    let mut f = growing();
    f.counters.retain(|c| &*c.name != "InSegs");
    f.count(SERVER, "Tcp.InSegs", 0, 1_200);
    let f = only(&f, ID);
    assert_eq!(f.confidence.level, Level::Low);
    assert!(!f.arithmetic[0].agrees);
}

#[test]
fn a_profile_with_losses_lowers_the_confidence_and_none_finds_nothing() {
    let mut f = growing();
    f.lose(SourceName::Profile, 300);
    assert_eq!(only(&f, ID).confidence.level, Level::Medium);
    f.samples.clear();
    assert_eq!(found(&f).len(), 0);
    assert_eq!(found(&cases::churn()).len(), 0);
}

/// A destination cache of 256 buckets that grows by 20 entries a second, looked up 700 times a second.
fn forgets_nobody(entries: u64, held_before: bool) -> Fixture {
    let mut f = Fixture::new();
    let first = if held_before { entries } else { 0 };
    f.lookup(SERVER, "dce", [first, first + 100, first + 200], Some(256));
    f.count(SERVER, "Tcp.ActiveOpens", 0, 2_000);
    f.count(SERVER, "Tcp.PassiveOpens", 0, 5_000);
    let walks = |stack: &'static [&'static str], pid| OnCpu {
        cpu: 1,
        pid,
        comm: "sched",
        softirq: false,
        stack,
    };
    f.on_cpu(walks(&["dce_lookup_and_add_v4", "ip_input"], 0), 0, 4_000);
    f.on_cpu(
        walks(&["dce_lookup_and_add_v4", "so_connect"], 7),
        4_000,
        2_000,
    );
    f.on_cpu(walks(&["sys_syscall"], 7), 6_000, 400);
    f
}

#[test]
fn a_destination_cache_is_walked_in_threads_and_interrupts() {
    let told = found_on_illumos(&forgets_nobody(8_000_000, true));
    assert_eq!(told.scope.resource.as_deref(), Some("dce"));
    assert_eq!(told.impact.affected, 7_000);
    assert!(told.fix.contains("_dce_reclaim_threshold=32"));
    assert_eq!(told.advice.len(), 3);
    assert!(ruled_out(&told, "port-search-cost").ends_with("in the kernel"));
    // Entries in the millions, held already at boot, did not come at this rate.
    assert!(!says_it_forgets_nobody(&told));
}

fn says_it_forgets_nobody(told: &crate::Finding) -> bool {
    let mut numbers = told.evidence.iter().flat_map(|s| &s.numbers.0);
    numbers.any(|(name, _)| *name == "days_since_boot")
}

#[test]
fn a_destination_cache_that_grew_at_this_rate_since_boot_forgets_nobody() {
    // 20 per second, kept up since the clock began.
    let entries = 20 * (START_NS / 1_000_000_000 + 10);
    let told = found_on_illumos(&forgets_nobody(entries - 200, true));
    assert!(says_it_forgets_nobody(&told), "{:#?}", told.evidence);
}

/// Its advice has no change that a program on this host could apply: illumos is not this host.
fn found_on_illumos(f: &Fixture) -> crate::Finding {
    let mut told = crate::explain(&f.write().unwrap()).unwrap().findings;
    assert_eq!(told.len(), 1);
    let told = told.remove(0);
    assert_eq!(told.cause, ID);
    told
}

#[test]
fn a_destination_cache_that_is_seldom_asked_is_none() {
    let mut f = forgets_nobody(8_000_000, true);
    f.samples.truncate(150);
    assert_eq!(found(&f).len(), 0);
    let mut short = forgets_nobody(8_000_000, true);
    for row in &mut short.table_sizes {
        row.buckets = Some(1 << 22);
    }
    assert_eq!(found(&short).len(), 0);
}

/// A full neighbour table is walked for each new neighbour, in any kernel context.
#[test]
fn neighbours_that_are_collected_again_and_again() {
    let mut f = Fixture::new();
    f.set(0, "net.ipv4.neigh.default.gc_thresh2", "512");
    f.set(0, "net.ipv4.neigh.default.gc_thresh3", "1024");
    f.lookup(0, "neighbours", [0, 1_000, 1_020], None);
    let at = OnCpu {
        cpu: 1,
        pid: 77,
        comm: "scanner",
        softirq: false,
        stack: &["neigh_forced_gc", "neigh_alloc", "ip_finish_output2"],
    };
    f.on_cpu(at, 0, 600);
    let story = analysis::Story::read(&f.write().unwrap().recording).unwrap();
    let all = (super::CAUSE.find)(&crate::Whole::of(
        &story,
        crate::inquiry::Inquiry::of_nothing(&story),
    ))
    .kept;
    let [f] = &all[..] else { panic!("{all:?}") };
    assert!(f.title.starts_with("New neighbours walk"), "{}", f.title);
    assert_eq!(
        f.advice[0].command.as_deref(),
        Some(
            "sysctl -w net.ipv4.neigh.default.gc_thresh3=4096 \
             net.ipv4.neigh.default.gc_thresh2=2048"
        )
    );
    let undo = f.advice[0].undo.as_deref();
    assert!(undo.is_some_and(|undo| undo.contains("gc_thresh2=512")));
    assert!(f.advice[0].expected.contains("gc_thresh3=1024"));
    let flush = &f.advice[1];
    assert_eq!(
        flush.command.as_deref(),
        Some("ip -4 neigh flush nud stale")
    );
    assert!(flush.risk.starts_with("Disruptive") && flush.undo.is_some());
}
