//! C17: the path loses packets: at random, or so many that a full link or a policer must be dropping them.

mod full;
mod one_port;
mod short;

use std::collections::BTreeMap;

use analysis::STALL;
use analysis::account::service;
use analysis::stats::median;
use analysis::words::{bit_rate, bytes, count, percent, plural, rounded};

use crate::limits;
use crate::places::losses::Losses;
use crate::places::path::{End, Path, empty_us, limited, median_of, paths, sample_rows};
use crate::places::process::connections;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PATH_LOSS,
    number: "C17",
    title: "the path loses packets",
    page: include_str!("path_loss.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: || {
        "20 lost segments, 0.1 % of the segments sent, 4.2 % where a queue is full; 1 % of the segments of short \
         connections, or 0.5 % of their SYNs".into()
    },
    signature: &[
        "throughput falls with distance, constant retransmissions",
        "ping loses packets",
        "1 % packet loss",
        "throughput is a sawtooth below the contracted rate: a policer",
        "slow from one region or provider only",
    ],
    rivals: &[
        Id::QDISC_DROP,
        Id::TAIL_LOSS,
        Id::BUFFERBLOAT,
        Id::REORDERING,
        Id::SLOW_PEER,
    ],
    explains: &[Id::SLOW_PEER],
    told_with: Some(ToldWith::Paths("lose packets")),
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| find(whole.story).into(),
};

fn find(story: &Story) -> Vec<Finding> {
    let (mut ways, mut findings) = (Vec::new(), Vec::new());
    for path in paths(story) {
        let crowded = || one_port::judge(&path).or_else(|| full::judge(&path));
        if let Some(finding) = judge(&path).or_else(crowded) {
            ways.push(path.way());
            findings.push(finding);
        }
    }
    let short = short::places(story).into_iter();
    let untold = short.filter(|s| !ways.contains(&s.way()));
    findings.extend(untold.map(|s| short::judge(&s)));
    findings
}

