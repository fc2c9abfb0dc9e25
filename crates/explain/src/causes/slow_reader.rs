//! C23: the receiving application reads more slowly than data arrives.

mod remote;

use ahash::AHashMap;
use analysis::account::Role as Serves;
use analysis::stats::{median, ratio};
use analysis::words::rounded;

use crate::limits;
use crate::places::options::WithoutOptions;
use crate::places::path::{End, ends, rwnd_share, sample_rows};
use crate::places::receivers::{self, other, per_s, read_per_s, receivers};

use crate::places::window::{Allowance, filled, waited_for_window};
use crate::programs;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SLOW_READER,
    number: "C23",
    title: "the receiving application reads too slowly",
    page: include_str!("slow_reader.md"),
    layer: Layer::Application,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "a transfer with 16 kB unread in half of its samples, or half of its time for the window"
            .into()
    },
    signature: &[
        "Recv-Q grows, Send-Q at the other end as well",
        "the sender waits, the receiver's window is full",
        "slow consumer: send() blocks, the socket's buffer is full",
    ],
    rivals: &[Id::BUFFERBLOAT, Id::PATH_LOSS, Id::RECEIVE_BUFFER_SMALL],
    explains: &[Id::SLOW_APPLICATION],
    told_with: Some(ToldWith::Readers),
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story).into(),
};

/// A receiver some of whose ends read too slowly.
struct Reader<'a> {
    story: &'a Story,
    netns: u32,
    /// Whether it accepted them.
    serves: Serves,
    /// Where it listens, or what it reads from.
    at: Endpoint,
    slow: Vec<End<'a>>,
    /// The ends that send to these, if on this host.
    senders: Vec<End<'a>>,
    /// Connections over which it received, slowly or not.
    all: u64,
}

fn find(story: &Story) -> Vec<Finding> {
    let here = places(story);
    let away = remote::places(story);
    let here = here.iter().map(judge);
    here.chain(away.iter().map(|place| remote::judge(story, place)))
        .collect()
}

fn no(asked: &Asked) -> Option<Step> {
    match asked.without_options() {
        Some(lacking) => {
            let full = lacking.throughput().fills_window();
            full.or_else(|| moved_little(&lacking))
                .or_else(|| waited_little(&lacking.senders()))
        }
        None => asked
            .not_held_back()
            .or_else(|| waited_little(&asked.losses()?.ends))
            .or_else(|| read_in_time(asked)),
    }
}

/// For receivers here, how much was unread; for senders, how long they waited for the window.
fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let receives = |e: &&End| e.transfer.received() >= limits::BULK.bytes();
    let readers = whole.ends().iter().filter(receives).map(|end| {
        if let Some(sender) = other(story, end) {
            return waited_for_window(&sender);
        }
        let (n, of) = (
            u64::from(end.transfer.unread),
            u64::from(end.transfer.samples),
        );
        let says = || {
            say!(
                "{unread} of {samples} of a receiver found unread data",
                unread = Quantity::count(n).rows(sample_rows(&[*end])),
                samples = Quantity::of(of, "sample")
            )
        };
        every([Test::share(n, of, &limits::MOST, says())])
    });
    let senders = whole
        .ends()
        .iter()
        .filter(|e| e.transfer.acked() >= limits::BULK.bytes());
    Verdict::nearest(readers.chain(senders.map(waited_for_window)), NO_TRANSFER)
}

/// Their windows were filled once per round trip, and offered again at once.
fn read_in_time(asked: &Asked) -> Option<Step> {
    let ends = &asked.losses()?.ends;
    let filled = filled(asked.story, ends).len();
    (filled > 0 && filled == ends.len()).then(|| {
        say!(
            "all {filled} got the whole window again within a round trip: received data was read",
            filled = Quantity::count(filled as u64).rows(sample_rows(ends))
        )
    })
}

fn moved_little(lacking: &WithoutOptions) -> Option<Step> {
    let most = lacking.most_moved();
    let most_moved = Quantity::bytes(most).rows(lacking.rows());
    (most < limits::BULK.bytes()).then(|| {
        say!(
            "they moved {most_moved} at most: nothing waits for a reader",
            most_moved
        )
    })
}

