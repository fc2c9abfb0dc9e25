//! The report: what it is given, what it leaves out, and that nothing of a host gets into its HTML.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use recording::tables::*;
use recording::{EventKind, Recording, RetransmitKind, Role, SourceName, TcpState, Text, Timed};
use serde_json::Value;
use synth::{Fixture, cases};
use view::report::Report;
use view::report::page::{Page, StepKind};

use crate::common::*;

fn page_of(f: &Fixture) -> Page {
    let written = f.write().unwrap();
    let recording = Recording::open(written.recording.dir()).unwrap();
    report(vec![("r", recording)]).page
}

fn html(report: &Report) -> String {
    let mut out = Vec::new();
    report.html(&mut out).unwrap();
    String::from_utf8(out).expect("HTML is UTF-8")
}

/// The document within the HTML, as the page's script reads it.
fn data(html: &str) -> Value {
    let (_, rest) = html
        .split_once(r#"id="tcpwhy-data" type="application/octet-stream">"#)
        .unwrap();
    let (base64, _) = rest.split_once("</script>").unwrap();
    let packed = STANDARD.decode(base64).unwrap();
    let mut json = String::new();
    DeflateDecoder::new(&packed[..])
        .read_to_string(&mut json)
        .unwrap();
    serde_json::from_str(&json).unwrap()
}

pub fn unpack(packed: &view::report::page::Packed) -> Vec<f64> {
    let sums = packed.deltas.iter().flatten().scan(0, |sum, delta| {
        *sum += delta;
        Some(*sum as f64 * packed.scale)
    });
    sums.collect()
}

#[test]
fn the_page_of_a_recording_is_as_it_was() {
    let mut page = page_of(&cases::syn_cookies());
    page.tcpwhy = "0".into();
    let mut page = serde_json::to_value(&page).unwrap();
    // The book has these, word by word.
    page["runs"][0]["tables"] = Value::Null;
    page["causes"] = Value::Null;
    insta::assert_snapshot!(lines(&page, 0));
}

/// Ten seconds of requests to a listener, half of whose time one thread waited for a CPU, and of a destination.
fn asked() -> Fixture {
    let mut f = Fixture::new();
    let start = f.manifest.start_ns;
    for second in 1..=10 {
        let server = Request {
            time_ns: start + second * S,
            netns: synth::SERVER,
            role: Role::Server,
            addr: addr("10.79.0.1"),
            port: 80,
            exchanges: 20,
            think_ns: S,
            think_alone_ns: S,
            think_cpu_ns: S / 4,
            think_runqueue_ns: S / 2,
            repair_ns: S,
            ..Request::default()
        };
        f.request_times.push(RequestTime {
            time_ns: server.time_ns,
            netns: server.netns,
            role: Role::Server,
            addr: server.addr,
            port: 80,
            what: Timed::Response,
            at_least_ns: S / 10,
            below_ns: Some(S / 10),
            count: 20,
        });
        f.requests.push(server);
    }
    f.requests.push(Request {
        time_ns: start + 3 * S,
        netns: synth::CLIENT,
        role: Role::Client,
        addr: addr("10.79.0.9"),
        port: 5432,
        exchanges: 1,
        await_ns: S,
        ..Request::default()
    });
    f
}

#[test]
fn whose_time_requests_took_comes_first() {
    let page = page_of(&asked());
    let told = page.runs[0].services.as_ref().expect("requests");
    let part = |name| told.parts.iter().position(|p| p.name == name).unwrap();
    let [server, client] = &told.services[..] else {
        panic!("{:?}", told.services);
    };
    assert!(server.serves && !client.serves);
    assert_eq!((&*server.at, &*server.netns), ("10.79.0.1:80", "srv"));
    assert_eq!((server.exchanges, server.per_s), (200.0, 20.0));
    assert_eq!((server.p50_ms, server.p99_ms), (Some(100.0), Some(100.0)));
    for (name, s) in [
        ("on a CPU", 2.5),
        ("waiting for a CPU", 5.0),
        ("asleep", 2.5),
        ("service time", 0.0),
        ("repairing losses", 10.0),
    ] {
        assert_eq!(server.spent_s[part(name)], s, "{name}");
    }
    assert_eq!(server.spent_s.iter().sum::<f64>(), 20.0);
    // Each second is told, and a second without requests has nothing.
    assert_eq!((told.width_s, server.over_time.len()), (1.0, 10));
    assert!(
        server
            .over_time
            .iter()
            .all(|s| s.iter().sum::<f64>() == 2.0)
    );
    // No round trip was seen: network and peer are one.
    assert_eq!(client.spent_s[part("network or peer")], 1.0);
    let seconds = client.over_time.iter().map(|s| s.iter().sum::<f64>());
    assert_eq!(seconds.collect::<Vec<_>>()[..4], [0.0, 0.0, 1.0, 0.0]);
    assert!(page_of(&Fixture::new()).runs[0].services.is_none());
}

/// JSON with a line for each part that is short or holds nothing but numbers and texts.
fn lines(value: &Value, indent: usize) -> String {
    let whole = value.to_string();
    let scalars = |values: &[Value]| !values.iter().any(|v| v.is_array() || v.is_object());
    let pad = " ".repeat(indent + 1);
    let parts: Vec<String> = match value {
        Value::Array(all) if whole.len() > 100 && !scalars(all) => {
            let parts = all.iter().map(|v| format!("{pad}{}", lines(v, indent + 1)));
            parts.collect()
        }
        Value::Object(all) if whole.len() > 100 => {
            let parts = all.iter();
            let parts = parts.map(|(k, v)| format!("{pad}{k:?}: {}", lines(v, indent + 1)));
            parts.collect()
        }
        _ => return whole,
    };
    let (open, close) = if value.is_array() {
        ("[", "]")
    } else {
        ("{", "}")
    };
    format!(
        "{open}\n{}\n{}{close}",
        parts.join(",\n"),
        " ".repeat(indent)
    )
}

#[test]
fn steps_lead_to_the_rows_behind_them() {
    let run = page_of(&cases::accept_queue()).runs.remove(0);
    let finding = &run.findings[0];
    assert_eq!(finding.since_s, Some(run.timelines.marks[0].at_s));
    let kinds: Vec<_> = finding.steps.iter().map(|s| s.kind).collect();
    assert!(kinds.contains(&StepKind::Limit), "{kinds:?}");
    assert!(kinds.iter().any(|k| *k != kinds[0]), "{kinds:?}");
    let rows: Vec<&String> = finding.steps.iter().flat_map(|s| &s.rows).collect();
    assert!(!rows.is_empty());
    for row in rows {
        let row = &run.rows[row];
        let table = &run.tables[&row.table];
        assert!(!row.cells.is_empty());
        for (name, _) in &row.cells {
            assert!(table.columns.iter().any(|(column, ..)| column == name));
        }
    }
}

#[test]
fn hostile_names_are_text_everywhere() {
    for hostile in [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        HOSTILE,
    ] {
        let mut f = cases::syn_cookies();
        f.manifest.host.name = hostile.into();
        f.manifest.host.kernel = hostile.into();
        f.manifest
            .namespaces
            .iter_mut()
            .for_each(|n| n.name = hostile.into());
        f.manifest.command_line = vec![hostile.into()];
        f.processes
            .iter_mut()
            .for_each(|p| (p.comm, p.cmdline) = (hostile.into(), hostile.into()));
        f.holders.iter_mut().for_each(|h| h.comm = hostile.into());
        f.settings.iter_mut().for_each(|s| s.value = hostile.into());
        f.sockets
            .iter_mut()
            .for_each(|s| s.congestion = Some(hostile.into()));
        let events = f.events.iter_mut().filter(|e| e.comm.is_some());
        events.for_each(|e| e.comm = Some(hostile.into()));
        let written = f.write().unwrap();
        let recording = Recording::open(written.recording.dir()).unwrap();
        let report = report(vec![(hostile, recording)]);
        let html = html(&report);
        assert!(!html.contains(hostile), "{hostile}");
        assert_eq!(
            html.matches("<script").count(),
            template().matches("<script").count()
        );
        let acts = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
        assert!(!html.contains(acts), "{hostile}");
        // The page is given the name, harmless to a terminal and to the text around it.
        let document = data(&html);
        let strings = strings(&document);
        let acting = strings.iter().find(|s| s.contains(acts));
        assert_eq!(acting, None, "{hostile}");
        let owner = hostile.replace('\x1b', "\\x1b");
        assert!(
            document["runs"][0]["facts"]["host"]
                .as_str()
                .unwrap()
                .starts_with(&owner[..4])
        );
    }
}

/// Every string of a document, names of fields among them.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(strings).collect(),
        Value::Object(fields) => {
            let names = fields.keys().map(String::as_str);
            names.chain(fields.values().flat_map(strings)).collect()
        }
        _ => Vec::new(),
    }
}

