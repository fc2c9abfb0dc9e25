//! `stat listeners`: both queues of every listener, what it dropped, and how fast it accepts.

use std::collections::BTreeMap;
use std::io;

use ahash::AHashMap;
use analysis::owners::{self, Owner, Owners, Place};
use analysis::{AcceptQueue, Activity};
use recording::tables::Listener;
use recording::{Addr, Row};
use serde::Serialize;

use super::rounds::{Rounds, per_s};
use crate::numbers::{endpoint, or_dash, rounded, tenth, text_or_dash};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// Listeners followed.
const MAX_LISTENERS: usize = 1 << 16;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("NETNS", -10),
    ("LOCAL", -21),
    ("ACCEPTQ", 7),
    ("BACKLOG", 7),
    ("SYNQ", 6),
    ("YOUNG", 6),
    ("DROPS", 8),
    ("DROPS/s", 8),
    ("ACCEPTED/s", 10),
    ("PID", 7),
    ("COMM", -15),
    ("NOTES", -1),
];

pub(super) struct Listeners {
    owners: Owners,
    rounds: Rounds<(u32, u64)>,
    /// The round, in the order of the report.
    now: BTreeMap<(u32, u16, Addr, u64), Listener>,
    /// Drops and time of each socket in the last report.
    shown: AHashMap<(u32, u64), (u32, u64)>,
    /// Connections established between the last two rounds, by where they were accepted; and those
    /// established since this round was sampled, which count for the next.
    accepted: AHashMap<Place, u64>,
    accepted_since: AHashMap<Place, u64>,
    /// State changes are recorded, too.
    events: bool,
}

#[derive(Serialize)]
struct Line<'l> {
    r#type: &'static str,
    unix_ns: i64,
    #[serde(flatten)]
    listener: &'l Listener,
    netns_name: Option<String>,
    pid: Option<u32>,
    comm: Option<recording::Text>,
    drops_per_s: Option<f64>,
    accepted_per_s: Option<f64>,
}

impl Listeners {
    pub(super) fn new(events: bool, every_ns: u64) -> Listeners {
        Listeners {
            owners: Owners::default(),
            rounds: Rounds::new(every_ns),
            now: BTreeMap::new(),
            shown: AHashMap::new(),
            accepted: AHashMap::new(),
            accepted_since: AHashMap::new(),
            events,
        }
    }

    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        let shown = self.rounds.close().is_some();
        let now = std::mem::take(&mut self.now);
        let since = std::mem::take(&mut self.accepted_since);
        if !shown {
            for (place, n) in since {
                *self.accepted.entry(place).or_default() += n;
            }
            return Ok(());
        }
        // Of several sockets at one place it is not known which one took a connection.
        let mut sharing: AHashMap<Place, u32> = AHashMap::new();
        for l in now.values() {
            *sharing
                .entry((l.netns, l.local_addr, l.local_port))
                .or_default() += 1;
        }
        let accepted = std::mem::replace(&mut self.accepted, since);
        for l in now.values() {
            let owner = self.owners.of_listener(l.netns, l.local_addr, l.local_port);
            let held = self.owners.of_sock(l.sock, l.inode, l.cgroup);
            let owner = if held.pid.is_some() {
                held
            } else {
                owner.unwrap_or(held)
            };
            let key = (l.netns, l.sock);
            let before = self.shown.get(&key).copied();
            let over_ns = before.map(|(_, ns)| l.time_ns.saturating_sub(ns));
            let place = (l.netns, l.local_addr, l.local_port);
            let alone = sharing.get(&place) == Some(&1);
            let n = accepted.get(&place).copied().unwrap_or(0);
            let rates = Rates {
                drops: before
                    .and_then(|(drops, _)| per_s(l.drops.saturating_sub(drops).into(), over_ns?)),
                accepted: over_ns
                    .filter(|_| alone && self.events)
                    .and_then(|ns| per_s(n as f64, ns)),
            };
            line(l, &owner, rates, screen)?;
            if self.shown.len() < MAX_LISTENERS || before.is_some() {
                self.shown.insert(key, (l.drops, l.time_ns));
            }
        }
        screen.end_report();
        Ok(())
    }
}

struct Rates {
    drops: Option<f64>,
    accepted: Option<f64>,
}

fn line(l: &Listener, owner: &Owner, rates: Rates, screen: &mut Screen) -> io::Result<()> {
    let f = &screen.how.filter;
    let asked = f.ports_ok(l.local_port, 0)
        && (f.addrs_ok(l.local_addr, l.local_addr) || l.local_addr.is_any())
        && owner.passes(f);
    if !asked {
        return Ok(());
    }
    if screen.how.json {
        return screen.json(&Line {
            r#type: "listener",
            unix_ns: When::of(l.time_ns, screen.how).unix_ns,
            listener: l,
            netns_name: screen.how.names.get(&l.netns).cloned(),
            pid: owner.pid,
            comm: owner.comm.clone(),
            drops_per_s: rates.drops.map(rounded),
            accepted_per_s: rates.accepted.map(rounded),
        });
    }
    let mut notes = Vec::new();
    if AcceptQueue::of(l).is_full() {
        notes.push("accept queue full");
    }
    if l.synflood_warned {
        notes.push("SYN flooding logged");
    }
    if l.reuseport {
        notes.push("reuseport");
    }
    let cells = [
        screen.how.time(l.time_ns),
        screen.how.netns(l.netns),
        endpoint(l.local_addr, l.local_port),
        l.accept_queue.to_string(),
        l.backlog.to_string(),
        l.syn_queue.to_string(),
        l.syn_queue_young.to_string(),
        l.drops.to_string(),
        or_dash(rates.drops.map(tenth)),
        or_dash(rates.accepted.map(tenth)),
        or_dash(owner.pid),
        text_or_dash(owner.comm.as_deref()),
        notes.join(", "),
    ];
    screen.line(COLUMNS, &cells)
}

impl View for Listeners {
    fn tables(&self) -> Vec<&'static str> {
        owners::TABLES
            .iter()
            .copied()
            .filter(|t| *t != "socket")
            .collect()
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        self.owners.learn(row);
        match row {
            Row::Event(e) => {
                if Activity::of(e) == Some(Activity::Accepted)
                    && let Some(place) =
                        self.owners
                            .listening_place(e.netns, e.local_addr, e.local_port)
                {
                    let accepted = match self.rounds.is_open() {
                        true => &mut self.accepted_since,
                        false => &mut self.accepted,
                    };
                    *accepted.entry(place).or_default() += 1;
                }
            }
            Row::Listener(l) if screen.how.filter.netns_ok(l.netns) => {
                let key = (l.netns, l.sock);
                if self.rounds.begins(&key, l.time_ns) {
                    self.close(screen)?;
                }
                self.rounds.add(key, l.time_ns);
                if self.now.len() < MAX_LISTENERS {
                    let key = (l.netns, l.local_port, l.local_addr, l.sock);
                    self.now.insert(key, (**l).clone());
                }
            }
            _ => {}
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