fn waited_little(senders: &[End]) -> Option<Step> {
    let waited = rwnd_share(senders);
    (!senders.is_empty() && waited < limits::MOST.share()).then(|| {
        say!(
            "these connections waited {window_limited} of their busy time for the peer's window",
            window_limited = Quantity::share(waited)
        )
    })
}

/// By process, ends that have more to send than they may.
type Senders<'a> = AHashMap<u32, Vec<End<'a>>>;

/// Whether a process passes on what it reads, and waits for the reader behind it: a proxy reads as fast as it may
/// write.
fn relays(story: &Story, held_back: &Senders, end: &End) -> bool {
    let owner = story.owner(end.conn);
    let of_process = owner.and_then(|(pid, _)| held_back.get(&pid));
    let mut others = of_process.into_iter().flatten();
    let received = end.transfer.received();
    others.any(|other| {
        other.id != end.id
            && other.conn.peer != Some(end.id)
            && limits::MOST.reached(other.transfer.acked(), received)
    })
}

fn places(story: &Story) -> Vec<Reader<'_>> {
    let mut held_back = Senders::new();
    for end in ends(story).filter(|e| e.transfer.had_bulk()) {
        if let Some((pid, _)) = story.owner(end.conn) {
            held_back.entry(pid).or_default().push(end);
        }
    }
    let readers = receivers(story)
        .into_iter()
        .map(|((netns, serves, at), ends)| {
            let all = ends.len() as u64;
            let slow = ends.into_iter();
            let slow = slow.filter(|e| is_slow(story, e) && !relays(story, &held_back, e));
            let slow: Vec<End> = slow.collect();
            let senders = slow.iter().filter_map(|e| other(story, e)).collect();
            Reader {
                story,
                netns,
                serves,
                at,
                slow,
                senders,
                all,
            }
        });
    readers.filter(|r| !r.slow.is_empty()).collect()
}

fn is_slow(story: &Story, end: &End) -> bool {
    let t = end.transfer;
    let of_samples = |n: u32| f64::from(n) / f64::from(t.samples.max(1));
    let unread = median(&mut t.unread_bytes.clone()).unwrap_or(0);
    let lies = t.samples > 0
        && of_samples(t.unread) >= limits::MOST.share()
        && unread >= limits::UNREAD_BYTES.bytes() as u32;
    match other(story, end) {
        // The sender's wait is counted all the time: on a host with many namespaces each may have one sample.
        Some(sender) => {
            rwnd_share(&[sender]) >= limits::MOST.share()
                && (lies || leaves_some(story, &sender, end))
        }
        None => {
            lies && t.samples >= limits::SEEN_TWICE.as_u32()
                && (of_samples(t.closed) >= limits::SMALL_PART.share() || is_behind(end))
        }
    }
}

/// A reader that reads everything and then pauses leaves data in only some of the samples; but the window would have
/// let far more pass.
fn leaves_some(story: &Story, sender: &End, end: &End) -> bool {
    let some = end
        .transfer
        .unread_bytes
        .iter()
        .any(|n| *n >= limits::UNREAD_BYTES.bytes() as u32);
    some && Allowance::of_window(story, sender).is_some_and(|window| window.has_room())
}

/// Received data lies unread for longer than a reader about to run would leave it, or than it was on the way.
fn is_behind(end: &End) -> bool {
    let t = end.transfer;
    let unread = median(&mut t.unread_bytes.clone()).unwrap_or(0);
    let waits_us = ratio(f64::from(unread) * 1e6, per_s(end));
    waits_us.is_some_and(|us| {
        us >= f64::from(limits::RECORDED_WAIT.us())
            .max(limits::TWICE.times() * f64::from(t.taken.rtt_us))
    })
}

/// Why a reader of so many bytes per second and transfer is not called slow.
fn is_fast(per_s: f64) -> Option<&'static str> {
    let fast = per_s >= limits::ANSWER_FAST.number();
    fast.then_some("transfers of 1 Gbit/s and more keep their reader busy")
}

