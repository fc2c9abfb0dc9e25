//! Whether what tcpwhy said is the truth.

use serde_json::Value;

use crate::figures::Figure;
use crate::outcome::Fix;
use crate::scenario::{ProgramSpec, RunsTruth, Scenario, ServerSpec, Truth};

/// A server as it really ran: what a finding about it has to say.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    /// Its command name.
    pub(crate) comm: String,
    /// Its processes: a program may have several.
    pub(crate) pids: Vec<u32>,
    pub(crate) port: u16,
    /// The name of its namespace: every pod has the same loopback.
    pub(crate) netns: String,
    /// As the kernel has it: never above `net.core.somaxconn`.
    pub(crate) backlog: u32,
    /// Its node counted what the truth speaks of.
    pub(crate) counted: bool,
}

impl Running {
    pub(crate) fn new(spec: &ServerSpec, pid: u32, netns: &str, somaxconn: u32) -> Running {
        Running {
            name: spec.name.clone(),
            comm: spec.name.clone(),
            pids: vec![pid],
            port: spec.port,
            netns: netns.to_string(),
            backlog: spec.backlog.min(somaxconn),
            counted: false,
        }
    }

    /// A program of the distribution; what backlog it gives to listen(2) is its own affair.
    pub(crate) fn program(spec: &ProgramSpec, port: u16, pids: Vec<u32>, netns: &str) -> Running {
        Running {
            name: spec.name.clone(),
            comm: spec.comm().to_string(),
            pids,
            port,
            netns: netns.to_string(),
            backlog: 0,
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
    let may = |finding: &&Value| truth.may.iter().any(|may| may == cause(finding));
    let findings: Vec<&Value> = findings.iter().filter(|f| !may(f)).collect();
    let Some(first) = findings.first() else {
        return if truth.is_healthy() {
            Vec::new()
        } else {
            vec![format!("no finding; the truth is {}", truth.cause)]
        };
    };
    if truth.is_healthy() {
        let found: Vec<&str> = findings.iter().map(|f| cause(f)).collect();
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
    let mut wrong = wrong_owner(truth, servers, &first["scope"]);
    wrong.extend(wrong_words(truth, first));
    wrong.extend(wrong_others(truth, &findings));
    for finding in findings {
        let scope = &finding["scope"];
        let blamed = port_of(&scope["listener"]);
        let is_blamed = |s: &&Running| {
            let listener = scope["listener"].as_str().unwrap_or_default();
            let elsewhere = listener.starts_with("127.") && scope["netns"]["name"] != *s.netns;
            Some(s.port) == blamed && !elsewhere
        };
        let mut others = servers.iter().filter(is_blamed);
        // Workers that share a port are one listener.
        let guilty = servers
            .iter()
            .find(|s| truth.server.as_deref() == Some(&s.name));
        let at = |s: &Running| (s.netns.clone(), s.port);
        let innocent = others.find(|s| guilty.is_none_or(|guilty| at(guilty) != at(s)));
        wrong.extend(
            innocent.map(|s| format!("{} blames {}, which is well", cause(finding), s.name)),
        );
    }
    wrong
}

/// What a finding of the planted cause says wrong about where it is and whose.
pub(crate) fn wrong_owner(truth: &Truth, servers: &[Running], scope: &Value) -> Vec<String> {
    let mut wrong = match truth.server.as_deref() {
        Some(name) => match servers.iter().find(|s| s.name == name) {
            Some(server) => wrong_scope(truth, server, scope),
            None => vec![format!("the server {name} does not run")],
        },
        None => wrong_port(truth, scope),
    };
    wrong.extend(wrong_names(truth, servers, scope));
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
    if truth.counter.is_some() && !servers.iter().any(|s| s.counted) {
        Truth::healthy()
    } else {
        truth.clone()
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
            "pid" => (&scope["pid"], names_pid(scope, &server.pids)),
            "comm" => (&scope["comm"], scope["comm"].as_str() == Some(&server.comm)),
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

/// What else is planted and not found, or found and not planted; and whether what cost more comes first.
fn wrong_others(truth: &Truth, findings: &[&Value]) -> Vec<String> {
    let found = |cause_of: &String| findings.iter().any(|f| cause(f) == cause_of);
    let missing = truth.beside.iter().filter(|beside| !found(beside));
    let mut wrong: Vec<String> = missing
        .map(|beside| format!("{beside} is planted too and not found"))
        .collect();
    let planted = |f: &Value| cause(f) == truth.cause || truth.beside.iter().any(|b| b == cause(f));
    let others = findings
        .iter()
        .filter(|f| truth.nothing_else && !planted(f));
    wrong.extend(others.map(|f| format!("found {} too, which is not there", cause(f))));
    let lost_s = |f: &Value| f["lost_s"].as_f64().unwrap_or(0.0);
    for pair in findings.windows(2) {
        if lost_s(pair[0]) < lost_s(pair[1]) {
            wrong.push(format!(
                "{} comes before {}, to which more time was lost",
                cause(pair[0]),
                cause(pair[1])
            ));
        }
    }
    wrong
}

/// What explain answered of planted causes that it did not find: what tells where a failed run is looked into.
pub(crate) fn answers_to_missed(
    truth: &Truth,
    findings: &[Value],
    summary: Option<&Value>,
) -> Vec<String> {
    let answers = summary.and_then(|s| s["causes"].as_array());
    let planted = |id: &str| truth.cause == id || truth.beside.iter().any(|b| b == id);
    let missed = |id: &str| planted(id) && !findings.iter().any(|f| cause(f) == id);
    let answers = answers.into_iter().flatten();
    let missed = answers.filter(|answer| missed(cause(answer)));
    let told = missed.map(|answer| {
        let text = |field: &str| answer[field].as_str().unwrap_or("?").to_string();
        format!(
            "{} was answered {}: {}",
            cause(answer),
            text("answer"),
            text("because")
        )
    });
    told.collect()
}

/// What had to be told as a note, and was not.
pub(crate) fn judge_notes(truth: &Truth, notes: &[Value]) -> Vec<String> {
    let told = |id: &&String| notes.iter().any(|note| note["cause"] == **id);
    let missing = truth.notes.iter().filter(|id| !told(id));
    missing.map(|id| format!("no note of {id}")).collect()
}

/// What the account of a server's requests has to say, and does not.
pub(crate) fn judge_account(truth: &Truth, servers: &[Running], accounts: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    for asked in &truth.account {
        let port = servers.iter().find(|s| s.name == asked.server);
        let of_server =
            |a: &&Value| a["role"] == "server" && port_of(&a["at"]) == port.map(|s| s.port);
        let requests = accounts.iter().find(of_server).map(|a| &a["requests"]);
        let part = requests.and_then(|r| r["spent_s"][&asked.part].as_f64());
        let total = requests.and_then(|r| r["total_s"].as_f64());
        let share = part.zip(total).map(|(part, total)| part / total);
        if share.is_none_or(|share| share < asked.least) {
            let percent = |share: f64| format!("{:.0} %", share * 100.0);
            wrong.push(format!(
                "of the time of the requests to {} {} went to {}, not at least {}",
                asked.server,
                share.map_or("an unknown part".into(), percent),
                asked.part,
                percent(asked.least)
            ));
        }
    }
    wrong
}

/// What the truth says besides of a client, a resource, a function, and the scope does not.
fn wrong_names(truth: &Truth, servers: &[Running], scope: &Value) -> Vec<String> {
    // A program is called as its command is.
    let comm = |name: &str| {
        let program = servers.iter().find(|s| s.name == name);
        program.map_or_else(|| name.to_string(), |s| s.comm.clone())
    };
    let names = truth.client.as_deref().map(|names| names.split('|'));
    let client = names.map(|names| names.map(comm).collect::<Vec<_>>().join("|"));
    let said = |key: &str| scope[key].as_str().unwrap_or("nothing").to_string();
    let is = |key, wanted: &Option<String>, fits: fn(&str, &str) -> bool| {
        let wanted = wanted.as_deref()?;
        let said = said(key);
        (!fits(&said, wanted))
            .then(|| format!("as {key} the finding says {said}; the truth is {wanted}"))
    };
    let wrong = [
        is("comm", &client, |said, wanted| {
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
    let level = finding["confidence"]["level"].as_str().unwrap_or("nothing");
    let unsure = truth.confidence.iter().filter(|right| *right != level);
    let unsure = unsure.map(|right| format!("its confidence is {level}; the truth is {right}"));
    let silent = truth.says.iter().filter(|words| !evidence.contains(*words));
    let mut wrong: Vec<String> = silent
        .map(|words| format!("the evidence does not say `{words}`"))
        .chain(unsure)
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
    let failed = fix.commands.iter().filter(|c| c.failed());
    let mut wrong: Vec<String> = failed
        .map(|c| {
            let said = c.not_run.as_deref().or(c.stderr.as_deref());
            let came = match c.rc {
                Some(rc) => format!("ends with {rc}"),
                None => "was not run".into(),
            };
            format!(
                "the {} of {} {came}: `{}`: {}",
                c.kind.label(),
                c.cause,
                c.command,
                said.unwrap_or("it says nothing")
            )
        })
        .collect();
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

fn names_pid(scope: &Value, right: &[u32]) -> bool {
    let pids = scope["pids"].as_array().into_iter().flatten();
    pids.chain([&scope["pid"]])
        .filter_map(Value::as_u64)
        .any(|pid| right.iter().any(|right| u64::from(*right) == pid))
}

fn wrong_port(truth: &Truth, scope: &Value) -> Vec<String> {
    let Some(port) = truth.port else {
        return Vec::new();
    };
    let values = scope.as_object().into_iter().flat_map(|s| s.values());
    let named = values
        .flat_map(|v| v.as_array().map_or(std::slice::from_ref(v), Vec::as_slice))
        .any(|v| port_of(v) == Some(port) || v.as_u64() == Some(port.into()));
    if named {
        Vec::new()
    } else {
        vec![format!("the finding does not name port {port}: {scope}")]
    }
}

#[cfg(test)]
mod tests;
