//! `stat ports`: how much of the local port range each destination has used up.

use std::io;

use analysis::stats::ratio;
use analysis::words::percent;
use recording::tables::PortUse;
use recording::{Addr, Filter, Row, Table};

use super::largest::{Largest, Ranked};
use super::rounds::Sampler;
use crate::columns::{Unit, Value, columns, heads, left, right, row};
use crate::screen::Screen;

/// Destinations shown per report.
const MAX_ROWS: usize = 1 << 16;
/// From half on, connect() searches: it has used up the ports of the parity that it prefers.
const SEARCHES: f64 = 50.0;
/// Odds of less are left to the figures.
const MET: f64 = 0.01;

/// The ports that connections from an address to a destination have.
pub(crate) struct Used(pub(crate) PortUse);

columns! {
    Used = "port_use" {
        text TIME NETNS FROM TO USED OF USED_SHARE TIME_WAIT SERVER_TW ESTAB RANGE NOTES;
        json TIME ROW NETNS OF USED_SHARE;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.0.time_ns);
    ROW: row(PortUse::INFO) => |l, _| Value::Row(l.0.cells());
    NETNS: heads::NETNS => |l, _| Value::Netns(l.0.netns);
    /// Local address.
    FROM: left("FROM", 15, &["local_addr"], Unit::Address) => |l, _| l.0.local_addr.into();
    /// Destination.
    TO: left("TO", 21, &["remote_addr", "remote_port"], Unit::Address)
        => |l, _| Value::Endpoint(l.0.remote_addr, l.0.remote_port);
    /// Local ports that its connections have.
    USED: right("USED", 6, &["ports_used"], Unit::Count) => |l, _| l.0.ports_used.into();
    /// Ports that connect() may choose: the range, without reserved ones.
    OF: right("OF", 6, &["ports"], Unit::Count) => |l, _| l.ports().into();
    /// `USED` ÷ `OF`: also the chance that a port picked at random is in use.
    USED_SHARE: right("USED%", 6, &["used_percent"], Unit::Percent) => |l, _| l.used_percent().into();
    /// How many of its connections are in TIME_WAIT.
    TIME_WAIT: right("TIME_WAIT", 9, &["time_wait"], Unit::Count) => |l, _| l.0.time_wait.into();
    /// TIME_WAIT sockets of a server here for connections from this address: not in `USED`, but a SYN from such a port meets one.
    SERVER_TW: right("SERVER_TW", 9, &["server_time_wait"], Unit::Count) => |l, _| l.0.server_time_wait.into();
    /// How many are established.
    ESTAB: right("ESTAB", 6, &["established"], Unit::Count) => |l, _| l.0.established.into();
    /// net.ipv4.ip_local_port_range.
    RANGE: left("RANGE", 11, &["range_low", "range_high"], Unit::Id)
        => |l, _| format!("{}-{}", l.0.range_low, l.0.range_high).into();
    /// What connect() does for want of ports.
    NOTES: left("NOTES", 1, &[], Unit::Words) => |l, _| l.note().into();
}

impl Used {
    fn ports(&self) -> u64 {
        analysis::ports::choosable(&self.0)
    }

    /// Ports used ÷ ports that may be chosen.
    fn used_share(&self) -> Option<f64> {
        ratio(self.0.ports_used.into(), self.ports() as f64)
    }

    fn used_percent(&self) -> Option<f64> {
        Some(self.used_share()? * 100.0)
    }

    /// Odds that a port picked at random is in TIME_WAIT at the server.
    fn odds(&self) -> Option<f64> {
        ratio(self.0.server_time_wait?.into(), self.ports() as f64)
    }

    fn note(&self) -> String {
        match (self.used_percent(), self.odds()) {
            (Some(used), _) if used >= 100.0 => "connect() fails: no port is left".into(),
            (Some(used), _) if used >= SEARCHES => "connect() searches for a port".into(),
            (_, Some(odds)) if odds >= MET => {
                let odds = percent(odds.min(1.0));
                format!("a SYN meets a TIME_WAIT of the server with odds of {odds}")
            }
            _ => String::new(),
        }
    }
}

/// By how near it is to the last port, at either side.
impl Ranked for Used {
    fn rank(&self) -> f64 {
        self.used_share()
            .unwrap_or(0.0)
            .max(self.odds().unwrap_or(0.0))
    }
}

/// Namespace and both ends.
type Key = (u32, Addr, Addr, u16);

fn key(row: &PortUse) -> Key {
    (row.netns, row.local_addr, row.remote_addr, row.remote_port)
}

#[derive(Default)]
pub(super) struct Ports {
    now: Largest<Key, Used, MAX_ROWS>,
}

impl Sampler for Ports {
    type Key = Key;

    fn tables(&self) -> Vec<&'static str> {
        vec!["port_use"]
    }

    fn key(&mut self, row: &Row, f: &Filter) -> Option<Self::Key> {
        let Row::PortUse(row) = row else { return None };
        let asked = f.netns_ok(row.netns)
            && f.ports_ok(row.remote_port, row.remote_port)
            && f.addrs_ok(row.local_addr, row.remote_addr);
        asked.then(|| key(row))
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::PortUse(row) = row {
            self.now.insert(key(&row), Used(*row));
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let (now, left_out) = self.now.take();
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        let mut now: Vec<Used> = now.into_values().collect();
        now.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
        for line in &now {
            screen.show(line)?;
        }
        left_out.show::<Used>(time_ns, screen)?;
        screen.end_report();
        Ok(())
    }
}
