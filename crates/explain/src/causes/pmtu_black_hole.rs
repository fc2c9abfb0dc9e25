//! C30: large segments vanish on the path, small ones pass, and no ICMP message says so.

use std::net::IpAddr;

use analysis::stats::median;
use analysis::{Passed, STALL, Stall, Stuck};
use recording::Addr;

use crate::limits;
use crate::moment::{Began, Since};
use crate::places::path::{End, Path, paths_of, sample_rows, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PMTU_BLACK_HOLE,
    number: "C30",
    title: "packets above the path MTU are dropped, and no ICMP error comes back",
    page: include_str!("pmtu_black_hole.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: || {
        "3 timeouts in a row, 2 of them while other packets pass; 4 on a single connection; 1 on one that hung \
         before the recording; each packet too big that a namespace of this host drops time and again".into()
    },
    signature: &[
        "works with small requests, hangs with large ones",
        "TLS handshake hangs after the client hello",
        "ssh connects and freezes at the first long output",
        "VPN or tunnel: ping works, HTTP does not",
    ],
    rivals: &[
        Id::PATH_LOSS,
        Id::PATH_DROPS_SYN,
        Id::SLOW_READER,
        Id::LOCAL_FIREWALL_DROP,
    ],
    explains: &[Id::PATH_LOSS, Id::TAIL_LOSS, Id::PEER_GONE, Id::PATH_OUTAGE],
    told_with: Some(ToldWith::Paths("swallow full segments")),
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| {
        let mut found: Vec<Finding> = places(whole.story).iter().map(judge).collect();
        found.extend(narrow::findings(whole.story));
        found.into()
    },
};

/// The MTU that every link carrying IPv6 must have (RFC 8200): tunnels leave room for it.
const ADVISED_MTU: u32 = 1_280;
/// The packet size that every host must accept (RFC 791), for paths that are narrower still.
const ADVISED_MTU_V4: u32 = 576;
/// A path over which full segments hang while smaller packets pass.
struct BlackHole<'a> {
    path: Path<'a>,
    hung: Vec<(End<'a>, Stuck)>,
    /// When the first of them was first retransmitted, and the last for the last time, ns.
    span: (u64, u64),
    /// Connections on the same way, hung or not.
    of: u64,
    /// Those of them that were established meanwhile: how many, and rows.
    made: (u64, Vec<RowRef>),
    passed: Passed,
    /// The packet and segment sizes that should pass, bytes.
    safe: (u32, u32),
}

