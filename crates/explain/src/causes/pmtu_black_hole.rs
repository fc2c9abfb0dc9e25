//! C30: large segments vanish on the path, small ones pass, and no ICMP message says so.

use std::net::IpAddr;

use analysis::stats::median;
use analysis::words::{bytes, count, duration, fitting, plural};
use analysis::{Passed, STALL, Stuck};
use recording::Addr;

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::doubts;
use crate::places::path::{End, Path, paths_of};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PMTU_BLACK_HOLE,
    number: "C30",
    title: "packets above the path MTU are dropped, and no ICMP error comes back",
    page: include_str!("pmtu_black_hole.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: "2 timeouts beside packets that pass, 4 of a connection alone",
    rivals: &[],
    explains: &[Id::PATH_LOSS, Id::TAIL_LOSS],
    no: Some(no),
    symptom: Some(Symptom::Retransmits),
    find,
};

/// The MTU that every link must have which carries IPv6 (RFC 8200): what tunnels leave room for.
const SAFE_MTU: u32 = 1_280;
/// The packet that every host must take (RFC 791), for paths that are narrower still.
const LEAST_MTU: u32 = 576;
/// Timeouts that must have failed although something else had passed before them: of an outage that
/// is over one may come at the end, and succeeds.
const MIN_BESIDE: u64 = 2;
/// With one connection alone: one more, for which nothing but size is left as a reason.
const MIN_ALONE: u64 = 4;
/// A short connection that sent so many segments' worth in one go had full ones among them.
const SEGMENTS: u64 = 8;
/// As it counts as short: it cannot have sent that in small pieces, one after the other, ns.
const SHORT_NS: u64 = 1_000_000_000;

struct Case<'a> {
    path: Path<'a>,
    hung: Vec<(End<'a>, Stuck)>,
    /// When the first of them was first retransmitted, ns, and the last for the last time.
    span: (u64, u64),
    /// Connections on the same way, hung or not.
    of: u64,
    /// Those of them that were established meanwhile: how many, and rows.
    made: (u64, Vec<RowRef>),
    passed: Passed,
    /// The packet and the segment that should pass, bytes.
    safe: (u32, u32),
}

fn no(asked: &Asked) -> Option<Step> {
    let ends = &asked.losses()?.ends;
    let most = ends
        .iter()
        .map(|e| e.transfer.stall.timeouts)
        .max()
        .unwrap_or(0);
    let timeouts_in_a_row = Quantity::count(most);
    let none = ends.iter().all(|e| stuck(asked.story, e).is_none());
    (most < MIN_BESIDE || none).then(|| {
        say!(
            "at most {timeouts_in_a_row} timeouts in a row retransmitted the same segment, and none \
             hung while others passed",
            timeouts_in_a_row
        )
    })
}

fn find(story: &Story) -> Vec<Finding> {
    cases(story).iter().map(Case::finding).collect()
}

fn cases(story: &Story) -> Vec<Case<'_>> {
    paths_of(story, 1)
        .into_iter()
        .filter_map(Case::of)
        .collect()
}

/// What hangs at an end, if its segments are retransmitted over and over beside others that pass.
fn stuck(story: &Story, end: &End) -> Option<Stuck> {
    let stall = &end.transfer.stall;
    let stuck = stall.seen.filter(|s| s.window > 0)?;
    // The other end knows of the connection: else it may be one that its listener had no room for.
    let conn = end.conn;
    let known = conn.peer.is_some() || conn.bytes_acked.max(conn.bytes_received) > 0;
    let hangs = stall.timeouts >= STALL && stall.beside >= MIN_BESIDE;
    let gone = story.transfers.dropped(conn) == 0;
    (known && hangs && gone).then_some(stuck)
}

/// A packet that should pass where one of `mtu` bytes does not, and the segment in it.
fn safe(to: Addr, mtu: u32) -> Option<(u32, u32)> {
    let (headers, least) = match to.ip() {
        IpAddr::V4(_) => (40, LEAST_MTU),
        IpAddr::V6(_) => (60, SAFE_MTU),
    };
    let safe = [SAFE_MTU, least].into_iter().find(|safe| *safe < mtu)?;
    Some((safe, safe - headers))
}

impl<'a> Case<'a> {
    fn of(path: Path<'a>) -> Option<Case<'a>> {
        let stuck = |end: &End<'a>| Some((*end, stuck(path.story, end)?));
        let all: Vec<(End, Stuck)> = path.ends.iter().filter_map(stuck).collect();
        let (hung, small): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, s)| s.is_full());
        let most = hung.iter().map(|(e, _)| e.transfer.stall.timeouts).max()?;
        if !small.is_empty() || (hung.len() < 2 && most < MIN_ALONE) {
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
        let mut case = Case {
            path,
            hung,
            span,
            of: 0,
            made: (0, Vec::new()),
            passed,
            safe,
        };
        let full = passed.full_since(mss, span.0) || case.look_at_conns(mss);
        (!full).then_some(case)
    }

