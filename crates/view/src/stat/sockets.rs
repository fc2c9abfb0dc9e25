//! `stat sockets`: connections with all that the kernel knows of them, as `ss -tin` shows it.

use std::io;

use analysis::owners::{Owner, Owners};
use recording::Row;
use recording::tables::Socket;
use serde::Serialize;

use super::detail::{Derived, words};
use super::rounds::Rounds;
use crate::numbers::{endpoint, or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};
use crate::view::View;

const COLUMNS: &[Column] = &[
    ("STATE", -11),
    ("RECV-Q", 7),
    ("SEND-Q", 7),
    ("LOCAL", -21),
    ("REMOTE", -21),
    ("PID", 7),
    ("COMM", -15),
    ("NETNS", -1),
];

pub(super) struct Sockets {
    owners: Owners,
    rounds: Rounds<(u32, u64)>,
    every_ns: u64,
    /// Time of the round that was shown last: a round is shown from its first row on.
    shown_ns: Option<u64>,
    showing: bool,
}

#[derive(Serialize)]
struct Line<'s> {
    r#type: &'static str,
    unix_ns: i64,
    pid: Option<u32>,
    comm: &'s Option<recording::Text>,
    netns_name: Option<String>,
    #[serde(flatten)]
    socket: &'s Socket,
    #[serde(flatten)]
    derived: Derived,
}

impl Sockets {
    pub(super) fn new(every_ns: u64) -> Sockets {
        Sockets {
            owners: Owners::default(),
            rounds: Rounds::new(0),
            every_ns,
            shown_ns: None,
            showing: false,
        }
    }

    fn close(&mut self, screen: &mut Screen) {
        if self.rounds.close().is_some() && std::mem::take(&mut self.showing) {
            screen.end_report();
        }
    }

    /// Whether the round that begins now is shown.
    fn open(&mut self, time_ns: u64) {
        let least = self.every_ns - self.every_ns / 10;
        let since = |shown| time_ns.saturating_sub(shown);
        self.showing = self.shown_ns.is_none_or(|shown| since(shown) >= least);
        if self.showing {
            self.shown_ns = Some(time_ns);
        }
    }

    fn line(&self, s: &Socket, screen: &mut Screen) -> io::Result<()> {
        let owner: Owner = self.owners.of_sock(s.sock, s.inode, s.cgroup);
        let f = &screen.how.filter;
        let asked = f.ports_ok(s.local_port, s.remote_port)
            && f.addrs_ok(s.local_addr, s.remote_addr)
            && owner.passes(f);
        if !asked {
            return Ok(());
        }
        let derived = Derived::of(s);
        if screen.how.json {
            return screen.json(&Line {
                r#type: "socket",
                unix_ns: When::of(s.time_ns, screen.how).unix_ns,
                pid: owner.pid,
                comm: &owner.comm,
                netns_name: screen.how.names.get(&s.netns).cloned(),
                socket: s,
                derived,
            });
        }
        let cells = [
            s.state.to_string(),
            or_dash(s.recv_queue),
            or_dash(s.send_queue),
            endpoint(s.local_addr, s.local_port),
            endpoint(s.remote_addr, s.remote_port),
            or_dash(owner.pid),
            text_or_dash(owner.comm.as_deref()),
            screen.how.netns(s.netns),
        ];
        screen.line(COLUMNS, &cells)?;
        let words = words(s, &derived);
        if words.is_empty() {
            return Ok(());
        }
        let width = screen.how.width.unwrap_or(usize::MAX).max(20);
        for line in crate::wrap::wrap(&words, width - 8, width - 8) {
            screen.more(&format!("        {line}"))?;
        }
        Ok(())
    }
}

impl View for Sockets {
    fn tables(&self) -> Vec<&'static str> {
        vec!["socket", "holder"]
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        self.owners.learn(row);
        let Row::Socket(row) = row else {
            return Ok(());
        };
        if !screen.how.filter.netns_ok(row.netns) {
            return Ok(());
        }
        let key = (row.netns, row.sock);
        if self.rounds.begins(&key, row.time_ns) {
            self.close(screen);
        }
        if !self.rounds.is_open() {
            self.open(row.time_ns);
        }
        self.rounds.add(key, row.time_ns);
        match self.showing {
            true => self.line(row, screen),
            false => Ok(()),
        }
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        if self.rounds.over(time_ns) {
            self.close(screen);
        }
        Ok(())
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.close(screen);
        Ok(())
    }
}