/// The HTML of a recording that holds nothing.
fn template() -> String {
    html(&report(vec![("r", Rec::new().open())]))
}

#[test]
fn the_data_comes_back_out_of_the_html() {
    let written = cases::refused().write().unwrap();
    let recording = Recording::open(written.recording.dir()).unwrap();
    let report = report(vec![("r", recording)]);
    let html = html(&report);
    assert_eq!(data(&html), serde_json::to_value(&report.page).unwrap());
    assert!(
        html.contains(&report.page.runs[0].findings[0].title),
        "without scripts, too"
    );
    for marker in ["__TCPWHY_TITLE__", "__TCPWHY_PLAIN__", "__TCPWHY_DATA__"] {
        assert!(!html.contains(marker), "{marker}");
    }
}

#[test]
fn markers_in_a_name_stay_what_they_are() {
    let report = report(vec![("__TCPWHY_DATA____TCPWHY_PLAIN__", Rec::new().open())]);
    let document = data(&html(&report));
    assert_eq!(
        document["runs"][0]["name"],
        "__TCPWHY_DATA____TCPWHY_PLAIN__"
    );
}

#[test]
fn an_empty_recording_gives_a_page() {
    let run = run_of(Rec::new().open());
    assert!(run.findings.is_empty() && run.timelines.charts.is_empty());
    assert!(run.latency.is_none() && run.sockets.is_none() && run.threads.is_none());
    assert!(run.flames.is_empty() && run.limits.is_empty() && run.thinned.is_empty());
    assert_eq!(run.timelines.bins, 200);
    assert!(run.summary.tested.is_empty() && !run.summary.cannot_tell.is_empty());
}

