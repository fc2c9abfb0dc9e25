//! C41: nothing comes back from an address any more: its host is dead, cut off, or has forgotten the connections.

use analysis::account;
use analysis::stats::median;
use analysis::words::rounded;
use analysis::{STALL, Stall, Stuck};

use crate::limits;
use crate::moment::{Began, Since};
use crate::places::path::{End, Path, paths_of, sample_rows, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PEER_GONE,
    number: "C41",
    title: "the other host no longer answers",
    page: include_str!("peer_gone.md"),
    layer: Layer::Peer,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: || "3 timeouts in a row with nothing acknowledged, 3 s of silence".into(),
    signature: &[
        "requests hang for 15 minutes, then connection timed out (ETIMEDOUT)",
        "all connections to one host hang after a failover",
        "a firewall or NAT silently forgets idle connections; no TCP keepalive",
    ],
    rivals: &[
        Id::PATH_LOSS,
        Id::PMTU_BLACK_HOLE,
        Id::SLOW_READER,
        Id::QDISC_DROP,
        Id::LOCAL_FIREWALL_DROP,
    ],
    explains: &[Id::PATH_LOSS, Id::TAIL_LOSS],
    told_with: Some(ToldWith::Paths("have fallen silent")),
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| {
        places(whole.story)
            .iter()
            .map(judge)
            .collect::<Vec<_>>()
            .into()
    },
};

/// Why nothing is found where it is the client that no longer answers.
const VANISHED: &str = "clients vanish every day, and their server waits for nothing: whether these did, or something \
                        on the path drops what goes to them, only a recording there shows";

/// How long a sender retries by default (tcp_retries2), in words.
const TRIES_FOR: &str = "15 minutes";

/// Connections to an address from which nothing comes back.
struct Silent<'a> {
    path: Path<'a>,
    hung: Vec<(End<'a>, Stuck)>,
    /// Whether something else passed on the same way meanwhile.
    others_pass: bool,
    /// Whether the other ends of all are on this host, and open: it is the path that is cut.
    both_stand: bool,
    /// Whether the ends here answer clients elsewhere.
    serve: bool,
}

