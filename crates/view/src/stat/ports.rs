//! `stat ports`: how much of the local port range each destination has used up.

use std::io;

use recording::tables::PortUse;
use recording::{Addr, Row};
use serde::Serialize;

use super::rounds::Rounds;
use crate::numbers::{endpoint, rounded, tenth};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// Destinations shown per report.
const MAX_ROWS: usize = 1 << 16;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("NETNS", -10),
    ("FROM", -15),
    ("TO", -21),
    ("USED", 6),
    ("OF", 6),
    ("USED%", 6),
    ("TIME_WAIT", 9),
    ("ESTAB", 6),
    ("RANGE", -11),
    ("NOTES", -1),
];

/// From half on, connect() searches: it has used up the ports of the parity that it prefers.
const SEARCHES: f64 = 50.0;

pub(super) struct Ports {
    rounds: Rounds<(u32, Addr, Addr, u16)>,
    now: Vec<PortUse>,
}

#[derive(Serialize)]
struct Line<'p> {
    r#type: &'static str,
    unix_ns: i64,
    #[serde(flatten)]
    port_use: &'p PortUse,
    netns_name: Option<String>,
    ports: u32,
    used_percent: Option<f64>,
}

impl Ports {
    pub(super) fn new(every_ns: u64) -> Ports {
        Ports {
            rounds: Rounds::new(every_ns),
            now: Vec::new(),
        }
    }

    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        let shown = self.rounds.close().is_some();
        let mut now = std::mem::take(&mut self.now);
        if !shown {
            return Ok(());
        }
        let used = |p: &PortUse| used_percent(p).unwrap_or(0.0);
        now.sort_by(|a, b| used(b).total_cmp(&used(a)));
        for row in &now {
            line(row, screen)?;
        }
        screen.end_report();
        Ok(())
    }
}

/// Ports that may be chosen.
fn ports(p: &PortUse) -> u32 {
    let range = u32::from(p.range_high).saturating_sub(p.range_low.into()) + 1;
    range.saturating_sub(p.reserved)
}

fn used_percent(p: &PortUse) -> Option<f64> {
    let of = ports(p);
    (of > 0).then(|| f64::from(p.ports_used) * 100.0 / f64::from(of))
}

fn line(p: &PortUse, screen: &mut Screen) -> io::Result<()> {
    let used = used_percent(p);
    if screen.how.json {
        return screen.json(&Line {
            r#type: "port_use",
            unix_ns: When::of(p.time_ns, screen.how).unix_ns,
            port_use: p,
            netns_name: screen.how.names.get(&p.netns).cloned(),
            ports: ports(p),
            used_percent: used.map(rounded),
        });
    }
    let note = match used {
        Some(used) if used >= 100.0 => "connect() fails: no port is left",
        Some(used) if used >= SEARCHES => "connect() searches for a port",
        _ => "",
    };
    let cells = [
        screen.how.time(p.time_ns),
        screen.how.netns(p.netns),
        p.local_addr.to_string(),
        endpoint(p.remote_addr, p.remote_port),
        p.ports_used.to_string(),
        ports(p).to_string(),
        used.map_or("-".into(), tenth),
        p.time_wait.to_string(),
        p.established.to_string(),
        format!("{}-{}", p.range_low, p.range_high),
        note.into(),
    ];
    screen.line(COLUMNS, &cells)
}

impl View for Ports {
    fn tables(&self) -> Vec<&'static str> {
        vec!["port_use"]
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        let Row::PortUse(row) = row else {
            return Ok(());
        };
        let f = &screen.how.filter;
        let asked = f.netns_ok(row.netns)
            && f.ports_ok(row.remote_port, row.remote_port)
            && f.addrs_ok(row.local_addr, row.remote_addr);
        if !asked {
            return Ok(());
        }
        let key = (row.netns, row.local_addr, row.remote_addr, row.remote_port);
        if self.rounds.begins(&key, row.time_ns) {
            self.close(screen)?;
        }
        self.rounds.add(key, row.time_ns);
        if self.now.len() < MAX_ROWS {
            self.now.push((**row).clone());
        }
        Ok(())
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        match self.rounds.over(time_ns) {
            true => self.close(screen),
            false => Ok(()),
        }
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.close(screen)
    }
}
