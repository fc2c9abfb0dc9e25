use super::*;
use crate::outcome::{Change, Kind, Printed, Round};
use crate::scenario::AccountTruth;
use serde_json::json;

fn servers() -> Vec<Running> {
    let run = |name: &str, pid, port, backlog| Running {
        name: name.to_string(),
        comm: name.to_string(),
        pids: vec![pid],
        port,
        netns: "pod".to_string(),
        backlog,
        counted: false,
    };
    vec![run("orders", 10, 7000, 8), run("stock", 11, 7001, 128)]
}

fn verdict(name: &str, findings: &[Value]) -> Vec<String> {
    judge(&Scenario::load(name, 1).unwrap(), &servers(), findings)
}

fn right() -> Value {
    json!({
        "cause": "accept-queue-overflow",
        "scope": { "listener": "0.0.0.0:7000", "pid": 10, "comm": "orders", "backlog": 8 },
    })
}

#[test]
fn the_truth_passes() {
    assert_eq!(verdict("accept-queue-overflow", &[right()]), [""; 0]);
    let mut of_many = right();
    of_many["scope"]["pid"] = Value::Null;
    of_many["scope"]["pids"] = json!([9, 10]);
    assert_eq!(verdict("accept-queue-overflow", &[of_many]), [""; 0]);
    assert_eq!(verdict("healthy-churn", &[]), [""; 0]);
    let mut elsewhere = right();
    elsewhere["scope"]["listener"] = json!("127.0.0.1:7001");
    elsewhere["scope"]["netns"] = json!({ "name": "another" });
    assert_eq!(
        verdict("accept-queue-overflow", &[right(), elsewhere]),
        [""; 0]
    );
    let refused =
        json!({ "cause": "connection-refused", "scope": { "destination": "198.18.1.2:7009" } });
    assert_eq!(verdict("refused", &[refused]), [""; 0]);
}

#[test]
fn a_client_a_resource_and_a_function_are_looked_at() {
    let mut found = json!({
        "cause": "lookup-table-growth",
        "scope": { "listener": "", "resource": "ehash", "function": "__inet_lookup_established" },
    });
    assert_eq!(
        verdict("growing-table", std::slice::from_ref(&found)),
        [""; 0]
    );
    found["scope"]["function"] = json!("nft_do_chain");
    let wrong = verdict("growing-table", std::slice::from_ref(&found));
    assert!(wrong[0].contains("nft_do_chain"), "{wrong:?}");
    found["scope"] = json!({ "resource": "nft-rules" });
    assert_eq!(
        verdict("growing-table", std::slice::from_ref(&found)).len(),
        2
    );
    let mut search = json!({
        "cause": "port-search-cost",
        "scope": {
            "resource": "local ports to 198.18.1.2:7000",
            "function": "__inet_hash_connect",
            "comm": "harvester",
            "pid": 12,
        },
    });
    assert_eq!(
        verdict("port-search", std::slice::from_ref(&search)),
        [""; 0]
    );
    search["scope"]["comm"] = json!("browser");
    assert_eq!(verdict("port-search", &[search]).len(), 1);
}

#[test]
fn every_error_is_told() {
    let says = |verdict: Vec<String>, words: &str| {
        assert!(verdict.iter().any(|v| v.contains(words)), "{verdict:?}");
    };
    says(verdict("accept-queue-overflow", &[]), "no finding");
    says(verdict("healthy-churn", &[right()]), "nothing is wrong");
    says(
        verdict("syn-queue-overflow", &[right()]),
        "the truth is syn-queue-overflow",
    );
    for (key, value) in [
        ("listener", json!("0.0.0.0:9")),
        ("pid", json!(9)),
        ("comm", json!("x")),
        ("backlog", Value::Null),
    ] {
        let mut wrong = right();
        wrong["scope"][key] = value;
        says(verdict("accept-queue-overflow", &[wrong]), key);
    }
    let mut sibling = right();
    sibling["scope"]["listener"] = json!("[::]:7001");
    says(
        verdict("accept-queue-overflow", &[right(), sibling]),
        "blames stock",
    );
    let refused =
        json!({ "cause": "connection-refused", "scope": { "destination": "198.18.1.2:7000" } });
    says(verdict("refused", &[refused]), "7009");
}

