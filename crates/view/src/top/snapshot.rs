//! What the window of a recording that ends at a moment says: live, the last seconds; over a recording, wherever the
//! cursor is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use analysis::account::{self, Requests, Role, RoundTrips, ServiceKey, ServiceRequests};
use analysis::owners::Owner;
use analysis::{Activity, Endpoint, Microstate, standing};
use recording::tables::Wait;
use recording::{Place, Text};

use super::frame::{self, Frame, Latencies, SERVICES_KEPT};
use super::links::Link;
use super::state::SocketOrder;
use super::timeline::Timeline;
use crate::stat::listeners::Listening;
use crate::stat::sockets::Sampled;
use crate::stat::threads::{Slept, Timed};

/// Frames that are added up: seconds, but for long recordings.
pub(super) const WINDOW: usize = 10;
/// Frames that curves show.
const CURVE: usize = 60;
/// A socket that was not sampled for longer has nothing in flight.
const FRESH: usize = 4;
/// Lines of a pane; `stat` shows more.
const MAX_LINES: usize = 256;
/// Callers and waits that are shown for one line.
pub(super) const MAX_DETAILS: usize = 20;

/// A moment of a recording, with the window before it.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The end of the window, ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// Length of a frame, s.
    pub(super) step_s: f64,
    /// Frames in the window; fewer than asked for at the start.
    pub(super) frames: usize,
    pub(super) rates: Vec<Rate>,
    /// Connects that ended in the window, and those under way with the time that they have taken so far.
    pub(super) connects: Latencies,
    /// How many are under way, and for how long the oldest, ns.
    pub(super) pending: (u64, u64),
    pub(super) requests: Vec<Service>,
    /// Interfaces that carried anything in the window, and how much: those that lose first, then the busiest.
    pub(super) links: Vec<((u32, Text), Link)>,
    pub(super) listeners: Vec<Listening>,
    pub(super) sockets: Vec<Sampled>,
    pub(super) threads: Vec<Timed>,
    pub(super) functions: Vec<Function>,
    /// Samples of the CPU profile, and how many of them are of an idle CPU.
    pub(super) samples: (u64, u64),
    pub(super) waits: Vec<Wait>,
    /// What found no room.
    pub(super) left_out: u64,
    /// Which tables have rows at all.
    pub(super) has: BTreeMap<&'static str, u64>,
}

/// A count of connections over time.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    pub(super) activity: Activity,
    /// Per second, in each frame of the curve, the oldest first.
    pub(super) curve: Vec<f64>,
    /// Per second over the last frame, and over the window.
    pub(super) now: f64,
    pub(super) mean: f64,
    /// In the window.
    pub(super) count: u64,
    /// Reasons or kinds in the window, the most frequent first.
    pub(super) reasons: Vec<(Text, u64)>,
}

/// The requests of a listener or destination in the window.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) key: ServiceKey,
    /// A server's owner.
    pub(super) owner: Owner,
    /// Length of the window, s.
    pub(super) over_s: f64,
    pub(super) told: Requests,
}

/// A function of the kernel that was found on a CPU.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: Text,
    /// Samples of all CPUs.
    pub(super) of: u64,
    /// Samples in itself, and in what it called.
    pub(super) itself: u64,
    pub(super) total: u64,
    /// The chains of callers above it, innermost first, with samples in itself.
    pub(super) callers: Vec<(String, u64)>,
}

/// What went through each interface.
fn links(window: &[&Frame]) -> Vec<((u32, Text), Link)> {
    let mut all: BTreeMap<(u32, Text), Link> = BTreeMap::new();
    for (place, link) in window.iter().flat_map(|f| &f.links) {
        all.entry(place.clone()).or_default().add(link);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.retain(|(_, link)| *link != Link::default());
    let key = |link: &Link| (link.lost, link.rx_bytes.max(link.tx_bytes));
    all.sort_by(|(a_place, a), (b_place, b)| {
        let (a, b) = (key(a), key(b));
        (b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))).then_with(|| a_place.cmp(b_place))
    });
    all
}

