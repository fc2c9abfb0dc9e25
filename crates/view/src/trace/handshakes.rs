//! `trace handshakes`: every connection established or not, how long it took, and what was agreed.

use std::io;

use analysis::Side;
use analysis::attempts::{self, Attempt, Attempts};
use analysis::owners::{self, Owner};
use recording::Row;
use recording::tables::Event;
use serde::Serialize;

use super::{Ends, event_ok};
use crate::numbers::{endpoint, ms, or_dash, text_or_dash};
use crate::screen::{Column, Screen, When};
use crate::view::View;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("SIDE", -7),
    ("PID", 7),
    ("COMM", -15),
    ("LOCAL", -21),
    ("REMOTE", -21),
    ("TOOK(ms)", 9),
    ("AGAIN", 5),
    ("RESULT", -11),
    ("COOKIE", -6),
    ("OPTIONS", -1),
];

#[derive(Default)]
pub(super) struct Handshakes {
    attempts: Attempts,
}

#[derive(Serialize)]
struct Line<'o> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    side: &'static str,
    #[serde(flatten)]
    owner: &'o Owner,
    #[serde(flatten)]
    ends: Ends,
    took_ns: Option<u64>,
    sent_again: u32,
    result: &'static str,
    cookie: Option<bool>,
    sack: Option<bool>,
    window_scaling: Option<bool>,
    timestamps: Option<bool>,
    mss_bytes: Option<u32>,
    rtt_us: Option<u32>,
}

impl View for Handshakes {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, &[attempts::PACKETS]].concat()
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        let Some(opened) = self.attempts.take(row) else {
            return Ok(());
        };
        let filter = &screen.how.filter;
        if event_ok(&opened.event, filter) && opened.owner.passes(filter) {
            line(&opened, screen)?;
        }
        Ok(())
    }
}

fn side(o: &Attempt) -> &'static str {
    match o.side {
        Side::Accepted => "accept",
        Side::Opened | Side::Older => "connect",
    }
}

fn line(o: &Attempt, screen: &mut Screen) -> io::Result<()> {
    let e = &o.event;
    if screen.how.json {
        return screen.json(&Line {
            r#type: "handshake",
            when: When::of(e.time_ns, screen.how),
            side: side(o),
            owner: &o.owner,
            ends: Ends::of(e, screen.how),
            took_ns: o.took_ns,
            sent_again: o.retransmits,
            result: o.ending.as_str(),
            cookie: e.cookie,
            sack: e.sack,
            window_scaling: e.window_scaling,
            timestamps: e.timestamps,
            mss_bytes: e.mss,
            rtt_us: e.rtt_us,
        });
    }
    let cells = [
        screen.how.time(e.time_ns),
        side(o).into(),
        or_dash(o.owner.pid),
        text_or_dash(o.owner.comm.as_deref()),
        endpoint(e.local_addr, e.local_port),
        endpoint(e.remote_addr, e.remote_port),
        or_dash(o.took_ns.map(ms)),
        o.retransmits.to_string(),
        o.ending.as_str().into(),
        or_dash(e.cookie.map(|c| if c { "yes" } else { "no" })),
        options(e),
    ];
    screen.line(COLUMNS, &cells)
}

/// What both sides agreed on, as `ss` names it.
fn options(e: &Event) -> String {
    let Some(mss) = e.mss else {
        return "-".into();
    };
    let mut all = format!("mss:{mss}");
    for (agreed, name) in [
        (e.timestamps, " ts"),
        (e.sack, " sack"),
        (e.window_scaling, " wscale"),
    ] {
        if agreed == Some(true) {
            all.push_str(name);
        }
    }
    all
}