#[test]
fn evidence_impact_and_process_are_looked_at() {
    let right = json!({
        "cause": "syn-cookie-options-lost",
        "scope": { "listener": "0.0.0.0:7000", "pid": 10, "comm": "store", "backlog": 5 },
        "impact": { "cwnd_ratio": 2.5, "throughput_ratio": 0.3 },
        "evidence": [{ "says": "With tcp_timestamps=0 a cookie has no room for options." }],
    });
    let servers = [Running {
        name: "store".to_string(),
        comm: "store".to_string(),
        pids: vec![10],
        port: 7000,
        netns: "pod".to_string(),
        backlog: 5,
        counted: false,
    }];
    let scenario = Scenario::load("syn-cookies", 1).unwrap();
    let verdict = |finding: &Value| judge(&scenario, &servers, std::slice::from_ref(finding));
    assert_eq!(verdict(&right), [""; 0]);
    for (key, value, says) in [
        ("evidence", json!([]), "tcp_timestamps=0"),
        (
            "impact",
            json!({ "cwnd_ratio": 2.5, "throughput_ratio": 0.9 }),
            "0.9",
        ),
        ("impact", json!({ "throughput_ratio": 0.3 }), "cwnd_ratio"),
    ] {
        let mut wrong = right.clone();
        wrong[key] = value;
        assert!(verdict(&wrong)[0].contains(says), "{:?}", verdict(&wrong));
    }
    let mut of_client = json!({
        "cause": "path-loss",
        "scope": { "resource": "path to 198.18.1.2", "comm": "sync", "pid": 7 },
    });
    let loss = |finding: &Value| verdict_of("path-loss", finding);
    assert_eq!(loss(&of_client), [""; 0]);
    of_client["scope"]["pid"] = json!(0);
    assert!(loss(&of_client)[0].contains("no process"));
}

#[test]
fn what_else_was_planted_is_found_and_nothing_more() {
    let mut scenario = Scenario::load("path-loss", 1).unwrap();
    let truth = Truth {
        cause: "path-loss".into(),
        beside: vec!["slow-reader".into()],
        may: vec!["tail-loss".into()],
        confidence: Some("high".into()),
        nothing_else: true,
        ..Truth::default()
    };
    scenario.truth = truth;
    let of = |cause: &str, lost_s: f64| json!({ "cause": cause, "lost_s": lost_s, "confidence": { "level": "high" } });
    let wrong = |findings: &[Value]| judge(&scenario, &[], findings);
    let first = of("path-loss", 9.0);
    let beside = of("slow-reader", 4.0);
    assert_eq!(
        wrong(&[of("tail-loss", 99.0), first.clone(), beside.clone()]),
        [""; 0]
    );
    let missing = wrong(std::slice::from_ref(&first));
    assert!(missing[0].contains("slow-reader is planted too"));
    let more = wrong(&[first.clone(), beside, of("refused", 1.0)]);
    assert!(more[0].contains("refused too"), "{more:?}");
    let order = wrong(&[first.clone(), of("slow-reader", 10.0)]);
    assert!(order[0].contains("comes before"), "{order:?}");
    let mut unsure = first;
    unsure["confidence"]["level"] = json!("low");
    assert!(wrong(&[unsure])[0].contains("confidence is low"));
}

#[test]
fn the_account_of_a_server_is_held_to_the_truth() {
    let servers = [Running {
        name: "orders".to_string(),
        comm: "orders".to_string(),
        pids: vec![10],
        port: 7000,
        netns: "pod".to_string(),
        backlog: 5,
        counted: false,
    }];
    let asked = AccountTruth {
        server: "orders".into(),
        part: "accept".into(),
        least: 0.9,
    };
    let truth = Truth {
        account: vec![asked],
        ..Truth::healthy()
    };
    let account = |accept: f64| {
        json!({
            "role": "server", "at": "0.0.0.0:7000",
            "requests": { "total_s": 10.0, "spent_s": { "accept": accept } },
        })
    };
    assert_eq!(judge_account(&truth, &servers, &[account(9.5)]), [""; 0]);
    assert_eq!(judge_account(&truth, &servers, &[account(5.0)]).len(), 1);
    assert_eq!(judge_account(&truth, &servers, &[]).len(), 1);
}

fn verdict_of(name: &str, finding: &Value) -> Vec<String> {
    verdict(name, std::slice::from_ref(finding))
}

#[test]
fn a_figure_has_to_fall_as_far_as_the_truth_has_it() {
    let truth = Scenario::load("clumsy-kernel", 1).unwrap().truth;
    let fix = |before, after| Fix {
        commands: vec![],
        changes: vec![Change {
            change: json!({}),
            applied: true,
            result: String::new(),
        }],
        gone: true,
        figures: vec![Figure {
            client: "ab-upload".to_string(),
            figure: "connect p99, ms".to_string(),
            before,
            after,
        }],
        after: Round::default(),
    };
    let wrong = |before, after| judge_fix(&truth, &fix(before, after), &truth.cause);
    assert_eq!(wrong(Some(1010.0), Some(20.0)), [""; 0]);
    assert_eq!(wrong(Some(1010.0), Some(300.0)).len(), 1, "not by enough");
    assert_eq!(wrong(Some(90.0), Some(2.0)).len(), 1, "it was well before");
    assert_eq!(wrong(Some(1010.0), None).len(), 1, "nothing to compare");
    let mut there = fix(Some(1010.0), Some(20.0));
    there.gone = false;
    there.changes.clear();
    assert_eq!(judge_fix(&truth, &there, &truth.cause).len(), 2);
}