fn judge(reader: &Reader) -> Finding {
    let (scope, at, per_s) = (reader.scope(), reader.at, reader.rate());
    let rate = Quantity::rate(per_s);
    let comm = scope.comm.as_deref().unwrap_or("the application");
    let who = match scope.pids.len() {
        0 | 1 => process(&scope),
        n => format!("{comm} ({n} processes)"),
    };
    let from = match reader.serves {
        Serves::Server => "at",
        Serves::Client | Serves::Unknown => "reading from",
    };
    let (sends, slow) = (&reader.senders, &reader.slow);
    let each = if slow.len() > 1 {
        " per transfer (median)"
    } else {
        ""
    };
    let held_up = reader.held_up();
    let own_rate = programs::own_rate(&scope);
    let advice = match &own_rate {
        Some(option) => raise_its_rate(&scope, at, comm, option),
        None => advice(&scope, at, comm, &rate),
    };
    Case::new(reader.story, CAUSE, scope.clone())
        .placed(if sends.is_empty() { Place::Receivers(slow.iter().map(|e| e.id).collect()) } else { Place::ends(sends) })
        .title([
            format!("{who} {from} {at} takes {rate}{each}; the senders wait for it."),
            format!("{who} takes {rate}{each}; the senders wait."),
        ])
        .noted(is_fast(per_s))
        .fix(match &own_rate {
            Some(option) => [
                format!("Raise {option} in the command line of {comm}: it limits itself."),
                "Raise the rate in its command line: it limits itself.".into(),
            ],
            None => [
                format!("Make {comm} read faster: see what its threads do between reads."),
                "Make the application read faster: see what it does between reads.".into(),
            ],
        })
        .affects(
            Impact::of(slow.len() as u64, reader.all, "connections", held_up),
            reader.lost(),
        )
        .because("the receive queue held unread data in nearly every sample")
        .at_most_if(
            Level::Medium,
            sends.is_empty(),
            "the senders are not on this host: that they wait is inferred from the window",
        )
        .at_most_if(
            Level::Low,
            sends.is_empty() && !reader.is_closed(),
            "the window had room in most samples: that the senders wait for it is inferred from the unread data",
        )
        .steps(reader.senders_wait())
        .steps([reader.unread_data()])
        .steps(own_rate.map(|option| {
            let row = scope.pid.and_then(|pid| reader.story.processes.get(pid));
            Step::new(format!("Its command line says {option}: it limits its own rate."))
                .rows(row.map(|seen| seen.row))
        }))
        .steps(reader.between_reads(&scope))
        .checks(reader.window_has_room())
        .advise([advice])
        .verify(sentence!("`ss -tmi 'sport = :{port}'` on the receiver shows Recv-Q at 0 most of the time.", port = at.port))
}

