//! What is said of the requests of a service: how many, how long, and whose time it was.

use analysis::words::{duration, percent, plural};
use explain::account::{Parts, Requests, Role, Slept, Slow, Thinking};

/// A smaller share of the time is not told.
const LEAST_SHARE: f64 = 0.005;
/// A smaller share of one exchange is not told.
const LEAST_OF_ONE: f64 = 0.05;
/// The slowest exchange is told when it took so many times as long as half of them.
const SLOW: f64 = 3.0;

/// One service's; `None` when it had no request.
pub(crate) fn line(role: Role, r: &Requests) -> Option<String> {
    if r.exchanges + r.open + r.unanswered == 0 {
        return None;
    }
    let mut says = vec![plural(r.exchanges, "request")];
    match &r.response {
        Some(p) => says.push(format!(
            "p50 {}, p99 {}",
            seconds(p.p50_s),
            seconds(p.p99_s)
        )),
        None if r.multiplexed => says.push("multiplexed".into()),
        None => {}
    }
    if r.open > 0 {
        says.push(format!("{} not answered for a second or longer", r.open));
    }
    if r.unanswered > 0 {
        says.push(format!("{} never answered", r.unanswered));
    }
    let mut says = says.join(", ");
    let total = r.spent_s.total();
    let whose = Share::told(whose(role, r), LEAST_SHARE * total, &|s| percent(s / total));
    if !whose.is_empty() {
        says += &format!(": {whose}");
    }
    let usual = r.response.map_or(0.0, |p| p.p50_s);
    let slow = r.slowest.first();
    let slow = slow.filter(|slow| slow.open || slow.took_s >= SLOW * usual);
    Some(match slow {
        Some(slow) => format!("{says}. {}", slowest(role, slow)),
        None => says,
    })
}

/// Time, and what it is made of.
struct Share {
    name: String,
    s: f64,
    of: Vec<Share>,
}

impl Share {
    fn new(name: impl Into<String>, s: f64) -> Share {
        Share {
            name: name.into(),
            s,
            of: Vec::new(),
        }
    }

    fn of(mut self, parts: Vec<Share>) -> Share {
        self.of = parts;
        self
    }

    /// Those of at least so many seconds, the largest first.
    fn told(mut shares: Vec<Share>, least: f64, figure: &impl Fn(f64) -> String) -> String {
        shares.retain(|share| share.s > 0.0 && share.s >= least);
        shares.sort_by(|a, b| b.s.total_cmp(&a.s));
        let told = shares.into_iter().map(|share| {
            let whole = format!("{} {}", share.name, figure(share.s));
            match Share::told(share.of, least, figure) {
                parts if parts.is_empty() => whole,
                parts => format!("{whole} ({parts})"),
            }
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

fn whose(role: Role, r: &Requests) -> Vec<Share> {
    let (whose, parts) = (&r.whose_s, &r.spent_s);
    vec![
        Share::new("application", whose.application).of(application(role, parts, &r.thinking)),
        Share::new("TCP", whose.tcp).of(tcp(parts)),
        Share::new("network", whose.network),
        Share::new("peer", whose.peer),
        Share::new("network and peer", whose.network_or_peer),
    ]
}

fn application(role: Role, parts: &Parts, thinking: &Thinking) -> Vec<Share> {
    let works = match role {
        Role::Server => "thinking",
        Role::Client | Role::Unknown => "writing",
    };
    let thought = vec![
        Share::new("on a CPU", thinking.cpu),
        Share::new("waiting for a CPU", thinking.runqueue),
        Share::new("asleep", thinking.asleep()),
    ];
    vec![
        Share::new(works, parts.think).of(thought),
        Share::new("not accepting", parts.accept),
        Share::new("not reading", parts.unread),
    ]
}

fn tcp(parts: &Parts) -> Vec<Share> {
    vec![
        Share::new("repairing losses", parts.repair),
        Share::new("windows and buffers", parts.send),
    ]
}

/// The slowest exchange, in a sentence.
fn slowest(role: Role, slow: &Slow) -> String {
    let parts = &slow.spent_s;
    let mut shares = application(role, parts, &slow.thinking);
    shares.extend(tcp(parts));
    shares.push(Share::new("receiving", parts.receive));
    shares.push(Share::new("waiting for the answer", parts.awaited));
    let shares = Share::told(shares, LEAST_OF_ONE * slow.took_s, &|s| seconds(s));
    let how = match slow.open {
        true => "The oldest is not answered after",
        false => "The slowest took",
    };
    let took = seconds(slow.took_s);
    let waits = slow.waits.iter();
    let waits = waits.filter(|w| w.slept_s >= LEAST_OF_ONE * slow.took_s);
    let waits: String = waits.map(|w| format!("; {}", slept(w))).collect();
    format!(
        "{how} {took} ({} ↔ {}): {shares}{waits}",
        slow.local, slow.remote
    )
}

/// A wait of its thread, in words.
fn slept(wait: &Slept) -> String {
    let long = seconds(wait.slept_s);
    let call = wait.syscall.as_deref().unwrap_or("the kernel");
    match &wait.awaited {
        Some(peer) => format!("its thread slept {long} in {call} until {peer} answered"),
        None if wait.state == "D" => {
            format!("its thread slept {long} in {call}: a disk, or a lock of the kernel")
        }
        None => format!(
            "its thread slept {long} in {call}, woken by {}",
            wait.woken_by
        ),
    }
}

fn seconds(s: f64) -> String {
    duration((s.max(0.0) * 1e9) as u64)
}