impl Timeline {
    /// What the window that ends at `cursor_ns` says; without a cursor the last whole frame.
    pub fn snapshot(&self, cursor_ns: Option<u64>, order: SocketOrder) -> Snapshot {
        let end = match cursor_ns {
            Some(at) => {
                let number = at.saturating_sub(self.start_ns).div_ceil(self.step_ns);
                number.saturating_sub(self.first) as usize
            }
            None => self.whole(),
        };
        let end = end.min(self.whole());
        let last = |n: usize| self.frames.range(end.saturating_sub(n)..end);
        let step_s = self.step_ns as f64 / 1e9;
        let window: Vec<&Frame> = last(WINDOW).collect();
        let curve: Vec<&Frame> = last(CURVE).collect();
        let fresh: Vec<&Frame> = last(FRESH).collect();
        let mut connects = Latencies::default();
        window.iter().for_each(|f| connects.merge(&f.connects));
        let now_ns = self
            .start_ns
            .saturating_add((self.first + end as u64).saturating_mul(self.step_ns));
        let mut pending = (0, 0);
        for ns in self.connecting.pending(now_ns) {
            connects.add(ns);
            pending = (pending.0 + 1, ns.max(pending.1));
        }
        let mut waits: Vec<Wait> = window.iter().flat_map(|f| f.waits()).cloned().collect();
        waits.sort_by_key(|w| Reverse(w.waited_ns));
        Snapshot {
            now_ns,
            step_s,
            frames: window.len(),
            rates: rates(&window, &curve, step_s),
            connects,
            pending,
            requests: self.requests(&window, &waits),
            links: links(&window),
            listeners: listeners(&window, &curve, step_s),
            sockets: sockets(&fresh, order, self.has.contains_key("holder")),
            threads: threads(&window, step_s, &self.own),
            functions: self.functions(&window),
            samples: window
                .iter()
                .fold((0, 0), |(n, idle), f| (n + f.samples, idle + f.idle)),
            waits,
            left_out: window.iter().map(|f| f.left_out).sum(),
            has: self.has.clone(),
        }
    }

    /// The services whose exchanges took most time, all together, come first.
    fn requests(&self, window: &[&Frame], waits: &[Wait]) -> Vec<Service> {
        let mut all = ServiceRequests::<SERVICES_KEPT>::default();
        let mut round_trips = RoundTrips::default();
        for frame in window {
            all.follow(&frame.requests);
            round_trips.follow(&frame.round_trips);
        }
        let listener = |netns, at: Endpoint| {
            let place = self.owners.listening_place(netns, at.addr, at.port);
            place.map_or(at, |(_, addr, port)| Endpoint::new(addr, port))
        };
        let told = all.told(self.start_ns, listener, |x| {
            account::Slepts::among(waits, x)
        });
        let service = |(key, mut told): (ServiceKey, Requests)| {
            let (netns, role, at) = key;
            if let Some(s) = round_trips.to(netns, at) {
                told.round_trip(role, s);
            }
            let owner = match role {
                Role::Server => self.owners.of_listener(netns, at.addr, at.port),
                Role::Client | Role::Unknown => None,
            };
            Service {
                key,
                owner: owner.unwrap_or_default(),
                over_s: window.len() as f64 * self.step_ns as f64 / 1e9,
                told,
            }
        };
        let mut all: Vec<Service> = told.into_iter().map(service).collect();
        all.sort_by(|a, b| {
            let by_time = b.told.total_s.total_cmp(&a.told.total_s);
            by_time.then_with(|| a.key.cmp(&b.key))
        });
        all
    }

