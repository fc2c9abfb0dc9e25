//! C26: the peer's window stays closed: what waits to be sent has stopped for seconds.

use std::collections::BTreeMap;

use analysis::{Shut, account};
use recording::Addr;

use crate::limits;
use crate::places::path::{End, ends, sample_rows, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::ZERO_WINDOW,
    number: "C26",
    title: "the receiver has stopped reading",
    page: include_str!("zero_window.md"),
    layer: Layer::Peer,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: || "a window closed for 3 s while data waits for it".into(),
    signature: &[
        "a connection hangs with data in Send-Q, and nothing is retransmitted",
        "window probes, timer:(persist) in ss -o",
        "TCP ZeroWindow in Wireshark",
    ],
    rivals: &[Id::PEER_GONE, Id::PMTU_BLACK_HOLE, Id::PATH_LOSS],
    explains: &[Id::SLOW_READER, Id::SLOW_APPLICATION],
    told_with: Some(ToldWith::Readers),
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        places(whole.story)
            .iter()
            .map(judge)
            .collect::<Vec<_>>()
            .into()
    },
};

/// Ends of a namespace that send to an address which does not read.
struct Stopped<'a> {
    story: &'a Story,
    netns: u32,
    to: Addr,
    hung: Vec<(End<'a>, Shut)>,
    /// Ends to it that were sampled.
    all: u64,
}

fn no(asked: &Asked) -> Option<Step> {
    let ends = &asked.losses()?.ends;
    let longest = ends.iter().filter_map(|e| e.transfer.shut);
    let longest = longest.max_by_key(Shut::lasts_ns);
    let ns = longest.map_or(0, |shut| shut.lasts_ns());
    (ns < limits::STALL.ns()).then(|| {
        say!(
            "the peer's window was closed to them for {closed} at most",
            closed = Quantity::ns(ns).rows(sample_rows(ends))
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let shut_ns = |end: &&End| end.transfer.shut.map_or(0, |shut| shut.lasts_ns());
    let longest = whole.ends().iter().max_by_key(shut_ns).map(|end| {
        let ns = shut_ns(&end);
        let step = say!(
            "a peer's window was closed for {closed} at most while data waited for it",
            closed = Quantity::ns(ns).rows(sample_rows(&[*end]))
        );
        every([Test::lasts(ns, &limits::STALL, step)])
    });
    Verdict::nearest(longest, "no connection was sampled")
}

/// Whether that one time is most of what the end waited for the window: a reader that reads now and then, as under a
/// rate limit, closes it repeatedly.
fn has_stopped(story: &Story, end: &End, shut: &Shut) -> bool {
    let waited = account::of_end(story, end.conn).of(State::PeerWindow);
    limits::MOST.reached(shut.lasts_ns(), waited)
}

fn places(story: &Story) -> Vec<Stopped<'_>> {
    let mut places: BTreeMap<(u32, Addr), Stopped> = BTreeMap::new();
    for end in ends(story) {
        let (netns, to) = (end.conn.netns, end.conn.remote.addr);
        let place = places.entry((netns, to)).or_insert_with(|| Stopped {
            story,
            netns,
            to,
            hung: Vec::new(),
            all: 0,
        });
        place.all += 1;
        let shut = end
            .transfer
            .shut
            .filter(|s| s.samples >= limits::SHUT_SAMPLES.as_u32());
        if let Some(shut) =
            shut.filter(|s| s.lasts_ns() >= limits::STALL.ns() && has_stopped(story, &end, s))
        {
            place.hung.push((end, shut));
        }
    }
    let hung = places.into_values().filter(|p| !p.hung.is_empty());
    hung.collect()
}

impl<'a> Stopped<'a> {
    fn ends(&self) -> Vec<End<'a>> {
        self.hung.iter().map(|(end, _)| *end).collect()
    }

    /// The ends that should read, if on this host.
    fn readers(&self) -> Vec<End<'a>> {
        let peers = self.hung.iter().filter_map(|(e, _)| e.conn.peer);
        peers.filter_map(|id| End::of(self.story, id)).collect()
    }

    fn longest(&self) -> Option<Shut> {
        let shut = self.hung.iter().map(|(_, shut)| *shut);
        shut.max_by_key(Shut::lasts_ns)
    }

    fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        for (end, shut) in &self.hung {
            // What happened before the recording does not count towards its time.
            let since = shut.since_ns.max(self.story.start_ns);
            let ns = shut.until_ns.saturating_sub(since);
            lost.add(end.conn, State::PeerWindow, ns);
        }
        lost
    }
}