fn no(asked: &Asked) -> Option<Step> {
    let ends = &asked.losses()?.ends;
    let most = ends.iter().map(|e| e.transfer.stall.in_a_row()).max();
    let most = most.unwrap_or(0);
    let none = ends.iter().all(|e| stuck(asked.story, e).is_none());
    (most < limits::FAILED_BESIDE.count() || none).then(|| {
        say!(
            "at most {timeouts_in_a_row} timeouts in a row retransmitted the same segment, and none \
             hung while others passed",
            timeouts_in_a_row = Quantity::count(most).rows(sample_rows(ends))
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let hung = |e: &&End| e.transfer.stall.before > 0;
    let arrived = |e: &End| e.transfer.stall.seen.is_some_and(|seen| seen.sacked > 0);
    if whole.ends().iter().filter(hung).any(arrived) {
        let why = "data sent after a segment that hung has arrived, and the segment has not";
        return Verdict::cannot(why);
    }
    if whole.ends().iter().any(hangs_alone) {
        let why = "a full segment was retransmitted time and again, and nothing smaller was sent meanwhile";
        return Verdict::cannot(why);
    }
    let (older, others): (Vec<&End>, Vec<&End>) = whole.ends().iter().partition(|e| hung(e));
    let ways = [
        (older, &limits::FAILED_BESIDE_OLDER),
        (others, &limits::FAILED_BESIDE),
    ];
    let ways = ways.into_iter().map(|(ends, least)| {
        let end = ends
            .into_iter()
            .max_by_key(|e| failed_beside(&e.transfer.stall))?;
        let stall = &end.transfer.stall;
        let step = say!(
            "{beside} of {timeouts_in_a_row} in a row failed although other packets had passed in the same direction",
            beside = Quantity::count(stall.beside).rows(sample_rows(&[*end])),
            timeouts_in_a_row = Quantity::of(stall.in_a_row(), "timeout")
        );
        every([Test::from(failed_beside(stall) as f64, least, step)])
    });
    Verdict::nearest(ways, "no connection was sampled")
}

fn places(story: &Story) -> Vec<BlackHole<'_>> {
    let paths = paths_of(story, 0).into_iter().map(|mut path| {
        let hung = |e: &End| e.transfer.stall.before > 0;
        path.ends.retain(|e| e.transfer.segments() > 0 || hung(e));
        path
    });
    let mut holes: Vec<BlackHole> = paths.filter_map(BlackHole::of).collect();
    holes.retain_mut(|hole| {
        let conns: Vec<&Conn> = hole.path.conns().collect();
        hole.look_at(&conns);
        let (mss, since_ns) = (hole.least_mss(), hole.span.0);
        !hole.path.full_passed(mss, since_ns)
    });
    holes
}

/// What hangs at an end, if its segments are retransmitted repeatedly while others pass.
fn stuck(story: &Story, end: &End) -> Option<Stuck> {
    let stall = &end.transfer.stall;
    let stuck = stall.seen.filter(|s| s.window > 0)?;
    // The other end knows the connection: otherwise its listener may have had no room for it.
    let conn = end.conn;
    let known = conn.peer.is_some() || conn.bytes_acked.max(conn.bytes_received) > 0;
    // If it hung before the recording: what was sent later has arrived, and the timer failed nevertheless.
    let hung = stall.before > 0
        && (stall.beside >= limits::FAILED_BESIDE_OLDER.count() || stuck.sacked > 0);
    let hangs = hung || seen_to_hang(end);
    let gone = story.dropped(conn) == 0;
    (known && hangs && gone).then_some(stuck)
}

/// Whether it hangs with a full segment, and nothing else was sent that could have passed.
fn hangs_alone(end: &End) -> bool {
    let stall = &end.transfer.stall;
    let full = stall.seen.is_some_and(|s| s.window > 0 && s.is_full());
    full && stall.timeouts >= STALL && stall.beside == 0
}

/// Whether enough of it falls within the recording.
fn seen_to_hang(end: &End) -> bool {
    let stall = &end.transfer.stall;
    stall.timeouts >= STALL && failed_beside(stall) >= limits::FAILED_BESIDE.count()
}

/// Retransmissions that came after others had passed. That the last of them has failed shows the next one, or that
/// nothing has come for as long as a first timeout would take.
fn failed_beside(stall: &Stall) -> u64 {
    let waited_ns = stall.seen.map_or(0, |seen| seen.after_ns);
    let failed = stall.beside > 0 && waited_ns >= limits::FIRST_RTO.ns();
    stall.beside.saturating_add(u64::from(failed))
}

/// A packet size that should pass where one of `mtu` bytes does not, and the segment size in it.
fn safe(to: Addr, mtu: u32) -> Option<(u32, u32)> {
    let (headers, least) = match to.ip() {
        IpAddr::V4(_) => (40, ADVISED_MTU_V4),
        IpAddr::V6(_) => (60, ADVISED_MTU),
    };
    let safe = [ADVISED_MTU, least].into_iter().find(|safe| *safe < mtu)?;
    Some((safe, safe - headers))
}

impl<'a> BlackHole<'a> {
    fn of(path: Path<'a>) -> Option<BlackHole<'a>> {
        let stuck = |end: &End<'a>| Some((*end, stuck(path.story, end)?));
        let all: Vec<(End, Stuck)> = path.ends.iter().filter_map(stuck).collect();
        let (hung, small): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, s)| s.is_full());
        let most = hung
            .iter()
            .map(|(e, _)| e.transfer.stall.in_a_row())
            .max()?;
        if !small.is_empty() || (hung.len() < 2 && most < limits::FAILED_ALONE.count()) {
            return None;
        }
        let stalls = || hung.iter().map(|(e, _)| &e.transfer.stall);
        let span = (
            stalls().map(|s| s.first_ns).min()?,
            stalls().map(|s| s.last_ns).max()?,
        );
        let mss = hung.iter().map(|(_, s)| s.mss).min()?;
        let pmtu = hung.iter().map(|(_, s)| s.pmtu).min()?;
        let safe = safe(path.to, pmtu).filter(|(_, safe)| *safe < mss)?;
        let passed = path.story.transfers.passed(path.way())?;
        Some(BlackHole {
            path,
            hung,
            span,
            of: 0,
            made: (0, Vec::new()),
            passed,
            safe,
        })
    }

    /// Counts the connections on the way.
    fn look_at(&mut self, conns: &[&Conn]) {
        self.of = conns.len() as u64;
        for conn in conns {
            let meanwhile = |at: u64| (self.span.0..=self.span.1).contains(&at);
            if conn.established_ns.is_some_and(meanwhile) {
                self.made.0 += 1;
                if self.made.1.len() < SHOWN_ROWS {
                    self.made.1.extend(conn.row());
                }
            }
        }
    }

    fn median(&self, of: fn(&Stuck) -> u32) -> u32 {
        median(&mut self.hung.iter().map(|(_, s)| of(s)).collect::<Vec<_>>()).unwrap_or(0)
    }

    /// The smallest of the segments that hang, bytes.
    fn least_mss(&self) -> u32 {
        let each = self.hung.iter().map(|(_, s)| s.mss);
        each.min().unwrap_or(0)
    }

    /// The segments that hang, bytes.
    fn mss(&self) -> Quantity {
        Quantity::count(self.median(|s| s.mss))
    }

    /// The packets that they come in, bytes.
    fn pmtu(&self) -> Quantity {
        Quantity::count(self.median(|s| s.pmtu))
    }

    /// For how long one hung (median): from its first retransmission to the last sign of it, ns.
    fn hung_ns(&self) -> u64 {
        let each = self.hung.iter().map(|(end, _)| stalled_ns(end));
        median(&mut each.collect::<Vec<_>>()).unwrap_or(0)
    }

    /// The time for which connections hung, over all.
    fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        for (end, _) in &self.hung {
            lost.add(end.conn, State::Repair, stalled_ns(end));
        }
        lost
    }

    fn impact(&self) -> Impact {
        let affected = self.hung.len() as u64;
        let says = format!(
            "{} of {} could not get a full segment through for {} (median).",
            Quantity::count(affected),
            Quantity::of(self.of, "connection"),
            Quantity::ns(self.hung_ns())
        );
        Impact::of(affected, self.of, "connections", says)
    }
}

