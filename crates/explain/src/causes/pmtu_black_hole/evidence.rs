//! What shows a black hole: what hangs, what passes meanwhile, and that nobody told.

use analysis::Stuck;
use analysis::words::{bytes, count, duration, plural};
use recording::counter::IN_DEST_UNREACHS;
use recording::sysctl::TCP_MTU_PROBING;

use super::Case;

impl Case<'_> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let hung = plural(self.hung.len() as u64, "connection");
        let stalls = || self.hung.iter().map(|(end, _)| &end.transfer.stall);
        let most = stalls().map(|s| s.timeouts).max().unwrap_or(0);
        let rows = stalls().flat_map(|s| s.rows.into_iter().flatten());
        let (flight, pieces) = self.hung.iter().fold((0, 0), |(bytes, pieces), (_, s)| {
            (bytes + u64::from(s.bytes), pieces + u64::from(s.segments))
        });
        let seen = || self.hung.iter().map(|(_, s)| s.row).take(SHOWN_ROWS);
        let mut steps = vec![
            Step::new(format!(
                "{hung} to {} retransmitted one segment over and over on the retransmission timer: {} \
                 times in all, up to {most} in a row, over {} in the median.",
                self.path.to,
                count(self.timeouts()),
                duration(self.hung_ns())
            ))
            .number("hung", self.hung.len())
            .number("timeouts", self.timeouts())
            .number("most_in_a_row", most)
            .number("hung_ns", self.hung_ns())
            .rows(rows.take(2 * SHOWN_ROWS)),
            Step::new(format!(
                "What hangs is of full size: {} in {} of at most {} bytes, which make packets of \
                 up to {}.",
                bytes(flight),
                plural(pieces, "segment"),
                count(self.mss().into()),
                count(self.pmtu().into())
            ))
            .number("in_flight_bytes", flight)
            .number("in_flight_segments", pieces)
            .number("mss", self.mss())
            .number("pmtu", self.pmtu())
            .rows(seen()),
            self.passing(),
        ];
        steps.extend(self.untold());
        steps
    }

    /// That small packets passed.
    fn passing(&self) -> Step {
        let (made, rows) = &self.made;
        let mut says = format!(
            "Meanwhile smaller packets passed the same way: {} established",
            match made {
                1 => "1 connection was".to_string(),
                n => format!("{} connections were", count(*n)),
            }
        );
        if self.passed.mean > 0 {
            says += &format!(
                ", and segments of up to {} bytes on average were acknowledged",
                count(self.passed.mean.into())
            );
        }
        let waited: u64 = self.hung.iter().map(|(e, _)| e.transfer.stall.beside).sum();
        says += &format!("; {} of the timeouts came after such a one.", count(waited));
        let behind: u64 = self.hung.iter().map(|(_, s)| u64::from(s.sacked)).sum();
        if behind > 0 {
            says += &format!(
                " Of their own segments, {} that came later arrived (SACK).",
                count(behind)
            );
        }
        Step::new(says)
            .number("sacked", behind)
            .number("established", *made)
            .number("passed_bytes", self.passed.mean)
            .number("timeouts_after", waited)
            .rows(rows.iter().copied())
    }

    /// That nothing told the sender: no ICMP came, and it does not probe by itself.
    fn untold(&self) -> Option<Step> {
        let story = self.path.story;
        let probing = story.settings.get(self.path.netns, TCP_MTU_PROBING)?;
        let mut says = format!(
            "They still take {} bytes for the MTU of the path, and {TCP_MTU_PROBING}={} ",
            count(self.pmtu().into()),
            &*probing.text
        );
        says += match probing.number(0) {
            Some(0) => "lets them try nothing smaller.",
            _ => "lets them try smaller ones only after some timeouts.",
        };
        let told = self.told();
        if let Some(told) = told {
            says += &format!(
                " ICMP messages that something was unreachable: {} ({IN_DEST_UNREACHS}).",
                count(told)
            );
        }
        let step = Step::new(says).number_if("icmp_unreachable", told);
        Some(step.rows([probing.row]))
    }

    /// ICMP messages that came, of those among which "fragmentation needed" is; IPv4 only.
    fn told(&self) -> Option<u64> {
        let counters = &self.path.story.counters;
        let known = self.path.to.ip().is_ipv4() && counters.covers(self.path.netns);
        known.then(|| counters.rise(self.path.netns, IN_DEST_UNREACHS).by)
    }

    pub(super) fn arithmetic(&self) -> Vec<Check> {
        let sum = |of: fn(&Stuck) -> u64| self.hung.iter().map(|(_, s)| of(s)).sum();
        let formula = "timeouts in a row that the sockets counted = timeouts of one segment seen";
        let own = same_count(formula, sum(|s| s.counted), sum(|s| s.timeouts), "timeouts");
        [Some(own), self.path.counted_again()]
            .into_iter()
            .flatten()
            .collect()
    }
}
use crate::vocabulary::*;
