//! The simulation keeps what must hold of any such kernel, whatever its parameters.

use std::collections::HashSet;

use proptest::prelude::*;

use super::flow::{Flow, How};
use super::listener::Answer;
use super::mesh::{Happened, Mesh, What};
use super::observer::Observer;
use super::params::Params;
use super::series::Series;
use super::sim::{run, simulate};
use crate::testing::{Audit, Set, follows_from_the_seed, is_unchanged_by_watching};

/// Watches and complains.
struct Auditor<'p> {
    p: &'p Params,
    requests: Vec<i64>,
    waiting: Vec<i64>,
    connects: u64,
    established: u64,
    resent: u64,
    audit: Audit,
}

impl Auditor<'_> {
    fn new(p: &Params) -> Auditor<'_> {
        let nodes = p.nodes as usize;
        Auditor {
            p,
            requests: vec![0; nodes],
            waiting: vec![0; nodes],
            connects: 0,
            established: 0,
            resent: 0,
            audit: Audit::default(),
        }
    }
}

impl Observer for Auditor<'_> {
    fn handshake(&mut self, mesh: &Mesh, happened: Happened) {
        self.audit.at(happened.at_ns);
        let socket = &mesh.sockets[happened.socket];
        let node = socket.listener as usize;
        match happened.what {
            What::Connect => self.connects += 1,
            What::Syn(Answer::Kept) => self.requests[node] += 1,
            What::Syn(Answer::Cookie { full }) => {
                let is_full = self.requests[node] >= i64::from(self.p.most_requests());
                self.audit
                    .ensure(full == is_full, "a cookie although there was room");
            }
            What::Established => {
                self.established += 1;
                self.requests[node] -= i64::from(!socket.cookie);
                self.waiting[node] += 1;
            }
            What::Accepted => self.waiting[node] -= 1,
            _ => {}
        }
        let most = i64::from(self.p.most_requests());
        self.audit.ensure(
            (0..=most).contains(&self.requests[node]),
            "more requests than fit",
        );
        let most = i64::from(self.p.queue_limit()) + 1;
        self.audit.ensure(
            (0..=most).contains(&self.waiting[node]),
            "more wait than fit",
        );
    }

    fn resent(&mut self, _: &Mesh, flow: &Flow, now_ns: u64, (how, n): (How, u64)) {
        self.audit.at(now_ns);
        self.resent += n;
        self.audit.ensure(n > 0, "nothing retransmitted");
        self.audit
            .ensure(flow.sack || how != How::Probe, "a probe without SACK");
        self.audit.ensure(
            flow.sack || how == How::Timeout || n == 1,
            "more than one hole at a time without SACK",
        );
    }

    fn second(&mut self, mesh: &Mesh, flows: &[Flow], now_ns: u64) {
        self.audit.at(now_ns);
        for flow in flows {
            let done = &flow.done;
            self.audit
                .ensure(flow.window.segments() >= 1, "a window of nothing");
            self.audit.ensure(
                flow.flying() <= u64::from(flow.offered),
                "more in flight than the receiver offers",
            );
            self.audit
                .ensure(flow.flying() <= flow.waiting(), "in flight and not asked");
            self.audit
                .ensure(done.acked <= done.bytes, "acknowledged and not sent");
            let (busy_ns, limited_ns) = flow.busy_ns(now_ns);
            self.audit
                .ensure(limited_ns <= busy_ns && busy_ns <= now_ns, "busy too long");
            let scaled = mesh.sockets[flow.socket].agreed.window_scaling;
            self.audit
                .ensure(scaled || flow.offered <= 65_535, "a window without scaling");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_parameters(
        seed in 0u64..1_000_000,
        nodes in 2u32..8,
        sockets in 1u32..6,
        spread in 0u32..5,
        interval in 0u32..100,
        rtt in 0u32..1_000,
        accept in 0u32..5_000,
        backlog in 0u32..10,
        rule in 0u32..2,
        cookies in 0u32..3,
        options in 0u32..8,
        loss in 0.0f64..0.05,
        burst in 1u32..5,
        message in 1u32..4_000,
        family in 0u32..2,
    ) {
        let set = [
            "duration=2".to_string(),
            "runs=3".to_string(),
            format!("nodes={nodes}"),
            format!("sockets={sockets}"),
            format!("start_spread={spread}"),
            format!("connect_interval={interval}"),
            format!("handshake_rtt={rtt}"),
            format!("accept_time={accept}"),
            format!("backlog={backlog}"),
            format!("later_rule={rule}"),
            format!("tcp_syncookies={cookies}"),
            format!("tcp_timestamps={}", options & 1),
            format!("tcp_sack={}", options >> 1 & 1),
            format!("tcp_window_scaling={}", options >> 2),
            format!("loss={loss}"),
            format!("loss_burst={burst}"),
            format!("message={message}"),
            format!("family={}", 4 + 2 * family),
        ];
        let p = Params::with_drawn(&set);
        let mut a = Auditor::new(&p);
        let o = simulate(&p, seed, &mut a);
        prop_assert!(a.audit.is_sound(), "{}", a.audit);
        // Every connect happens, and no connection is made twice.
        prop_assert_eq!(a.connects, u64::from(nodes * (nodes - 1) * sockets));
        prop_assert!(a.established <= a.connects);
        // The seconds are of what happened.
        let sum = |of: fn(&super::outcome::Second) -> u64| o.seconds.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|s| s.connects), a.connects);
        prop_assert_eq!(sum(|s| s.established), a.established);
        prop_assert_eq!(sum(|s| s.resent), a.resent);
        if cookies == 0 || options & 1 == 1 {
            prop_assert_eq!(o.lost, 0);
        }
    }

    #[test]
    fn no_two_connections_have_the_same_ends_and_links_have_their_own(
        seed in 0u64..1_000_000,
        nodes in 2u32..10,
        sockets in 1u32..8,
        data in 1u32..3,
    ) {
        let set = [
            format!("nodes={nodes}"),
            format!("sockets={sockets}"),
            format!("data_sockets={data}"),
        ];
        let p = Params::with_drawn(&set);
        let mesh = Mesh::form(&p, seed, 0);
        let ends: HashSet<_> = mesh.sockets.iter().map(|s| (s.opener, s.listener, s.port)).collect();
        prop_assert_eq!(ends.len(), mesh.sockets.len());
        prop_assert!(mesh.sockets.iter().all(|s| s.opener != s.listener));
        let mut pairs = HashSet::new();
        for link in &mesh.links {
            prop_assert_eq!(link.len(), data as usize);
            let pair = |nth: &usize| {
                let s = &mesh.sockets[*nth];
                (s.opener.min(s.listener), s.opener.max(s.listener))
            };
            let of: HashSet<_> = link.iter().map(pair).collect();
            prop_assert_eq!(of.len(), 1);
            pairs.extend(of);
        }
        prop_assert_eq!(pairs.len() as u32, p.links());
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    follows_from_the_seed::<Params>(&["duration=2", "loss=0.001"]);
}

