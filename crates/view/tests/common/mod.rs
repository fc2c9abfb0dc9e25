//! Recordings made for a test, and what a view prints of them.
#![allow(dead_code)]

use std::net::IpAddr;

use recording::{Addr, EventKind, Manifest, Recording, Rows, TcpState, tables::Event};
use synth::{End, Opening, Row, Sink, Tables, Task, manifest};
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr;
use view::report::Report;
use view::report::page::Run;
use view::{How, Reader, Screen};

pub use synth::HOST;

pub const S: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
pub const START: u64 = 5_000 * S;
/// A name that would clear the screen and write backwards.
pub const HOSTILE: &str = "e\x1b[2Jvil\u{202e}\n";

/// A recording being made.
pub struct Rec {
    dir: TempDir,
    tables: Tables,
}

impl Rec {
    pub fn new() -> Rec {
        let dir = tempfile::tempdir().unwrap();
        let manifest = Manifest {
            complete: true,
            end_ns: START + 10 * S,
            clock_offset_ns: 1_700_000_000 * S as i64,
            ..manifest("", START, &[(HOST, "host"), (7, HOSTILE)])
        };
        let tables = Tables::create(&dir.path().join("r.tcpwhy"), manifest).unwrap();
        Rec { dir, tables }
    }

    pub fn rows<T: Row>(mut self, rows: impl IntoIterator<Item = T>) -> Rec {
        self.tables.extend(rows);
        self.tables.sealed().unwrap();
        self
    }

    pub fn open(&self) -> Recording {
        Recording::open(&self.dir.path().join("r.tcpwhy")).unwrap()
    }

    pub fn show(&self, view: Box<dyn view::View>, change: impl FnOnce(&mut How)) -> String {
        self.limited(view, None, change)
    }

    pub fn limited(
        &self,
        mut view: Box<dyn view::View>,
        most: Option<u64>,
        change: impl FnOnce(&mut How),
    ) -> String {
        let recording = self.open();
        let mut how = How::of(&recording.manifest);
        change(&mut how);
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, &how).at_most(most);
        let mut reader = Reader::new(&mut *view);
        let mut rows = Rows::of(&recording, &reader.tables()).unwrap();
        reader.show(&mut rows, u64::MAX, &mut screen).unwrap();
        reader.end(&mut screen).unwrap();
        let text = String::from_utf8(out).unwrap();
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(how.json || !text.contains(acts), "{text:?}");
        for line in text.lines().filter(|_| how.json) {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(
                value["type"].is_string() && value["unix_ns"].is_i64() || value["type"] == "rank"
            );
        }
        if let Some(width) = how.width {
            assert!(text.lines().all(|l| l.width() <= width), "{text}");
        }
        text
    }

    /// The text, and the first two lines of JSON.
    pub fn both(&self, view: impl Fn() -> Box<dyn view::View>) -> String {
        let text = self.show(view(), |_| {});
        self.show(view(), |how| how.width = Some(60));
        let json = self.show(view(), |how| how.json = true);
        let json: String = json.lines().take(2).map(|l| format!("{l}\n")).collect();
        format!("{text}\n{json}")
    }
}

pub fn addr(text: &str) -> Addr {
    text.parse::<IpAddr>().unwrap().into()
}

/// The client's end of a connection.
fn client(sock: u64) -> End {
    End {
        netns: HOST,
        sock,
        family: 4,
        local: (addr("10.0.0.1"), 40_000),
        remote: (addr("10.0.0.2"), 80),
    }
}

fn at(ms: u64) -> u64 {
    START + ms * MS
}

pub fn event(at_ms: u64, kind: EventKind, sock: u64) -> Event {
    client(sock).event(at(at_ms), kind)
}

pub fn state(at_ms: u64, sock: u64, old: TcpState, new: TcpState) -> Event {
    client(sock).change(at(at_ms), old, new)
}

pub fn connect(at_ms: u64, sock: u64) -> Event {
    let by = Task::new(77, HOSTILE);
    Event {
        cgroup: Some(5),
        ..client(sock).unbound().connect(at(at_ms), by)
    }
}

pub fn established(e: Event) -> Event {
    Event {
        sack: Some(true),
        window_scaling: Some(true),
        timestamps: Some(false),
        mss: Some(1460),
        rtt_us: Some(90),
        cwnd: Some(Opening::WINDOW),
        retransmits: Some(0),
        ..e
    }
}

/// The server's side: its ends are the other way round.
pub fn served(e: Event) -> Event {
    Event {
        local_addr: e.remote_addr,
        local_port: 80,
        remote_addr: e.local_addr,
        remote_port: 40_000,
        ..e
    }
}

/// The report of recordings with these names.
pub fn report(recordings: Vec<(&str, Recording)>) -> Report {
    let named = recordings
        .into_iter()
        .map(|(name, r)| (name.to_string(), r));
    Report::of(&named.collect::<Vec<_>>()).expect("a recording of our own reads")
}

/// What the report says of one.
pub fn run_of(recording: Recording) -> Run {
    report(vec![("r", recording)]).page.runs.remove(0)
}
