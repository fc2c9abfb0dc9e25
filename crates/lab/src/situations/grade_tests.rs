//! Answers made up, and what each is worth.

use super::*;
use crate::exam::Felt;
use crate::situations::fault::Fault;
use crate::situations::kinds::{Shape, Side};
use crate::situations::log::Met;
use crate::situations::situation::Situation;

/// A seed's situation with another fault and side, whatever was drawn.
fn played(fault: Option<Fault>, side: Side, topology: Topology, lost_s: f64) -> Played {
    let seeds = (3..).step_by(3).map(Situation::compose);
    let mut situation = seeds
        .into_iter()
        .find(|s| s.topology == topology && s.shape == Shape::Short && s.server == Server::Python)
        .unwrap();
    situation.fault = fault.map(|fault| (fault, 2));
    situation.harmless = None;
    situation.side = side;
    situation.network_behind = 0;
    let felt = Felt {
        slow: (50, 100),
        slow_s: (lost_s, lost_s + 1.0),
        longest_s: lost_s,
        ..Felt::default()
    };
    Played {
        situation,
        hosts: Vec::new(),
        met: Met {
            felt,
            ..Met::default()
        },
        dropped: 0,
        own_s: 0.0,
        failed: None,
        seconds: 0.0,
    }
}

fn told(cause: &str, host: &str) -> Told {
    Told {
        cause: cause.into(),
        confidence: "high".into(),
        host: Some(host.into()),
        says: format!("{cause} says it"),
        lost_s: None,
    }
}

fn said(findings: &[(&str, &str)]) -> Said {
    Said {
        findings: findings
            .iter()
            .map(|(cause, host)| told(cause, host))
            .collect(),
        ..Said::default()
    }
}

fn mark(played: &Played, findings: &[(&str, &str)]) -> Mark {
    Marked::of(played, &said(findings)).mark
}

#[test]
fn what_is_right_depends_on_the_side() {
    let firewall = |side| played(Some(Fault::FirewallFarSyn), side, Topology::Direct, 20.0);
    let here = [("local-firewall-drop", "server")];
    let there = [("path-drops-syn", "client")];
    assert_eq!(mark(&firewall(Side::Server), &here), Mark::Right);
    assert_eq!(mark(&firewall(Side::All), &here), Mark::Right);
    assert_eq!(mark(&firewall(Side::Client), &there), Mark::Right);
    // With the server recorded more could be said.
    assert_eq!(mark(&firewall(Side::All), &there), Mark::Partly);
    assert_eq!(mark(&firewall(Side::Client), &here), Mark::Wrong);
    assert_eq!(mark(&firewall(Side::Client), &[]), Mark::Silent);
    let lost = played(Some(Fault::SynLost), Side::Server, Topology::Direct, 20.0);
    assert_eq!(mark(&lost, &[]), Mark::Unseen);
    assert_eq!(mark(&lost, &[("bufferbloat", "server")]), Mark::Wrong);
}

#[test]
fn what_nobody_noticed_and_what_is_healthy_is_not_asked_for() {
    let unfelt = played(Some(Fault::SynLost), Side::Client, Topology::Direct, 0.0);
    assert_eq!(mark(&unfelt, &[]), Mark::Unfelt);
    assert_eq!(mark(&unfelt, &[("path-drops-syn", "client")]), Mark::Unfelt);
    assert_eq!(
        mark(&unfelt, &[("bufferbloat", "client")]),
        Mark::FalseAlarm
    );
    let healthy = played(None, Side::All, Topology::Direct, 0.0);
    assert_eq!(mark(&healthy, &[]), Mark::Quiet);
    assert_eq!(mark(&healthy, &[("path-loss", "client")]), Mark::FalseAlarm);
}

#[test]
fn a_proxy_is_not_to_blame_for_its_server() {
    let slow = |side| played(Some(Fault::SlowAnswers), side, Topology::Proxy, 20.0);
    assert_eq!(
        mark(&slow(Side::All), &[("slow-application", "server")]),
        Mark::Right
    );
    assert_eq!(
        mark(&slow(Side::All), &[("slow-application", "proxy0")]),
        Mark::Partly
    );
    // From the proxy's host it waits for its peer; from the caller's, the proxy is the peer.
    assert_eq!(
        mark(&slow(Side::Middle), &[("slow-peer", "proxy0")]),
        Mark::Right
    );
    assert_eq!(
        mark(&slow(Side::Client), &[("slow-peer", "client")]),
        Mark::Right
    );
    let mut answer = said(&[]);
    answer.not_tcp = Some(Told {
        says: "haproxy thinks 500 ms of 500 ms".into(),
        ..told("not-tcp:application", "")
    });
    let marked = Marked::of(&slow(Side::All), &answer);
    assert_eq!((marked.mark, marked.first), (Mark::Partly, Some(true)));
}

#[test]
fn misses_that_are_ruled_out_and_findings_beside_are_counted() {
    let lost = played(Some(Fault::SynLost), Side::Client, Topology::Direct, 20.0);
    let mut answer = said(&[("reordering", "client")]);
    answer.ruled_out = vec!["path-drops-syn".into(), "path-loss".into()];
    let marked = Marked::of(&lost, &answer);
    assert_eq!(marked.mark, Mark::Wrong);
    assert_eq!(marked.ruled_out, ["path-drops-syn"]);
    assert_eq!(marked.beside, ["reordering"]);
    let mut grade = SituationGrade::default();
    grade.add(&marked);
    grade.add(&Marked::of(&lost, &said(&[("path-drops-syn", "client")])));
    assert_eq!((grade.first, grade.ruled_out), ((1, 2), (1, 1)));
    assert_eq!(grade.calibration["high"], (1, 2));
    assert_eq!(
        (grade.all.felt(), grade.by["topology"]["direct"].felt()),
        (2, 2)
    );
    assert_eq!(grade.beside, 1);
}

#[test]
fn every_fault_has_an_answer_from_every_side_that_it_is_met_from() {
    for seed in (1..400).filter(|seed| seed % 3 != 0) {
        let situation = Situation::compose(seed);
        let right = right(&situation);
        assert!(right.silence || !right.best.is_empty(), "{situation:?}");
        assert!(!right.why.is_empty(), "{situation:?}");
    }
}
