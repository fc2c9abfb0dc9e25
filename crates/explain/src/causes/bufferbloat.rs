//! C20: transfers fill a deep queue in front of a bottleneck, and everything waits in it.

use analysis::account;
use analysis::stats::{median, quantile};
use analysis::words::{figure, rounded};

use crate::limits;
use crate::places::path::{Path, min_rtt_us, paths, rate, sample_rows, senders, usual_rtt};
use crate::places::standing_queue::{Queue, alike_us, all_bbr, least_us, median_rtt};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::BUFFERBLOAT,
    number: "C20",
    title: "a deep buffer at the bottleneck stays full",
    page: include_str!("bufferbloat.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "a queue of 33 ms shared with other connections, and round trips of 2.5 times the shortest"
            .into()
    },
    signature: &[
        "latency rises as soon as an upload or download runs",
        "ping of hundreds of milliseconds under load",
    ],
    rivals: &[Id::SLOW_READER, Id::PATH_LOSS],
    explains: &[Id::SLOW_PEER],
    told_with: Some(ToldWith::Paths("have a queue that stays full")),
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| {
        let story = whole.story;
        paths(story)
            .iter()
            .filter_map(judge)
            .collect::<Vec<_>>()
            .into()
    },
};

fn no(asked: &Asked) -> Option<Step> {
    let Some(losses) = asked.losses() else {
        return asked.brought();
    };
    let Some(shortest) = min_rtt_us(&losses.ends) else {
        return handshakes(asked);
    };
    let at_loss = losses.ends.iter().map(|e| e.transfer.resends.rtts.all());
    // The round trip when ends that lost something lost it; else that of all samples.
    let usual = median(&mut at_loss.flatten().copied().collect::<Vec<u32>>())
        .or_else(|| median_rtt(&losses.ends))?;
    (usual < least_us(shortest, &losses.ends)).then(|| {
        say!(
            "a round trip took {rtt_us} (median), the shortest {min_rtt_us}: no deep standing queue",
            rtt_us = Quantity::us(usual).rows(sample_rows(&losses.ends)),
            min_rtt_us = Quantity::us(shortest)
        )
    })
}

/// The transfer that waited longest beside the shortest round trip of its path.
fn rule_out(whole: &Whole) -> Verdict {
    let paths = whole.losses().iter().map(|losses| {
        let shortest = min_rtt_us(&losses.ends)?;
        let bulk = losses.ends.iter().filter(|e| e.transfer.fills_path());
        let usual = bulk.filter_map(usual_rtt).max()?;
        let rtt_us = Quantity::us(usual).rows(sample_rows(&losses.ends));
        let min_rtt_us = Quantity::us(shortest);
        let queued_us = usual.saturating_sub(shortest);
        let longer = say!(
            "round trips of a transfer took {queued_us} longer ({rtt_us}, median) than the shortest on its \
             path ({min_rtt_us})",
            queued_us = Quantity::us(queued_us),
            rtt_us = &rtt_us,
            min_rtt_us = &min_rtt_us
        );
        let times = say!(
            "round trips of a transfer took {rtt_us} (median), the shortest on its path {min_rtt_us}",
            rtt_us,
            min_rtt_us
        );
        every([
            Test::lasts(u64::from(queued_us) * 1_000, &limits::QUEUE_DELAY, longer),
            Test::from(f64::from(usual) / f64::from(shortest), &limits::QUEUE_TIMES, times),
        ])
    });
    Verdict::nearest(paths, "no transfer was seen to fill a path")
}

/// For connections that are over before a sample sees them: how long their handshakes took.
fn handshakes(asked: &Asked) -> Option<Step> {
    let conns = asked.story.all(asked.place.ids()).map(|(_, c)| c);
    let mut took: Vec<u32> = conns.map(|c| c.rtt_us).filter(|us| *us > 0).collect();
    let shortest = took.iter().copied().min()?;
    let usual = median(&mut took)?;
    (usual < least_us(shortest, &[])).then(|| {
        say!(
            "handshakes took {rtt_us} (median), the shortest {min_rtt_us}: no deep standing queue",
            rtt_us = Quantity::us(usual),
            min_rtt_us = Quantity::us(shortest)
        )
    })
}