    /// Counts the connections on the way; whether a short one had full segments acknowledged.
    fn look_at_conns(&mut self, mss: u32) -> bool {
        let (netns, from, to) = self.path.way();
        let conns = self.path.story.conns.iter();
        let on_it = |c: &&Conn| (c.netns, c.local.addr, c.remote.addr) == (netns, from, to);
        let mut full = false;
        for conn in conns.filter(on_it) {
            self.of += 1;
            let meanwhile = |at: u64| (self.span.0..=self.span.1).contains(&at);
            if conn.established_ns.is_some_and(meanwhile) {
                self.made.0 += 1;
                if self.made.1.len() < SHOWN_ROWS {
                    self.made.1.extend(conn.row());
                }
            }
            full |= sent_full(conn, mss, self.span.0);
        }
        full
    }

    fn mss(&self) -> u32 {
        median(&mut self.hung.iter().map(|(_, s)| s.mss).collect::<Vec<_>>()).unwrap_or(0)
    }

    fn pmtu(&self) -> u32 {
        median(&mut self.hung.iter().map(|(_, s)| s.pmtu).collect::<Vec<_>>()).unwrap_or(0)
    }

    /// For how long one hung, in the median: from the first time that it was retransmitted to the last
    /// that shows it, ns.
    fn hung_ns(&self) -> u64 {
        let each = self.hung.iter().map(|(end, _)| {
            let stall = &end.transfer.stall;
            stall.last_ns.saturating_sub(stall.first_ns)
        });
        median(&mut each.collect::<Vec<_>>()).unwrap_or(0)
    }

    fn timeouts(&self) -> u64 {
        let each = self.hung.iter();
        each.map(|(end, _)| end.transfer.stall.timeouts).sum()
    }

