//! C24: the receiver's window is filled once per round trip, and the path has room for more.

mod at_receiver;

use analysis::stats::median;
use analysis::words::rounded;

use crate::limits;
use crate::places::path::{End, rate, rwnd_share, sample_rows, senders};
use crate::places::receivers::other;
use crate::places::window::{Allowance, HeldBack, filled, held_back, waited_for_window};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RECEIVE_BUFFER_SMALL,
    number: "C24",
    title: "the receive buffer is too small for the path",
    page: include_str!("receive_buffer_small.md"),
    layer: Layer::ThisHost,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "a transfer of 16 windows that waits half of its time for the peer's, which it fills".into()
    },
    signature: &[
        "throughput is the same on any link: one window per round trip",
        "slow over long distances only, fast in the same data centre",
        "iperf with -w or more streams is faster",
        "slow download from one region, over a high-latency link",
    ],
    rivals: &[Id::SLOW_READER, Id::BUFFERBLOAT, Id::PATH_LOSS],
    explains: &[],
    told_with: Some(ToldWith::Readers),
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        let held = held_back(story);
        let by_senders = held.iter().filter_map(|p| judge(story, p));
        let all = by_senders.chain(at_receiver::find(story));
        all.collect::<Vec<_>>().into()
    },
};

/// By how much more is advised: two doublings, as the path's own limit is not known.
const ADVISED_TIMES: u64 = 4;

fn no(asked: &Asked) -> Option<Step> {
    if let Place::Receivers(ids) = asked.place {
        return left_unread(asked.story, ids);
    }
    let ends = &asked.losses()?.ends;
    let share = rwnd_share(ends);
    if share < limits::MOST.share() {
        return Some(say!(
            "these connections waited {window_limited} of their busy time for the peer's window",
            window_limited = Quantity::share(share).rows(sample_rows(ends))
        ));
    }
    let windows = ends.iter();
    let windows = windows.filter_map(|e| Allowance::of_window(asked.story, e));
    let window = Allowance::usual(windows)?;
    filled(asked.story, ends)
        .is_empty()
        .then(|| window.told("its size was not the limit"))
}

/// For senders, how long they waited for the window; for receivers here, how it was filled.
fn rule_out(whole: &Whole) -> Verdict {
    let bulk = whole
        .ends()
        .iter()
        .filter(|e| e.transfer.acked() >= limits::BULK.bytes());
    let senders = bulk.map(waited_for_window);
    let receives = |e: &&End| e.transfer.received() >= limits::BULK.bytes();
    let readers = whole.ends().iter().filter(receives);
    Verdict::nearest(
        senders.chain(readers.map(at_receiver::refuted)),
        NO_TRANSFER,
    )
}

/// For ends that receive from other hosts: how often received data lay unread.
fn left_unread(story: &Story, ids: &[ConnId]) -> Option<Step> {
    let ends: Vec<End> = ids.iter().filter_map(|id| End::of(story, *id)).collect();
    let sum = |of: fn(&End) -> u32| Quantity::count(ends.iter().map(of).sum::<u32>());
    (!ends.is_empty()).then(|| {
        say!(
            "{unread} of {samples} samples found unread data: the buffer size is not the cause",
            unread = sum(|e| e.transfer.unread),
            samples = sum(|e| e.transfer.samples).rows(sample_rows(&ends))
        )
    })
}

/// Whether the size of its peer's window holds it back.
fn is_held(story: &Story, end: &End) -> bool {
    let small = Allowance::of_window(story, end).filter(Allowance::is_filled);
    let Some(window) = small else { return false };
    other(story, end).is_none_or(|r| {
        let unread = median(&mut r.transfer.unread_bytes.clone()).unwrap_or(0);
        let found = limits::MOST.reached(r.transfer.unread, r.transfer.samples);
        !found || f64::from(unread) <= limits::SMALL_PART.share() * f64::from(window.bytes)
    })
}