impl Queue<'_> {
    /// Bytes in the standing queue.
    fn queue(&self) -> Quantity {
        Quantity::bytes(self.bytes_in(self.wait_us()) as u64)
    }

    /// How much longer than on an empty path the ends beside the transfers waited; a transfer itself loses nothing to a
    /// queue that it keeps full.
    fn lost(&self) -> Lost {
        let story = self.path.story;
        let longer = 1.0 - f64::from(self.min_rtt_us) / f64::from(self.rtt_us.max(1));
        let states = [State::Path, State::Awaiting, State::Repair];
        let wait_ns = u64::from(self.wait_us()).saturating_mul(1_000);
        let mut lost = Lost::unknown();
        let waited: u64 = self.late.iter().map(|e| e.transfer.segments()).sum();
        for end in &self.late {
            // What it sent waited in the queue; the rest of an answer's time is the peer's.
            let most_ns = end.transfer.segments().saturating_mul(wait_ns);
            let spent = account::of_end(story, end.conn);
            let spent: u64 = states.iter().map(|state| spent.of(*state)).sum();
            let share = longer.min(most_ns as f64 / spent.max(1) as f64);
            lost = lost.and(Lost::states(story, [end.conn], &states, share));
        }
        lost.happened(waited, waited)
    }

    fn impact(&self) -> Impact {
        let affected = (self.bulk.len() + self.late.len()) as u64;
        let of = self.path.ends.len() as u64;
        let says = format!(
            "RTT to {} rose by {} on {} of {}, {} of them bulk transfers.",
            self.path.to,
            Quantity::us(self.wait_us()),
            Quantity::count(affected),
            Quantity::of(of, "connection"),
            Quantity::count(self.bulk.len() as u64)
        );
        Impact {
            added_latency_ms: self.added(),
            ..Impact::of(affected, of, "connections", says)
        }
    }

    fn added(&self) -> Option<Latency> {
        let late = self.bulk.iter().chain(&self.late);
        let rtts = late.flat_map(|e| e.transfer.rtts.all());
        let mut rtts: Vec<u32> = rtts.copied().collect();
        let mut added = |share| {
            let rtt = quantile(&mut rtts, share)?;
            let added = rtt.saturating_sub(self.min_rtt_us);
            Some(rounded(f64::from(added) / 1e3))
        };
        Some(Latency {
            p50: added(0.5)?,
            p99: added(0.99)?,
        })
    }

    fn beside_step(&self) -> Option<Step> {
        let rtt_us = median_rtt(&self.beside)?;
        Some(say!(
            "{beside} with little to send had round trips of {rtt_beside_us} (median) alongside.",
            beside = Quantity::of(self.beside.len() as u64, "connection"),
            rtt_beside_us = Quantity::us(rtt_us).rows(sample_rows(&self.beside))
        ))
    }

    fn steps(&self) -> [Step; 2] {
        let path = Quantity::bytes(self.bytes_in(self.min_rtt_us) as u64);
        let flight: f64 = self.bulk.iter().map(|e| e.transfer.in_flight_bytes()).sum();
        [
            say!(
                "{transfers} had round trips of {rtt_us} (median); the shortest on this path is \
                 {min_rtt_us}.",
                transfers = Quantity::of(self.bulk.len() as u64, "transfer"),
                rtt_us = Quantity::us(self.rtt_us).rows(sample_rows(&self.bulk)),
                min_rtt_us = Quantity::us(self.min_rtt_us)
            ),
            say!(
                "Together they moved {bytes_per_s} and had {in_flight_bytes} in flight; the path itself \
                 holds {path}, so {queue_bytes} are queued.",
                bytes_per_s = Quantity::rate(rate(&self.bulk)).rows(sample_rows(&self.bulk)),
                in_flight_bytes = Quantity::bytes(flight as u64),
                queue_bytes = self.queue()
            ),
        ]
    }

    /// Whatever shares the queue waits in it, however little it sends; where a transfer delays only itself, the others
    /// do not.
    fn shared(&self) -> Option<Check> {
        let beside = f64::from(median_rtt(&self.beside)?);
        let bulk = f64::from(self.rtt_us);
        Some(Check {
            formula:
                "round trip of connections that send little alongside the transfers = that of the \
                transfers"
                    .into(),
            expected: rounded(bulk / 1e3),
            measured: rounded(beside / 1e3),
            unit: "ms".into(),
            agrees: beside >= alike_us(self.rtt_us, self.min_rtt_us),
            tolerance:
                "at least half of it (on an empty path it would be two fifths or less), or closer \
                        to it by ratio than to the shortest"
                    .into(),
        })
    }

    fn advice(&self, netns: &Netns, comm: &str) -> Vec<Advice> {
        let own = (!all_bbr(&self.bulk)).then(|| self.use_bbr(netns, comm));
        let rest = [
            Advice::to(format!(
                "Put active queue management (fq_codel, cake) before the bottleneck, shaped slightly below \
                 {}.",
                Quantity::rate(rate(&self.bulk))
            ))
            .at("the router or modem in front of the slow link")
            .risk("A shaper costs a few per cent of the rate, and CPU on that box.")
            .effect("The queue stays near 5 ms, and short connections do not wait behind bulk transfers.")
            .change(Change::RepairPath {
                from: self.path.from.to_string(),
                to: self.path.to.to_string(),
            }),
            Advice::to(format!(
                "Have {comm} keep unsent data in user space (TCP_NOTSENT_LOWAT), so that it can send \
                 urgent data first."
            ))
            .at(format!("the source or configuration of {comm}"))
            .risk("More wakeups of the sending threads.")
            .effect("Shortens the queue in this host's sockets, not the one on the path."),
            forget_path(netns, self.path.to),
        ];
        own.into_iter().chain(rest).collect()
    }

    fn fix(&self, comm: &str) -> [String; 2] {
        if all_bbr(&self.bulk) {
            return ["Put fq_codel or cake before the bottleneck."; 2].map(String::from);
        }
        let candidates = [&format!("Let {comm} use"), "Use"];
        candidates.map(|who| format!("{who} BBR, or put fq_codel or cake before the bottleneck."))
    }

    fn use_bbr(&self, netns: &Netns, comm: &str) -> Advice {
        let uses = self.bulk.iter().map(|e| &*e.transfer.congestion).max();
        let uses = uses.unwrap_or("cubic");
        let path = self.bytes_in(self.min_rtt_us).max(15_000.0) as u64;
        Advice::to(format!(
            "Let {comm} use BBR instead of {uses} to {}: by the route or by TCP_CONGESTION.",
            self.path.to
        ))
        .by_route(netns, self.path.to, shell!("congctl bbr"))
        .risk("BBR and cubic share a full queue unevenly; needs the module tcp_bbr.")
        .effect(format!(
            "One new connection keeps two bandwidth-delay products in flight, several together up to five: \
             {} to {} instead of {}.",
            Quantity::bytes(2 * path),
            Quantity::bytes(5 * path),
            Quantity::bytes(self.bytes_in(self.rtt_us) as u64)
        ))
        .change(Change::Congestion {
            netns: netns.inode,
            value: "bbr".into(),
        })
    }
}

