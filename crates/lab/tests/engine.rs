//! The engine drives a binary as a user does, and judges what it says. The binary is a script
//! here, so that a wrong diagnosis can be tested too; the real one is tested where it is built.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lab::{Outcome, Round, RunOptions, render, run, run_pack};

use crate::common::{need_root, programs};

/// `record` waits for SIGINT as tcpwhy does; `explain` says what the test wants it to.
const SCRIPT: &str = r#"#!/bin/bash
verb=$1; shift
case $verb in
record)
    while [ $# -gt 0 ]; do
        case $1 in
        -o) dir=$2 ;;
        --ready-file) ready=$2 ;;
        --netns) netns=$2 ;;
        esac
        shift
    done
    mkdir "$dir" || exit 1
    end() {
        # Who holds the port, and where.
        for ns in ${netns//,/ }; do
            ip netns exec "$ns" ss -tlnpH 'sport = 7000' | sed -n 's/.*pid=\([0-9]*\).*/\1/p' >"$dir/pid"
            echo "$ns" >"$dir/name"
            [ -s "$dir/pid" ] && stat -Lc %i "/run/netns/$ns" >"$dir/netns" && break
        done
        exit 0
    }
    trap end INT
    touch "$ready"
    while :; do sleep 0.05; done
    ;;
explain)
    case $1 in *-fixed.tcpwhy) findings= ;; *) findings=1 ;; esac
    if [ -z "$2" ]; then echo "in words"; exit; fi
    [ -n "$findings" ] && sed "s/PID/$(cat "$1/pid")/; s/NETNS/$(cat "$1/netns")/; s/NAME/$(cat "$1/name")/" FINDINGS
    echo '{"type":"summary"}'
    ;;
esac
"#;

