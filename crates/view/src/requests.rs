//! What is said of the requests of a service: how many, how long, and whose time it was.

use analysis::words::{duration, percent, plural};
use explain::account::{Parts, Requests, Role, Slept, Slow, Thinking};
use explain::{Service, limits, on_new_connections};

/// Smaller shares of the time of a service's requests, and of one of them, are not printed.
const SHOWN_PART: f64 = 0.005;
const SHOWN_PART_OF_ONE: f64 = 0.05;

/// How many a service had, on what connections, and how long they took; `None` when it had none.
pub(crate) fn counted(service: &Service) -> Option<String> {
    count(service.requests.as_ref()?, on_new_connections(service))
}

/// `on` is how they came by their connections.
fn count(r: &Requests, on: Option<String>) -> Option<String> {
    if r.exchanges + r.open + r.unanswered == 0 {
        return None;
    }
    let number = match r.exchanges {
        0 => "no request answered".to_string(),
        n => plural(n, "request"),
    };
    let mut says = vec![match on {
        Some(on) => format!("{number} {on}"),
        None => number,
    }];
    let ended = r.slowest.iter().find(|slow| !slow.open);
    match (&r.response, ended) {
        (Some(_), Some(slow)) if r.exchanges < limits::ENOUGH.count() => {
            let most = if r.exchanges == 1 { "" } else { " at most" };
            says.push(format!("{}{most}", seconds(slow.took_s)));
        }
        (Some(p), _) => says.push(format!(
            "p50 {}, p99 {}",
            seconds(p.p50_s),
            seconds(p.p99_s)
        )),
        (None, _) if r.multiplexed => says.push("multiplexed".into()),
        (None, _) => {}
    }
    if r.open > 0 {
        says.push(format!("{} not answered for a second or longer", r.open));
    }
    if r.given_up > 0 {
        let each = seconds(r.given_up_s / r.given_up as f64);
        says.push(format!("{} given up after {each} on average", r.given_up));
    }
    // A last word (QUIT, Terminate) is among them.
    let closed = r.unanswered.saturating_sub(r.given_up);
    if closed > 0 {
        says.push(match r.exchanges {
            0 => format!("{closed} closed before that"),
            _ => format!("{closed} more closed unanswered"),
        });
    }
    Some(says.join(", "))
}

/// Whose time that was, and where the slowest spent it, as it continues a line.
pub(crate) fn of_their_time(role: Role, r: &Requests) -> String {
    let total = r.spent_s.total();
    let whose = Share::told(whose(role, r), SHOWN_PART * total, &|s| percent(s / total));
    let whose = if whose.is_empty() {
        whose
    } else {
        format!(": {whose}")
    };
    let usual = r.response.map_or(0.0, |p| p.p50_s);
    let slow = r.slowest.first();
    let slow =
        slow.filter(|slow| slow.open || slow.took_s >= limits::SEVERAL_TIMES.times() * usual);
    match slow {
        Some(slow) => format!("{whose}. {}", slowest(role, slow)),
        None => whose,
    }
}

/// How long callers waited in them, answered or not, s.
pub(crate) fn waited_s(r: &Requests) -> f64 {
    let open = r.slowest.iter().filter(|slow| slow.open);
    r.total_s + r.given_up_s + open.map(|slow| slow.took_s).sum::<f64>()
}

/// Time, and what it is made of.
pub(crate) struct Share {
    /// Whose it was, or what it was spent on.
    pub(crate) name: String,
    /// How much, s.
    pub(crate) s: f64,
    /// Its parts, as far as they are known.
    pub(crate) of: Vec<Share>,
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