#[test]
fn a_recording_without_length_gives_a_page() {
    let mut f = cases::churn();
    f.manifest.end_ns = f.manifest.start_ns;
    assert!(page_of(&f).runs[0].timelines.bins >= 1);
}

#[test]
fn what_is_missing_or_lost_is_said() {
    let mut f = cases::churn();
    f.lose(SourceName::States, 4_711);
    f.without(SourceName::Counters);
    f.manifest.complete = false;
    let run = page_of(&f).runs.remove(0);
    let says: Vec<_> = run
        .health
        .iter()
        .map(|n| format!("{}: {}", n.source, n.says))
        .collect();
    assert!(says.iter().any(|s| s.contains("4,711")), "{says:?}");
    assert!(says[0].contains("the recorder was killed"), "{says:?}");
    let source = |name: &str| run.sources.iter().find(|s| s.name == name).unwrap();
    assert_eq!(source("state").lost, 4_711.0);
    assert_eq!(source("counters").verdict, "failed");
    assert!(!source("counters").because.is_empty());
}

#[test]
fn a_damaged_table_is_named() {
    let rec = Rec::new().rows([event(1, EventKind::Drop, 1)]);
    let recording = rec.open();
    let segment = recording.dir().join("event/000001.parquet");
    std::fs::write(&segment, b"PAR1 nothing of the kind PAR1").unwrap();
    let error = Report::of(&[("r".to_string(), recording)]).unwrap_err();
    assert!(
        error.to_string().contains("event/000001.parquet: damaged"),
        "{error}"
    );
}

#[test]
fn events_are_counted_in_their_bins() {
    let again = |at| Event {
        retransmit_kind: Some(RetransmitKind::Rto),
        attempt: Some(1),
        state: Some(TcpState::Established),
        ..event(at, EventKind::Retransmit, 1)
    };
    let drop = |at, reason: &str| Event {
        reason: Some(reason.into()),
        ..event(at, EventKind::Drop, 1)
    };
    let rec = Rec::new().rows([
        connect(0, 1),
        established(state(1, 1, TcpState::SynSent, TcpState::Established)),
        again(120),
        again(130),
        drop(140, HOSTILE),
        drop(150, HOSTILE),
        drop(9_999, "NO_SOCKET"),
    ]);
    let run = run_of(rec.open());
    let lines: Vec<(String, String, f64, usize)> = run
        .timelines
        .charts
        .iter()
        .flat_map(|c| {
            let line = |l: &view::report::page::Line| {
                let values = unpack(&l.values);
                assert_eq!(values.len(), 200);
                let first = values.iter().position(|v| *v > 0.0).unwrap();
                (c.id.clone(), l.name.clone(), values[first], first)
            };
            c.lines.iter().map(line).collect::<Vec<_>>()
        })
        .collect();
    let known = |chart: &str, name: &str, value: f64, bin| {
        (chart.to_string(), name.to_string(), value, bin)
    };
    let shown = view::escape(HOSTILE);
    assert_eq!(
        lines,
        [
            known("connections", "opened", 20.0, 0),
            known("retransmits", "rto", 40.0, 2),
            known("drops", &shown, 20.0, 2),
            known("drops", "NO_SOCKET", 20.0, 199),
        ]
    );
}