#[test]
fn watching_changes_nothing() {
    is_unchanged_by_watching::<Params>(&["duration=2", "loss=0.001"], |p, seed| {
        simulate(p, seed, &mut Auditor::new(p))
    });
}

#[test]
fn a_run_is_slow_or_fast_as_asked_for() {
    for seed in 1..10 {
        let slow = simulate(&Params::with(&["duration=2"]), seed, &mut ());
        let fast = simulate(&Params::with(&["duration=2", "shown=2"]), seed, &mut ());
        assert!(slow.lost > 0 && slow.slow.contains(&true));
        assert_eq!((fast.lost, fast.slow.contains(&true)), (0, false));
        assert!(slow.throughput() < 0.95 * fast.throughput());
        // Calls take much longer over the slow link.
        let (slow_ms, other_ms) = slow.latency_ms();
        assert!(slow_ms > 10.0 * other_ms, "{slow_ms} {other_ms}");
    }
}

#[test]
fn more_sockets_per_peer_are_more_bad_runs_and_none_where_they_fit() {
    let share = |sockets: u32| {
        let p = Params::with(&[&*format!("sockets={sockets}"), "runs=400"]);
        Series::of(&p, 1).with_lost
    };
    let shares: Vec<u32> = (1..=6).map(share).collect();
    assert!(shares.is_sorted(), "{shares:?}");
    assert_eq!((shares[0], shares[5]), (0, 400));
}

#[test]
fn syns_that_are_dropped_come_again_after_a_second() {
    let set = ["tcp_syncookies=0", "start_spread=0", "duration=4"];
    let o = simulate(&Params::with(&set), 1, &mut ());
    let dropped = o.seconds[0].dropped;
    assert!(dropped > 0 && o.cookies == 0);
    assert_eq!(o.seconds[1].syns_resent, dropped);
    let established: u64 = o.seconds.iter().map(|s| s.established).sum();
    assert_eq!(established, 36);
}

#[test]
fn a_full_accept_queue_drops_acks_which_data_repeat() {
    let set = ["accept_time=20000", "duration=10"];
    let o = simulate(&Params::with(&set), 1, &mut ());
    let dropped: u64 = o.seconds.iter().map(|s| s.acks_dropped).sum();
    let established: u64 = o.seconds.iter().map(|s| s.established).sum();
    assert!(dropped > 0);
    assert_eq!(established, 36);
}

#[test]
fn bursts_of_losses_cost_more_without_sack() {
    let lossy = ["loss=0.0005", "loss_burst=3", "duration=3", "shown=2"];
    let throughput = |sack: &str| {
        let p = Params::with(&[&lossy[..], &[sack]].concat());
        run(&p, 1, 0, &mut ()).throughput()
    };
    let (with, without) = (throughput("tcp_sack=1"), throughput("tcp_sack=0"));
    assert!(without < 0.7 * with, "{without} {with}");
}