fn judge(story: &Story, place: &HeldBack) -> Option<Finding> {
    let held = place.held.iter().copied();
    let held: Vec<End> = held.filter(|e| is_held(story, e)).collect();
    let windows = held.iter().filter_map(|e| Allowance::of_window(story, e));
    let window = Allowance::usual(windows)?;
    let to = place.to;
    let limit = Limit::of(story, &held);
    let scope = senders(story, place.netns, &held, Some(format!("path to {to}")));
    let look = command_in(&scope.netns, shell!("ss -tmi dst {to}", to));
    let n = held.len() as u64;
    let share = Quantity::share(rwnd_share(&held));
    let (size, sent) = (Quantity::bytes(window.bytes), Quantity::rate(rate(&held)));
    let says = format!(
        "{} of {} to it waited {share} of their busy time for its window of {size}, at {sent} in total.",
        Quantity::count(n),
        Quantity::of(place.all, "transfer")
    );
    let who = if window.is_path_empty() {
        format!("there was no standing queue, and {}", limit.who())
    } else {
        limit.who().to_string()
    };
    let larger = u64::from(window.bytes).saturating_mul(ADVISED_TIMES);
    Some(
        Case::new(story, CAUSE, scope)
            .layer(limit.layer())
            .placed(Place::ends(&held))
            .title([
                format!("The window of {to} is too small for the path ({size}): senders wait {share}."),
                format!("The window of {to} is too small for the path."),
            ])
            .fix([limit.fix(to.to_string())])
            .affects(
                Impact::of(n, place.all, "connections", says),
                Lost::states(story, held.iter().map(|e| e.conn), &[State::PeerWindow], 1.0),
            )
            .because("the kernel counts the time in which the peer's window was full")
            .at_most_if(
                Level::Medium,
                limit == Limit::Elsewhere,
                "the receiver is not on this host: what limits its buffer is not visible",
            )
            .at_most_if(
                Level::Medium,
                !window.is_path_empty(),
                &format!(
                    "round trips took {}, the shortest {}: where that is a queue, a wider window lengthens it",
                    Quantity::us(window.usual_rtt_us),
                    Quantity::us(window.min_rtt_us)
                ),
            )
            .steps([
                say!(
                    "{senders} waited for the peer's window for {rwnd_limited} of the time with data to send.",
                    senders = Quantity::of(n, "sender"),
                    rwnd_limited = share.rows(sample_rows(&held))
                ),
                window.told(&who),
            ])
            .steps(read_in_time(story, &held))
            .checks([once_per_round_trip(&window)])
            .advise([limit.advice(story, larger, window.rate, Receiving {
                at: to.to_string(),
                look,
                shows: "the receiving host; the command shows rwnd_limited at the sender",
            })])
            .verify(sentence!("`ss -ti dst {to}` shows rwnd_limited below {share} of busy.", to, share = Quantity::share(limits::MOST.share()))),
    )
}

/// For receivers on this host: that they keep up.
fn read_in_time(story: &Story, held: &[End]) -> Option<Step> {
    let receivers: Vec<End> = held.iter().filter_map(|e| other(story, e)).collect();
    let sum = |of: fn(&End) -> u32| Quantity::count(receivers.iter().map(of).sum::<u32>());
    (!receivers.is_empty()).then(|| {
        say!(
            "The receivers read data as it arrives: {unread} of {samples} samples found some unread.",
            unread = sum(|e| e.transfer.unread),
            samples = sum(|e| e.transfer.samples).rows(sample_rows(&receivers))
        )
    })
}

fn once_per_round_trip(window: &Allowance) -> Check {
    let mbit = |rate: f64| rounded(rate * 8.0 / 1e6);
    Check {
        formula: format!(
            "rate ≤ widest window ÷ shortest round trip = {} ÷ {}",
            Quantity::bytes(window.bytes),
            Quantity::us(window.min_rtt_us)
        ),
        expected: mbit(window.per_s()),
        measured: mbit(window.rate),
        unit: "Mbit/s".into(),
        agrees: window.rate <= (1.0 + limits::ALIKE.share()) * window.per_s(),
        tolerance: "at most 20 % above: the window is sampled".into(),
    }
}

/// Where the data is received, and how to look there.
struct Receiving {
    at: String,
    look: Option<ShellCommand>,
    /// What the command there shows.
    shows: &'static str,
}

/// What keeps the buffer small.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// It is on another host.
    Elsewhere,
    /// The kernel does not size it (net.ipv4.tcp_moderate_rcvbuf=0), in this namespace.
    NotSized(u32),
    /// The third number of net.ipv4.tcp_rmem, of this namespace.
    Most(u32),
    /// The application, by SO_RCVBUF: its process.
    Application(Option<u32>),
    /// The kernel may size it, and it is smaller than allowed.
    Clamped,
}