#[test]
fn latencies_have_classes_clusters_and_a_schedule() {
    let mut rows = Vec::new();
    for i in 0..20 {
        let late = if i < 5 { 1_030 } else { 2 };
        let again = Event {
            attempt: Some(1),
            state: Some(TcpState::SynSent),
            ..event(i * 50 + 1_000, EventKind::Retransmit, i)
        };
        rows.push(connect(i * 50, i));
        rows.extend((i < 5).then_some(again));
        rows.push(established(state(
            i * 50 + late,
            i,
            TcpState::SynSent,
            TcpState::Established,
        )));
    }
    rows.sort_by_key(|e| e.time_ns);
    let latency = run_of(Rec::new().rows(rows).open()).latency.unwrap();
    assert_eq!(latency.count, 20.0);
    assert_eq!(latency.counts.iter().sum::<f64>(), 20.0);
    assert_eq!(latency.heat.iter().map(|(.., n)| *n).sum::<u32>(), 20);
    assert_eq!(latency.bounds_ms.len(), latency.counts.len());
    let clusters: Vec<_> = latency
        .clusters
        .iter()
        .map(|c| (c.median_ms, c.count))
        .collect();
    assert_eq!(clusters, [(2.0, 15.0), (1_030.0, 5.0)]);
}

fn sampled(at_ms: u64, sock: u64, port: u16) -> Socket {
    Socket {
        time_ns: START + at_ms * MS,
        netns: HOST,
        sock,
        family: 4,
        state: TcpState::Established,
        local_addr: addr("10.0.0.1"),
        local_port: port,
        remote_addr: addr("10.0.0.2"),
        remote_port: 80,
        congestion: Some("cubic".into()),
        sack: Some(true),
        cwnd: Some(10),
        rtt_us: Some(1_500),
        bytes_acked: Some(at_ms * 1_000),
        bytes_received: Some(0),
        ..Socket::default()
    }
}

#[test]
fn sockets_have_their_samples_and_ports_that_are_used_again_are_two() {
    let rec = Rec::new().rows([
        sampled(0, 1, 40_000),
        sampled(0, 2, 40_001),
        sampled(1_000, 1, 40_000),
        sampled(3_000, 9, 40_000),
        sampled(4_000, 9, 40_000),
    ]);
    let sockets = run_of(rec.open()).sockets.unwrap();
    assert_eq!((sockets.total, sockets.sockets.len()), (3.0, 3));
    let counts: Vec<_> = sockets.sockets.iter().map(|s| (s.first, s.count)).collect();
    assert_eq!(counts, [(0, 2), (2, 2), (4, 1)]);
    assert_eq!(unpack(&sockets.time_s), [0.0, 1.0, 3.0, 4.0, 0.0]);
    let measure = |name: &str| sockets.measures.iter().find(|m| m.name == name).unwrap();
    // 1,000 bytes a millisecond are 8 Mbit/s.
    assert_eq!(unpack(&measure("rate sent").values), [8.0, 8.0]);
    assert_eq!(unpack(&measure("rtt").values), [1.5; 5]);
    for socket in &sockets.sockets {
        assert_eq!(socket.attributes.len(), sockets.attributes.len());
        assert!(socket.attributes.iter().all(|a| !a.is_empty()));
    }
}

#[test]
fn of_many_samples_a_share_is_kept_and_said() {
    let rows = (0..400_000).map(|i| sampled(i / 50, 1 + i % 50, 40_000 + (i % 50) as u16));
    let run = run_of(Rec::new().rows(rows).open());
    let sockets = run.sockets.unwrap();
    assert_eq!(sockets.sockets.len(), 50);
    let kept = sockets.time_s.deltas.len();
    assert!((100_000..=300_000).contains(&kept), "{kept}");
    assert!(
        run.thinned[0].contains("one sample in 2"),
        "{:?}",
        run.thinned
    );
}

