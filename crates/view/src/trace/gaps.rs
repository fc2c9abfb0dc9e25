//! `trace gaps`: heartbeats that were late, and how much of that time their CPU was in softirq.

use std::collections::VecDeque;
use std::io;

use analysis::heartbeats::{SoftirqShares, late_ns};
use analysis::owners::Owner;
use analysis::words::plural;
use recording::tables::{Gap, Heartbeat};
use recording::{Filter, Row};

use crate::columns::{Unit, Value, columns, heads, json, left, right};
use crate::screen::Screen;
use crate::view::View;

/// The next reading of the CPU is waited for this long: they are a second apart unless asked otherwise.
const WAIT_NS: u64 = 2_500_000_000;
/// Gaps that wait for one; when a CPU stood still, everything that it receives is late.
const MAX_WAITING: usize = 1 << 14;

/// A heartbeat that was late.
pub(crate) struct Late {
    gap: Gap,
    /// Share of that time, 0 to 1.
    softirq: Option<f64>,
}

columns! {
    Late = "gap" {
        text TIME PROTO LOCAL REMOTE PID COMM EVERY LATE CPU SOFTIRQ NOTE;
        json TIME PROTO NETNS FAMILY LOCAL REMOTE PID COMM CGROUP EVERY DEVIATION GAP LATE PENDING CPU SOFTIRQ NOTE;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.gap.time_ns);
    /// `tcp` or `udp`.
    PROTO: left("PROTO", 5, &["protocol"], Unit::Name) => |l, _| (&l.gap.protocol).into();
    NETNS: heads::NETNS => |l, _| Value::Netns(l.gap.netns);
    /// 4 or 6.
    FAMILY: json(&["family"], Unit::Id) => |l, _| l.gap.family.into();
    LOCAL: heads::LOCAL => |l, _| Value::Endpoint(l.gap.local_addr, l.gap.local_port);
    /// Who sends it.
    REMOTE: heads::REMOTE => |l, _| Value::Endpoint(l.gap.remote_addr, l.gap.remote_port);
    /// Process that holds the socket.
    PID: right("PID", 7, &["pid"], Unit::Id) => |l, _| l.gap.pid.into();
    COMM: heads::COMM => |l, _| l.gap.comm.as_ref().into();
    /// Its cgroup v2 id.
    CGROUP: json(&["cgroup"], Unit::Id) => |l, _| l.gap.cgroup.into();
    /// Time from one to the next, as it had been.
    EVERY: right("EVERY(ms)", 10, &["every_ns"], Unit::Ns) => |l, _| l.gap.every_ns.into();
    /// Mean deviation from that.
    DEVIATION: json(&["deviation_ns"], Unit::Ns) => |l, _| l.gap.deviation_ns.into();
    /// Time since the one before.
    GAP: json(&["gap_ns"], Unit::Ns) => |l, _| l.gap.gap_ns.into();
    /// How much later than that it came.
    LATE: right("LATE(ms)", 10, &["late_ns"], Unit::Ns) => |l, _| late_ns(&l.gap).into();
    /// It has not come by the end.
    PENDING: json(&["pending"], Unit::Flag) => |l, _| l.gap.pending.into();
    /// CPU whose softirq received it; of one that has not come, the one before.
    CPU: right("CPU", 3, &["cpu"], Unit::Id) => |l, _| l.gap.cpu.into();
    /// Share of the time since the one before that this CPU was in softirq.
    SOFTIRQ: right("SOFTIRQ%", 8, &["softirq_percent"], Unit::Percent) => |l, _| l.softirq.map(|s| s * 100.0).into();
    /// `has not come`; why there is no share.
    NOTE: left("NOTE", 1, &["note"], Unit::Words) => |l, _| l.note().into();
}

impl Late {
    fn note(&self) -> String {
        let pending = self.gap.pending.then(|| "has not come".to_string());
        let unread = || format!("CPU {} was not read then", self.gap.cpu);
        let unread = self.softirq.is_none().then(unread);
        let notes: Vec<String> = [pending, unread].into_iter().flatten().collect();
        notes.join(", ")
    }
}

/// What the gaps are among: the last line.
pub(crate) struct Followed {
    time_ns: u64,
    regular: u64,
    gaps: u64,
}

columns! {
    Followed = "heartbeats" {
        text TIME REGULAR GAPS;
        json TIME REGULAR GAPS;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.time_ns);
    /// Flows that were found to be regular, whatever the filter asks for.
    REGULAR: right("REGULAR", 7, &["regular"], Unit::Count) => |l, _| l.regular.into();
    /// Delayed heartbeats, of those that match the filter.
    GAPS: right("GAPS", 4, &["gaps"], Unit::Count) => |l, _| l.gaps.into();
}

#[derive(Default)]
pub(super) struct Gaps {
    shares: SoftirqShares,
    /// In order of time.
    waiting: VecDeque<Gap>,
    shown: u64,
    /// The last row about all flows.
    followed: Option<Heartbeat>,
}

impl View for Gaps {
    fn tables(&self) -> Vec<&'static str> {
        vec!["gap", "heartbeat", "cpu"]
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        match row {
            Row::Cpu(row) => self.shares.learn(&row),
            Row::Gap(gap) if asked(&gap, &screen.how.filter) => self.waiting.push_back(*gap),
            Row::Heartbeat(row) => self.followed = Some(*row),
            _ => return Ok(()),
        }
        while self.waiting.len() > MAX_WAITING {
            self.show_first(screen)?;
        }
        Ok(())
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        while let Some(gap) = self.waiting.front() {
            let waited = time_ns.saturating_sub(gap.time_ns);
            if waited < WAIT_NS && !self.shares.reaches(gap.cpu, gap.time_ns) {
                break;
            }
            self.show_first(screen)?;
        }
        Ok(())
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.show_first(screen)?;
        }
        let Some(row) = &self.followed else {
            return screen.more("heartbeats were not recorded");
        };
        let last = Followed {
            time_ns: row.time_ns,
            regular: row.regular,
            gaps: self.shown,
        };
        if screen.is_json() {
            return screen.show(&last);
        }
        let gaps = match last.gaps {
            0 => "no gap".into(),
            n => plural(n, "gap"),
        };
        screen.more(&format!(
            "{gaps} in {}",
            plural(last.regular, "regular flow")
        ))
    }
}

impl Gaps {
    fn show_first(&mut self, screen: &mut Screen) -> io::Result<()> {
        let Some(gap) = self.waiting.pop_front() else {
            return Ok(());
        };
        let since_ns = gap.time_ns.saturating_sub(gap.gap_ns);
        let softirq = self.shares.over(gap.cpu, since_ns, gap.time_ns);
        self.shown += 1;
        screen.show(&Late { gap, softirq })
    }
}

fn asked(g: &Gap, filter: &Filter) -> bool {
    let owner = Owner {
        pid: g.pid,
        comm: g.comm.clone(),
        cgroup: g.cgroup,
    };
    filter.netns_ok(g.netns)
        && filter.ports_ok(g.local_port, g.remote_port)
        && filter.addrs_ok(g.local_addr, g.remote_addr)
        && owner.passes(filter)
}
