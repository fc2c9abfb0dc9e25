//! One situation, planted and looked at: with its faults, and again without them.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::build::{Built, build};
use super::grade::wrongs;
use super::harm::Felt;
use super::sitting::{Fault, Found, Sitting};
use super::situation::{Part, Side, Situation};
use crate::engine::{Observed, observe};
use crate::judge::{Running, cause, port_of, wrong_owner};
use crate::scenario::{ClientSpec, Scenario};
use crate::{Error, Programs, Stop};

/// Sees a situation. A run that fails is a sitting that says why; recordings of those in which something was
/// wrong stay in `keep`, and with `all` those of the others too.
pub(crate) fn sit(
    situation: &Situation,
    programs: &Programs,
    keep: Option<&Path>,
    all: bool,
    stop: &Stop,
) -> Result<Sitting, Error> {
    let began = Instant::now();
    let mut sitting = Sitting {
        situation: situation.clone(),
        faults: Vec::new(),
        findings: Vec::new(),
        without: None,
        failed: None,
        seconds: 0.0,
    };
    match see(&mut sitting, programs, keep, all, stop) {
        Ok(()) => {}
        Err(e @ (Error::Interrupted | Error::NotRoot)) => return Err(e),
        Err(e) => sitting.failed = Some(e.to_string()),
    }
    sitting.seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    Ok(sitting)
}

fn see(
    sitting: &mut Sitting,
    programs: &Programs,
    keep: Option<&Path>,
    all: bool,
    stop: &Stop,
) -> Result<(), Error> {
    let situation = &sitting.situation;
    let look = |built: &Built| observe(&built.scenario, situation.seed, programs, keep, stop);
    let planted = build(situation, true)?;
    let mut harmless = build(situation, false)?;
    harmless.scenario.name.push_str("-without");
    for built in [&planted, &harmless] {
        // Of a seed that is seen again.
        let name = format!("{}.tcpwhy", built.scenario.name);
        let _ = keep.map(|dir| std::fs::remove_dir_all(dir.join(name)));
    }
    let with = look(&planted)?;
    let mut recordings = vec![with.round.recording.clone()];
    let findings = found(&planted, &with, situation);
    let (mut faults, mut without) = (Vec::new(), None);
    if !situation.is_healthy() {
        let seen = look(&harmless)?;
        recordings.push(seen.round.recording.clone());
        without = Some(found(&harmless, &seen, situation));
        let parts = situation.parts.iter().enumerate();
        for (at, part) in parts.filter(|(_, p)| p.is_fault()) {
            faults.push(fault(at, part, &planted.parts[at], &with, &seen));
        }
    }
    (sitting.findings, sitting.faults, sitting.without) = (findings, faults, without);
    if !all && wrongs(sitting).is_empty() {
        for recording in recordings.into_iter().flatten() {
            // What was told rightly need not be looked at again.
            let _ = std::fs::remove_dir_all(recording);
        }
    }
    Ok(())
}

fn fault(
    at: usize,
    part: &Part,
    scenario: &Scenario,
    with: &Observed,
    without: &Observed,
) -> Fault {
    let truth = &scenario.truth;
    let severity = scenario.severity.as_ref();
    let answers = with.round.summary.as_ref().map(|s| &s["causes"]);
    let answers = answers.and_then(Value::as_array).into_iter().flatten();
    let mut of_cause = answers.filter(|a| a["cause"] == *truth.cause);
    let answer = of_cause.next().and_then(|a| a["answer"].as_str());
    let by_factor = severity.is_some_and(|s| s.by_factor);
    let (right, may) = right(part, scenario);
    let felt = victims(scenario).filter_map(|client| {
        let of = |seen: &Observed| {
            let mut clients = seen.round.workload.clients.clone().into_iter();
            clients.find(|c| c.name == client.name)
        };
        Some(Felt::of(&of(with)?, &of(without)?, by_factor))
    });
    Fault {
        part: at,
        cause: truth.cause.clone(),
        right,
        may,
        felt: felt.collect(),
        answer: answer.map(String::from),
    }
}

/// Ids of the causes of which one is right where a part is recorded from; and those that may be told too.
fn right(part: &Part, scenario: &Scenario) -> (Vec<String>, Vec<String>) {
    let truth = &scenario.truth;
    let severity = scenario.severity.as_ref();
    let side = match part.side {
        Side::Client => severity.and_then(|s| s.client_tells.clone()),
        Side::Server => severity.and_then(|s| s.server_tells.clone()),
        Side::Both | Side::AsWritten => {
            let tells = severity.map(|s| s.tells.clone());
            tells.filter(|tells| !tells.is_empty())
        }
    };
    let mut may = truth.may.clone();
    may.extend(severity.map(|s| s.may.clone()).unwrap_or_default());
    (side.unwrap_or_else(|| vec![truth.cause.clone()]), may)
}

