//! `stat tables`: how full the kernel's lookup structures on the TCP path are.

use std::io;

use recording::tables::TableSize;
use recording::{Row, Text};
use serde::Serialize;

use super::rounds::Rounds;
use crate::numbers::{or_dash, rounded, tenth};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// Structures shown per report.
const MAX_ROWS: usize = 1 << 16;
/// A lookup that walks longer chains than this costs more than the packet.
const LONG_CHAIN: f64 = 10.0;
/// Close to its limit, in percent.
const NEARLY_FULL: f64 = 80.0;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("NETNS", -10),
    ("STRUCTURE", -28),
    ("ENTRIES", 10),
    ("BUCKETS", 9),
    ("MEAN", 7),
    ("LONGEST", 7),
    ("LIMIT", 10),
    ("LIMIT%", 6),
    ("BYTES", 12),
    ("NOTES", -1),
];

pub(super) struct Tables {
    rounds: Rounds<(u32, Text)>,
    now: Vec<TableSize>,
}

#[derive(Serialize)]
struct Line<'t> {
    r#type: &'static str,
    unix_ns: i64,
    #[serde(flatten)]
    size: &'t TableSize,
    netns_name: Option<String>,
    mean_chain: Option<f64>,
    limit_percent: Option<f64>,
    long_chains: bool,
}

impl Tables {
    pub(super) fn new(every_ns: u64) -> Tables {
        Tables {
            rounds: Rounds::new(every_ns),
            now: Vec::new(),
        }
    }

    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        let shown = self.rounds.close().is_some();
        let now = std::mem::take(&mut self.now);
        if !shown {
            return Ok(());
        }
        for row in &now {
            line(row, screen)?;
        }
        screen.end_report();
        Ok(())
    }
}

fn line(t: &TableSize, screen: &mut Screen) -> io::Result<()> {
    let of = |whole: Option<u64>| {
        let whole = whole.filter(|n| *n > 0)?;
        Some(t.entries as f64 / whole as f64)
    };
    let mean = of(t.buckets);
    let full = of(t.limit).map(|share| share * 100.0);
    let long = mean.is_some_and(|mean| mean > LONG_CHAIN);
    if screen.how.json {
        return screen.json(&Line {
            r#type: "table_size",
            unix_ns: When::of(t.time_ns, screen.how).unix_ns,
            size: t,
            netns_name: screen.how.names.get(&t.netns).cloned(),
            mean_chain: mean.map(rounded),
            limit_percent: full.map(rounded),
            long_chains: long,
        });
    }
    let mut notes = Vec::new();
    if long {
        notes.push("LONG CHAINS");
    }
    if full.is_some_and(|full| full >= NEARLY_FULL) {
        notes.push("NEARLY FULL");
    }
    let cells = [
        screen.how.time(t.time_ns),
        match t.netns {
            0 => "(host)".into(),
            netns => screen.how.netns(netns),
        },
        t.structure.to_string(),
        t.entries.to_string(),
        or_dash(t.buckets),
        or_dash(mean.map(|mean| format!("{mean:.3}"))),
        or_dash(t.longest_chain),
        or_dash(t.limit),
        or_dash(full.map(tenth)),
        or_dash(t.bytes),
        notes.join(", "),
    ];
    screen.line(COLUMNS, &cells)
}

impl View for Tables {
    fn tables(&self) -> Vec<&'static str> {
        vec!["table_size"]
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        let Row::TableSize(row) = row else {
            return Ok(());
        };
        // What belongs to the whole host belongs to each namespace, too.
        if row.netns != 0 && !screen.how.filter.netns_ok(row.netns) {
            return Ok(());
        }
        let key = (row.netns, row.structure.clone());
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