fn fake(dir: &Path, findings: &str) -> PathBuf {
    let path = dir.join("tcpwhy");
    let lines = dir.join("findings");
    fs::write(&lines, findings).unwrap();
    fs::write(&path, SCRIPT.replace("FINDINGS", lines.to_str().unwrap())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn run_fake(scenario: &str, findings: &str, fix: bool) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let options = RunOptions {
        fix,
        explain: true,
        keep: Some(dir.path().join("kept")),
        programs: Some(programs(&fake(dir.path(), findings))),
        ..RunOptions::new(scenario)
    };
    let outcome = run(&options).unwrap();
    assert!(outcome.round.recording.as_ref().unwrap().is_dir());
    assert_eq!(outcome.round.explanation.as_deref(), Some("in words"));
    eprintln!("{}", render(&outcome));
    outcome
}

/// A figure before and after the fix.
fn figure(outcome: &Outcome, client: &str, name: &str) -> (Option<f64>, Option<f64>) {
    let mut figures = outcome.fix.as_ref().unwrap().figures.iter();
    let figure = figures.find(|f| f.client == client && f.figure == name);
    figure.map(|f| (f.before, f.after)).unwrap()
}

const RIGHT: &str = concat!(
    r#"{"type":"finding","cause":"accept-queue-overflow","scope":{"listener":"0.0.0.0:7000","pid":PID,"#,
    r#""comm":"orders","backlog":8},"advice":["#,
    r#"{"change":{"kind":"accept-faster"}},{"change":{"kind":"backlog","listener":"0.0.0.0:7000","value":8192}},"#,
    r#"{"change":{"kind":"sysctl","netns":1,"name":"net.ipv4.tcp_syncookies","value":0}},"#,
    r#"{"change":{"kind":"sysctl","netns":NETNS,"name":"net.ipv4.tcp_syncookies","value":1}},{}]}"#,
    "\n"
);

#[test]
fn a_true_diagnosis_passes_and_its_advice_is_applied() {
    need_root();
    let outcome = run_fake("accept-queue-overflow", RIGHT, true);
    assert!(outcome.passed, "{:?}", outcome.why);
    let fix = outcome.fix.as_ref().unwrap();
    let done: Vec<(bool, &str)> = fix
        .changes
        .iter()
        .map(|c| (c.applied, c.result.as_str()))
        .collect();
    assert!(
        done[0].0 && done[0].1.contains("orders accepts at once"),
        "{done:?}"
    );
    assert!(
        done[1].0 && done[1].1.contains("8 -> 8192, net.core.somaxconn"),
        "{done:?}"
    );
    assert!(
        !done[2].0 && done[2].1.contains("namespace 1 is not the lab's"),
        "{done:?}"
    );
    assert!(
        done[3].0 && done[3].1.contains("tcp_syncookies in server: 1 -> 1"),
        "{done:?}"
    );
    assert_eq!(done.len(), 4);
    // The fault shows in the load's own figures, and is gone after the fix.
    let unfinished = figure(&outcome, "shop", "connections unfinished");
    assert!(
        unfinished.0 > Some(0.0) && unfinished.1 == Some(0.0),
        "{unfinished:?}"
    );
    let json = serde_json::to_value(&outcome).unwrap();
    for key in [
        "scenario", "seed", "truth", "findings", "passed", "why", "workload", "fix",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
}

/// Of scenarios that are looked at together, the first has the findings in its nodes.
fn run_fake_pack(scenarios: [&str; 2], findings: &str) -> [Outcome; 2] {
    let dir = tempfile::tempdir().unwrap();
    let options = RunOptions {
        beside: vec![scenarios[1].to_string()],
        fix: true,
        keep: Some(dir.path().join("kept")),
        programs: Some(programs(&fake(dir.path(), findings))),
        ..RunOptions::new(scenarios[0])
    };
    let pack = run_pack(&options).unwrap();
    assert!(
        dir.path()
            .join(format!("kept/{}-1.tcpwhy", scenarios.join("+")))
            .is_dir()
    );
    pack.outcomes.try_into().unwrap()
}

#[test]
fn each_of_a_pack_is_judged_on_its_own_nodes_and_takes_its_own_advice() {
    need_root();
    let finding = concat!(
        r#"{"type":"finding","cause":"accept-queue-overflow","scope":{"listener":"0.0.0.0:7000","pid":PID,"#,
        r#""comm":"a-orders","backlog":8,"netns":{"name":"NAME"}},"advice":[{"change":{"kind":"accept-faster"}}]}"#,
        "\n"
    );
    let scenarios = ["accept-queue-overflow", "healthy-resets"];
    let [sick, well] = run_fake_pack(scenarios, finding);
    assert!(sick.passed && well.passed, "{:?} {:?}", sick.why, well.why);
    assert_eq!(sick.truth.server.as_deref(), Some("a-orders"));
    assert_eq!(well.beside, ["accept-queue-overflow"]);
    let fix = sick.fix.unwrap();
    assert!(fix.changes[0].result.contains("a-orders accepts at once"));
    assert!(well.fix.is_none() && well.round.findings.is_empty());
    let clients = well.round.workload.clients.iter().map(|c| &c.name[..]);
    assert_eq!(
        clients.collect::<Vec<_>>(),
        ["b-balancer", "b-crawler", "b-browser"]
    );
}

#[test]
fn what_is_found_of_the_whole_host_counts_against_each_of_a_pack() {
    need_root();
    let finding =
        "{\"type\":\"finding\",\"cause\":\"cpu-saturated\",\"scope\":{\"netns\":{\"inode\":0}}}\n";
    for outcome in run_fake_pack(["refused", "healthy-resets"], finding) {
        assert!(
            outcome.why[0].contains("cpu-saturated"),
            "{:?}",
            outcome.why
        );
    }
}

#[test]
fn a_false_diagnosis_fails_and_says_why() {
    need_root();
    let outcome = run_fake(
        "refused",
        "{\"cause\":\"syn-queue-overflow\",\"scope\":{}}\n",
        false,
    );
    assert!(!outcome.passed);
    assert!(
        outcome.why[0].contains("the truth is connection-refused"),
        "{:?}",
        outcome.why
    );
}

#[test]
fn advice_may_start_a_server() {
    need_root();
    let finding = concat!(
        r#"{"type":"finding","cause":"connection-refused","scope":{"listener":"198.18.1.2:7009"},"#,
        r#""advice":[{"change":{"kind":"start-listener","at":"198.18.1.2:7009"}}]}"#,
        "\n"
    );
    let outcome = run_fake("refused", finding, true);
    assert!(outcome.passed, "{:?}", outcome.why);
    let failed = figure(&outcome, "billing", "connections failed");
    assert!(failed.0 > Some(0.0) && failed.1 == Some(0.0), "{failed:?}");
}

#[test]
fn advice_may_mend_the_path() {
    need_root();
    let finding = concat!(
        r#"{"type":"finding","cause":"middlebox-strips-options","scope":{"listener":"0.0.0.0:7000","pid":PID,"#,
        r#""comm":"store"},"advice":[{"change":{"kind":"keep-options","listener":"0.0.0.0:7000"}}]}"#,
        "\n"
    );
    let outcome = run_fake("middlebox-strips-options", finding, true);
    assert!(outcome.passed, "{:?}", outcome.why);
    let stripped =
        |round: &Round| -> u64 { round.workload.links.iter().map(|l| l.there.stripped).sum() };
    assert!(stripped(&outcome.round) >= 12);
    assert_eq!(stripped(&outcome.fix.as_ref().unwrap().after), 0);
}

#[test]
fn a_recording_that_is_there_is_not_overwritten() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("refused-1.tcpwhy");
    fs::create_dir(&there).unwrap();
    let options = RunOptions {
        keep: Some(dir.path().to_path_buf()),
        programs: Some(programs(Path::new("/nonexistent"))),
        ..RunOptions::new("refused")
    };
    let error = run(&options).unwrap_err().to_string();
    assert!(
        error.contains("refused-1.tcpwhy: exists already"),
        "{error}"
    );
}

#[test]
fn a_recorder_that_fails_is_told_and_leaves_nothing() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tcpwhy");
    fs::write(&path, "#!/bin/sh\necho 'no BPF today' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let options = RunOptions {
        programs: Some(programs(&path)),
        ..RunOptions::new("refused")
    };
    let error = run(&options).unwrap_err().to_string();
    assert_eq!(error, "tcpwhy record: no BPF today");
}

#[test]
fn an_unknown_scenario_is_an_error() {
    let error = run(&RunOptions::new("nonsense")).unwrap_err().to_string();
    assert!(error.contains("no scenario `nonsense`"), "{error}");
}
