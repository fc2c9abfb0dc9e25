//! The time that connections lost to a finding: the share of the time account that its cause claims.

use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use analysis::account::{self, State};
use analysis::{Conn, Endpoint, Outcome, Story};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::callers::{self, Caller, Callers};
use crate::limits;
use crate::other_family::OtherFamily;

/// The key that identifies an end.
pub(crate) type End = (u32, Endpoint, Endpoint, u64);

/// The time that connections lost to one finding, over all ends.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    /// The settled time, known once all findings are; `None` if there is nothing to measure it against.
    seconds: Option<f64>,
    of_ends: BTreeMap<(End, State), u64>,
    /// Ends that failed during another one's outage, which is counted once.
    within: BTreeSet<End>,
    /// Time of ends that are on another host or cannot be named.
    elsewhere_ns: u64,
    /// How often it happened, and how often it could have happened; `None` if it happened once per end that lost time.
    times: Option<(u64, u64)>,
    /// The counts of exchanges, if it is exchanges that lost time.
    exchanges: Option<OfExchanges>,
    /// The time in which no client at all was served, ns.
    outage_ns: u64,
    /// The part that callers spent without a service, from a failure to the next success, ns.
    without_service_ns: u64,
}

/// Counts of the exchanges of a service, some of which lost time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfExchanges {
    /// The exchanges that lost time, and all of them.
    pub(crate) slow: u64,
    pub(crate) of: u64,
    /// The connections of the slow exchanges that are reported one by one.
    pub(crate) connections: u64,
    /// The time that the slow ones lost, and the time that all took, ns.
    pub(crate) lost_ns: u64,
    pub(crate) whole_ns: u64,
    /// The longest time that one was neither accepted nor read, ns.
    pub(crate) stalled_ns: u64,
    /// For the caller that got no answer most often: how often, and over which time, ns.
    pub(crate) failed: (u64, u64),
}

/// The key of a connection's end in claims.
pub(crate) fn end(conn: &Conn) -> End {
    (conn.netns, conn.local, conn.remote, conn.start_ns)
}

impl Lost {
    /// The lost time, s; `None` if there is nothing to measure it against.
    pub fn seconds(&self) -> Option<f64> {
        self.seconds
    }

    /// Whether most of it is time without a service after a failure, and nobody waited meanwhile.
    pub fn is_without_service(&self) -> bool {
        let claims = self.of_ends.values();
        let all = claims.fold(self.elsewhere_ns, |sum, ns| sum.saturating_add(*ns));
        self.without_service_ns > 0 && limits::MOST.reached(self.without_service_ns, all)
    }

