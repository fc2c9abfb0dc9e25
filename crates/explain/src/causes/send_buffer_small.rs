//! C27: all that the send buffer holds is in flight, and the path has room for more.

use analysis::account::service;
use analysis::words::rounded;

use crate::limits;
use crate::places::path::{
    End, Path, ends, median_of, min_rtt_us, paths, rate, sample_rows, senders, usual_rtt,
};
use crate::places::window::Allowance;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SEND_BUFFER_SMALL,
    number: "C27",
    title: "the send buffer is too small for the path",
    page: include_str!("send_buffer_small.md"),
    layer: Layer::ThisHost,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "a transfer of 256 kB that has its whole send buffer in flight in half of its samples"
            .into()
    },
    signature: &[
        "one connection is slow over a long path, several in parallel are fast",
        "upload is slow and download over the same path is fast",
    ],
    rivals: &[
        Id::SLOW_READER,
        Id::RECEIVE_BUFFER_SMALL,
        Id::BUFFERBLOAT,
        Id::PATH_LOSS,
    ],
    explains: &[],
    told_with: None,
    no: None,
    rule_out,
    symptom: None,
    find: |whole| paths(whole.story).iter().filter_map(judge).collect(),
};

/// By how much more is advised: two doublings, as the path's own limit is not known.
const ADVISED_TIMES: u64 = 4;

/// Whether its buffer holds it back.
fn is_held(end: &End) -> bool {
    let t = end.transfer;
    let full = t.flying >= limits::SEEN_TWICE.as_u32()
        && limits::MOST.reached(t.all_sent, t.flying)
        && t.brimful.saturating_mul(limits::BRIMFUL.as_u32()) >= t.flying;
    let small = Allowance::of_send_buffer(end).is_some_and(|buffer| buffer.is_too_small());
    t.acked() >= limits::BULK.bytes() && full && small
}

/// The kernel lets each grow until one write fits, so that messages of one size fill it and wait for nothing. Where it
/// does not report that it does, another connection of the same service may show it: an application that sets SO_SNDBUF
/// sets the same everywhere.
fn is_sized_by_the_kernel(story: &Story, held: &[End]) -> bool {
    let told: Vec<bool> = held.iter().filter_map(|e| e.transfer.sndbuf_set).collect();
    if !told.is_empty() {
        return !told.contains(&true);
    }
    let alike = |a: &End, b: &End| service(story, a.conn) == service(story, b.conn);
    let larger = |e: &End| {
        let mut smaller = held
            .iter()
            .filter(|h| h.transfer.sndbuf < e.transfer.sndbuf);
        smaller.any(|h| alike(h, e))
    };
    ends(story).any(|e| larger(&e))
}

/// As a share of the time with something to send: the samples in which the buffer held nothing else. The kernel counts
/// as limited by the send buffer only from a segment that emptied the queue while a writer waited for room: 0 to 48 ms
/// of 4 s, measured, where a buffer cut the rate to less than half.
fn lost(held: &[End]) -> Lost {
    let mut lost = Lost::unknown();
    for end in held {
        let share = full_share(&[*end]);
        let busy_ns = end.transfer.busy_us().saturating_mul(1_000);
        lost.add(end.conn, State::SendBuffer, (busy_ns as f64 * share) as u64);
    }
    lost
}

fn judge(path: &Path) -> Option<Finding> {
    let story = path.story;
    let held: Vec<End> = path.ends.iter().copied().filter(is_held).collect();
    let buffer = Allowance::usual(held.iter().filter_map(Allowance::of_send_buffer))?;
    let scope = senders(
        story,
        path.netns,
        &held,
        Some(format!("path {}", path.name())),
    );
    let (n, of) = (held.len() as u64, path.ends.len() as u64);
    let share = Quantity::share(full_share(&held));
    let (size, sent) = (Quantity::bytes(buffer.bytes), Quantity::rate(rate(&held)));
    let most = story.settings.get(path.netns, sysctl::TCP_WMEM);
    let most_row = most.as_ref().map(|value| value.row);
    let most = most.and_then(|value| value.number(2));
    // The kernel itself sizes it up to there, unless the application did.
    let at_limit = most.is_none_or(|most| u64::from(buffer.bytes) >= most);
    if !at_limit && is_sized_by_the_kernel(story, &held) {
        return None;
    }
    let comm = application(&scope).to_string();
    let who = if at_limit {
        sysctl::TCP_WMEM.to_string()
    } else {
        format!("{comm} (SO_SNDBUF)")
    };
    let says = format!(
        "{} of {} had a full send buffer of {size} in flight ({share} of the samples), at {sent} in total.",
        Quantity::count(n),
        Quantity::of(of, "connection")
    );
    let (to, netns) = (path.to, scope.netns.clone());
    let larger = u64::from(buffer.bytes).saturating_mul(ADVISED_TIMES);
    let larger = if at_limit {
        larger_most(sysctl::TCP_WMEM, larger)
    } else {
        larger
    };
    let raise = if at_limit {
        raise(story, &netns, larger, &buffer)
    } else {
        leave(&comm, &scope, larger, most)
    };
    Some(
        Case::new(story, CAUSE, scope)
            .layer(if at_limit { Layer::ThisHost } else { Layer::Application })
            .placed(Place::ends(&held))
            .title([
                format!("A send buffer of {size} ({who}) limits {comm} to {sent} to {to}."),
                format!("A send buffer of {size} is too small for the path to {to}."),
            ])
            .fix([if at_limit { format!(
                "Raise the maximum of net.ipv4.tcp_wmem to {} bytes.",
                Quantity::count(larger)
            ) } else { format!("Do not set SO_SNDBUF in {comm}: the kernel sizes the buffer itself.") }])
            .affects(
                Impact::of(n, of, "connections", says),
                lost(&held),
            )
            .because(
                "the memory charged to the send buffer was at its limit while both windows had room",
            )
            .steps([
                in_flight(&held),
                say!(
                    "The buffer is {sndbuf}; net.ipv4.tcp_wmem allows {allowed}: {who} sets it.",
                    sndbuf = Quantity::bytes(buffer.bytes).rows(buffer.row),
                    allowed = match most {
                        Some(most) => Quantity::bytes(most).rows(most_row),
                        None => Quantity::new(0u64, "an amount that was not recorded"),
                    }
                ),
            ])
            .steps(min_rtt_us(&held).map(|us| {
                say!(
                    "The shortest round trip is {min_rtt_us}, and there was no standing queue: the path had room.",
                    min_rtt_us = Quantity::us(us)
                )
            }))
            .checks(per_round_trip(&held))
            .advise([raise])
            .verify(sentence!("`ss -tmi dst {to}` shows t (of skmem) well below tb while data moves.", to)),
    )
}