#[test]
fn of_many_sockets_those_that_moved_most_are_kept_and_said() {
    let rows = (0..12_000_u64).flat_map(|i| {
        let socket = |at| Socket {
            local_port: (i % 60_000) as u16 + 1,
            bytes_acked: Some(i),
            ..sampled(at, i + 1, 0)
        };
        [socket(0), socket(1_000)]
    });
    let mut rows: Vec<Socket> = rows.collect();
    rows.sort_by_key(|s| s.time_ns);
    let run = run_of(Rec::new().rows(rows).open());
    let sockets = run.sockets.unwrap();
    assert_eq!((sockets.total, sockets.sockets.len()), (12_000.0, 10_000));
    assert!(sockets.sockets.iter().any(|s| s.name.contains(":12000 ")));
    assert!(sockets.sockets.iter().all(|s| !s.name.contains(":2000 ")));
    assert!(run.thinned[0].contains("12000"), "{:?}", run.thinned);
}

#[test]
fn threads_are_told_those_that_did_most_first() {
    let thread = |second: u64, tid: u32, user_ms: u64| Thread {
        time_ns: START + second * S,
        interval_ns: S,
        pid: 7,
        tid,
        comm: HOSTILE.into(),
        user_ns: user_ms * MS,
        sleep_ns: S - user_ms * MS,
        ..Thread::default()
    };
    let rows = (1..=3).flat_map(|second| (0..60).map(move |tid| thread(second, tid, tid.into())));
    let run = run_of(Rec::new().rows(rows.collect::<Vec<_>>()).open());
    let threads = run.threads.unwrap();
    assert_eq!((threads.total, threads.bands.len()), (60.0, 40));
    assert!(threads.bands[0].name.ends_with("/59"));
    assert_eq!(
        threads.bands[0].intervals,
        [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]
    );
    assert_eq!(
        threads.bands[0].shares[0],
        [5.9, 0.0, 0.0, 94.1, 0.0, 0.0, 0.0, 0.0]
    );
    assert!(run.thinned[0].contains("threads of 60"));
}

#[test]
fn what_is_full_comes_first_among_limits() {
    let listener = |port, accept_queue| Listener {
        time_ns: START + MS,
        netns: HOST,
        sock: port,
        local_addr: addr("0.0.0.0"),
        local_port: port as u16,
        backlog: 100,
        accept_queue,
        ..Listener::default()
    };
    let table = |structure: &str, entries, limit| TableSize {
        time_ns: START + MS,
        structure: structure.into(),
        entries,
        limit,
        buckets: Some(16),
        ..TableSize::default()
    };
    let resource = |aspect: &str, value| Resource {
        time_ns: START + MS,
        resource: "cpu".into(),
        aspect: aspect.into(),
        metric: format!("{aspect}_now").into(),
        unit: "count".into(),
        value,
        limit: Some(2.0),
        ..Resource::default()
    };
    let rec = Rec::new()
        .rows([listener(80, 1), listener(81, 101)])
        .rows([table("ehash", 64, None), table("conntrack", 64, Some(64))])
        .rows([table("slab:TCP", 64, Some(64))])
        .rows([resource("saturation", 5.0), resource("utilisation", 1.5)]);
    let run = run_of(rec.open());
    let ids: Vec<_> = run.limits.iter().map(|l| (&*l.id, l.telling)).collect();
    assert_eq!(ids, [("listeners", 1), ("tables", 1), ("resources", 1)]);
    // Pools of memory are none of it, and what waits for a resource is no limit.
    assert!(!format!("{:?}", run.limits[1]).contains("slab"));
    assert_eq!(run.limits[2].rows[0].1, Some(0.75));
    assert_eq!(run.limits[2].rows[1].1, None);
    let first = |i: usize| (run.limits[i].rows[0].0[0].clone(), run.limits[i].rows[0].1);
    assert_eq!(first(0), ("0.0.0.0:81".into(), Some(1.0)));
    assert_eq!(first(1), ("conntrack".into(), Some(1.0)));
    for table in &run.limits {
        assert!(
            table
                .rows
                .iter()
                .all(|(cells, _)| cells.len() == table.columns.len())
        );
    }
    let backlog = run
        .timelines
        .charts
        .iter()
        .find(|c| c.id == "backlog")
        .unwrap();
    // In percent of each one's own limit, without those that are well.
    assert_eq!(backlog.unit, "%");
    let names: Vec<_> = backlog.lines.iter().map(|l| &*l.name).collect();
    assert_eq!(names, ["0.0.0.0:81 in host"]);
    assert!(unpack(&backlog.lines[0].values).contains(&100.0));
    assert!(
        backlog.note.contains("1 of 2 listeners"),
        "{}",
        backlog.note
    );
}