    fn functions(&self, window: &[&Frame]) -> Vec<Function> {
        let mut stacks: AHashMap<u64, u64> = AHashMap::new();
        for (stack, n) in window.iter().flat_map(|f| &f.stacks) {
            *stacks.entry(*stack).or_default() += n;
        }
        let of = window.iter().map(|f| f.samples).sum();
        let mut all: AHashMap<Text, (u64, u64, BTreeMap<String, u64>)> = AHashMap::new();
        for (stack, n) in stacks {
            let places = self.stacks.places(stack).unwrap_or_default();
            let names: Vec<&Text> = places
                .iter()
                .flatten()
                .map(|p: &&Place| &p.function)
                .collect();
            for (i, name) in names.iter().enumerate() {
                // A function that calls itself is counted once.
                if names[..i].contains(name) {
                    continue;
                }
                let known = all.entry((*name).clone()).or_default();
                known.1 += n;
                if i == 0 {
                    known.0 += n;
                    let callers: Vec<&str> = names[1..].iter().map(|t| &***t).take(8).collect();
                    *known.2.entry(callers.join(" ← ")).or_default() += n;
                }
            }
        }
        let mut all: Vec<Function> = all
            .into_iter()
            .map(|(name, (itself, total, callers))| {
                let mut callers: Vec<_> = callers.into_iter().collect();
                callers.sort_by_key(|(_, n)| Reverse(*n));
                callers.truncate(MAX_DETAILS);
                Function {
                    name,
                    of,
                    itself,
                    total,
                    callers,
                }
            })
            .collect();
        all.sort_by(|a, b| (b.itself, b.total, &a.name).cmp(&(a.itself, a.total, &b.name)));
        all.truncate(MAX_LINES);
        all
    }
}

fn rates(window: &[&Frame], curve: &[&Frame], step_s: f64) -> Vec<Rate> {
    let of = |activity: Activity| {
        let per_s = |f: &&Frame| f.counts[activity as usize] as f64 / step_s;
        let count = window.iter().map(|f| f.counts[activity as usize]).sum();
        let mut reasons: BTreeMap<Text, u64> = BTreeMap::new();
        for frame in window {
            for ((_, why), n) in frame.reasons.iter().filter(|((m, _), _)| *m == activity) {
                *reasons.entry(why.clone()).or_default() += n;
            }
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, n)| Reverse(*n));
        Rate {
            activity,
            curve: curve.iter().map(per_s).collect(),
            now: window.last().map_or(0.0, per_s),
            mean: count as f64 / (window.len().max(1) as f64 * step_s),
            count,
            reasons,
        }
    };
    frame::SHOWN
        .iter()
        .map(|(activity, ..)| of(*activity))
        .collect()
}

fn listeners(window: &[&Frame], curve: &[&Frame], step_s: f64) -> Vec<Listening> {
    let over_ns = (window.len().max(1) as f64 * step_s * 1e9) as u64;
    let mut all: BTreeMap<(u32, u64), Listening> = BTreeMap::new();
    let mut least: AHashMap<(u32, u64), u32> = AHashMap::new();
    for sample in window.iter().flat_map(|f| &f.listeners) {
        let key = (sample.row.netns, sample.row.sock);
        let least = *least.entry(key).or_insert(sample.row.drops);
        let now = Listening {
            over_ns: Some(over_ns),
            dropped: sample.row.drops.saturating_sub(least),
            ..sample.clone()
        };
        all.insert(key, now);
    }
    for frame in curve {
        let mut most: AHashMap<(u32, u64), u32> = AHashMap::new();
        for l in &frame.listeners {
            let most = most.entry((l.row.netns, l.row.sock)).or_default();
            *most = l.row.accept_queue.max(*most);
        }
        for (key, most) in most {
            if let Some(listener) = all.get_mut(&key) {
                listener.queue.push(most.into());
            }
        }
    }
    for listener in all.values_mut() {
        let place = (
            listener.row.netns,
            listener.row.local_addr,
            listener.row.local_port,
        );
        let accepted = window.iter().filter_map(|f| f.accepted.get(&place));
        listener.accepted = Some(accepted.sum());
    }
    let mut all: Vec<Listening> = all.into_values().collect();
    // The fullest first, then those that drop, then those that work.
    all.sort_by(|a, b| {
        let key = |l: &Listening| {
            let full = f64::from(l.row.accept_queue) / f64::from(l.row.backlog.max(1));
            (
                full,
                f64::from(l.dropped),
                f64::from(l.row.syn_queue),
                l.accepted,
            )
        };
        let (a_key, b_key) = (key(a), key(b));
        b_key
            .partial_cmp(&a_key)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then((a.row.local_port, a.row.sock).cmp(&(b.row.local_port, b.row.sock)))
    });
    all.truncate(MAX_LINES);
    all
}

