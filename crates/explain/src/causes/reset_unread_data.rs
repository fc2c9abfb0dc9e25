//! C11: a server closes connections before it has read what their clients sent, and so resets them.

use analysis::Why;
use analysis::words::{count, fitting, percent, plural};

use crate::finding::RuledOut;
use crate::places::server_resets::{ServerResets, aborted};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RESET_UNREAD_DATA,
    number: "C11",
    title: "closed with data unread",
    page: include_str!("reset_unread_data.md"),
    ground: Ground::Listeners,
    needs: &[&[SourceName::States], &[SourceName::ResetsSent]],
    seen_from: "10 reset connections, 2 % of the listener's",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

fn find(story: &Story) -> Vec<Finding> {
    findings(aborted(story, Why::UnreadData), Some, finding)
}

fn finding(case: &ServerResets) -> Finding {
    let scope = case.scene.scope();
    let checks = case.arithmetic(counter::TCP_ABORT_ON_CLOSE, true);
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
                "{} closes with data unread: {n} of {of} were reset.",
                named(&scope)
            ),
            format!(
                "{} closes with data unread: {n} of {of} reset.",
                named_short(&scope)
            ),
            format!("{} closes with data unread.", named_short(&scope)),
        ]),
        fix: fitting([
            format!("Let {app} read requests to their end before it closes, or drain them."),
            "Let it read requests to their end before it closes.".into(),
        ]),
        impact: case.impact(),
        confidence,
        evidence: evidence(case, &scope),
        arithmetic: checks,
        ruled_out: ruled_out(case),
        advice: advice(case, &scope),
        verify: format!(
            "`tcpwhy trace resets` shows no {REASON} of port {}, and `nstat -az \
             TcpExtTCPAbortOnClose` no longer rises.",
            case.scene.listener.local.port
        ),
        scope,
    }
}

/// The kernel's name of the reason.
const REASON: &str = "TCP_ABORT_ON_CLOSE";

fn evidence(case: &ServerResets, scope: &Scope) -> Vec<Step> {
    let mut steps = vec![case.reset_step(scope, "with received data unread", REASON)];
    steps.push(case.bytes_step());
    steps.extend(case.clients_step());
    steps.extend(case.counter_step(counter::TCP_ABORT_ON_CLOSE));
    steps
}

fn ruled_out(case: &ServerResets) -> Vec<RuledOut> {
    let netns = case.scene.listener.netns;
    let lingers = case.scene.story.resets.sent_for(netns, Why::Linger);
    vec![
        RuledOut::new(
            Id::INJECTED_RESET,
            format!(
                "the server's own kernel sent {}",
                plural(case.count(), "reset")
            ),
        ),
        RuledOut::new(
            Id::RESET_BY_APPLICATION,
            format!(
                "none of these is for SO_LINGER 0, for which sockets of the namespace sent {}",
                plural(lingers, "reset")
            ),
        ),
    ]
}

fn advice(case: &ServerResets, scope: &Scope) -> Vec<Advice> {
    let app = application(scope);
    let port = case.scene.listener.local.port;
    let is_nginx = scope.comm.as_deref() == Some("nginx");
    let (action, command, at) = match is_nginx {
        true => (
            "Set `lingering_close always;` and let its timeouts cover the time that clients need \
             to send a request; larger bodies want a larger `client_max_body_size`."
                .into(),
            "nginx -T | grep -E 'lingering|client_max_body_size'".to_string(),
            "nginx.conf, in http, server or location; then `nginx -s reload`".into(),
        ),
        false => (
            format!(
                "Let {app} read each request to its end before it answers and closes; or answer, \
                 call shutdown(SHUT_WR), and read and throw away what comes until the client \
                 closes."
            ),
            format!("ss -tnp state established 'sport = :{port}'"),
            format!(
                "the source or configuration of {app}; the command shows unread data as Recv-Q"
            ),
        ),
    };
    vec![
        Advice {
            action,
            command: command_in(&scope.netns, &command),
            r#where: at,
            risk:
                "A client that never stops sending holds its connection: limit the bytes and the \
                   time that are spent on it."
                    .into(),
            expected: format!(
                "The {} of connections that end with a reset now end with the answer.",
                percent(case.share())
            ),
            change: Some(Change::ReadToEnd {
                listener: case.scene.address(),
            }),
        },
        Advice {
            action: "Or let clients ask before they send a large body (Expect: 100-continue)."
                .into(),
            command: None,
            r#where: "the clients".into(),
            risk: "A round trip more per request.".into(),
            expected: "A refusal reaches them before they send what nobody reads.".into(),
            change: None,
        },
    ]
}

#[cfg(test)]
mod tests;