#[test]
fn a_printed_command_has_to_work() {
    let truth = Scenario::load("qdisc-drop", 1).unwrap().truth;
    let mut fix = Fix {
        commands: vec![Printed {
            cause: "qdisc-drop".into(),
            kind: Kind::Fix,
            command: "tc qdisc add dev eth0 parent 1: fq_codel".into(),
            rc: Some(2),
            stderr: Some("Error: Failed to find specified qdisc.".into()),
            not_run: None,
            unknown: false,
            answer: None,
        }],
        changes: vec![],
        gone: true,
        figures: vec![],
        after: Round::default(),
    };
    let wrong = |fix: &Fix| judge_fix(&truth, fix, &truth.cause);
    let said = |fix: &Fix| wrong(fix).iter().any(|w| w.contains("ends with 2"));
    assert!(said(&fix));
    fix.commands[0].answer = Some("it shows that there is none".into());
    assert!(!said(&fix));
    fix.commands[0] = Printed {
        rc: Some(0),
        answer: None,
        ..fix.commands[0].clone()
    };
    assert!(!said(&fix));
}

#[test]
fn many_runs_are_compared_where_some_have_the_fault() {
    let truth = Scenario::load("cookie-crumbs", 1)
        .unwrap()
        .truth
        .runs
        .unwrap();
    let attribute = |name: &str, precision: f64| json!({ "attribute": name, "value": "no", "precision": precision, "recall": 1.0 });
    let compared = |precision| {
        let both = [
            attribute("SACK", 1.0),
            attribute("window scaling", precision),
        ];
        json!({ "sockets": { "attributes": both } })
    };
    let wrong = |bad, asked, found: &Value| judge_runs(&truth, asked, (bad, 5), Some(found));
    assert_eq!(wrong(2, true, &compared(1.0)), [""; 0]);
    assert!(wrong(2, true, &compared(0.9))[0].contains("window scaling"));
    assert_eq!(judge_runs(&truth, true, (2, 5), None).len(), 2);
    for bad in [0, 5] {
        assert_eq!(wrong(bad, true, &compared(1.0)).len(), 1, "{bad} of 5");
        assert_eq!(wrong(bad, false, &compared(1.0)), [""; 0], "other seeds");
    }
}

#[test]
fn a_program_is_called_as_its_command_is_and_any_of_its_processes_is_right() {
    let truth = Truth {
        server: Some("edge".into()),
        client: Some("edge".into()),
        names: vec!["pid".into(), "comm".into()],
        ..Truth::default()
    };
    let nginx = Running {
        name: "edge".to_string(),
        comm: "nginx".to_string(),
        pids: vec![20, 21],
        port: 8080,
        netns: "pod".to_string(),
        backlog: 0,
        counted: false,
    };
    let scope = |pid: u32, comm: &str| json!({ "pid": pid, "comm": comm });
    let wrong = |scope| wrong_owner(&truth, std::slice::from_ref(&nginx), &scope);
    assert_eq!(wrong(scope(21, "nginx")), [""; 0]);
    assert_eq!(wrong(scope(22, "nginx")).len(), 1);
    assert_eq!(wrong(scope(20, "edge")).len(), 2, "as server and as client");
}

#[test]
fn what_was_missed_comes_with_what_explain_answered() {
    let truth = Scenario::load("slow-consumer", 1).unwrap().truth;
    let summary = json!({ "causes": [
        { "cause": "slow-reader", "answer": "found" },
        { "cause": "softirq-starvation", "answer": "ruled-out", "because": "it waited 3 ms" },
        { "cause": "ports-exhausted", "answer": "ruled-out", "because": "0 of 2 connects" },
    ] });
    let found = |causes: &[&str]| -> Vec<Value> {
        causes
            .iter()
            .map(|cause| json!({ "cause": cause }))
            .collect()
    };
    assert_eq!(
        answers_to_missed(&truth, &found(&["slow-reader"]), Some(&summary)),
        ["softirq-starvation was answered ruled-out: it waited 3 ms"]
    );
    let both = found(&["slow-reader", "softirq-starvation"]);
    assert_eq!(answers_to_missed(&truth, &both, Some(&summary)), [""; 0]);
    assert_eq!(answers_to_missed(&truth, &[], None), [""; 0]);
}
