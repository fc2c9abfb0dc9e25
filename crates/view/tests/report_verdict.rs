//! The report's verdict: whose trouble, whether something is unexplained, the ticket, and when each finding held.

use recording::tables::*;
use recording::{EventKind, Recording, RetransmitKind, TcpState};
use synth::{Fixture, cases};
use view::report::page::{Run, VerdictKind};

use crate::common::*;
use crate::report::unpack;

fn run_of_case(f: &Fixture) -> Run {
    let written = f.write().unwrap();
    let recording = Recording::open(written.recording.dir()).unwrap();
    report(vec![("r", recording)]).page.runs.remove(0)
}

#[test]
fn the_verdict_says_whose_trouble_it_is_and_the_ticket_what_to_do() {
    let run = run_of_case(&cases::accept_queue());
    let (verdict, finding) = (&run.verdict, &run.findings[0]);
    assert_eq!(verdict.kind, VerdictKind::Found);
    assert_eq!(verdict.layer, "APPLICATION");
    assert_eq!(verdict.says, finding.title);
    assert!(!finding.impact.is_empty() && finding.lost.ends_with("waited in total"));
    // Each is said once: not again among the facts.
    let labels: Vec<_> = finding.facts.iter().map(|(label, _)| &**label).collect();
    assert!(
        !labels
            .iter()
            .any(|l| ["impact", "lost", "cause"].contains(l)),
        "{labels:?}"
    );
    let first = &finding.advice[0];
    assert!(["fix:", "look:"].contains(&&*first.kind), "{}", first.kind);
    let ticket = &verdict.ticket;
    assert!(ticket.starts_with("## APPLICATION · "), "{ticket}");
    let command = first.command.as_ref().unwrap();
    for wanted in [
        command.as_str(),
        &first.kind,
        "**confidence:** ",
        "**ruled out:** ",
        " UTC (",
    ] {
        assert!(ticket.contains(wanted), "{wanted}: {ticket}");
    }
}

#[test]
fn of_several_findings_the_ticket_has_each() {
    let mut run = run_of_case(&cases::accept_queue());
    let one = run.verdict.ticket.matches("**do:**").count();
    assert_eq!(one, run.findings.len());
    run = run_of_case(&cases::syn_cookies());
    assert_eq!(
        run.verdict.ticket.matches("**do:**").count(),
        run.findings.len()
    );
}

#[test]
fn what_moved_and_is_not_explained_is_no_clean_verdict() {
    assert_eq!(
        run_of_case(&cases::churn()).verdict.kind,
        VerdictKind::Clean
    );
    let rto = |at| Event {
        retransmit_kind: Some(RetransmitKind::Rto),
        attempt: Some(1),
        state: Some(TcpState::Established),
        ..event(at, EventKind::Retransmit, 1)
    };
    let filtered = |at| Event {
        reason: Some("NETFILTER_DROP".into()),
        ..event(at, EventKind::Drop, 2)
    };
    let rows = Rec::new().rows([rto(1), filtered(2)]);
    let run = run_of(rows.open());
    assert!(run.findings.is_empty());
    assert_eq!(run.verdict.kind, VerdictKind::Unexplained);
    let also = &run.verdict.also;
    assert!(also.contains("1 packet dropped (NETFILTER_DROP)"), "{also}");
    let means: Vec<_> = run.summary.symptoms.iter().map(|s| &*s.means).collect();
    assert!(means.iter().all(|means| !means.is_empty()), "{means:?}");
    assert!(
        means.iter().any(|means| means.contains("firewall")),
        "{means:?}"
    );
    assert!(
        run.verdict.ticket.contains("firewall"),
        "{}",
        run.verdict.ticket
    );
}

#[test]
fn each_finding_is_marked_from_its_beginning_to_when_it_was_last_seen() {
    let run = run_of_case(&cases::accept_queue());
    let finding = &run.findings[0];
    let (from, to) = finding.spans[0];
    assert_eq!(Some(from), finding.since_s);
    assert!(to > from && to <= run.facts.length_s, "{from} to {to}");
    let mark = &run.timelines.marks[0];
    assert_eq!((mark.finding, mark.at_s, mark.to_s), (0, from, to));
    assert_eq!(mark.says, "accept-queue-overflow");
    // Its course is that of lines that are there, and shows something.
    let course = finding.course.as_ref().expect("its SYNs are counted");
    let chart = &run.timelines.charts[course.chart as usize];
    assert_eq!(chart.id, "retransmits");
    let line = &chart.lines[course.lines[0] as usize];
    assert!(unpack(&line.values).iter().any(|v| *v > 0.0));
    assert!(course.says.contains(&*line.name), "{}", course.says);
    assert!(run_of_case(&cases::churn()).timelines.marks.is_empty());
}

#[test]
fn an_id_leads_to_what_the_book_says_of_its_cause() {
    let written = cases::accept_queue().write().unwrap();
    let recording = Recording::open(written.recording.dir()).unwrap();
    let page = report(vec![("r", recording)]).page;
    let cause = &page.runs[0].findings[0].cause;
    let doc = page.causes.iter().find(|c| c.id == *cause).unwrap();
    assert_eq!(doc.number, page.runs[0].findings[0].number);
    assert!(doc.text.starts_with("**Symptom.**"), "{}", doc.text);
}