/// The share of samples with data in flight in which the buffer held nothing else.
fn full_share(held: &[End]) -> f64 {
    let all_sent: u32 = held.iter().map(|e| e.transfer.all_sent).sum();
    let flying: u32 = held.iter().map(|e| e.transfer.flying).sum();
    f64::from(all_sent) / f64::from(flying.max(1))
}

fn in_flight(held: &[End]) -> Step {
    let sum = |of: fn(&End) -> u32| Quantity::count(held.iter().map(of).sum::<u32>());
    let limited = held.iter().map(|e| e.transfer.sndbuf_us()).sum::<u64>();
    say!(
        "In {all_sent} of {samples} samples of {connections} all written data was in flight, with the buffer at \
         least half full ({brimful} times nearly full) and room in both windows; the kernel counted {sndbuf_limited} \
         of waiting for room.",
        all_sent = sum(|e| e.transfer.all_sent).rows(sample_rows(held)),
        samples = sum(|e| e.transfer.flying),
        connections = Quantity::of(held.len() as u64, "connection"),
        brimful = sum(|e| e.transfer.brimful),
        sndbuf_limited = Quantity::ns(limited.saturating_mul(1_000))
    )
}

/// What was in flight, once per round trip, against what was acknowledged.
fn per_round_trip(held: &[End]) -> Option<Check> {
    let in_flight = median_of(held, |e| Some(e.transfer.in_flight_bytes()))?;
    let rtt_us = median_of(held, |e| Some(usual_rtt(e)?.into()))?;
    let measured = median_of(held, |e| Some(e.transfer.busy_rate()))?;
    let expected = in_flight / rtt_us.max(1.0) * 1e6;
    let mbit = |rate: f64| rounded(rate * 8.0 / 1e6);
    Some(Check {
        formula: format!(
            "rate = data in flight ÷ round trip = {} ÷ {}",
            Quantity::bytes(in_flight as u64),
            Quantity::us(rtt_us as u32)
        ),
        expected: mbit(expected),
        measured: mbit(measured),
        unit: "Mbit/s".into(),
        agrees: (measured - expected).abs()
            <= limits::IN_FLIGHT_SAMPLED.share() * expected.max(measured),
        tolerance: "± 50 %: data in flight is sampled once a second".into(),
    })
}

fn raise(story: &Story, netns: &Netns, bytes: u64, buffer: &Allowance) -> Advice {
    let name = sysctl::TCP_WMEM;
    set_sysctl(
        netns,
        name,
        buffer_sizes(story, netns.inode, name, |_| bytes),
        "A connection may use that much memory; net.ipv4.tcp_mem limits the total.",
        format!(
            "Up to {} per connection over a round trip of {}, until the path or a window is full.",
            Quantity::rate(buffer.per_s() * bytes as f64 / f64::from(buffer.bytes).max(1.0)),
            Quantity::us(buffer.min_rtt_us)
        ),
    )
}

fn leave(comm: &str, scope: &Scope, bytes: u64, most: Option<u64>) -> Advice {
    Advice::to(format!(
        "Do not set SO_SNDBUF in {comm}, or set it to at least {}.",
        Quantity::bytes(bytes)
    ))
    .by(command_in(
        &scope.netns,
        shell!("ss -tmi state established"),
    ))
    .at(format!(
        "the source or configuration of {comm}; the command shows the limit as tb in skmem"
    ))
    .risk("A connection uses more memory while its buffer is full.")
    .effect(match most {
        Some(most) => format!(
            "The kernel sizes it for the path, up to {}.",
            Quantity::bytes(most)
        ),
        None => "The kernel sizes it for the path.".into(),
    })
    .change(Change::SendBuffer {
        pid: scope.pid,
        bytes,
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let ends = || whole.losses().iter().flat_map(|losses| &losses.ends);
    let largest = ends().map(|e| e.transfer.acked()).max().unwrap_or(0);
    let least = largest.min(limits::BULK.bytes());
    let places = ends().filter(|e| e.transfer.acked() >= least).map(|end| {
        let t = end.transfer;
        let rows = || sample_rows(&[*end]);
        let moved = say!(
            "the largest transfer moved {acked}",
            acked = Quantity::bytes(t.acked()).rows(rows())
        );
        let whole_buffer = say!(
            "{all_sent} of {flying} with data in flight found the whole send buffer in flight",
            all_sent = Quantity::count(t.all_sent).rows(rows()),
            flying = Quantity::of(t.flying, "sample")
        );
        every([
            Test::from(t.acked() as f64, &limits::BULK, moved),
            Test::share(
                t.all_sent.into(),
                t.flying.into(),
                &limits::MOST,
                whole_buffer,
            ),
        ])
    });
    Verdict::nearest(places, NO_PATH)
}

#[cfg(test)]
mod tests;
