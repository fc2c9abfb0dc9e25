//! How deep things may be: a small stack of our own, and deep things of others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{TCPWHY, arg, run, stderr, stdout};
use recording::tables::{Frame, Sample, Stack};
use recording::{FORMAT, Manifest, Writer};

/// Runs it with a stack of so many KiB; one that works for ever is ended, and fails.
fn with_stack(kib: u32, args: &[&str]) -> Output {
    let shell = format!("ulimit -s {kib}; exec timeout --signal=KILL 120 \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &shell, TCPWHY]).args(args);
    command.output().unwrap()
}

/// A short recording of a model.
pub fn model(dir: &Path) -> PathBuf {
    let path = dir.join("m.tcpwhy");
    let made = run(&[
        "model",
        "run",
        "illumos-time-wait",
        "--set",
        "duration=5",
        "-o",
        arg(&path),
    ]);
    assert!(made.status.success(), "{}", stderr(&made));
    path
}

#[test]
fn the_stack_that_the_shell_allows_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (model(dir.path()), dir.path().join("out"));
    let (path, out) = (arg(&path), arg(&out));
    let told: &[&[&str]] = &[
        &["explain", path],
        &["report", path, "-o", out],
        &["compare", path, path],
        &["stat", "counters", "--from", path],
        &["trace", "states", "--from", path],
        &["--help"],
    ];
    for args in told {
        let usual = run(args);
        for kib in [64, 128] {
            let output = with_stack(kib, args);
            assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
            assert_eq!(stdout(&output), stdout(&usual), "{args:?}");
        }
    }
}

/// `n` frames, the outermost first.
fn frames(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("f{n}")).collect()
}

#[test]
fn deep_stacks_of_other_tools_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let svg = dir.path().join("a.svg");
    let folded = format!("{} 5\n", frames(100_000).join(";"));
    let recursion = format!("{}z 5\n", "a;".repeat(100_000));
    let perf: Vec<_> = frames(100_000)
        .iter()
        .map(|f| format!("\tffffffff81000000 {f}+0x1 ([kernel.kallsyms])\n"))
        .collect();
    let perf = format!("app 1 [000] 1.0: 1 cycles:\n{}\n", perf.concat());
    for (name, text) in [("folded", folded), ("recursion", recursion), ("perf", perf)] {
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        let output = with_stack(64, &["flame", arg(&file), "-o", arg(&svg)]);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        let drawn = fs::metadata(&svg).unwrap().len();
        assert!((1_000..1_000_000).contains(&drawn), "{name}: {drawn} bytes");
    }
}

#[test]
fn deep_stacks_of_a_recording_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        complete: true,
        end_ns: 1_000_000_000,
        ..Manifest::default()
    };
    let writer = Writer::create(&path, &manifest).unwrap();
    let mut samples = writer.table::<Sample>().unwrap();
    let sample = Sample {
        pid: 9,
        comm: "app".into(),
        kernel_stack: Some(1),
        user_stack: Some(1),
        ..Sample::default()
    };
    samples.push(sample).unwrap();
    samples.seal().unwrap();
    let mut stacks = writer.table::<Stack>().unwrap();
    let mut names = writer.table::<Frame>().unwrap();
    for (depth, function) in frames(100_000).into_iter().enumerate() {
        let frame = Frame {
            frame: depth as u64,
            function: function.as_str().into(),
            module: "kernel".into(),
            ..Frame::default()
        };
        names.push(frame).unwrap();
        let stack = Stack {
            stack: 1,
            depth: depth as u32,
            frame: depth as u64,
            ..Stack::default()
        };
        stacks.push(stack).unwrap();
    }
    stacks.seal().unwrap();
    names.seal().unwrap();
    let svg = dir.path().join("a.svg");
    let told: &[&[&str]] = &[
        &["explain", arg(&path)],
        &["flame", arg(&path), "-o", arg(&svg)],
        &["report", arg(&path), "--json"],
    ];
    for args in told {
        let output = with_stack(64, args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    }
}

#[test]
fn a_deep_manifest_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    fs::create_dir(&path).unwrap();
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    fs::write(
        path.join("manifest.json"),
        format!("{{\"format\": {deep}}}"),
    )
    .unwrap();
    let output = with_stack(64, &["explain", arg(&path)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let says = stderr(&output);
    assert!(says.contains("manifest.json"), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
}
