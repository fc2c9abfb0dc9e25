//! Names that somebody chose to act on who reads them: in messages, in drawings, in JSON.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{arg, run, stderr, stdout};
use recording::tables::{Event, Frame, Sample, Stack};
use recording::{EventKind, FORMAT, Host, Manifest, Namespace, Writer};
use serde_json::Value;

/// Colours what follows, reverses it, and is a C1 control sequence.
const HOSTILE: &str = "db\x1b[31m\u{202e}evil\u{9b}2J\u{7}";

/// A recording of a host with such a name.
fn recording(dir: &Path) -> PathBuf {
    let path = dir.join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        complete: true,
        host: Host {
            name: HOSTILE.into(),
            kernel: HOSTILE.into(),
            ..Host::default()
        },
        end_ns: 1_000_000_000,
        namespaces: vec![Namespace {
            inode: 7,
            name: HOSTILE.into(),
        }],
        command_line: vec![HOSTILE.into()],
        ..Manifest::default()
    };
    let writer = Writer::create(&path, &manifest).unwrap();
    let mut events = writer.table::<Event>().unwrap();
    let event = Event {
        kind: EventKind::Drop,
        pid: Some(9),
        netns: 7,
        comm: Some(HOSTILE.into()),
        reason: Some(HOSTILE.into()),
        ..Event::default()
    };
    events.push(event).unwrap();
    events.seal().unwrap();
    let mut samples = writer.table::<Sample>().unwrap();
    let sample = Sample {
        comm: HOSTILE.into(),
        pid: 9,
        kernel_stack: Some(1),
        ..Sample::default()
    };
    samples.push(sample).unwrap();
    samples.seal().unwrap();
    let mut stacks = writer.table::<Stack>().unwrap();
    let stack = Stack {
        stack: 1,
        frame: 1,
        ..Stack::default()
    };
    stacks.push(stack).unwrap();
    stacks.seal().unwrap();
    let mut frames = writer.table::<Frame>().unwrap();
    let frame = Frame {
        frame: 1,
        function: HOSTILE.into(),
        module: HOSTILE.into(),
        ..Frame::default()
    };
    frames.push(frame).unwrap();
    frames.seal().unwrap();
    path
}

/// Whether a terminal would act on it.
fn acts(c: char) -> bool {
    c.is_control() && c != '\n' || c == '\u{202e}'
}

#[test]
fn no_message_has_them_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path());
    let odd = dir.path().join(HOSTILE);
    let (svg, html) = (odd.with_extension("svg"), odd.with_extension("html"));
    fs::create_dir(path.join("cpu")).unwrap();
    let segment = path.join("cpu/\x1b[31m.parquet");
    fs::write(&segment, "x").unwrap();
    let damaged = run(&["explain", arg(&path)]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(stderr(&damaged).contains("cpu/\\x1b[31m.parquet: damaged"));
    fs::remove_file(&segment).unwrap();
    let told = [
        damaged,
        run(&["report", arg(&path), "-o", arg(&html)]),
        run(&["flame", arg(&path), "-o", arg(&svg)]),
        run(&["explain", arg(&odd)]),
        run(&["flame", arg(&odd)]),
    ];
    for output in told {
        let says = stderr(&output);
        assert!(!says.is_empty() && !says.contains(acts), "{says:?}");
        assert!(says.contains("\\x1b[31m"), "{says:?}");
        assert!(!stdout(&output).contains(acts), "{output:?}");
    }
}

#[test]
fn a_drawing_is_well_formed() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path());
    let output = run(&["flame", arg(&path), "-o", "-"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let svg = stdout(&output);
    assert!(!svg.contains(acts), "{svg:?}");
    let mut reader = quick_xml::Reader::from_str(&svg);
    while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    assert!(
        svg.contains("db\\x1b[31m\\u{202e}evil\\u{9b}2J\\x07"),
        "{svg}"
    );
}

#[test]
fn json_is_the_same_text_and_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path());
    let from = ["--from", arg(&path), "--json"];
    let told: &[&[&str]] = &[
        &["explain", arg(&path), "--json"],
        &["report", arg(&path), "--json"],
        &["flame", arg(&path), "--json"],
        &[&["trace", "drops"], &from[..]].concat(),
        &["compare", arg(&path), arg(&path), "--json"],
    ];
    for args in told {
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        let text = stdout(&output);
        assert!(!text.contains(acts), "{args:?}: {text:?}");
        for line in text.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
    let output = run(told[0]);
    let summary = stdout(&output);
    let summary: Value = serde_json::from_str(summary.lines().last().unwrap()).unwrap();
    assert_eq!(summary["recording"]["host"], HOSTILE);
    let output = run(told[3]);
    let drop: Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    assert_eq!(drop["comm"], HOSTILE);
}