fn judge(path: &Path) -> Option<Finding> {
    let queue = Queue::of(path)?;
    let mut scope = path.scope();
    let named = senders(path.story, path.netns, &queue.bulk, None);
    (scope.pid, scope.comm) = (named.pid, named.comm);
    let comm = scope.comm.as_deref().unwrap_or("the senders");
    let fix = queue.fix(comm);
    let advice = queue.advice(&scope.netns, comm);
    let (name, to, stands) = (path.name(), path.to, queue.queue());
    let (short, long) = (Quantity::us(queue.min_rtt_us), Quantity::us(queue.rtt_us));
    let shared = queue.shared();
    let alone = shared.as_ref().is_some_and(|check| !check.agrees);
    let case = Case::new(path.story, CAUSE, scope)
        .placed(Place::ends(&queue.bulk))
        .title([
            format!(
                "Standing queue of {stands} on the path {name}: round trips {long}, not {short}."
            ),
            format!("Standing queue on the path to {to}: {long}, not {short}."),
        ])
        .fix(fix)
        .affects(queue.impact(), queue.lost())
        .because(format!(
            "the round trip was {} times the shortest while {} of the segments were lost",
            figure(f64::from(queue.rtt_us) / f64::from(queue.min_rtt_us)),
            Quantity::share(queue.loss())
        ))
        .at_most_if(
            Level::Low,
            alone,
            "connections that send little alongside do not wait: the delay is the transfers' own",
        )
        .at_most_if(
            Level::Medium,
            !path.whole(),
            "the receivers are not on this host: one that delays its ACKs looks the same from here",
        )
        .rests_on(&[SourceName::Retransmits])
        .steps(queue.beside_step())
        .steps(queue.steps())
        .checks(shared)
        .advise(advice);
    Some(case.verify(sentence!(
        "`ss -ti dst {to}` shows an rtt near its minrtt of {short} while data moves.",
        to,
        short
    )))
}

#[cfg(test)]
mod tests;
