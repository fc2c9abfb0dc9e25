//! C58: the end of a message stays in its sender's socket, because TCP_CORK is set or MSG_MORE was said.

use std::collections::BTreeMap;

use analysis::account::{self, Exchanges, Role as Serves, ServiceKey};
use analysis::stats::ratio;
use analysis::words::rounded;

use crate::limits;
use crate::places::path::{End, ends, median_of, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CORKED_MESSAGES,
    number: "C58",
    title: "messages stay in their sender's socket (TCP_CORK, MSG_MORE)",
    page: include_str!("corked_messages.md"),
    layer: Layer::Application,
    ground: Ground::Connections,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "3 samples with less than a segment unsent, nothing in flight and room in both windows"
            .into()
    },
    signature: &[
        "every answer takes 200 ms and a round trip more",
        "the server has written its answer, and tcpdump shows it leave 200 ms later",
    ],
    rivals: &[Id::NAGLE_DELAYED_ACK, Id::TAIL_LOSS],
    explains: &[Id::SLOW_PEER],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story).into(),
};

/// A service whose connections keep messages back: a listener's answers, or requests to a destination.
struct Sender<'a> {
    story: &'a Story,
    service: ServiceKey,
    kept: Vec<End<'a>>,
    /// Its connections, kept back or not.
    all: u64,
}

fn by_service(story: &Story) -> Vec<Sender<'_>> {
    let mut services: BTreeMap<ServiceKey, Vec<End>> = BTreeMap::new();
    for end in ends(story) {
        let service = account::service(story, end.conn);
        services.entry(service).or_default().push(end);
    }
    let senders = services.into_iter().map(|(service, ends)| Sender {
        story,
        service,
        all: ends.len() as u64,
        kept: ends,
    });
    senders.collect()
}

fn find(story: &Story) -> Vec<Finding> {
    let mut senders = by_service(story);
    for sender in &mut senders {
        // What a queue of this host refuses stays unsent, too, until a timer tries again.
        sender
            .kept
            .retain(|e| e.transfer.kept_back > 0 && story.dropped(e.conn) == 0);
    }
    senders.retain(|s| s.is_kept());
    senders.iter().map(Sender::judge).collect()
}

fn kept_back(sender: &Sender) -> Step {
    let (n, of) = sender.samples();
    say!(
        "{kept_samples} of {samples} found the end of a message unsent with nothing in flight and room in both windows",
        kept_samples = Quantity::count(n).rows(sender.rows()),
        samples = Quantity::of(of, "sample")
    )
}

fn no(asked: &Asked) -> Option<Step> {
    let kept = asked.losses()?.ends.to_vec();
    let of = kept.first()?;
    let sender = Sender {
        story: asked.story,
        service: account::service(asked.story, of.conn),
        all: kept.len() as u64,
        kept,
    };
    (sender.samples().0 < limits::A_FEW.count()).then(|| kept_back(&sender))
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let senders = by_service(story);
    let here = senders.iter().map(|sender| {
        let (n, of) = sender.samples();
        let kept = Test::events(n, of, &limits::A_FEW, kept_back(sender));
        let late = sender.late().map(|(late, of)| {
            let step = say!(
                "{late} of {answers} took 200 ms or longer for their clients, after which the kernel sends what is kept",
                late = Quantity::count(late),
                answers = Quantity::of(of, "answer")
            );
            Test::events(late, of, &limits::A_FEW, step)
        });
        every([kept].into_iter().chain(late))
    });
    // Who answers on another host has the message in its own socket.
    let away = story.exchanges().iter().filter(|e| {
        let late = e
            .response()
            .is_some_and(|p| p.p99_s >= limits::FIRST_PROBE.s());
        e.role() == Serves::Client && late
    });
    let away = away.map(|e| {
        let (_, _, at) = e.service;
        Some(Answered::unknown(format!(
            "{at} takes 200 ms and longer for answers, and its sockets are not on this host"
        )))
    });
    let answered_here = story.conns.iter().any(|c| c.peer.is_some());
    let away = away.filter(move |_| !answered_here);
    Verdict::nearest(here.chain(away), "no connection was sampled")
}