impl Limit {
    fn of(story: &Story, held: &[End]) -> Limit {
        let receiver = held.iter().find_map(|e| other(story, e));
        receiver.map_or(Limit::Elsewhere, |r| Limit::of_receiver(story, &r))
    }

    fn of_receiver(story: &Story, receiver: &End) -> Limit {
        let netns = receiver.conn.netns;
        if story.settings.number(netns, sysctl::TCP_MODERATE_RCVBUF) == Some(0) {
            return Limit::NotSized(netns);
        }
        let most = story.settings.get(netns, sysctl::TCP_RMEM);
        let most = most.and_then(|value| value.number(2));
        match most {
            Some(most) if u64::from(receiver.transfer.rcvbuf) < most => {
                if receiver.transfer.rcvbuf_set == Some(false) {
                    return Limit::Clamped;
                }
                Limit::Application(story.owner(receiver.conn).map(|(pid, _)| pid))
            }
            _ => Limit::Most(netns),
        }
    }

    fn layer(self) -> Layer {
        match self {
            Limit::Elsewhere => Layer::Peer,
            Limit::Application(_) | Limit::Clamped => Layer::Application,
            Limit::NotSized(_) | Limit::Most(_) => Layer::ThisHost,
        }
    }

    fn who(self) -> &'static str {
        match self {
            Limit::Elsewhere => "the receive buffer there is too small for the path",
            Limit::NotSized(_) => {
                "the kernel does not size the buffer (net.ipv4.tcp_moderate_rcvbuf=0)"
            }
            Limit::Most(_) => "net.ipv4.tcp_rmem limits the growth of the buffer",
            Limit::Application(_) => "the application set the size of the buffer (SO_RCVBUF)",
            Limit::Clamped => {
                "the kernel may size the buffer and does not (TCP_WINDOW_CLAMP, a route's window, memory pressure)"
            }
        }
    }

    fn fix(self, to: String) -> String {
        match self {
            Limit::Elsewhere => {
                format!("Raise the receive buffer at {to} (tcp_rmem, or no SO_RCVBUF).")
            }
            Limit::NotSized(_) => "Set net.ipv4.tcp_moderate_rcvbuf=1.".into(),
            Limit::Most(_) => "Raise the maximum of net.ipv4.tcp_rmem.".into(),
            Limit::Application(_) => {
                "Do not set SO_RCVBUF at the receiver: the kernel sizes the buffer itself.".into()
            }
            Limit::Clamped => {
                "Find what clamps the receiver's window: TCP_WINDOW_CLAMP, or `window` of its route."
                    .into()
            }
        }
    }

    fn advice(self, story: &Story, bytes: u64, rate: f64, receiving: Receiving) -> Advice {
        let effect = format!(
            "The rate of a transfer rises with the window, from {} now, until the path is full.",
            Quantity::rate(rounded(rate))
        );
        let risk = "Each connection may use that much memory; net.ipv4.tcp_mem limits the total.";
        let set = |netns, name, value: String| {
            set_sysctl(&story.netns(netns), name, value, risk, effect.clone())
        };
        match self {
            Limit::NotSized(netns) => set(netns, sysctl::TCP_MODERATE_RCVBUF, "1".into()),
            Limit::Most(netns) => {
                // Half of a buffer or more goes to headers and partly filled pages.
                let most = |_| larger_most(sysctl::TCP_RMEM, bytes.saturating_mul(2));
                let value = buffer_sizes(story, netns, sysctl::TCP_RMEM, most);
                set(netns, sysctl::TCP_RMEM, value)
            }
            Limit::Elsewhere | Limit::Application(_) | Limit::Clamped => Advice::to(match self {
                Limit::Clamped => format!(
                    "Do not clamp the window of the receivers at {}: TCP_WINDOW_CLAMP, `window` of a route.",
                    receiving.at
                ),
                _ => format!(
                    "Give the receivers at {} a larger buffer: do not set SO_RCVBUF, and set the maximum of \
                     net.ipv4.tcp_rmem to at least {}.",
                    receiving.at,
                    Quantity::bytes(bytes.saturating_mul(2))
                ),
            })
            .by(receiving.look)
            .at(receiving.shows)
            .risk(risk)
            .effect(effect)
            .change(Change::ReceiveBuffer {
                to: receiving.at,
                bytes,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
