//! Whether what tcpwhy said is the truth.

use serde_json::Value;

use crate::outcome::{Figure, Fix};
use crate::scenario::{RunsTruth, Scenario, ServerSpec, Truth};

/// A server as it really ran: what a finding about it has to say.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) port: u16,
    /// As the kernel has it: never above `net.core.somaxconn`.
    pub(crate) backlog: u32,
    /// Its node counted what the truth speaks of.
    pub(crate) counted: bool,
}

impl Running {
    pub(crate) fn new(spec: &ServerSpec, pid: u32, somaxconn: u32) -> Running {
        Running {
            name: spec.name.clone(),
            pid,
            port: spec.port,
            backlog: spec.backlog.min(somaxconn),
            counted: false,
        }
    }
}

/// What is wrong with the findings, in order of weight; nothing when they tell the truth.
pub(crate) fn judge(scenario: &Scenario, servers: &[Running], findings: &[Value]) -> Vec<String> {
    let truth = &scenario.truth;
    if truth.counter.is_some() {
        return judge_counted(truth, servers, findings);
    }
    let Some(first) = findings.first() else {
        return match truth.is_healthy() {
            true => Vec::new(),
            false => vec![format!("no finding; the truth is {}", truth.cause)],
        };
    };
    if truth.is_healthy() {
        let found: Vec<&str> = findings.iter().map(cause).collect();
        return vec![format!(
            "nothing is wrong, and yet it found {}",
            found.join(", ")
        )];
    }
    if cause(first) != truth.cause {
        return vec![format!(
            "the first finding is {}; the truth is {}",
            cause(first),
            truth.cause
        )];
    }
    let mut wrong = match truth.server.as_deref() {
        Some(name) => match servers.iter().find(|s| s.name == name) {
            Some(server) => wrong_scope(truth, server, &first["scope"]),
            None => vec![format!("the server {name} does not run")],
        },
        None => wrong_port(truth, &first["scope"]),
    };
    wrong.extend(wrong_names(truth, &first["scope"]));
    wrong.extend(wrong_words(truth, first));
    for finding in findings {
        let blamed = port_of(&finding["scope"]["listener"]);
        let innocent = servers
            .iter()
            .find(|s| Some(s.port) == blamed && truth.server.as_deref() != Some(&s.name));
        wrong.extend(
            innocent.map(|s| format!("{} blames {}, which is well", cause(finding), s.name)),
        );
    }
    wrong
}

/// The same where the fault shows in some runs: all findings are of the cause, and about servers
/// whose nodes counted it.
fn judge_counted(truth: &Truth, servers: &[Running], findings: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    let hit = servers.iter().any(|s| s.counted);
    if hit && findings.is_empty() {
        wrong.push(format!("no finding; the truth is {}", truth.cause));
    }
    for finding in findings {
        let scope = &finding["scope"];
        let of_port = servers
            .iter()
            .find(|s| Some(s.port) == port_of(&scope["listener"]));
        match of_port {
            _ if cause(finding) != truth.cause => {
                wrong.push(format!("found {}, which is not there", cause(finding)));
            }
            Some(server) if server.counted => wrong.extend(wrong_scope(truth, server, scope)),
            Some(server) => wrong.push(format!("blames {}, which is well", server.name)),
            None => wrong.push(format!("blames {}, which is no server", scope["listener"])),
        }
    }
    wrong
}

/// What was the matter in this run: of a fault that shows in some runs only, whether in this one.
pub(crate) fn truth_of(scenario: &Scenario, servers: &[Running]) -> Truth {
    let truth = &scenario.truth;
    match truth.counter.is_some() && !servers.iter().any(|s| s.counted) {
        true => Truth::healthy(),
        false => truth.clone(),
    }
}

/// The cause that a finding names.
pub(crate) fn cause(finding: &Value) -> &str {
    finding["cause"].as_str().unwrap_or("?")
}

/// The port of an address such as `0.0.0.0:7000` or `[::]:7000`.
pub(crate) fn port_of(address: &Value) -> Option<u16> {
    address.as_str()?.rsplit(':').next()?.parse().ok()
}

fn wrong_scope(truth: &Truth, server: &Running, scope: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in &truth.names {
        let (said, right) = match name.as_str() {
            "listener" => (
                &scope["listener"],
                port_of(&scope["listener"]) == Some(server.port),
            ),
            "pid" => (&scope["pid"], names_pid(scope, server.pid)),
            "comm" => (&scope["comm"], scope["comm"].as_str() == Some(&server.name)),
            "backlog" => (
                &scope["backlog"],
                scope["backlog"].as_u64() == Some(server.backlog.into()),
            ),
            other => (&scope[other], !scope[other].is_null()),
        };
        if !right {
            let said = if said.is_null() {
                "nothing".to_string()
            } else {
                said.to_string()
            };
            wrong.push(format!(
                "as {name} the finding says {said}, not that of {server:?}"
            ));
        }
    }
    wrong
}