impl Sender<'_> {
    /// It listens, and keeps back answers.
    fn answers(&self) -> bool {
        self.service.1 == Serves::Server
    }

    fn sum(&self, of: impl Fn(&End) -> u32) -> u64 {
        self.kept.iter().map(|e| u64::from(of(e))).sum()
    }

    /// Samples that found something kept back, and all.
    fn samples(&self) -> (u64, u64) {
        (
            self.sum(|e| e.transfer.kept_back),
            self.sum(|e| e.transfer.samples),
        )
    }

    fn rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        let rows = self.kept.iter().flat_map(|e| &e.transfer.kept_back_rows);
        rows.copied().take(SHOWN_ROWS)
    }

    /// Whether samples found something kept back, and answers were as late.
    fn is_kept(&self) -> bool {
        let enough = |n: u64| n >= limits::A_FEW.count();
        enough(self.samples().0) && self.late().is_none_or(|(late, _)| enough(late))
    }

    /// How many exchanges of its clients took as long as the kernel keeps a message back, of how many; `None` where these are
    /// not on this host, or are multiplexed. Between two writes of an answer (TCP_CORK around sendfile) every sender keeps
    /// the end for a moment; its own exchanges end when the answer is written.
    fn late(&self) -> Option<(u64, u64)> {
        let asks_these = |e: &&Exchanges| {
            let (netns, role, at) = e.service;
            let near = |c: &Conn| c.local == at && (!at.is_loopback() || c.netns == netns);
            role == Serves::Client && self.kept.iter().any(|end| near(end.conn))
        };
        let exchanges = self.story.exchanges().iter().filter(asks_these);
        let known = exchanges.filter(|e| e.response().is_some());
        let each = known.map(|e| (e.as_long(limits::FIRST_PROBE.ns()), e.all.exchanges));
        each.reduce(|sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
    }

    /// After this time the kernel sends it all the same, µs: the retransmission timeout, 200 ms at the least.
    fn delay_us(&self) -> f64 {
        let rto = median_of(&self.kept, |e| Some(e.transfer.rto_us.into()));
        rto.unwrap_or(0.0).max(f64::from(limits::FIRST_PROBE.us()))
    }

    /// The option that the samples show; MSG_MORE is not to be seen in a socket.
    fn option(&self) -> &'static str {
        let corked = self.sum(|e| e.transfer.corked);
        if limits::MOST.reached(corked, self.samples().0) {
            "TCP_CORK"
        } else {
            "MSG_MORE"
        }
    }

    /// As if the samples that found something stood for the whole time.
    fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        for end in &self.kept {
            let t = end.transfer;
            let share = ratio(t.kept_back.into(), t.samples.into()).unwrap_or(0.0);
            lost.add(end.conn, State::Path, (share * t.span_ns as f64) as u64);
        }
        let times = (lost.claimed() as f64 / 1e3 / self.delay_us()) as u64;
        lost.happened(times, times)
    }

    /// Nothing comes back, as with a log shipper.
    fn is_one_way(&self) -> bool {
        self.kept.iter().all(|e| e.transfer.received() == 0)
    }

    fn judge(&self) -> Finding {
        let (netns, _, at) = self.service;
        let mut scope = senders(self.story, netns, &self.kept, None);
        scope.listener = at.to_string();
        let comm = application(&scope).to_string();
        let (option, delay) = (self.option(), Quantity::real_us(self.delay_us()));
        let what = if self.answers() {
            "answers of"
        } else {
            "messages to"
        };
        let affected = self.kept.len() as u64;
        let says = format!(
            "{} of {} keep the end of a message back for up to {delay}.",
            Quantity::count(affected),
            Quantity::of(self.all, "connection")
        );
        let ms = rounded(self.delay_us() / 1e3);
        let impact = Impact {
            added_latency_ms: Some(Latency { p50: ms, p99: ms }),
            ..Impact::of(affected, self.all, "connections", says)
        };
        let fix = match option {
            "TCP_CORK" => format!("Take TCP_CORK off in {comm} at the end of each message."),
            _ => format!("Write the last part of each message in {comm} without MSG_MORE."),
        };
        let advice = self.advice(&scope, fix.trim_end_matches('.'));
        Case::new(self.story, CAUSE, scope)
            .placed(Place::ends(&self.kept))
            .title([
                format!("{comm} keeps {what} {at} in its socket for {delay} each ({option})."),
                format!("The {what} {at} stay in their socket for {delay} ({option})."),
            ])
            .fix([fix])
            .affects(impact, self.lost())
            .because("nothing in flight, room in both windows and less than a segment unsent: only TCP_CORK or MSG_MORE does that")
            .noted(self.is_one_way().then_some(
                "nothing answers this data: what is kept back delays no request here",
            ))
            .steps([self.kept_step(), self.timer_step()])
            .advise([advice])
            .verify(sentence!("`ss -tmi` shows no notsent where unacked is not shown either."))
    }

    fn kept_step(&self) -> Step {
        let (n, of) = self.samples();
        say!(
            "In {kept_samples} of {samples} of {connections} less than a segment was unsent, nothing was in flight, and \
             both windows had room; TCP_CORK was set in {corked} of them.",
            kept_samples = Quantity::count(n).rows(self.rows()),
            samples = Quantity::of(of, "sample"),
            connections = Quantity::of(self.kept.len() as u64, "connection"),
            corked = Quantity::count(self.sum(|e| e.transfer.corked))
        )
    }

    fn timer_step(&self) -> Step {
        say!(
            "The kernel sends it without being asked after a retransmission timeout, 200 ms at the least: {delay_us} here.",
            delay_us = Quantity::real_us(self.delay_us()).rows(self.rows())
        )
    }

    fn advice(&self, scope: &Scope, fix: &str) -> Advice {
        let (netns, _, at) = self.service;
        let command = if self.answers() {
            shell!("ss -ti 'sport = :{port}'", port = at.port)
        } else {
            shell!(
                "ss -ti 'dst {addr} and dport = :{port}'",
                addr = at.addr,
                port = at.port
            )
        };
        Advice::to(format!(
            "{fix}, or write each message with one call: sendmsg() takes headers and body together."
        ))
        .by(command_in(&scope.netns, command))
        .at("the source or configuration of the program; the command shows what is kept back as `notsent`")
        .risk("None, as long as TCP_CORK is still set while a message is written in parts.")
        .effect(format!(
            "Each message is {} faster.",
            Quantity::real_us(self.delay_us())
        ))
        .change(Change::Uncork {
            netns,
            to: at.to_string(),
        })
    }
}

#[cfg(test)]
mod tests;