fn no(asked: &Asked) -> Option<Step> {
    if let Place::Service { .. } = asked.place {
        return asked.not_repaired();
    }
    match (asked.losses(), asked.silent()) {
        (Some(losses), _) => no_loss(losses),
        (_, Some(connects)) => no_data_lost(connects),
        _ => asked.brought().or_else(|| few_retransmitted(asked)),
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let paths = whole.losses().iter().flat_map(|losses| {
        let rows = || sample_rows(&losses.ends);
        let lost = || {
            say!(
                "{lost} of {segments} were lost",
                lost = Quantity::count(losses.lost).rows(rows()),
                segments = Quantity::of(losses.segments, "segment")
            )
        };
        let (again, few) = (losses.retransmitted(), losses.lost < limits::OFTEN_TO_ONE.count());
        let most = if few { 0.0 } else { crowded_share(whole.story, losses) };
        let spurious = say!(
            "the receivers already had {duplicates} of {retransmitted} (DSACK)",
            duplicates = Quantity::count(losses.spurious).rows(rows()),
            retransmitted = Quantity::of(again, "segment")
        );
        let here = say!(
            "this host itself dropped {dropped_here} of {lost} lost packets",
            lost = Quantity::count(losses.lost).rows(rows()),
            dropped_here = Quantity::count(losses.dropped)
        );
        let tails = say!(
            "{waited} of {retransmitted} retransmitted waited for a timer, as the last segments of messages do",
            waited = Quantity::count(losses.waited).rows(rows()),
            retransmitted = Quantity::of(losses.waited.saturating_add(losses.fast), "segment")
        );
        let crowded = say!(
            "the port with the most losses lost {lost_share}",
            lost_share = Quantity::share(most).rows(rows())
        );
        let enough = || Test::events(losses.lost, losses.segments, &limits::OFTEN_TO_ONE, lost());
        [
            every([
                enough(),
                Test::share(losses.lost, losses.segments, &limits::LOSS_GOVERNS, lost()),
                Test::share(losses.spurious, losses.lost, &limits::MOST, spurious).below(),
                Test::share(losses.dropped, losses.lost, &limits::SMALL_PART, here).below(),
                Test::from(losses.tail_share(), &limits::MOST, tails).below(),
            ]),
            every([enough(), Test::from(most, &limits::WINDOW_OF_EIGHT, crowded)]),
        ]
    });
    Verdict::nearest(paths.chain(short::refuted(whole.story)), NO_PATH)
}

/// The largest share lost of what one port sent over the path, of everything sent by loss-based congestion control, or
/// of all.
fn crowded_share(story: &Story, losses: &Losses) -> f64 {
    let mut by_port: BTreeMap<u16, Vec<End>> = BTreeMap::new();
    for end in losses.ends.iter().filter(|e| goes_by_loss(e)) {
        by_port
            .entry(service(story, end.conn).2.port)
            .or_default()
            .push(*end);
    }
    let all: Vec<End> = by_port.values().flatten().copied().collect();
    let parts = by_port.into_values().chain([all]);
    let shares = parts.map(|ends| Losses::of(story, ends).share());
    shares.fold(losses.share(), f64::max)
}

/// For the connections of a process that are too short to be sampled.
fn few_retransmitted(asked: &Asked) -> Option<Step> {
    let Place::Process(pid) = asked.place else {
        return None;
    };
    let conns = connections(asked.story, *pid);
    let resent: u64 = conns.iter().map(|(_, c)| u64::from(c.retransmits)).sum();
    (resent < limits::OFTEN_TO_ONE.count()).then(|| {
        say!(
            "{retransmitted} were retransmitted on its {connections}",
            retransmitted = Quantity::of(resent, "segment"),
            connections = Quantity::of(conns.len() as u64, "connection")
        )
    })
}

/// For ends that send.
fn no_loss(losses: &Losses) -> Option<Step> {
    let stalls = losses.ends.iter().map(|e| e.transfer.stall.in_a_row());
    let in_a_row: u64 = stalls.filter(|n| *n >= STALL).sum();
    if limits::MOST.exceeded(in_a_row, losses.lost) && in_a_row > 0 {
        return Some(say!(
            "with random loss one of the next tries would succeed: all {failed} failed, retransmitting the same segments \
             again and again",
            failed = Quantity::count(in_a_row).rows(sample_rows(&losses.ends))
        ));
    }
    let lost = Quantity::count(losses.lost).rows(sample_rows(&losses.ends));
    if losses.lost < limits::OFTEN_TO_ONE.count() || losses.share() < limits::LOSS_GOVERNS.share() {
        let segments = Quantity::of(losses.segments, "segment");
        return Some(say!("{lost} of {segments} were lost", lost, segments));
    }
    if losses.spurious > losses.lost {
        return Some(say!(
            "the receivers already had {duplicates} of {retransmitted} (DSACK)",
            duplicates = Quantity::count(losses.spurious),
            retransmitted = Quantity::of(losses.spurious.saturating_add(losses.lost), "segment")
        ));
    }
    if losses.are_tails() {
        return Some(say!(
            "losses within a transfer are repaired on ACKs: {waited} of {retransmitted} retransmitted waited for a \
             timer",
            waited = Quantity::count(losses.waited),
            retransmitted = Quantity::of(losses.waited.saturating_add(losses.fast), "segment")
        ));
    }
    (!losses.are_elsewhere()).then(|| {
        say!(
            "this host itself dropped {dropped_here} of {lost} lost packets",
            lost,
            dropped_here = Quantity::count(losses.dropped)
        )
    })
}

/// For connects: packets of every kind would be lost, at a bad link as in a full queue.
fn no_data_lost(place: &UnansweredSyns) -> Option<Step> {
    let (resent, of) = place.data_resent();
    let (retried, connects) = (place.times.retried, place.times.total());
    let data = (resent.saturating_mul(connects) < retried.saturating_mul(of)).then(|| {
        say!(
            "a bad link, or a queue that too many senders fill at once (incast), loses data as well: {resent} of \
             {established} retransmitted data, {retried} of {connects} a SYN",
            resent = Quantity::count(resent),
            established = Quantity::of(of, "established connection"),
            retried = Quantity::count(retried).rows(place.times.rows.iter().copied()),
            connects = Quantity::of(connects, "connect")
        )
    });
    data.or_else(|| {
        // For remote clients only what arrived here is known.
        let refused = Quantity::of(place.strays, "SYN");
        (place.strays > 0 && limits::MOST.reached(place.strays, retried)).then(|| {
            say!(
                "{refused} arrived and were refused: no bad link or full queue (incast) lost them",
                refused
            )
        })
    })
}

fn judge(path: &Path) -> Option<Finding> {
    let (story, losses) = (path.story, path.losses());
    let min_rtt_us = path.min_rtt_us()?;
    let empty = met_empty(path, min_rtt_us);
    let enough = losses.lost >= limits::OFTEN_TO_ONE.count()
        && losses.share() >= limits::LOSS_GOVERNS.share();
    let real = !limits::MOST.exceeded(losses.spurious, losses.lost) && losses.are_elsewhere();
    let lost = real && losses.are_spread() && !losses.are_tails();
    let limited_by_rate = || {
        losses.share() >= limits::WINDOW_OF_EIGHT.share()
            && beyond_random(&losses, min_rtt_us).is_some()
    };
    if !enough || !lost || empty < limits::LOST_BY_EMPTY_QUEUE.share() || limited_by_rate() {
        return None;
    }
    let scope = path.scope();
    let (name, from, to) = (path.name(), path.from, path.to);
    let p = percent_of_loss(losses.share());
    let advice = advice(path, &losses, &scope.netns, &p);
    let meanwhile = if uses_bbr(&losses) {
        ""
    } else {
        "; until then, use BBR"
    };
    let case = Case::new(story, CAUSE, scope)
        .placed(Place::ends(&losses.suffering))
        .title([
            format!(
                "The path {name} loses {p} of the packets: {} not dropped by this host.",
                plural(losses.lost, "segment")
            ),
            format!("The path {name} loses {p} of the packets."),
            format!("The path to {to} loses {p} of the packets."),
        ])
        .fix([
            format!("Find the link that drops between {from} and {to}{meanwhile}."),
            format!("Find the link on the path that drops{meanwhile}."),
        ])
        .affects(
            impact(path, &losses),
            limited(story, &losses.suffering).happened(losses.lost, losses.segments),
        )
        .because(format!(
            "{} of the losses met an empty queue, and this host dropped {} of these packets",
            percent(empty),
            count(losses.dropped)
        ))
        .at_most_if(
            Level::Medium,
            !path.whole(),
            "the receivers are not on this host: drops on their host look the same from here",
        )
        .rests_on(&[SourceName::Drops])
        .steps(evidence(
            &losses,
            min_rtt_us,
            ": there was no standing queue, and losses lasted throughout",
        ))
        .checks(path.counted_again())
        .checks(mathis(&losses, min_rtt_us))
        .advise(advice);
    Some(case.verify(sentence!("`nstat -az TcpRetransSegs` rises by less than 0.1 % of TcpOutSegs while data moves to {to}.", to)))
}

/// Share of the losses at round trips of an empty queue.
fn met_empty(path: &Path, min_rtt_us: u32) -> f64 {
    let at_loss = path.ends.iter().flat_map(|e| e.transfer.resends.rtts.all());
    let (met, empty) = at_loss.fold((0u32, 0u32), |(all, empty), rtt| {
        let is_empty = f64::from(*rtt) <= empty_us(min_rtt_us);
        (all + 1, empty + u32::from(is_empty))
    });
    f64::from(empty) / f64::from(met.max(1))
}

fn impact(path: &Path, losses: &Losses) -> Impact {
    let (affected, of) = (losses.suffering.len() as u64, path.ends.len() as u64);
    let rate = median_of(&losses.suffering, |e| Some(e.transfer.rate())).unwrap_or(0.0);
    let says = format!(
        "{} of {} retransmitted segments and ran at {} (median).",
        count(affected),
        plural(of, "connection"),
        bit_rate(rate)
    );
    Impact::of(affected, of, "connections", says)
}

fn evidence(losses: &Losses, min_rtt_us: u32, so: &str) -> [Step; 3] {
    let resends = losses.suffering.iter().map(|e| &e.transfer.resends);
    let last = resends.flat_map(|r| r.rows.first().copied()).rev();
    let rtt = median_of(&losses.suffering, |e| {
        let rtts = e.transfer.resends.rtts.all();
        median(&mut rtts.to_vec()).map(f64::from)
    });
    let overtook = losses.suffering.iter().map(|e| e.transfer.reordered());
    [
        losses.retransmitted_step(),
        say!(
            "The receivers already had {duplicates} of these (DSACK): {lost} were lost, {loss} of all. Segments \
             overtook each other {reordered}.",
            duplicates = Quantity::count(losses.spurious).rows(sample_rows(&losses.suffering)),
            lost = Quantity::count(losses.lost),
            loss = Quantity::new(losses.share(), percent_of_loss(losses.share())),
            reordered = Quantity::times(overtook.sum::<u64>())
        ),
        say!(
            "They were lost at a round trip of {rtt_at_loss_us} (the shortest is {min_rtt_us}), in \
             {parts_with_loss} of the {parts} parts of the recording in which data moved{so}.",
            rtt_at_loss_us = Quantity::us(rtt.unwrap_or(0.0) as u32).rows(last.take(SHOWN_ROWS)),
            min_rtt_us = Quantity::us(min_rtt_us),
            parts_with_loss = Quantity::count(losses.slots.0),
            parts = Quantity::count(losses.slots.1)
        ),
    ]
}

/// The rate of connections with loss-based congestion control, compared with what random loss leaves them.
struct Governed {
    /// Bytes per second (median).
    rate: f64,
    mss: f64,
    rtt_s: f64,
    /// Share of the segments that are lost.
    p: f64,
}

impl Governed {
    /// The connections that retransmitted at least this many segments.
    fn of(losses: &Losses, min_rtt_us: u32, least: u64) -> Option<Governed> {
        let by_loss = |e: &&End| matches!(&*e.transfer.congestion, "cubic" | "reno");
        let by_loss = losses.suffering.iter().filter(by_loss).copied();
        let by_loss: Vec<End> = by_loss
            .filter(|e| e.transfer.resends.count() >= least)
            .collect();
        Some(Governed {
            rate: median_of(&by_loss, |e| Some(e.transfer.rate()))?,
            mss: median_of(&by_loss, |e| Some(e.transfer.mss.into()))?,
            rtt_s: f64::from(min_rtt_us) / 1e6,
            p: losses.share(),
        })
    }

    /// The most by Mathis' formula, bytes per second.
    fn most(&self) -> f64 {
        self.mss / self.rtt_s * limits::MATHIS.times() / self.p.sqrt()
    }

    /// The most by cubic's formula.
    fn most_of_cubic(&self) -> f64 {
        self.mss / self.rtt_s * limits::CUBIC.times() * (self.rtt_s / self.p).powf(0.75)
    }
}

/// The rate of connections, and the most that they could reach if each packet were lost alone: losses that come
/// together cut a window once.
fn beyond_random(losses: &Losses, min_rtt_us: u32) -> Option<(f64, f64)> {
    let governed = Governed::of(losses, min_rtt_us, limits::ENOUGH.count())?;
    let most = governed.most().max(governed.most_of_cubic()) * limits::TWICE.times();
    (governed.rate > most).then_some((governed.rate, most))
}

/// The rate that loss allows a connection with loss-based congestion control.
fn mathis(losses: &Losses, min_rtt_us: u32) -> Option<Check> {
    let governed = Governed::of(losses, min_rtt_us, 1)?;
    let (rate, most) = (governed.rate, governed.most());
    let mbit = |rate: f64| rounded(rate * 8.0 / 1e6);
    Some(Check {
        formula: format!(
            "rate ≤ MSS ÷ RTT × 1.22 ÷ √p = {} ÷ {} × 1.22 ÷ √{}",
            bytes(governed.mss as u64),
            Quantity::us(min_rtt_us),
            rounded(losses.share())
        ),
        expected: mbit(most),
        measured: mbit(rate),
        unit: "Mbit/s".into(),
        agrees: rate <= most * limits::TWICE.times(),
        tolerance: "at most twice that: the formula is Reno's, which cubic exceeds".into(),
    })
}

fn advice(path: &Path, losses: &Losses, netns: &Netns, p: &str) -> Vec<Advice> {
    let repair = repair_path(netns, path.from, path.to).effect(format!(
        "Without the loss of {p}, windows grow until the bottleneck is full."
    ));
    let bbr = (!uses_bbr(losses)).then(|| {
        Advice::to("Until then, use BBR, which does not treat single losses as congestion.")
            .by_route(netns, path.to, shell!("congctl bbr"))
            .risk("It takes bandwidth from connections with loss-based congestion control; needs the module tcp_bbr.")
            .effect(format!(
                "The rate of new connections no longer falls with √p; {p} are still lost."
            ))
    });
    let forget = forget_path(netns, path.to);
    std::iter::once(repair).chain(bbr).chain([forget]).collect()
}

/// All that suffer use it already.
fn uses_bbr(losses: &Losses) -> bool {
    let mut congestion = losses.suffering.iter().map(|e| &*e.transfer.congestion);
    congestion.all(|name| name == "bbr")
}

/// BBR overfills a shallow buffer while it probes, and ignores loss.
fn goes_by_loss(end: &End) -> bool {
    !end.transfer.congestion.starts_with("bbr")
}

/// A share of losses with the digits that matter.
fn percent_of_loss(share: f64) -> String {
    format!("{} %", analysis::words::figure(share * 100.0))
}

#[cfg(test)]
mod tests;