fn stalled_ns(end: &End) -> u64 {
    let stall = &end.transfer.stall;
    stall.last_ns.saturating_sub(stall.first_ns)
}

fn judge(hole: &BlackHole) -> Finding {
    let path = &hole.path;
    let ends: Vec<End> = hole.hung.iter().map(|(end, _)| *end).collect();
    let mut scope = path.scope();
    let hung = senders(path.story, path.netns, &ends, None);
    (scope.pid, scope.comm) = (hung.pid, hung.comm);
    let (name, to, pmtu) = (path.name(), path.to, hole.pmtu());
    let mss = Quantity::count(hole.safe.1);
    let connections = Quantity::of(hole.hung.len() as u64, "connection");
    let hang = if hole.hung.len() == 1 {
        "hangs"
    } else {
        "hang"
    };
    let least = ends.iter().map(|e| e.transfer.stall.in_a_row()).min();
    let before = ends.iter().any(|e| e.transfer.stall.before > 0);
    let older = !ends.iter().all(seen_to_hang);
    let advice = advice::of(hole, &scope.netns);
    let mut case = Case::new(path.story, CAUSE, scope);
    if before {
        case = case.since(Since::at(path.story, path.story.start_ns, Began::Before));
    }
    case.placed(Place::ends(&path.ends))
        .title([
            format!(
                "Packets of {pmtu} bytes vanish on the path {name}: {connections} {hang}, small ones \
                 pass."
            ),
            format!("Packets of {pmtu} bytes to {to} vanish on the path: {connections} {hang}."),
            format!("Large packets to {to} vanish on the path."),
        ])
        .fix([
            format!(
                "Let ICMP \"fragmentation needed\" pass on the path, or clamp the MSS to {mss} bytes."
            ),
            format!("Let ICMP pass on the path, or clamp the MSS to {mss} bytes."),
        ])
        .affects(hole.impact(), hole.lost())
        .because(format!(
            "full-size packets failed at least {} times in a row, while small packets passed",
            least.unwrap_or(0)
        ))
        .at_most_if(
            Level::Medium,
            !path.whole(),
            "the receivers are not on this host: that they received nothing is inferred",
        )
        .at_most_if(
            Level::Medium,
            hole.hung.len() == 1,
            "only one connection hangs",
        )
        .at_most_if(
            Level::Medium,
            older,
            "most of the timeouts were before the recording: what passed meanwhile is unknown",
        )
        .at_most_if(
            Level::Low,
            older && hole.hung.len() == 1,
            "one connection that hung before the recording may have been given up by its peer",
        )
        .rests_on(&[SourceName::Drops])
        .steps(hole.evidence())
        .checks([hole.counted()])
        .checks(path.counted_again())
        .advise(advice)
        .verify(sentence!("`ss -tion dst {to}` shows no socket with a `backoff` while large answers are sent.", to))
}

mod advice;
mod evidence;
mod narrow;
#[cfg(test)]
mod tests;