fn no(asked: &Asked) -> Option<Step> {
    let ends = &asked.losses()?.ends;
    let most = ends.iter().map(|e| e.transfer.stall.in_a_row()).max();
    let most = most.unwrap_or(0);
    let timeouts_in_a_row = Quantity::count(most).rows(sample_rows(ends));
    let passed = |e: &End| e.transfer.stall.beside;
    let beside = ends.iter().map(passed).max().unwrap_or(0);
    if most < STALL {
        return Some(say!(
            "at most {timeouts_in_a_row} timeouts in a row retransmitted the same segment: it answers",
            timeouts_in_a_row
        ));
    }
    if !ends.iter().any(|e| e.stuck(asked.story).is_some()) {
        let hung = Quantity::of(ends.len() as u64, "connection").rows(sample_rows(ends));
        return Some(say!(
            "none of {hung} still hung in its last sample: it answers",
            hung
        ));
    }
    (beside > 0).then(|| {
        say!(
            "{beside} of {timeouts_in_a_row} timeouts came after other segments had passed in the same direction",
            beside = Quantity::count(beside),
            timeouts_in_a_row
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let hung_ns = |end: &&End| match end.transfer.stall.in_a_row() {
        0 => 0,
        _ => silence_ns(whole.story, end),
    };
    let longest = whole.ends().iter().max_by_key(hung_ns).map(|end| {
        let ns = hung_ns(&end);
        let step = say!(
            "a connection's data was unacknowledged for {silence} at most, with {timeouts} in a row",
            silence = Quantity::ns(ns).rows(sample_rows(&[*end])),
            timeouts = Quantity::of(end.transfer.stall.in_a_row(), "timeout")
        );
        every([Test::lasts(ns, &limits::STALL, step)])
    });
    Verdict::nearest(longest, "no connection was sampled")
}

fn places(story: &Story) -> Vec<Silent<'_>> {
    let paths = paths_of(story, 0).into_iter();
    let silent =
        paths.filter_map(|path| Silent::of(&path, false).or_else(|| Silent::of(&path, true)));
    silent.collect()
}

/// What hangs at an end that has heard nothing since, for long enough.
fn stuck(story: &Story, end: &End, serve: bool) -> Option<Stuck> {
    // With a closed window it is the reader that keeps the sender waiting.
    let stuck = end.stuck(story).filter(|s| s.window > 0)?;
    let hangs = stuck.counted >= STALL && stuck.sacked == 0;
    let silent = silence_ns(story, end) >= limits::STALL.ns();
    // Clients of a server vanish every day: one that still stands on this host has not.
    let opened = account::service(story, end.conn).1 == account::Role::Client;
    // If one has moved nothing but its SYN, the listener may have had no room for it.
    let known = if serve {
        !opened && end.conn.peer.is_none()
    } else {
        opened || other_stands(story, end) && !other_hangs(story, end)
    };
    let known = known && stuck.moved > 1;
    // What hangs was not dropped here, whatever happened before.
    // Of what was retransmitted before the recording nobody knows.
    let dropped = story.dropped(end.conn);
    let gone = dropped == 0 || !limits::MOST.reached(dropped, end.transfer.stall.timeouts);
    (hangs && silent && known && gone && !is_left_over(story, end)).then_some(stuck)
}

/// Whether the other end is on this host, and neither has ended nor was closed by its program.
fn other_stands(story: &Story, end: &End) -> bool {
    let peer = end.conn.peer.and_then(|id| story.conn(id));
    let open = peer.filter(|c| c.ended_ns.is_none());
    let last = open.and_then(|c| Some(story.samples(c)?.last));
    last.is_some_and(|last| !last.closed)
}

/// Whether the other end is on this host, and hangs as well: the connection is then told from the end that asks.
fn other_hangs(story: &Story, end: &End) -> bool {
    let other = end.conn.peer.and_then(|id| End::of(story, id));
    let stuck = other.and_then(|other| other.stuck(story));
    stuck.is_some_and(|s| s.counted >= STALL)
}

/// Its program had closed it before the recording began: the kernel still retries, and no program waits.
fn is_left_over(story: &Story, end: &End) -> bool {
    let closed = story.samples(end.conn).is_some_and(|s| s.first.closed);
    closed && end.conn.established_ns.is_none()
}

/// When something was last heard from the other end, ns; possibly before the recording.
fn heard_ns(story: &Story, end: &End) -> Option<u64> {
    story.samples(end.conn)?.last.heard_ns
}

/// For how long nothing that this end sent was acknowledged, ns.
fn silence_ns(story: &Story, end: &End) -> u64 {
    let stall = &end.transfer.stall;
    let heard = heard_ns(story, end).unwrap_or(stall.first_ns);
    // A pause before the next request cost nothing.
    let sent = match stall.before {
        0 => stall.first_ns.saturating_sub(limits::FIRST_RTO.ns()),
        _ => 0,
    };
    until_ns(story, end).saturating_sub(heard.max(sent).min(stall.first_ns))
}

/// Whether packets of the other end still come.
fn hears(story: &Story, end: &End) -> bool {
    heard_ns(story, end).is_some_and(|heard| heard > end.transfer.stall.first_ns)
}

/// The last moment at which it is known to have hung, ns.
fn until_ns(story: &Story, end: &End) -> u64 {
    let sampled = story.samples(end.conn).map_or(0, |s| s.last.time_ns);
    sampled.max(end.transfer.stall.last_ns)
}

impl<'a> Silent<'a> {
    fn of(path: &Path<'a>, serve: bool) -> Option<Silent<'a>> {
        let stuck = |end: &End<'a>| Some((*end, stuck(path.story, end, serve)?));
        let hung: Vec<(End, Stuck)> = path.ends.iter().filter_map(stuck).collect();
        let since = hung.iter().map(|(e, _)| e.transfer.stall.first_ns).max()?;
        let passed = path.story.transfers.passed(path.way());
        let others_pass = passed.is_some_and(|p| p.since(since));
        // Full segments that hang where only smaller ones pass hang because of their size.
        let mss = hung.iter().map(|(_, s)| s.mss).min()?;
        let full = hung.iter().all(|(_, s)| s.is_full());
        let size = full && others_pass && !path.full_passed(mss, since);
        let both_stand = hung.iter().all(|(e, _)| other_stands(path.story, e));
        (!size).then(|| Silent {
            path: Path {
                ends: path.ends.clone(),
                ..*path
            },
            hung,
            others_pass,
            both_stand,
            serve,
        })
    }

    fn ends(&self) -> Vec<End<'a>> {
        self.hung.iter().map(|(end, _)| *end).collect()
    }

    /// The connections to the address that have data in flight, or had at some sample.
    fn of_all(&self) -> u64 {
        let sends = |e: &&End| e.transfer.flying > 0 || e.transfer.segments() > 0;
        let all = self.path.ends.iter().filter(sends).count();
        all.max(self.hung.len()) as u64
    }

    /// For each, how long nothing that it sent was acknowledged, ns.
    fn silences(&self) -> Vec<u64> {
        let story = self.path.story;
        let each = self.hung.iter().map(|(e, _)| silence_ns(story, e));
        each.collect()
    }

    /// Whether packets of the other host still come while none of ours arrives.
    fn hears(&self) -> bool {
        self.hung.iter().any(|(e, _)| hears(self.path.story, e))
    }

    fn silence(&self) -> Quantity {
        let median = median(&mut self.silences()).unwrap_or(0);
        Quantity::ns(median)
    }

    /// When the first and the last of them last heard something, ns.
    fn last_heard(&self) -> Option<(u64, u64)> {
        let story = self.path.story;
        let heard = || self.hung.iter().filter_map(|(e, _)| heard_ns(story, e));
        Some((heard().min()?, heard().max()?))
    }

    /// Since when: an address from which nothing comes any more has fallen silent with the last word that any of them
    /// heard. `None` where the finding's own first event says it.
    fn since(&self) -> Option<Since> {
        let story = self.path.story;
        let before = Since::at(story, story.start_ns, Began::Before);
        match self.last_heard() {
            Some((_, last)) if !self.others_pass && last >= story.start_ns => {
                Some(Since::at(story, last, Began::Seen))
            }
            Some((first, _)) if first < story.start_ns => Some(before),
            _ => {
                let mut hung = self.hung.iter();
                let before = Some(before);
                before.filter(|_| hung.any(|(e, _)| e.transfer.stall.before > 0))
            }
        }
    }

    /// The shortest and the median time for which they had been idle when the next request went out, ns, if all had
    /// been idle and others that had not are answered.
    fn idle(&self) -> Option<(u64, u64)> {
        let story = self.path.story;
        let pause = |(end, _): &(End, Stuck)| {
            let sent = end.transfer.stall.first_ns;
            let seen = end.transfer.stall.before == 0;
            heard_ns(story, end)
                .filter(|_| seen)
                .map_or(0, |heard| sent.saturating_sub(heard))
        };
        let mut pauses: Vec<u64> = self.hung.iter().map(pause).collect();
        let least = pauses.iter().copied().min().unwrap_or(0);
        let usual = median(&mut pauses)?;
        (self.others_pass && least >= limits::IDLE_BEFORE.ns()).then_some((least, usual))
    }

    /// How long they waited within the recording.
    fn lost(&self) -> Lost {
        let story = self.path.story;
        let mut lost = Lost::unknown();
        for (end, _) in &self.hung {
            let recorded = until_ns(story, end).saturating_sub(story.start_ns);
            lost.add(
                end.conn,
                State::Repair,
                silence_ns(story, end).min(recorded),
            );
        }
        lost
    }

    fn impact(&self) -> Impact {
        let (n, of) = (self.hung.len() as u64, self.of_all());
        let says = format!(
            "{} of {} that had data to send waited for {} without an answer, {} (median).",
            Quantity::count(n),
            Quantity::of(of, "connection"),
            self.path.to,
            self.silence()
        );
        Impact::of(n, of, "connections", says)
    }

    fn steps(&self) -> Vec<Step> {
        let stalls = || self.hung.iter().map(|(end, _)| &end.transfer.stall);
        let seen = stalls().flat_map(|s| s.rows.into_iter().flatten());
        let rows = self.hung.iter().map(|(_, s)| s.row).chain(seen);
        let to = self.path.to;
        let tries = say!(
            "{hung} to {to} retransmitted the same segments on the RTO, {most_in_a_row} times in a row at \
             most, and nothing was acknowledged.",
            hung = Quantity::of(self.hung.len() as u64, "connection"),
            most_in_a_row = Quantity::count(stalls().map(Stall::in_a_row).max().unwrap_or(0))
                .rows(rows.take(2 * SHOWN_ROWS))
        );
        let rows = self.hung.iter().map(|(_, s)| s.row).take(SHOWN_ROWS);
        let silence = self.silence().rows(rows);
        let heard = match (self.idle(), self.hears(), self.at_once()) {
            (Some((_, usual)), ..) => say!(
                "They had been idle for {idle} (median) when the next request was sent, and nothing was received in \
                 the {silence} (median) since.",
                idle = Quantity::ns(usual),
                silence
            ),
            (None, true, _) => say!(
                "Its own packets still arrive; for {silence} (median) nothing sent to it was acknowledged: only the \
                 path to it is cut.",
                silence
            ),
            (None, false, true) => say!(
                "Its last packet arrived {silence} before (median), within one second for all of them: it was one \
                 event.",
                silence
            ),
            (None, false, false) => say!(
                "Its last packet arrived {silence} before (median).",
                silence
            ),
        };
        let stand = self.both_stand.then(|| {
            let rows = self.hung.iter().filter_map(|(e, _)| e.conn.peer);
            let rows = rows.filter_map(|id| Some(self.path.story.samples(self.path.story.conn(id)?)?.last.row));
            Step::new("Their other ends are on this host and open: what is between the two drops the segments.")
                .rows(rows.take(SHOWN_ROWS))
        });
        let steps = [tries, heard].into_iter();
        steps.chain(stand).chain(self.beside()).collect()
    }

    /// Whether several fell silent at the same moment: one event.
    fn at_once(&self) -> bool {
        let within =
            |(first, last): (u64, u64)| last.saturating_sub(first) <= limits::BETWEEN_SAMPLES.ns();
        self.hung.len() > 1 && self.last_heard().is_some_and(within)
    }

    /// Whether the address still answers others.
    fn beside(&self) -> Option<Step> {
        let to = self.path.to;
        self.others_pass.then(|| {
            Step::new(format!(
                "Other connections to {to} were answered meanwhile: it is alive. What is gone is one of several \
                 hosts behind the address, or the state of these connections in a NAT, firewall or load balancer on \
                 the path."
            ))
        })
    }

    /// An unanswered timer fires as often as its doubling says.
    fn backs_off(&self) -> Option<Check> {
        let each = self.hung.iter().zip(self.silences());
        let known = each.filter(|((end, _), _)| end.transfer.rto_us > 0);
        let of = |((end, stuck), silence): (&(End, Stuck), u64)| {
            let rto_ns = f64::from(end.transfer.rto_us) * 1e3;
            let expected = (silence as f64 / rto_ns + 1.0).log2().floor();
            (expected, stuck.counted as f64)
        };
        let (mut expected, mut measured): (Vec<f64>, Vec<f64>) = known.map(of).unzip();
        let (expected, measured) = (median(&mut expected)?, median(&mut measured)?);
        Some(Check {
            formula: "timeouts in a row = log₂(silence ÷ RTO + 1)".into(),
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "timeouts".into(),
            agrees: (expected - measured).abs() <= limits::TIMEOUTS_OFF.number(),
            tolerance: "± 1: a tail loss probe comes first, and the sample later".into(),
        })
    }

    fn advice(&self, netns: &Netns, comm: &str) -> [Advice; 3] {
        let (from, to) = (self.path.from, self.path.to);
        [
            Advice::to(format!(
                "Check whether {to} is alive and reachable; if it is, a device in between forgets connections."
            ))
            .by(command_in(netns, shell!("ping -c 3 {to}", to)))
            .at(format!("{to}, its host's console, and the devices on the path to it"))
            .risk("None: it only reads.")
            .effect("Shows whether to repair the host, the path, or the device that forgets connections.")
            .change(Change::RepairPath {
                from: from.to_string(),
                to: to.to_string(),
            }),
            Advice::to(format!(
                "Have {comm} set TCP_USER_TIMEOUT (or its own timeout for an answer), then close and reconnect."
            ))
            .at(format!("the source or configuration of {comm}"))
            .risk("If it is too short, connections are given up in an outage that would have passed.")
            .effect(format!(
                "It fails over after that time; without it the kernel retries for about {TRIES_FOR}."
            )),
            Advice::to(format!(
                "Have {comm} send keep-alives on idle connections, at intervals below the NAT's or firewall's idle \
                 timeout."
            ))
            .at(format!("the source or configuration of {comm}: SO_KEEPALIVE, TCP_KEEPIDLE"))
            .risk("An idle connection costs two small packets each time.")
            .effect("A dead connection is detected before a request needs it."),
        ]
    }
}

fn judge(silent: &Silent) -> Finding {
    let path = &silent.path;
    let (story, to, ends) = (path.story, path.to, silent.ends());
    let scope = Scope {
        resource: Some(format!("peer {to}")),
        ..senders(story, path.netns, &ends, None)
    };
    let comm = scope
        .comm
        .clone()
        .unwrap_or_else(|| "the application".into());
    let (n, silence) = (silent.hung.len() as u64, silent.silence());
    let connections = Quantity::of(n, "connection");
    let hang = if n == 1 { "hangs" } else { "hang" };
    let idle = silent.idle().map(|(least, _)| Quantity::ns(least));
    let titles = match silent.others_pass {
        false => [
            format!("{to} has not answered for {silence}: {connections} of {comm} {hang}."),
            format!("{to} has not answered for {silence}."),
        ],
        true if idle.is_some() => [
            format!(
                "{connections} of {comm} to {to} {hang} after a pause; others are answered: the path forgot them."
            ),
            format!("{connections} to {to} {hang} after a pause, while others are answered."),
        ],
        true => [
            format!(
                "{connections} of {comm} to {to} {hang} for {silence}, while others are answered."
            ),
            format!("{connections} to {to} {hang}, while others are answered."),
        ],
    };
    let whole = path.whole();
    let advice = silent.advice(&scope.netns, &comm);
    let since = silent.since();
    let mut case = Case::new(story, CAUSE, scope);
    if let Some(since) = since {
        case = case.since(since);
    }
    case.placed(Place::ends(&ends))
        .noted(silent.serve.then_some(VANISHED))
        .title(titles)
        .fix(match &idle {
            Some(idle) => [
                format!("Have {comm} send keep-alives or close idle connections well within {idle}: NAT/firewall \
                         forgets them."),
                format!("Enable keep-alives, or close idle connections, well within {idle}."),
            ],
            None if silent.both_stand => [
                format!("Find what drops packets between {} and {to}: both ends are open, on this host.", path.from),
                "Find what drops packets between the two: both ends are open.".into(),
            ],
            None => [
                format!("Check whether {to} is alive; have {comm} give up sooner (TCP_USER_TIMEOUT)."),
                "Check whether it is alive; have the application give up sooner.".into(),
            ],
        })
        .affects(silent.impact(), silent.lost())
        .because("nothing more was acknowledged, and the timers back off")
        .at_most_if(
            Level::Medium,
            !whole,
            "the other host is not visible: it may be dead, cut off, or have forgotten the connections",
        )
        .at_most_if(
            Level::Medium,
            silent.others_pass,
            "the address answers others: that the host of these connections is gone is inferred",
        )
        .rests_on(&[SourceName::Retransmits, SourceName::Drops])
        .steps(silent.steps())
        .checks(silent.backs_off())
        .advise(advice)
        .verify(sentence!("`ss -tion dst {to}` shows no socket with a `backoff`.", to))
}

#[cfg(test)]
mod tests;