#[test]
fn threads_that_only_wait_for_a_lock_are_not_busy() {
    let thread = |tid: u32, user_ms: u64| Thread {
        time_ns: START + S,
        interval_ns: S,
        pid: 7,
        tid,
        user_ns: user_ms * MS,
        lock_ns: S - user_ms * MS,
        ..Thread::default()
    };
    let rows: Vec<Thread> = (0..60).map(|tid| thread(tid, tid.into())).collect();
    let bands = run_of(Rec::new().rows(rows).open()).threads.unwrap().bands;
    assert!(bands[0].name.ends_with("/59"), "{}", bands[0].name);
    assert_eq!(bands[0].shares[0][..5], [5.9, 0.0, 0.0, 0.0, 94.1]);
}

#[test]
fn what_is_full_is_drawn_however_much_came_before_it() {
    let listener = |second: u64, port: u16| Listener {
        time_ns: START + second * S,
        netns: HOST,
        sock: port.into(),
        local_addr: addr("0.0.0.0"),
        local_port: port,
        backlog: 99,
        accept_queue: if port == 9_999 { 50 } else { 0 },
        ..Listener::default()
    };
    let table = |second: u64, i: u64| TableSize {
        time_ns: START + second * S,
        netns: i as u32,
        structure: "ehash".into(),
        entries: 10 + if i == 9_999 { second * 1_000 } else { 0 },
        ..TableSize::default()
    };
    let each = |second| (5_000..=9_999).map(move |port| listener(second, port));
    let sizes = |second| (5_000..=9_999).map(move |i| table(second, i));
    let rec = Rec::new()
        .rows((1..=2).flat_map(each).collect::<Vec<_>>())
        .rows((1..=2).flat_map(sizes).collect::<Vec<_>>());
    let run = run_of(rec.open());
    let limits = |id: &str| run.limits.iter().find(|l| l.id == id).unwrap();
    assert_eq!(limits("listeners").rows[0].1, Some(0.5));
    assert_eq!(limits("listeners").left_out, 4_800.0);
    assert_eq!(limits("tables").left_out, 4_800.0);
    let charts = &run.timelines.charts;
    let chart = |id: &str| charts.iter().find(|c| c.id == id).unwrap();
    let backlog = &chart("backlog").lines;
    assert!(backlog[0].name.contains(":9999"), "{}", backlog[0].name);
    assert!(unpack(&backlog[0].values).contains(&50.0));
    assert_eq!(backlog.len(), 1);
    let note = &chart("backlog").note;
    assert!(note.contains("4999 of 5000 listeners"), "{note}");
    let tables = &chart("tables").lines;
    assert!(tables[0].name.contains("9999"), "{}", tables[0].name);
    assert!(unpack(&tables[0].values).contains(&2_010.0));
}

#[test]
fn two_recordings_are_compared() {
    let open = |f: &Fixture| {
        let written = f.write().unwrap();
        let recording = Recording::open(written.recording.dir()).unwrap();
        (written, recording)
    };
    let (fast, slow) = (cases::churn(), cases::accept_queue());
    let ((_a, fast), (_b, slow)) = (open(&fast), open(&slow));
    let report = report(vec![("fast", fast), ("slow", slow)]);
    let compared = report.page.comparison.as_ref().unwrap();
    let headline = &compared.headline;
    assert!(
        headline.starts_with("slow has what fast has not: accept-queue-overflow."),
        "{headline}"
    );
    assert!(compared.says[0].starts_with("only in slow: APPLICATION"));
    assert!(compared.ticket.contains(headline) && compared.ticket.contains("Compared: fast, slow"));
    assert!(html(&report).contains("<title>slow has what fast has not"));
    for cpus in compared.tables.iter().filter(|t| t.id == "cpus") {
        assert!(
            cpus.rows
                .iter()
                .all(|(cells, _)| cells.len() == cpus.columns.len())
        );
    }
    let runs = compared.tables.iter().find(|t| t.id == "runs").unwrap();
    assert_eq!(runs.rows[1].0[0], "slow");
    assert!(report.plain.contains("==== slow ===="));
    assert!(html(&report).contains("2 recordings compared"));
}

#[test]
fn long_texts_have_an_end() {
    let setting = Setting {
        time_ns: START,
        netns: 0,
        name: "net.ipv4.x".into(),
        value: Text::from("long ".repeat(100_000)),
    };
    let run = run_of(Rec::new().rows([setting]).open());
    assert_eq!(run.settings[0].value.chars().count(), 301);
    assert_eq!(run.settings[0].netns, "host");
}