/// `holders` is whether holders of files are known: without them, sockets that have none cannot be told.
fn sockets(fresh: &[&Frame], order: SocketOrder, holders: bool) -> Vec<Sampled> {
    let mut all: BTreeMap<(u32, u64), &Sampled> = BTreeMap::new();
    for sample in fresh.iter().flat_map(|f| f.sockets()) {
        all.insert((sample.row.netns, sample.row.sock), sample);
    }
    let mut all: Vec<&Sampled> = all.into_values().collect();
    all.retain(|s| s.score(order) != [0; 4]);
    all.sort_by_key(|s| (Reverse(s.score(order)), s.row.sock));
    all.truncate(MAX_LINES);
    let mut all: Vec<Sampled> = all.into_iter().cloned().collect();
    for sampled in &mut all {
        sampled.unaccepted = holders && standing::waits_for_accept(&sampled.row);
    }
    all
}

/// Shares are of the window, even for a thread that lived shorter or whose rows were not all kept.
fn threads(window: &[&Frame], step_s: f64, own: &BTreeSet<u32>) -> Vec<Timed> {
    let window_ns = (window.len() as f64 * step_s * 1e9) as u64;
    let mut all: BTreeMap<(u32, u32), Timed> = BTreeMap::new();
    for row in window.iter().flat_map(|f| f.threads()) {
        all.entry((row.pid, row.tid)).or_default().add(row);
    }
    let mut sleeps: BTreeMap<(u32, u32), BTreeMap<Text, (u64, u64)>> = BTreeMap::new();
    for ((pid, tid, call), (ns, count)) in window.iter().flat_map(|f| &f.sleeps) {
        if all.contains_key(&(*pid, *tid)) {
            let calls = sleeps.entry((*pid, *tid)).or_default();
            let sum = calls.entry(call.clone()).or_default();
            sum.0 = sum.0.saturating_add(*ns);
            sum.1 = sum.1.saturating_add(*count);
        }
    }
    for (key, calls) in sleeps {
        if let Some(thread) = all.get_mut(&key) {
            let slept = |(syscall, (ns, count))| Slept::of(syscall, ns, count);
            let mut sleeps: Vec<Slept> = calls.into_iter().map(slept).collect();
            sleeps.sort_by_key(|s| Reverse(s.ns));
            thread.sleeps = Some(sleeps);
        }
    }
    let mut all: Vec<Timed> = all.into_values().collect();
    for thread in &mut all {
        thread.spent = thread.spent.within(window_ns);
        thread.own = own.contains(&thread.last.pid);
    }
    // There is nothing to say about most threads of a host.
    all.retain(|t| t.spent.restless_ns() > t.spent.over_ns() / 1000);
    // Stopped threads first, then those that wait for a CPU; our own, which only watch, last.
    let kept_from = |t: &Timed| {
        let keeps = [Microstate::Stopped, Microstate::Runqueue];
        let by = keeps.map(|state| t.is_kept_by(state));
        Reverse(by)
    };
    all.sort_by_key(|t| {
        let restless = Reverse(t.spent.restless_ns());
        (t.own, kept_from(t), restless, t.last.pid, t.last.tid)
    });
    all.truncate(MAX_LINES);
    all
}

impl Snapshot {
    /// Length of the window, s.
    pub(super) fn seconds(&self) -> f64 {
        self.frames as f64 * self.step_s
    }

    pub(super) fn rate(&self, activity: Activity) -> Option<&Rate> {
        self.rates.iter().find(|r| r.activity == activity)
    }

    /// Whether a table has any row.
    pub(super) fn has(&self, table: &str) -> bool {
        self.has.contains_key(table)
    }
}
