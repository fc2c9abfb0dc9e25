//! C12: an application has the kernel reset connections: SO_LINGER 0, or keep-alives without answer.

mod silent_peer;

use analysis::Why;
use analysis::words::{count, fitting, percent, plural};

use crate::finding::RuledOut;
use crate::places::server_resets::{ServerResets, aborted};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RESET_BY_APPLICATION,
    number: "C12",
    title: "reset on purpose",
    page: include_str!("reset_by_application.md"),
    ground: Ground::Connections,
    needs: &[&[SourceName::States], &[SourceName::ResetsSent]],
    seen_from: "10 reset connections, 2 % of the listener's",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

fn find(story: &Story) -> Vec<Finding> {
    let mut all = findings(aborted(story, Why::Linger), Some, finding);
    all.extend(silent_peer::find(story));
    all
}

fn finding(case: &ServerResets) -> Finding {
    let scope = case.scene.scope();
    let checks = case.arithmetic(counter::TCP_ABORT_ON_DATA, false);
    let mut confidence = case.confidence();
    confidence.weigh_checks(&checks);
    let (n, of) = (count(case.count()), plural(case.of(), "connection"));
    let app = application(&scope);
    Finding {
        cause: CAUSE.id,
        number: CAUSE.number.into(),
        place: None,
        lost_s: case.lost(),
        since: None,
        episodes: Vec::new(),
        title: fitting([
            format!(
                "{} resets clients by SO_LINGER 0: {n} of {of}.",
                named(&scope)
            ),
            format!(
                "{} resets clients by SO_LINGER 0: {n} of {of}.",
                named_short(&scope)
            ),
            format!("{} resets clients by SO_LINGER 0.", named_short(&scope)),
        ]),
        fix: fitting([
            format!("Let {app} close without SO_LINGER 0, so that what it wrote arrives."),
            "Close without SO_LINGER 0, so that what was written arrives.".into(),
        ]),
        impact: case.impact(),
        confidence,
        evidence: evidence(case, &scope),
        arithmetic: checks,
        ruled_out: ruled_out(case),
        advice: advice(case, &scope),
        verify: format!(
            "`tcpwhy trace resets` shows none sent of port {}.",
            case.scene.listener.local.port
        ),
        scope,
    }
}

fn evidence(case: &ServerResets, scope: &Scope) -> Vec<Step> {
    let how = "with SO_LINGER 0";
    let mut steps = vec![case.reset_step(scope, how, "TCP_STATE, in tcp_disconnect")];
    steps.push(case.bytes_step());
    steps.extend(case.clients_step());
    steps.extend(case.counter_step(counter::TCP_ABORT_ON_DATA));
    steps
}

fn ruled_out(case: &ServerResets) -> Vec<RuledOut> {
    let netns = case.scene.listener.netns;
    let unread = case.scene.story.resets.sent_for(netns, Why::UnreadData);
    vec![
        RuledOut::new(
            Id::RESET_UNREAD_DATA,
            format!(
                "these have another reason and stack; sockets of the namespace sent {} for unread \
                 data",
                plural(unread, "reset")
            ),
        ),
        RuledOut::new(
            Id::INJECTED_RESET,
            format!(
                "the server's own kernel sent {}",
                plural(case.count(), "reset")
            ),
        ),
    ]
}

fn advice(case: &ServerResets, scope: &Scope) -> Vec<Advice> {
    let app = application(scope);
    let look = scope
        .pid
        .map(|pid| format!("strace -f -e trace=setsockopt,close -p {pid}"));
    vec![Advice {
        action: format!(
            "Do not let {app} set SO_LINGER to 0 (nginx: `reset_timedout_connection off`; HAProxy: \
             no `option nolinger`), and let clients close first where TIME_WAIT sockets are to be \
             avoided."
        ),
        command: look.and_then(|look| command_in(&scope.netns, &look)),
        r#where: format!("the source or configuration of {app}; the command shows where it is set"),
        risk: "The side that closes first keeps a TIME_WAIT socket for 60 s per connection.".into(),
        expected: format!(
            "The {} of connections that are reset end with a FIN, and lose nothing.",
            percent(case.share())
        ),
        change: Some(Change::CloseGently {
            listener: case.scene.address(),
        }),
    }]
}

#[cfg(test)]
mod tests;