/// A fault of a situation, and what is right of it, before anything has been seen.
pub(crate) struct DrawnFault {
    /// What it is, how severe, and how it is met.
    pub(crate) what: String,
    /// Ids of the causes of which one is right.
    pub(crate) right: Vec<String>,
    /// Those that may be told too.
    pub(crate) may: Vec<String>,
}

/// A situation as it is planted, with what is right of it.
pub(crate) fn situation_scenario(
    situation: &Situation,
) -> Result<(Scenario, Vec<DrawnFault>), Error> {
    let built = build(situation, true)?;
    let drawn = situation.parts.iter().zip(&built.parts);
    let faults = drawn.filter_map(|(part, scenario)| {
        let times = part.times?;
        let (right, may) = right(part, scenario);
        Some(DrawnFault {
            what: format!("{} ×{times:.2}", part.in_words()),
            right,
            may,
        })
    });
    let faults = faults.collect();
    Ok((built.scenario, faults))
}

/// The clients that a fault hurts, as far as its truth says who they are; the others beside them are controls.
fn victims(scenario: &Scenario) -> impl Iterator<Item = &ClientSpec> {
    let truth = &scenario.truth;
    let server = truth.server.as_deref();
    let server = server.and_then(|name| scenario.listener(name));
    let hurts = scenario.severity.as_ref().map_or(&[][..], |s| &s.hurts);
    let hurt = move |client: &&ClientSpec| match (&truth.client, server, truth.port) {
        (Some(names), ..) => names.split('|').any(|name| name == client.name),
        (None, Some((node, port)), _) => client.to == node && client.port == port,
        (None, None, Some(port)) => client.port == port,
        (None, None, None) => true,
    };
    let hurt = move |client: &&ClientSpec| {
        if hurts.is_empty() {
            hurt(client)
        } else {
            hurts.contains(&client.name)
        }
    };
    scenario.clients.iter().filter(hurt)
}

/// The findings, each with the part in whose nodes it is.
fn found(built: &Built, seen: &Observed, situation: &Situation) -> Vec<Found> {
    let finding = |finding: &Value| {
        let scope = &finding["scope"];
        let node = scope["netns"]["name"].as_str();
        let node = node.and_then(|name| seen.nodes.get(name));
        let of_node = |p: &Scenario| node.is_some_and(|node| p.nodes.contains_key(node));
        let part = built.parts.iter().position(of_node);
        let owner = part.map(|at| {
            let (drawn, scenario) = (&situation.parts[at], &built.parts[at]);
            owner(drawn, scenario, &seen.servers, finding)
        });
        Found {
            cause: cause(finding).to_string(),
            confidence: finding["confidence"]["level"]
                .as_str()
                .unwrap_or("?")
                .into(),
            lost_s: finding["lost_s"].as_f64(),
            part,
            title: finding["title"].as_str().unwrap_or("?").into(),
            wrong_owner: owner.unwrap_or_default(),
        }
    };
    seen.round.findings.iter().map(finding).collect()
}

/// What a finding in the nodes of a fault says wrong about whose it is.
fn owner(part: &Part, scenario: &Scenario, servers: &[Running], finding: &Value) -> Vec<String> {
    let truth = &scenario.truth;
    if !part.is_fault() || truth.is_healthy() {
        return Vec::new();
    }
    let sees_all = matches!(part.side, Side::Both | Side::AsWritten);
    if sees_all && cause(finding) == truth.cause {
        return wrong_owner(truth, servers, &finding["scope"]);
    }
    // From one side, or by another name, it is at least about a port that somebody of this part asks for.
    let Some(port) = port_of(&finding["scope"]["listener"]) else {
        return Vec::new();
    };
    let asked = |c: &ClientSpec| (c.port..c.port + c.ports).contains(&port);
    // A proxy asks, too: of whom it asks its own files tell.
    let proxied = !scenario.programs.is_empty() && scenario.servers.iter().any(|s| s.port == port);
    let named = truth.port == Some(port);
    if scenario.clients.iter().any(asked) || proxied || named {
        Vec::new()
    } else {
        vec![format!("nobody asks for port {port}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exam::draw::templates;

    #[test]
    fn every_template_has_somebody_whom_its_fault_hurts() {
        for template in templates().unwrap() {
            assert!(victims(template).count() > 0, "{}", template.name);
        }
        let of = |name: &str| -> Vec<String> {
            let scenario = Scenario::load(name, 1).unwrap();
            victims(&scenario).map(|c| c.name.clone()).collect()
        };
        assert_eq!(of("accept-queue-overflow"), ["shop"]);
        assert_eq!(of("reset-unread-data"), ["app", "page"]);
        assert_eq!(of("bufferbloat"), ["upload", "buyer"]);
    }
}
