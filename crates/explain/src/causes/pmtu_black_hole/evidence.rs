//! Evidence of a black hole: what hangs, what passes meanwhile, and that no ICMP error arrived.

use analysis::words::duration;
use analysis::{Stall, Stuck};

use super::BlackHole;
use crate::vocabulary::*;

impl BlackHole<'_> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let steps = [self.hangs(), self.full_size(), self.passing()].into_iter();
        let passing = self.acknowledged().into_iter().chain(self.behind());
        steps.chain(passing).chain(self.untold()).collect()
    }

    fn hangs(&self) -> Step {
        let stalls = || self.hung.iter().map(|(end, _)| &end.transfer.stall);
        let seen = stalls().flat_map(|s| s.rows.into_iter().flatten());
        let rows = seen.chain(self.hung.iter().map(|(_, s)| s.row));
        let to = self.path.to;
        say!(
            "{hung} to {to} retransmitted one segment over and over on the RTO: {timeouts} times in total, up to \
             {most_in_a_row} in a row, over {hung_ns} (median).",
            hung = Quantity::of(self.hung.len() as u64, "connection"),
            timeouts = Quantity::count(stalls().map(Stall::in_a_row).sum::<u64>()),
            most_in_a_row = Quantity::count(stalls().map(Stall::in_a_row).max().unwrap_or(0)),
            hung_ns = Quantity::new(self.hung_ns(), duration(self.hung_ns()))
                .rows(rows.take(2 * SHOWN_ROWS))
        )
    }

    fn full_size(&self) -> Step {
        let sum = |of: fn(&Stuck) -> u32| {
            let each = self.hung.iter().map(|(_, s)| u64::from(of(s)));
            each.sum::<u64>()
        };
        let rows = self.hung.iter().map(|(_, s)| s.row).take(SHOWN_ROWS);
        say!(
            "The hanging segments are full-size: {in_flight_bytes} in {in_flight_segments} of at most {mss} bytes, \
             that is, packets of up to {pmtu}.",
            in_flight_bytes = Quantity::bytes(sum(|s| s.bytes)).rows(rows),
            in_flight_segments = Quantity::of(sum(|s| s.segments), "segment"),
            mss = self.mss(),
            pmtu = self.pmtu()
        )
    }

    /// That small packets passed.
    fn passing(&self) -> Step {
        let (made, rows) = &self.made;
        let waited = self.hung.iter().map(|(e, _)| e.transfer.stall.beside);
        say!(
            "Meanwhile smaller packets passed in the same direction: {established} opened, and {timeouts_after} of \
             the timeouts came after one had passed.",
            established = Quantity::of(*made, "connection").rows(rows.iter().copied()),
            timeouts_after = Quantity::count(waited.sum::<u64>())
        )
    }

    /// What others got acknowledged there.
    fn acknowledged(&self) -> Option<Step> {
        let passed_bytes = Quantity::of(self.passed.mean, "byte");
        (self.passed.mean > 0).then(|| {
            say!(
                "Segments of up to {passed_bytes} on average were acknowledged there.",
                passed_bytes
            )
        })
    }

    /// Their own smaller segments that passed the one that hangs.
    fn behind(&self) -> Option<Step> {
        let sacked: u64 = self.hung.iter().map(|(_, s)| u64::from(s.sacked)).sum();
        let rows = self.hung.iter().map(|(_, s)| s.row).take(SHOWN_ROWS);
        (sacked > 0).then(|| {
            say!(
                "{sacked} of their own segments that were sent later arrived (SACK).",
                sacked = Quantity::count(sacked).rows(rows)
            )
        })
    }

    /// That the sender was not informed: no ICMP came, and it does not probe by itself.
    fn untold(&self) -> Option<Step> {
        let (story, netns) = (self.path.story, self.path.netns);
        let probing = story.settings.get(netns, sysctl::TCP_MTU_PROBING)?;
        let smaller = match probing.number(0) {
            Some(0) => "keeps them from trying smaller packets",
            _ => "makes them try smaller packets only after some timeouts",
        };
        let (name, value) = (sysctl::TCP_MTU_PROBING, &*probing.text);
        let pmtu = self.pmtu();
        let says =
            format!("They still assume a path MTU of {pmtu} bytes, and {name}={value} {smaller}.");
        // "Fragmentation needed" is one of those messages; IPv4 only.
        let known = self.path.to.ip().is_ipv4() && story.counters.covers(netns);
        let told = known.then(|| story.counters.rise(netns, counter::IN_DEST_UNREACHS));
        let icmp = told.as_ref().map_or(String::new(), |told| {
            let n = Quantity::count(told.by);
            let counter = counter::IN_DEST_UNREACHS;
            format!(" ICMP messages that a destination was unreachable: {n} ({counter}).")
        });
        let rows = told.iter().flat_map(|told| told.rows());
        let step = Step::new(says + &icmp)
            .number_if("icmp_unreachable", told.as_ref().map(|told| told.by))
            .rows([probing.row])
            .rows(rows);
        Some(step)
    }

    /// What the sockets themselves counted of it.
    pub(super) fn counted(&self) -> Check {
        let sum = |of: fn(&Stuck) -> u64| self.hung.iter().map(|(_, s)| of(s)).sum();
        // The sockets have counted those before the recording as well.
        let formula = "timeouts in a row that the sockets counted ≥ timeouts of one segment seen";
        at_least(formula, sum(|s| s.timeouts), sum(|s| s.counted), "timeouts")
    }
}