fn judge(stopped: &Stopped) -> Finding {
    let (story, to) = (stopped.story, stopped.to);
    let (held, readers) = (stopped.ends(), stopped.readers());
    let longest = stopped.longest();
    let ns = longest.map_or(0, |shut| shut.lasts_ns());
    let unsent: u64 = stopped.hung.iter().map(|(_, s)| u64::from(s.unsent)).sum();
    let n = held.len() as u64;
    let closed = Quantity::ns(ns).rows(longest.map(|shut| shut.rows).into_iter().flatten());
    let waiting = Quantity::bytes(unsent);
    let here = owners(story, readers.iter().map(|e| e.conn));
    let scope = if readers.is_empty() {
        senders(story, stopped.netns, &held, Some(format!("path to {to}")))
    } else {
        Scope {
            netns: story.netns(readers.first().map_or(0, |e| e.conn.netns)),
            resource: Some(format!("receivers at {to}")),
            role: Role::Listener,
            ..here
        }
    };
    let reader = if readers.is_empty() {
        format!("the peer {to}")
    } else {
        process(&scope)
    };
    let says = format!(
        "{} of {} to it waited with {waiting} unsent, the longest for {closed}.",
        Quantity::count(n),
        Quantity::of(stopped.all, "connection")
    );
    Case::new(story, CAUSE, scope.clone())
        .layer(if readers.is_empty() { Layer::Peer } else { Layer::Application })
        .placed(Place::ends(&held))
        .title([
            format!("{reader} has stopped reading: its window is closed for {closed}, {waiting} wait."),
            format!("{reader} has stopped reading: its window stays closed."),
        ])
        .fix(["See what keeps the receiver from reading; limit how long senders wait for it.".into()])
        .affects(
            Impact::of(n, stopped.all, "connections", says),
            stopped.lost(),
        )
        .because("every sample found the window closed, data waiting for it, and nothing acknowledged")
        .at_most_if(
            Level::Medium,
            readers.is_empty(),
            "the reader is not on this host: what keeps it from reading is not visible",
        )
        .steps([say!(
            "{senders} had {waiting} to send, a window of less than a segment, and nothing acknowledged for {closed}.",
            senders = Quantity::of(n, "connection").rows(sample_rows(&held)),
            waiting,
            closed
        )])
        .steps(unread(&readers))
        .checks(longest.and_then(probed))
        .advise([advice(stopped, &scope, &reader)])
        .verify(sentence!("`ss -toi dst {to}` shows no timer:(persist), and bytes_acked rises.", to))
}

/// For readers on this host: what lies there unread.
fn unread(readers: &[End]) -> Option<Step> {
    let last = |e: &End| e.transfer.unread_bytes.last().copied().unwrap_or(0);
    let bytes: u64 = readers.iter().map(|e| u64::from(last(e))).sum();
    (!readers.is_empty()).then(|| {
        say!(
            "{unread} were unread in the receive queues of {readers}.",
            unread = Quantity::bytes(bytes).rows(sample_rows(readers)),
            readers = Quantity::of(readers.len() as u64, "connection")
        )
    })
}

/// The window probe timer doubles each time: it must have been closed for this long.
fn probed(shut: Shut) -> Option<Check> {
    let doubled = shut.backoff.min(20);
    let first_us = u64::from(shut.rto_us.max(limits::FIRST_PROBE.us()));
    // The last one has not fired yet, and the first sample may be one late.
    let least_us = first_us.saturating_mul((1u64 << doubled.saturating_sub(1)).saturating_sub(1));
    let measured = shut.lasts_ns() as f64 / 1e6;
    let expected = least_us as f64 / 1e3;
    (doubled > 1).then(|| Check {
        formula: format!(
            "time closed ≥ {} × (2^{} − 1), the window probes that were sent",
            Quantity::us(first_us as u32),
            doubled - 1
        ),
        expected: analysis::words::rounded(expected),
        measured: analysis::words::rounded(measured),
        unit: "ms".into(),
        agrees: measured + 1_000.0 >= expected,
        tolerance: "at most 1 s below: it is sampled once a second".into(),
    })
}

fn advice(stopped: &Stopped, scope: &Scope, reader: &str) -> Advice {
    let to = stopped.to;
    let command = match scope.pid.filter(|_| !stopped.readers().is_empty()) {
        Some(pid) => shell!("tcpwhy stat threads --pid {pid}", pid),
        None => command_in(&scope.netns, shell!("ss -toi dst {to}", to)),
    };
    Advice::to(format!(
        "See what {reader} waits for, and make it read or close; have senders give up by TCP_USER_TIMEOUT or a write \
         timeout."
    ))
    .by(command)
    .at("the receiving application; the kernel itself waits forever, as long as window probes are answered")
    .risk("Unsent data is lost where the connection is closed.")
    .effect(format!(
        "{} resume, or their senders get an error.",
        Quantity::of(stopped.hung.len() as u64, "connection")
    ))
    .change(Change::ReadFaster {
        listener: to.to_string(),
    })
}

#[cfg(test)]
mod tests;