/// What the truth says besides of a client, a resource, a function, and the scope does not.
fn wrong_names(truth: &Truth, scope: &Value) -> Vec<String> {
    let said = |key: &str| scope[key].as_str().unwrap_or("nothing").to_string();
    let is = |key, wanted: &Option<String>, fits: fn(&str, &str) -> bool| {
        let wanted = wanted.as_deref()?;
        let said = said(key);
        (!fits(&said, wanted))
            .then(|| format!("as {key} the finding says {said}; the truth is {wanted}"))
    };
    let wrong = [
        is("comm", &truth.client, |said, wanted| {
            wanted.split('|').any(|one| one == said)
        }),
        (truth.client.is_some() && scope["pid"].as_u64().is_none_or(|pid| pid == 0))
            .then(|| "the finding names no process".to_string()),
        is("resource", &truth.resource, |said, wanted| {
            said.contains(wanted)
        }),
        is("function", &truth.function, |said, wanted| {
            wanted.split('|').any(|one| one == said)
        }),
    ];
    wrong.into_iter().flatten().collect()
}

/// What the truth says of the evidence and of the impact, and the finding does not.
fn wrong_words(truth: &Truth, finding: &Value) -> Vec<String> {
    let evidence = finding["evidence"].to_string();
    let silent = truth.says.iter().filter(|words| !evidence.contains(*words));
    let mut wrong: Vec<String> = silent
        .map(|words| format!("the evidence does not say `{words}`"))
        .collect();
    for (figure, [low, high]) in &truth.impact {
        let said = &finding["impact"][figure];
        if !said.as_f64().is_some_and(|v| *low < v && v < *high) {
            wrong.push(format!(
                "{figure} of the impact is {said}, not between {low} and {high}"
            ));
        }
    }
    wrong
}

/// What the advice had to bring about, and did not.
pub(crate) fn judge_fix(truth: &Truth, fix: &Fix, cause: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !fix.changes.iter().any(|c| c.applied) {
        wrong.push("none of the advice could be applied".to_string());
    }
    if !fix.gone {
        wrong.push(format!("{cause} is still found after the fix"));
    }
    for less in truth.fix.iter().flat_map(|truth| &truth.less) {
        let of = |f: &&Figure| f.client == less.client && f.figure == less.figure;
        let figure = fix.figures.iter().find(of);
        let (before, after) = figure.map_or((None, None), |f| (f.before, f.after));
        let right = before
            .zip(after)
            .is_some_and(|(b, a)| b > less.above && a < b / less.by);
        if !right {
            wrong.push(format!(
                "{} of {} was {before:?} and is {after:?} after the fix; above {} before, and less \
                 by a factor of {} after it is the truth",
                less.figure, less.client, less.above, less.by
            ));
        }
    }
    wrong
}

/// What is wrong with the comparison of many runs, of which `bad` of `all` had the fault. Whether
/// there have to be some of both is known of the seeds of the truth alone (`asked`).
pub(crate) fn judge_runs(
    truth: &RunsTruth,
    asked: bool,
    (bad, all): (usize, usize),
    comparison: Option<&Value>,
) -> Vec<String> {
    if !(1..all).contains(&bad) {
        let all_alike = format!("{bad} of {all} runs had the fault; the truth is some, not all");
        return if asked { vec![all_alike] } else { Vec::new() };
    }
    let attributes = comparison.and_then(|c| c["sockets"]["attributes"].as_array());
    let exact = |name: &String| {
        let mut of_name = attributes
            .into_iter()
            .flatten()
            .filter(|a| a["attribute"] == **name && a["value"] == "no");
        of_name.any(|a| a["precision"] == 1.0 && a["recall"] == 1.0)
    };
    let vague = truth.separates.iter().filter(|name| !exact(name));
    vague
        .map(|name| format!("`{name}` does not tell slow sockets from fast without exception"))
        .collect()
}

fn names_pid(scope: &Value, pid: u32) -> bool {
    let pids = scope["pids"].as_array().into_iter().flatten();
    pids.chain([&scope["pid"]])
        .any(|p| p.as_u64() == Some(pid.into()))
}

fn wrong_port(truth: &Truth, scope: &Value) -> Vec<String> {
    let Some(port) = truth.port else {
        return Vec::new();
    };
    let values = scope.as_object().into_iter().flat_map(|s| s.values());
    let named = values
        .flat_map(|v| v.as_array().map_or(std::slice::from_ref(v), Vec::as_slice))
        .any(|v| port_of(v) == Some(port) || v.as_u64() == Some(port.into()));
    match named {
        true => Vec::new(),
        false => vec![format!("the finding does not name port {port}: {scope}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Change, Round};
    use serde_json::json;

    fn servers() -> Vec<Running> {
        let run = |name: &str, pid, port, backlog| Running {
            name: name.to_string(),
            pid,
            port,
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
            pid: 10,
            port: 7000,
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

    fn verdict_of(name: &str, finding: &Value) -> Vec<String> {
        verdict(name, std::slice::from_ref(finding))
    }

    #[test]
    fn a_figure_has_to_fall_as_far_as_the_truth_has_it() {
        let truth = Scenario::load("clumsy-kernel", 1).unwrap().truth;
        let fix = |before, after| Fix {
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
}
