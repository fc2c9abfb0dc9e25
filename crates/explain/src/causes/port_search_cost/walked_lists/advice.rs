//! What to do about a connect() that walks the lists of a server's port.

use analysis::words::{count, plural};

use super::{Case, FIRST, LAST, plural_entries};
use crate::finding::{Advice, Change};

impl Case<'_> {
    pub(super) fn advice(&self) -> Vec<Advice> {
        let (open, waits, _) = self.met();
        let mut advice = Vec::new();
        advice.extend(self.apart());
        advice.push(Advice {
            action: "Use a kernel whose in_pcblookup_local() leaves TIME_WAITs to their timer."
                .into(),
            command: None,
            r#where: "the host; FreeBSD backed the purge (in_pcb.c 1.125) out on 2006-09-06".into(),
            risk: "A connection that this host closes first then holds its port for twice \
                   net.inet.tcp.msl: with too many connects per second none is left."
                .into(),
            expected: format!(
                "Each entry is passed once: {}, not {}.",
                plural_entries(open + waits),
                plural_entries(self.passed() as u64)
            ),
            change: None,
        });
        advice.push(Advice {
            action: "Use connections again (keep-alive, a pool): to the servers and from them."
                .into(),
            command: None,
            r#where: "the configuration of both".into(),
            risk: "Idle connections stay open: they stand in the lists, too.".into(),
            expected:
                "Fewer TIME_WAITs to pass; the cost falls with their number times that of open \
                       connections."
                    .into(),
            change: None,
        });
        advice
    }

    /// Keeps the servers' ports out of the range.
    fn apart(&self) -> Option<Advice> {
        let range = self.range.as_ref()?;
        let (from, to) = range.beside()?;
        let (name, value) = match from == range.first {
            true => (LAST, to),
            false => (FIRST, from),
        };
        let in_use: u64 = self
            .story
            .ports
            .all()
            .filter(|((netns, ..), _)| *netns == self.netns)
            .map(|(_, used)| used.most.used)
            .sum();
        Some(Advice {
            action: format!(
                "Keep the servers' ports out of the range for connect(): set {name}={value}."
            ),
            command: Some(format!("sysctl {name}={value}")),
            r#where:
                "the host; /etc/sysctl.conf keeps it. Or let the servers listen below the range"
                    .into(),
            risk: format!(
                "Of the range cut so {} are left for connections; {} were in use at most, TIME_WAITs \
                 included.",
                plural(u64::from(to - from) + 1, "port"),
                count(in_use)
            ),
            expected:
                "connect() no longer comes past the connections of servers: a candidate has one \
                       entry, or none."
                    .into(),
            change: Some(Change::Sysctl {
                netns: self.netns,
                name: name.into(),
                value: value.to_string(),
            }),
        })
    }
}