    /// Those of at least this many seconds, the largest first.
    pub(crate) fn told(
        mut shares: Vec<Share>,
        least: f64,
        figure: &impl Fn(f64) -> String,
    ) -> String {
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

/// Whose time it was: the application's, TCP's, the network's, the peer's, and of the last two together.
pub(crate) fn whose(role: Role, r: &Requests) -> Vec<Share> {
    let (whose, parts) = (&r.whose_s, &r.spent_s);
    vec![
        Share::new("application", whose.application).of(application(role, parts, &r.thinking)),
        Share::new("TCP", whose.tcp).of(tcp(parts)),
        Share::new("network", whose.network),
        Share::new("peer", whose.peer),
        Share::new("network or peer", whose.network_or_peer),
    ]
}

/// Who took the time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Application,
    Tcp,
    Network,
    NetworkOrPeer,
    Peer,
}

/// The whole time in pieces, always the same ones: whose it was, what it was spent on, s.
pub(crate) fn pieces(r: &Requests) -> [(Owner, &'static str, f64); 11] {
    let (parts, thinking, whose) = (&r.spent_s, &r.thinking, &r.whose_s);
    [
        (Owner::Application, "not accepting", parts.accept),
        (Owner::Application, "not reading", parts.unread),
        (Owner::Application, "on a CPU", thinking.cpu),
        (Owner::Application, "waiting for a CPU", thinking.runqueue),
        (Owner::Application, "asleep", thinking.asleep()),
        // Event loops, work handed on: no thread shows what that was.
        (
            Owner::Application,
            "service time",
            (parts.think - thinking.alone).max(0.0),
        ),
        (Owner::Tcp, "repairing losses", parts.repair),
        (Owner::Tcp, "windows and buffers", parts.send),
        (Owner::Network, "network", whose.network),
        (
            Owner::NetworkOrPeer,
            "network or peer",
            whose.network_or_peer,
        ),
        (Owner::Peer, "peer", whose.peer),
    ]
}

fn application(role: Role, parts: &Parts, thinking: &Thinking) -> Vec<Share> {
    let works = match role {
        Role::Server => "service time",
        Role::Client | Role::Unknown => "writing",
    };
    // A few requests that one thread handled alone say nothing about the others.
    let thought = if thinking.alone >= limits::MOST.share() * parts.think {
        vec![
            Share::new("on a CPU", thinking.cpu),
            Share::new("waiting for a CPU", thinking.runqueue),
            Share::new("asleep", thinking.asleep()),
        ]
    } else {
        Vec::new()
    };
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
    let how = if slow.open {
        "The oldest is not answered after"
    } else {
        "The slowest took"
    };
    let took = seconds(slow.took_s);
    let (local, remote) = (slow.local, slow.remote);
    format!("{how} {took} ({local} ↔ {remote}): {}", spent(role, slow))
}

/// What the time of a slow exchange was spent on, and what its thread waited for longest.
pub(crate) fn spent(role: Role, slow: &Slow) -> String {
    let parts = &slow.spent_s;
    let mut shares = application(role, parts, &slow.thinking);
    shares.extend(tcp(parts));
    shares.push(Share::new("receiving", parts.receive));
    shares.push(Share::new("waiting for the answer", parts.awaited));
    shares.push(Share::new(
        "its acknowledgement or answer lost",
        parts.unheard,
    ));
    let shares = Share::told(shares, SHOWN_PART_OF_ONE * slow.took_s, &|s| seconds(s));
    let longest = slow.waits.first();
    let longest = longest.filter(|w| w.slept_s >= SHOWN_PART_OF_ONE * slow.took_s);
    let waits = longest.map_or_else(String::new, |w| format!("; {}", slept(w)));
    format!("{shares}{waits}")
}

/// A wait of its thread, in words.
fn slept(wait: &Slept) -> String {
    let long = seconds(wait.slept_s);
    let call = wait.syscall.as_deref().unwrap_or("the kernel");
    match &wait.awaited {
        Some(peer) => format!("its thread slept {long} in {call} until {peer} answered"),
        None if wait.state == "T" => format!("its thread was stopped for {long} (SIGSTOP)"),
        None if wait.state == "D" => {
            format!("its thread slept {long} in {call}: a disk, or a lock of the kernel")
        }
        None if wait.woken_by == "timer" => {
            format!("its thread slept {long} in {call}, to its timeout")
        }
        None => format!(
            "its thread slept {long} in {call}, woken by {}",
            wait.woken_by
        ),
    }
}

/// A time in words.
pub(crate) fn seconds(s: f64) -> String {
    duration((s.max(0.0) * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use analysis::Endpoint;
    use explain::account::{Percentiles, Whose};

    fn line(role: Role, r: &Requests) -> String {
        count(r, None).unwrap() + &of_their_time(role, r)
    }

    /// 100 requests that took 640 ms each, 610 of them service time.
    fn thinks() -> Requests {
        Requests {
            exchanges: 100,
            spent_s: Parts {
                think: 61.0,
                unread: 2.0,
                repair: 1.0,
                ..Parts::default()
            },
            whose_s: Whose {
                application: 63.0,
                tcp: 1.0,
                ..Whose::default()
            },
            response: Some(Percentiles {
                p50_s: 0.64,
                p90_s: 0.64,
                p99_s: 0.64,
            }),
            thinking: Thinking {
                alone: 61.0,
                cpu: 10.0,
                runqueue: 48.0,
            },
            ..Requests::default()
        }
    }

    #[test]
    fn whose_time_it_was_is_told_from_the_largest_share_down() {
        let says = line(Role::Server, &thinks());
        assert_eq!(
            says,
            "100 requests, p50 640 ms, p99 640 ms: application 98 % (service time 95 % (waiting for a CPU \
             75 %, on a CPU 16 %, asleep 5 %), not reading 3 %), TCP 2 % (repairing losses 2 %)"
        );
    }

    #[test]
    fn what_threads_did_is_not_told_where_each_serves_several_requests() {
        let mut r = thinks();
        (r.thinking.alone, r.thinking.runqueue) = (12.0, 1.0);
        let says = line(Role::Server, &r);
        assert!(
            says.contains("(service time 95 %, not reading 3 %)"),
            "{says}"
        );
    }

    #[test]
    fn the_slowest_is_told_with_what_its_thread_waited_for() {
        let mut r = thinks();
        r.slowest = vec![Slow {
            took_s: 4.0,
            open: true,
            tid: Some(7),
            spent_s: Parts {
                think: 4.0,
                ..Parts::default()
            },
            waits: vec![Slept {
                slept_s: 3.9,
                syscall: Some("recvfrom".into()),
                awaited: Some(Endpoint::new(
                    "10.0.2.7".parse::<IpAddr>().unwrap().into(),
                    5432,
                )),
                ..Slept::default()
            }],
            ..Slow::default()
        }];
        let says = line(Role::Server, &r);
        let end = "The oldest is not answered after 4 s ([::]:0 ↔ [::]:0): service time 4 s; its thread \
                   slept 3.9 s in recvfrom until 10.0.2.7:5432 answered";
        assert!(says.ends_with(end), "{says}");
    }

    #[test]
    fn few_and_multiplexed_ones_have_no_percentiles() {
        assert_eq!(count(&Requests::default(), None), None);
        let mut r = thinks();
        (r.multiplexed, r.response) = (true, None);
        let says = line(Role::Server, &r);
        assert!(says.starts_with("100 requests, multiplexed: "), "{says}");
        let mut r = thinks();
        r.exchanges = 1;
        r.slowest = vec![Slow {
            took_s: 2.0,
            ..Slow::default()
        }];
        let says = line(Role::Client, &r);
        assert!(says.starts_with("1 request, 2 s: "), "{says}");
    }
}
