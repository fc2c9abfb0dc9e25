//! C12: an application has the kernel reset connections: SO_LINGER 0, or keep-alives without answer.

mod silent_peer;

use analysis::Why;
use analysis::words::{count, percent, plural};

use crate::places::server_resets::{self, Closing, ServerResets, places};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RESET_BY_APPLICATION,
    number: "C12",
    title: "reset on purpose",
    page: include_str!("reset_by_application.md"),
    layer: Layer::Application,
    ground: Ground::Connections,
    needs: &[&[SourceName::States], &[SourceName::ResetsSent]],
    seen_from: || {
        "5 reset connections, 2 % of the listener's; 3 over 2 s of one caller here, 5 % of its own"
            .into()
    },
    signature: &[
        "connection reset by peer, and the server closes with SO_LINGER 0",
        "recv: connection reset by peer right after close",
    ],
    rivals: &[
        Id::RESET_UNREAD_DATA,
        Id::LISTENER_ENDED,
        Id::INJECTED_RESET,
        Id::RESET_BY_PEER,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// close() of a socket that set SO_LINGER to 0.
const LINGER: Closing = Closing {
    why: Why::Linger,
    how: "with SO_LINGER 0",
    reason: "TCP_STATE, in tcp_disconnect",
    counter: counter::TCP_ABORT_ON_DATA,
    exact: false,
};

fn no(asked: &Asked) -> Option<Step> {
    let on_purpose = [Why::Linger, Why::KeepAlive];
    let resets = asked.resets()?;
    resets.none_sent(&on_purpose, "SO_LINGER 0 or unanswered keep-alives")
}

fn rule_out(whole: &Whole) -> Verdict {
    server_resets::rule_out(whole, &LINGER, [silent_peer::refuted(whole)])
}

fn find(story: &Story) -> Found {
    let lingers = places(story, &LINGER).map(|resets| judge(&resets));
    let silent = silent_peer::places(story);
    lingers
        .chain(silent.iter().map(silent_peer::judge))
        .collect()
}

fn judge(resets: &ServerResets) -> Finding {
    let scope = resets.here.scope();
    let (n, of) = (count(resets.count()), plural(resets.of(), "connection"));
    let (app, short) = (application(&scope), named_short(&scope));
    resets
        .case(CAUSE, &scope)
        .title([
            format!(
                "{} resets clients by SO_LINGER 0: {n} of {of}.",
                named(&scope)
            ),
            format!("{short} resets clients by SO_LINGER 0: {n} of {of}."),
            format!("{short} resets clients by SO_LINGER 0."),
        ])
        .fix([
            format!("Have {app} close without SO_LINGER 0, so that its data arrives."),
            "Close without SO_LINGER 0, so that written data arrives.".into(),
        ])
        .advise([advice(resets, app)])
        .verify(sentence!(
            "`tcpwhy trace resets` shows none sent from port {port}.",
            port = resets.here.listener.local.port
        ))
}

fn advice(resets: &ServerResets, app: &str) -> Advice {
    let port = resets.here.listener.local.port;
    Advice::to(format!(
        "Do not let {app} set SO_LINGER to 0 (nginx: `reset_timedout_connection off`; HAProxy: no `option \
         nolinger`), and have clients close first where TIME_WAIT sockets are to be avoided."
    ))
    .by(shell!("tcpwhy trace resets --port {port}", port))
    .at(format!(
        "the source or configuration of {app}; the command shows each reset as it is sent"
    ))
    .risk("The side that closes first keeps a TIME_WAIT socket for 60 s per connection.")
    .effect(format!(
        "The {} of connections that are now reset end with a FIN, and lose nothing.",
        percent(resets.share())
    ))
    .change(Change::CloseGently {
        listener: resets.here.address(),
    })
}

#[cfg(test)]
mod tests;
