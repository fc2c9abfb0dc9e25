//! What to do about a connect() that walks the lists of a server's port.

use analysis::words::count;

use super::lists::{FIRST, LAST};
use super::{Walker, entries};
use crate::vocabulary::*;

impl Walker<'_> {
    pub(super) fn advice(&self) -> Vec<Advice> {
        let met = self.met();
        let leave =
            Advice::to("Use a kernel whose in_pcblookup_local() leaves TIME_WAITs to their timer.")
                .at("the host; FreeBSD backed the purge (in_pcb.c 1.125) out on 2006-09-06")
                .risk(
                    "A connection that this host closes first then holds its port for twice net.inet.tcp.msl: with \
             too many connects per second no port is left.",
                )
                .effect(format!(
                    "Each entry is passed once: {}, not {}.",
                    entries(met.open + met.time_wait),
                    entries(self.passed() as u64)
                ));
        let keep = Advice::to(
            "Reuse connections (keep-alive, a pool): to the servers and from them.",
        )
        .at("the configuration of both")
        .risk("Idle connections stay open: they are in the lists, too.")
        .effect(
            "Fewer TIME_WAITs to pass; the cost is proportional to their number times that of open \
             connections.",
        );
        // The fix of the kernel's author comes first; the range takes effect at once, in the meantime.
        [leave]
            .into_iter()
            .chain(self.apart())
            .chain([keep])
            .collect()
    }

    /// Keeps the servers' ports out of the range.
    fn apart(&self) -> Option<Advice> {
        let range = self.range.as_ref()?;
        let (from, to) = range.beside()?;
        let (name, value) = if from == range.first {
            (LAST, to)
        } else {
            (FIRST, from)
        };
        let here = self.story.ports.all();
        let here = here.filter(|((netns, ..), _)| *netns == self.netns);
        let in_use: u64 = here.map(|(_, used)| used.most.used).sum();
        let apart = Advice::to(format!(
            "Keep the servers' ports out of the range for connect(): set {name}={value}."
        ))
        .by(shell!("sysctl {name}={value}", name, value))
        .at("the host; /etc/sysctl.conf keeps it. Or have the servers listen below the range")
        .risk(format!(
            "The reduced range leaves {} for connections; {} were in use at most, TIME_WAITs included.",
            Quantity::of(to - from + 1, "port"),
            count(in_use)
        ))
        .effect(
            "connect() no longer walks past the connections of servers: a candidate has one entry, or none.",
        )
        .change(Change::Sysctl {
            netns: self.netns,
            name: name.into(),
            value: value.to_string(),
        });
        Some(apart)
    }
}