    fn finding(&self) -> Finding {
        let mut scope = self.path.scope();
        let ends: Vec<End> = self.hung.iter().map(|(end, _)| *end).collect();
        let hung = crate::places::path::senders(self.path.story, self.path.netns, &ends, None);
        (scope.pid, scope.comm) = (hung.pid, hung.comm);
        let checks = self.arithmetic();
        let (mtu, mss) = self.safe;
        let (to, n) = (self.path.to, self.hung.len() as u64);
        let hang = if n == 1 { "hangs" } else { "hang" };
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: Some(Place::Ends(self.path.ends.iter().map(|e| e.id).collect())),
            lost_s: self.lost(),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!(
                    "Packets of {} bytes vanish on the path {}: {} {hang}, small ones pass.",
                    count(self.pmtu().into()),
                    self.path.name(),
                    plural(n, "connection")
                ),
                format!(
                    "Packets of {} bytes to {to} vanish on the path: {} {hang}.",
                    count(self.pmtu().into()),
                    plural(n, "connection")
                ),
                format!("Large packets to {to} vanish on the path."),
            ]),
            fix: fitting([
                format!(
                    "Let ICMP \"fragmentation needed\" pass on the way, or clamp the MSS to {} bytes.",
                    count(mss.into())
                ),
                format!("Let ICMP pass on the way, or clamp the MSS to {mss} bytes."),
            ]),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope.netns, mtu, mss),
            verify: format!(
                "`ss -tion dst {to}` shows no socket with a `backoff` while large answers are sent."
            ),
            scope,
        }
    }

    /// From the first retransmission of what hung to its last.
    fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        for (end, _) in &self.hung {
            let stall = &end.transfer.stall;
            let ns = stall.last_ns.saturating_sub(stall.first_ns);
            lost.add(end.conn, State::Repair, ns);
        }
        lost
    }

    fn impact(&self) -> Impact {
        let affected = self.hung.len() as u64;
        let says = format!(
            "{} of {} could not get a full segment through for {} in the median.",
            count(affected),
            plural(self.of, "connection"),
            duration(self.hung_ns())
        );
        Impact::of(affected, self.of, "connections", says)
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "what is full-size failed {} times in a row and more, while small packets passed",
            self.hung
                .iter()
                .map(|(e, _)| e.transfer.stall.timeouts)
                .min()
                .unwrap_or(0)
        ));
        if !self.path.whole() {
            c.at_most(
                Level::Medium,
                "the receivers are not on this host: that they got nothing is inferred",
            );
        }
        if self.hung.len() == 1 {
            c.at_most(Level::Medium, "only one connection hangs");
        }
        c.weigh_checks(checks);
        let sources = [
            SourceName::Retransmits,
            SourceName::Sockets,
            SourceName::Drops,
        ];
        doubts(self.path.story, &mut c, &sources);
        c
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let most = |of: fn(&Stuck) -> u32| self.hung.iter().map(|(_, s)| of(s)).min();
        vec![
            RuledOut::new(
                Id::PATH_LOSS,
                format!(
                    "random loss lets one of the next tries through: all {} failed, and no segment \
                     of {} bytes passed",
                    count(self.timeouts()),
                    count(self.mss().into())
                ),
            ),
            RuledOut::new(
                Id::PATH_DROPS_SYN,
                format!(
                    "{} on this way were established meanwhile",
                    plural(self.made.0, "connection")
                ),
            ),
            RuledOut::new(
                Id::SLOW_READER,
                format!(
                    "the receivers' windows were open: {} at least",
                    bytes(most(|s| s.window).unwrap_or(0).into())
                ),
            ),
            RuledOut::new(
                Id::LOCAL_FIREWALL_DROP,
                "this host dropped 0 packets of these connections".into(),
            ),
        ]
    }

    fn advice(&self, netns: &Netns, mtu: u32, mss: u32) -> Vec<Advice> {
        let (story, to) = (self.path.story, self.path.to);
        let family = match to.ip() {
            IpAddr::V4(_) => "ip",
            IpAddr::V6(_) => "ip6",
        };
        let set = format!("tcp flags syn tcp option maxseg size set {mss}");
        let rules = format!(
            "nft 'add table inet mss; \
             add chain inet mss pre {{ type filter hook prerouting priority mangle; }}; \
             add chain inet mss out {{ type filter hook output priority mangle; }}; \
             add rule inet mss pre {family} saddr {to} {set}; \
             add rule inet mss out {family} daddr {to} {set}'"
        );
        let mut advice = vec![
            Advice {
                action: format!(
                    "Clamp the MSS of connections with {to} to {mss} bytes, here or, better, on the \
                     router before the narrow link (there `size set rt mtu` in the forward chain)."
                ),
                command: command_in(netns, &rules),
                r#where: format!("{}, or a router of the path", namespace(netns)),
                risk: format!(
                    "More and smaller packets: {} bytes instead of {}. Connections that are open \
                     already stay as they are; UDP is not helped.",
                    count(mss.into()),
                    count(self.mss().into())
                ),
                expected: format!(
                    "Packets have at most {} bytes, which every link that carries IPv6 must take.",
                    count(mtu.into())
                ),
                change: Some(Change::ClampMss {
                    netns: self.path.netns,
                    to: to.to_string(),
                    mss,
                }),
            },
            Advice {
                action: "Let ICMP \"fragmentation needed\" (IPv6: \"packet too big\") pass every \
                         firewall between the narrow link and this host."
                    .into(),
                command: command_in(netns, &format!("tracepath -n {to}")),
                r#where: "firewalls and load balancers of the path; the command shows up to where \
                          large packets get"
                    .into(),
                risk: "Forged ICMP can lower the MTU of a path, though TCP checks it against what \
                       is in flight."
                    .into(),
                expected: "Senders learn the size that fits with the first packet that does not."
                    .into(),
                change: None,
            },
        ];
        if story
            .settings
            .number(self.path.netns, sysctl::TCP_MTU_PROBING)
            == Some(0)
        {
            let risk = "Each new connection hangs for some timeouts (tcp_retries1, about 3 s) first; \
                        one to a peer that is merely slow may go on with small segments.";
            let expected = "A connection that hangs tries segments of tcp_base_mss (1,024 bytes) \
                            and goes on with what passes.";
            advice.push(set_sysctl(
                netns,
                sysctl::TCP_MTU_PROBING,
                1,
                risk,
                expected.into(),
            ));
        }
        advice.push(Advice {
            action: format!("Or lower the MTU of the route to {to} to {mtu}."),
            command: command_in(netns, &format!("ip route get {to}")),
            r#where: format!(
                "{}: `ip route change` of the route that the command shows, with `mtu {mtu} advmss \
                 {mss}`",
                namespace(netns)
            ),
            risk: "All that takes the route has smaller packets, UDP too; on the peer the same is \
                   needed for what it sends."
                .into(),
            expected: "Connections that hang go on with their next timeout.".into(),
            change: None,
        });
        advice
    }
}

/// Whether a connection that was never sampled got full segments acknowledged after a moment.
fn sent_full(conn: &Conn, mss: u32, since_ns: u64) -> bool {
    let (Some(from), Some(to)) = (conn.established_ns, conn.ended_ns) else {
        return false;
    };
    let short = to.saturating_sub(from) <= SHORT_NS && conn.outcome == Outcome::Closed;
    let large = conn.mss >= mss && conn.bytes_acked >= SEGMENTS * u64::from(mss);
    short && large && conn.sampled.is_none() && to >= since_ns
}

mod evidence;
#[cfg(test)]
mod tests;
