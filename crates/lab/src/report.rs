//! A run of the lab in words, for a terminal.

use std::fmt::Write;

use crate::judge::cause;
use crate::outcome::{Fix, Outcome};

/// What was planted, what tcpwhy said, whether it is true, and what its advice changed.
pub fn render(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut text, outcome);
    text
}

fn write(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let truth = &outcome.truth;
    writeln!(
        text,
        "scenario  {} (seed {}): {}",
        outcome.scenario, outcome.seed, outcome.title
    )?;
    if !outcome.beside.is_empty() {
        writeln!(text, "beside    {}", outcome.beside.join(", "))?;
    }
    let place = match (&truth.server, truth.port) {
        (Some(server), _) => format!(", at the server {server}"),
        (None, Some(port)) => format!(", at port {port}"),
        (None, None) => match (&truth.resource, &truth.counter) {
            (Some(resource), _) => format!(", at {resource}"),
            (None, Some(counter)) => format!(", where {counter} rises"),
            (None, None) => String::new(),
        },
    };
    writeln!(text, "planted   {}{place}", truth.cause)?;
    let said = outcome.round.findings.iter().map(cause).collect::<Vec<_>>();
    let said = if said.is_empty() {
        "nothing is wrong".to_string()
    } else {
        said.join(", then ")
    };
    writeln!(text, "said      {said}")?;
    if let Some(explanation) = &outcome.round.explanation {
        writeln!(text, "\n{}\n", explanation.trim_end())?;
    }
    if let Some(fix) = &outcome.fix {
        write_fix(text, fix)?;
    }
    for why in &outcome.why {
        writeln!(text, "wrong     {why}")?;
    }
    if let Some(recording) = &outcome.round.recording {
        writeln!(text, "recording {}", recording.display())?;
    }
    writeln!(text, "{}", if outcome.passed { "passed" } else { "FAILED" })
}

fn write_fix(text: &mut String, fix: &Fix) -> std::fmt::Result {
    if !fix.commands.is_empty() {
        writeln!(text, "commands of the advice, run as printed:")?;
    }
    for printed in &fix.commands {
        let kind = printed.kind.label();
        let came = match (&printed.not_run, &printed.answer, printed.rc) {
            (Some(why), ..) => format!("not run: {why}"),
            (_, Some(why), Some(rc)) => format!("rc {rc}: {why}"),
            (.., rc) => format!("rc {}", rc.unwrap_or_default()),
        };
        writeln!(text, "  {kind:<4} {}  ({came})", printed.command)?;
    }
    writeln!(text, "advice, applied inside the lab's namespaces:")?;
    for change in &fix.changes {
        let mark = if change.applied { "done" } else { "not done" };
        writeln!(text, "  {mark}: {}", change.result)?;
    }
    writeln!(
        text,
        "\n  {:<16} {:<24} {:>12} {:>12}",
        "client", "", "before", "after"
    )?;
    let mut last = "";
    for figure in &fix.figures {
        let client = if figure.client == last {
            ""
        } else {
            &figure.client
        };
        last = &figure.client;
        let (before, after) = (number(figure.before), number(figure.after));
        writeln!(
            text,
            "  {client:<16} {:<24} {before:>12} {after:>12}",
            figure.figure
        )?;
    }
    let gone = if fix.gone {
        "the finding is gone"
    } else {
        "the finding is still there"
    };
    writeln!(text, "\nafter     {gone}")
}

/// As many digits as are worth reading.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_string(),
        Some(v) if v == v.trunc() || v >= 100.0 => format!("{v:.0}"),
        Some(v) if v >= 1.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figure;
    use crate::outcome::{Change, Round};
    use crate::scenario::Scenario;
    use serde_json::json;

    #[test]
    fn a_run_reads_well() {
        let scenario = Scenario::load("syn-cookies", 1).unwrap();
        let figure = |client: &str, figure: &str, before, after| Figure {
            client: client.to_string(),
            figure: figure.to_string(),
            before,
            after,
        };
        let outcome = Outcome {
            scenario: scenario.name,
            title: scenario.title,
            seed: 1,
            beside: vec![],
            truth: scenario.truth,
            passed: true,
            why: vec![],
            round: Round {
                findings: vec![json!({ "cause": "syn-cookie-options-lost" })],
                explanation: Some("Because of cookies.\n".to_string()),
                ..Round::default()
            },
            fix: Some(Fix {
                commands: vec![],
                changes: vec![Change {
                    change: json!({ "kind": "backlog", "value": 1024 }),
                    applied: true,
                    result: "backlog of store: 5 -> 1024".to_string(),
                }],
                gone: true,
                figures: vec![
                    figure("pool", "request p50, ms", Some(302.454), Some(33.7)),
                    figure("pool", "connections failed", Some(0.0), None),
                ],
                after: Round::default(),
            }),
        };
        let expected = "\
scenario  syn-cookies (seed 1): SYN cookies take the options of a burst of connections
planted   syn-cookie-options-lost, at the server store
said      syn-cookie-options-lost

Because of cookies.

advice, applied inside the lab's namespaces:
  done: backlog of store: 5 -> 1024

  client                                          before        after
  pool             request p50, ms                   302         33.7
                   connections failed                  0            -

after     the finding is gone
passed
";
        assert_eq!(render(&outcome), expected);
    }
}