    /// The ends that lost time.
    pub(crate) fn ends(&self) -> impl Iterator<Item = End> + '_ {
        let claim = self.of_ends.keys().map(|(end, _)| *end);
        claim.chain(self.within.iter().copied())
    }

    /// Sets how often it happened and how often it could have happened: segments lost of those sent.
    pub(crate) fn happened(mut self, times: u64, of: u64) -> Lost {
        self.times = Some((times, of));
        self
    }

    /// How often it happened, and how often it could have happened, if the cause counts that.
    pub(crate) fn times(&self) -> Option<(u64, u64)> {
        self.times
    }

    /// Sets the counts of the exchanges that lost time.
    pub(crate) fn of_exchanges(mut self, exchanges: OfExchanges) -> Lost {
        self.exchanges = Some(exchanges);
        self
    }

    /// The counts of exchanges, if it is exchanges that lost time.
    pub(crate) fn exchanges(&self) -> Option<OfExchanges> {
        self.exchanges
    }

    /// Notes that part of it was lost while no client at all was served, for so many ns.
    pub(crate) fn in_outage(mut self, ns: Option<u64>) -> Lost {
        self.outage_ns = self.outage_ns.max(ns.unwrap_or(0));
        self
    }

    /// The time in which no client at all was served, ns.
    pub(crate) fn outage_ns(&self) -> u64 {
        self.outage_ns
    }

    /// Each end with the time that it lost, ns, per state of its account.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (End, State, u64)> + '_ {
        self.of_ends
            .iter()
            .map(|((end, state), ns)| (*end, *state, *ns))
    }

    /// The time lost by ends that are not on this host, ns.
    pub(crate) fn elsewhere_ns(&self) -> u64 {
        self.elsewhere_ns
    }

    /// The claimed time, ns: the settled time, or all of the claim before it is settled.
    pub(crate) fn claimed(&self) -> u64 {
        match self.seconds {
            Some(s) => (s * 1e9) as u64,
            None => self
                .of_ends
                .values()
                .fold(self.elsewhere_ns, |sum, ns| sum.saturating_add(*ns)),
        }
    }

    /// The lost time is not known.
    pub fn unknown() -> Lost {
        Lost::default()
    }

    /// Time lost by ends that were not seen on this host.
    pub fn elsewhere(ns: u64) -> Lost {
        Lost {
            elsewhere_ns: ns,
            ..Lost::default()
        }
    }

    /// Time in which a service could serve nobody, whoever would have asked.
    pub(crate) fn without_service(ns: u64) -> Lost {
        Lost {
            without_service_ns: ns,
            ..Lost::elsewhere(ns).in_outage(Some(ns))
        }
    }

    /// The time of delayed connects beyond a round trip, and the outages of failed ones.
    pub fn connects<'a>(story: &Story, conns: impl IntoIterator<Item = &'a Conn>) -> Lost {
        let mut lost = Lost::default();
        let mut failed = Vec::new();
        for conn in conns {
            match conn.connect_ns() {
                Some(took) => {
                    let round_trip = u64::from(conn.rtt_us) * 1_000;
                    lost.add(conn, State::Connecting, took.saturating_sub(round_trip));
                }
                None => failed.push(conn),
            }
        }
        lost.and(Lost::outages(story, failed))
    }

    /// The time that failed connects or requests cost. Each costs its caller the time until its next success there. If
    /// the caller has stopped trying, it is the time until any caller of its namespace succeeds there, or until the end
    /// of the recording. An attempt that succeeded over the other address family costs the time until then. A remote
    /// caller that did not come back is known only to have failed. Overlaps count once.
    pub fn outages<'a>(story: &Story, conns: impl IntoIterator<Item = &'a Conn>) -> Lost {
        let conns: Vec<&Conn> = conns.into_iter().collect();
        if conns.is_empty() {
            return Lost::default();
        }
        let tried: BTreeSet<_> = conns.iter().map(|c| (c.netns, c.remote)).collect();
        let callers = Callers::of(story, |c| tried.contains(&(c.netns, c.remote)));
        let other_family = OtherFamily::of(story, conns.iter().copied());
        let mut lost = Lost::default();
        let mut failed: BTreeMap<Caller, Vec<(u64, &Conn)>> = BTreeMap::new();
        for conn in conns {
            if let Some(stood) = other_family.stood_ns(conn) {
                let ns = stood.saturating_sub(conn.start_ns);
                lost.add(conn, State::Connecting, ns);
                continue;
            }
            // A failed attempt costs time from its start, an established connection from its end.
            let from = match conn.established_ns {
                None => conn.start_ns,
                Some(_) => conn.ended_ns.unwrap_or(conn.start_ns),
            };
            // If an older connection's end was not recorded, the moment is not known.
            let from = from.max(story.start_ns);
            failed
                .entry(callers.caller(conn))
                .or_default()
                .push((from, conn));
        }
        let places: BTreeSet<_> = failed.keys().map(|c| (c.netns, c.to)).collect();
        let mut well: BTreeMap<Caller, Vec<u64>> = BTreeMap::new();
        let mut anybody: BTreeMap<(u32, Endpoint), Vec<u64>> = BTreeMap::new();
        for conn in &story.conns {
            let done = matches!(conn.outcome, Outcome::Open | Outcome::Closed);
            let place = callers::place(conn);
            if let (Some(at), true) = (conn.established_ns, done && places.contains(&place)) {
                well.entry(callers.caller(conn)).or_default().push(at);
                anybody.entry(place).or_default().push(at);
            }
        }
        let moments = well.values_mut().chain(anybody.values_mut());
        moments.for_each(|moments| moments.sort_unstable());
        let after = |moments: Option<&Vec<u64>>, ns: u64| {
            let moments = moments?;
            moments
                .get(moments.partition_point(|at| *at <= ns))
                .copied()
        };
        for (caller, mut failed) in failed {
            failed.sort_unstable_by_key(|(from, conn)| (*from, end(conn)));
            let over = stopped_trying(&failed)
                .and_then(|ns| after(anybody.get(&(caller.netns, caller.to)), ns));
            let over = over.unwrap_or(story.end_ns);
            let mut until = 0;
            for (from, conn) in failed {
                let least = from.saturating_add(limits::FAILED_COSTS.ns());
                let next = after(well.get(&caller), from);
                let over = if conn.asks() { over } else { least };
                let back = next.unwrap_or(over).max(least);
                let begins = from.max(until);
                match back.saturating_sub(begins) {
                    0 => drop(lost.within.insert(end(conn))),
                    ns => {
                        lost.add(conn, State::Connecting, ns);
                        lost.without_service_ns = lost.without_service_ns.saturating_add(ns);
                    }
                }
                until = until.max(back);
            }
        }
        lost
    }

    /// A share of the time that ends spent in the given states.
    pub(crate) fn states<'a>(
        story: &Story,
        conns: impl IntoIterator<Item = &'a Conn>,
        states: &[State],
        share: f64,
    ) -> Lost {
        let mut lost = Lost::default();
        for conn in conns {
            let spent = account::of_end(story, conn);
            for state in states {
                let ns = spent.of(*state) as f64 * share.clamp(0.0, 1.0);
                lost.add(conn, *state, ns as u64);
            }
        }
        lost
    }

    /// Adds lost time of an end in a state.
    pub(crate) fn add(&mut self, conn: &Conn, state: State, ns: u64) {
        if ns > 0 {
            let claimed = self.of_ends.entry((end(conn), state)).or_default();
            *claimed = claimed.saturating_add(ns);
        }
    }

    /// The sum of both.
    pub(crate) fn and(mut self, other: Lost) -> Lost {
        for (cell, ns) in other.of_ends {
            let claimed = self.of_ends.entry(cell).or_default();
            *claimed = claimed.saturating_add(ns);
        }
        self.within.extend(other.within);
        self.elsewhere_ns = self.elsewhere_ns.saturating_add(other.elsewhere_ns);
        let without = other.without_service_ns;
        self.without_service_ns = self.without_service_ns.saturating_add(without);
        self.times = self.times.or(other.times);
        self.exchanges = self.exchanges.or(other.exchanges);
        self.in_outage(Some(other.outage_ns))
    }

    /// This one, or if it is empty the result of another way to measure.
    pub(crate) fn or(self, other: impl FnOnce() -> Lost) -> Lost {
        if self.of_ends.is_empty() && self.elsewhere_ns == 0 {
            other()
        } else {
            self
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Lost {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Lost".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["number", "null"] })
    }
}

/// Seconds, or null.
impl Serialize for Lost {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.seconds.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Lost {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Lost, D::Error> {
        let seconds = Option::deserialize(from)?;
        Ok(Lost {
            seconds,
            ..Lost::default()
        })
    }
}

/// When a caller's last attempt failed; `None` if one still hangs.
fn stopped_trying(failed: &[(u64, &Conn)]) -> Option<u64> {
    let ends = failed.iter().map(|(_, conn)| conn.ended_ns);
    ends.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// The claimed time per end and state, ns. Time that several claim counts once.
pub(crate) fn claimed_once<'a>(
    claims: impl Iterator<Item = &'a Lost>,
) -> AHashMap<(End, State), u64> {
    let mut once: AHashMap<(End, State), u64> = AHashMap::new();
    for (cell, ns) in claims.flat_map(|claim| &claim.of_ends) {
        let most = once.entry(*cell).or_default();
        *most = (*most).max(*ns);
    }
    once
}

/// Settles the claims. Time that several claim is divided in proportion to their claims, and adds up to no more than
/// the largest of them.
pub(crate) fn settle<'a>(claims: impl Iterator<Item = &'a mut Lost>) {
    let mut claims: Vec<&mut Lost> = claims.collect();
    let once = claimed_once(claims.iter().map(|claim| &**claim));
    let mut sums: AHashMap<(End, State), f64> = AHashMap::new();
    for (cell, ns) in claims.iter().flat_map(|claim| &claim.of_ends) {
        *sums.entry(*cell).or_default() += *ns as f64;
    }
    for claim in &mut claims {
        let shared = |(cell, ns): (&(End, State), &u64)| {
            let (most, sum) = (once.get(cell), sums.get(cell));
            let part = most
                .zip(sum)
                .map_or(1.0, |(most, sum)| *most as f64 / sum.max(1.0));
            *ns as f64 * part
        };
        let ends: f64 = claim.of_ends.iter().map(shared).sum();
        let ns = ends + claim.elsewhere_ns as f64;
        claim.seconds = (ns > 0.0).then(|| analysis::words::rounded(ns / 1e9));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::Side;
    use synth::cases;

    const S: u64 = 1_000_000_000;

    /// A story with 300 refused connects of one caller.
    fn refused() -> Story {
        let written = cases::refused().write().expect("writes");
        Story::read(&written.recording).expect("reads")
    }

    fn seconds(story: &Story, conns: &[Conn]) -> f64 {
        let mut lost = Lost::outages(story, conns);
        settle(std::iter::once(&mut lost));
        lost.seconds().unwrap_or(0.0)
    }

    #[test]
    fn an_outage_lasts_until_the_callers_next_success_and_counts_once() {
        let mut story = refused();
        let mut failed = story.conns.clone();
        failed.truncate(3);
        for (conn, at) in failed.iter_mut().zip([10, 11, 13]) {
            (conn.start_ns, conn.pid) = (at * S, Some(5));
            // The listener is on this host too; that does not make it another caller.
            conn.listener = Some(0);
            conn.ended_ns = Some(at * S);
        }
        let mut well = failed[0].clone();
        (well.outcome, well.established_ns) = (Outcome::Closed, Some(12 * S));
        story.conns = failed.clone();
        story.conns.push(well);
        (story.start_ns, story.end_ns) = (0, 15 * S);
        // From 10 to 12 s, and from 13 s to the end.
        assert_eq!(seconds(&story, &failed), 4.0);
        // Another caller's success does not end the outage while it keeps trying.
        story.conns[3].pid = Some(6);
        assert_eq!(seconds(&story, &failed), 5.0);
        // It has stopped trying, and another caller's success shows that the place works.
        story.conns[3].established_ns = Some(14 * S);
        assert_eq!(seconds(&story, &failed), 4.0);
        // The least that one failure costs, although the recording ends at once.
        story.end_ns = 13 * S;
        assert_eq!(seconds(&story, &failed[2..]), 1.0);
        // Older than the recording and its end not recorded: it costs at most the recording's length.
        (story.start_ns, story.end_ns) = (9 * S, 15 * S);
        (failed[0].start_ns, failed[0].established_ns) = (0, Some(0));
        failed[0].ended_ns = None;
        assert_eq!(seconds(&story, &failed[..1]), 6.0);
    }

    #[test]
    fn what_a_script_starts_anew_for_each_request_fails_as_one() {
        let mut story = refused();
        let mut failed = story.conns.clone();
        failed.truncate(3);
        for ((conn, at), pid) in failed.iter_mut().zip([10, 11, 13]).zip(5..) {
            (conn.start_ns, conn.pid) = (at * S, Some(pid));
            (conn.comm, conn.ended_ns) = (Some("curl".into()), Some(at * S));
        }
        story.conns = failed.clone();
        (story.start_ns, story.end_ns) = (0, 15 * S);
        assert_eq!(seconds(&story, &failed), 5.0);
        // Each process that tries again is a caller of its own.
        for (nth, again) in failed.clone().into_iter().enumerate() {
            let start_ns = (14 * S).saturating_add(nth as u64);
            story.conns.push(Conn { start_ns, ..again });
        }
        assert_eq!(seconds(&story, &failed), 11.0);
    }

    #[test]
    fn of_who_asked_from_elsewhere_and_never_came_again_no_outage_is_known() {
        let mut story = refused();
        let mut failed = story.conns[0].clone();
        (failed.side, failed.start_ns) = (Side::Accepted, 10 * S);
        (failed.established_ns, failed.ended_ns) = (Some(10 * S), Some(11 * S));
        (story.start_ns, story.end_ns) = (0, 3_600 * S);
        assert_eq!(seconds(&story, std::slice::from_ref(&failed)), 1.0);
        let mut well = failed.clone();
        (well.outcome, well.established_ns) = (Outcome::Closed, Some(14 * S));
        story.conns = vec![failed.clone(), well];
        assert_eq!(seconds(&story, &[failed]), 3.0);
    }

    #[test]
    fn what_the_other_family_made_good_is_no_outage() {
        let mut story = refused();
        let mut failed = story.conns[0].clone();
        failed.start_ns = 10 * S;
        failed.ended_ns = Some(10 * S + S / 4);
        (story.start_ns, story.end_ns) = (0, 3_600 * S);
        let mut well = failed.clone();
        let ipv6 = "2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap();
        well.remote.addr = recording::Addr(ipv6.octets());
        (well.outcome, well.established_ns) = (Outcome::Closed, Some(10 * S + S / 2));
        story.conns = vec![failed.clone(), well];
        assert_eq!(seconds(&story, std::slice::from_ref(&failed)), 0.5);
        // Another process's success does not help, nor does one that began too late.
        story.conns[1].pid = Some(4_000_000);
        assert!(seconds(&story, std::slice::from_ref(&failed)) > 3_000.0);
        (story.conns[1].pid, story.conns[1].start_ns) = (failed.pid, 11 * S);
        assert!(seconds(&story, &[failed]) > 3_000.0);
    }

    #[test]
    fn what_two_claim_is_shared() {
        let story = refused();
        let (one, other) = (&story.conns[0], &story.conns[1]);
        let mut claims = [Lost::unknown(), Lost::unknown()];
        for claim in &mut claims {
            claim.add(one, State::Connecting, 4 * S);
        }
        claims[1].add(other, State::Connecting, S);
        claims[1].add(one, State::Path, S);
        settle(claims.iter_mut());
        assert_eq!(claims.each_ref().map(Lost::seconds), [Some(2.0), Some(4.0)]);
        claims[0] = Lost::unknown();
        settle(claims.iter_mut());
        assert_eq!(claims[0].seconds(), None);
    }
}