impl Reader<'_> {
    fn scope(&self) -> Scope {
        receivers::scope(self.story, self.netns, self.at, &self.slow)
    }

    /// Whether any of their windows was seen closed often enough.
    fn is_closed(&self) -> bool {
        self.slow.iter().any(|e| {
            f64::from(e.transfer.closed)
                >= limits::SMALL_PART.share() * f64::from(e.transfer.samples)
        })
    }

    /// Bytes read per second of one of them, the median: they may have followed each other.
    fn rate(&self) -> f64 {
        let mut rates: Vec<u64> = self.slow.iter().map(|e| read_per_s(e) as u64).collect();
        median(&mut rates).unwrap_or(0) as f64
    }

    fn unread(&self) -> Quantity {
        let all = self.slow.iter().flat_map(|e| &e.transfer.unread_bytes);
        let unread = median(&mut all.copied().collect::<Vec<_>>());
        Quantity::bytes(unread.unwrap_or(0))
    }

    fn held_up(&self) -> String {
        let slow = Quantity::count(self.slow.len() as u64);
        let all = Quantity::of(self.all, "transfer");
        let unread = self.unread();
        let waited = if self.senders.is_empty() {
            String::new()
        } else {
            let share = Quantity::share(rwnd_share(&self.senders));
            format!("; their senders waited {share} of the time for the window")
        };
        let by = if self.senders.is_empty() && !self.is_closed() {
            "by a reader that falls behind"
        } else {
            "by a closed receive window"
        };
        format!("{slow} of {all} blocked {by}, {unread} unread in Recv-Q{waited}.")
    }

    /// How long senders waited for the window; for remote senders, while data lay unread.
    fn lost(&self) -> Lost {
        let senders = self.senders.iter().map(|e| e.conn);
        Lost::states(self.story, senders, &[State::PeerWindow], 1.0).or(|| {
            let slow = self.slow.iter().map(|e| e.conn);
            Lost::states(self.story, slow, &[State::Unread], 1.0)
        })
    }

    fn senders_wait(&self) -> Option<Step> {
        let senders = Quantity::of(self.senders.len() as u64, "sender");
        let share = Quantity::share(rwnd_share(&self.senders));
        (!self.senders.is_empty()).then(|| {
            say!(
                "{senders} waited for the receiver's window for {rwnd_limited} of the time with data to send.",
                rwnd_limited = share.rows(sample_rows(&self.senders))
            )
        })
    }

    fn unread_data(&self) -> Step {
        let sum = |of: fn(&End) -> u32| Quantity::count(self.slow.iter().map(of).sum::<u32>());
        say!(
            "{unread} of {samples} samples found unread data in the receive queue, {unread_bytes} (median), and \
             {closed} found the window closed.",
            unread = sum(|e| e.transfer.unread).rows(sample_rows(&self.slow)),
            samples = sum(|e| e.transfer.samples),
            unread_bytes = self.unread(),
            closed = sum(|e| e.transfer.closed)
        )
    }

    /// What the reading process did meanwhile.
    fn between_reads(&self, scope: &Scope) -> Option<Step> {
        let pid = scope.pid?;
        if let Some((call, slept)) = self.story.sleeps.longest(pid) {
            let who = scope.comm.as_deref().unwrap_or("the reader");
            let each = Quantity::ns(slept.ns / slept.count.max(1));
            return Some(say!(
                "Meanwhile {who} slept {slept_ms} in {call}, {sleeps}, {each} each.",
                slept_ms = Quantity::ns(slept.ns).rows(slept.rows.iter().copied()),
                sleeps = Quantity::times(slept.count)
            ));
        }
        let doing = culprit(scope)?;
        let row = self.story.processes.get(pid).map(|seen| seen.row);
        Some(Step::new(format!("Its process: {}.", doing.says)).rows(row))
    }

    /// For one connection: the widest window that it offered, once per round trip.
    fn window_has_room(&self) -> Option<Check> {
        let windows = self.senders.iter();
        let windows = windows.filter_map(|s| Allowance::of_window(self.story, s));
        let widest = windows.max_by_key(|window| window.bytes)?;
        let mbit = |rate: f64| rounded(rate * 8.0 / 1e6);
        Some(Check {
            formula: format!(
                "widest window ÷ shortest round trip = {} ÷ {}, far above the read rate",
                Quantity::bytes(widest.bytes),
                Quantity::us(widest.min_rtt_us)
            ),
            expected: mbit(widest.per_s()),
            measured: mbit(widest.rate),
            unit: "Mbit/s".into(),
            agrees: widest.has_room(),
            tolerance: "at most half of it: the reader is the limit, not the buffer".into(),
        })
    }
}

fn advice(scope: &Scope, at: Endpoint, comm: &str, rate: &Quantity) -> Advice {
    let threads = scope
        .pid
        .and_then(|pid| shell!("tcpwhy stat threads --pid {pid}", pid));
    let sockets = command_in(
        &scope.netns,
        shell!("ss -tmi 'sport = :{port}'", port = at.port),
    );
    Advice::to(format!(
        "Make {comm} read data as it arrives: move its work between reads to another thread, or read more at a time."
    ))
    .by(threads.or(sockets))
    .at(format!(
        "the source of {comm}; the command shows where its time goes"
    ))
    .risk(
        "Data held back in the senders then waits in the application's memory: limit it.",
    )
    .effect(format!(
        "The senders are no longer limited to {rate}; the path is then the limit."
    ))
    .change(Change::ReadFaster {
        listener: at.to_string(),
    })
}

fn raise_its_rate(scope: &Scope, at: Endpoint, comm: &str, option: &str) -> Advice {
    let look = scope
        .pid
        .and_then(|pid| shell!("tr '\\0' ' ' < /proc/{pid}/cmdline", pid));
    Advice::to(format!("Start {comm} without {option}, or with more."))
        .by(look)
        .at(format!(
            "whatever starts {comm}; the command shows its command line"
        ))
        .risk("It then uses what the path gives it, which may be why it was limited.")
        .effect("The senders are no longer limited to its rate; the path is then the limit.")
        .change(Change::ReadFaster {
            listener: at.to_string(),
        })
}

#[cfg(test)]
mod tests;
