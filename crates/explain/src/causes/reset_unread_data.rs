//! C11: a server closes connections before it has read what their clients sent, and so resets them.

use analysis::Why;
use analysis::words::{count, percent, plural};

use crate::limits;
use crate::places::server_resets::{self, Closing, ServerResets, places};
use crate::programs::{self, Setting};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RESET_UNREAD_DATA,
    number: "C11",
    title: "closed with data unread",
    page: include_str!("reset_unread_data.md"),
    layer: Layer::Application,
    ground: Ground::Listeners,
    needs: &[&[SourceName::States], &[SourceName::ResetsSent]],
    seen_from: || {
        "5 reset connections, 2 % of the listener's; 3 over 2 s of one caller here, 5 % of its own"
            .into()
    },
    signature: &[
        "connection reset by peer after the answer was sent",
        "uploads fail with connection reset, small requests work",
    ],
    rivals: &[
        Id::INJECTED_RESET,
        Id::RESET_BY_APPLICATION,
        Id::LISTENER_ENDED,
        Id::RESET_BY_PEER,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        places(story, &UNREAD)
            .map(|resets| judge(&resets))
            .collect()
    },
};

/// close() while received data waits to be read.
const UNREAD: Closing = Closing {
    why: Why::UnreadData,
    how: "with received data unread",
    reason: "TCP_ABORT_ON_CLOSE",
    counter: counter::TCP_ABORT_ON_CLOSE,
    exact: true,
};

fn no(asked: &Asked) -> Option<Step> {
    asked.resets()?.none_sent(&[Why::UnreadData], "unread data")
}

fn rule_out(whole: &Whole) -> Verdict {
    server_resets::rule_out(whole, &UNREAD, [])
}

fn judge(resets: &ServerResets) -> Finding {
    let scope = resets.here.scope();
    let (n, of) = (count(resets.count()), plural(resets.of(), "connection"));
    let (app, short) = (application(&scope), named_short(&scope));
    resets
        .case(CAUSE, &scope)
        .title([
            format!(
                "{} closes with data unread: {n} of {of} were reset.",
                named(&scope)
            ),
            format!("{short} closes with data unread: {n} of {of} reset."),
            format!("{short} closes with data unread."),
        ])
        .fix(if !turns_away(resets) {
            [
                format!("Have {app} read requests to the end before it closes, or drain them."),
                "Have it read requests to the end before it closes.".into(),
            ]
        } else {
            [
                format!(
                    "Find out why {app} turns clients away: it closes before reading a request."
                ),
                "See why it turns clients away.".into(),
            ]
        })
        .advise(advice(resets, &scope))
        .verify(sentence!(
            "`tcpwhy trace resets` shows no {reason} from port {port}, and `nstat -az \
             TcpExtTCPAbortOnClose` no longer rises.",
            reason = UNREAD.reason,
            port = resets.here.listener.local.port
        ))
}

/// It left small requests unread: it would have read those of clients that it serves.
fn turns_away(resets: &ServerResets) -> bool {
    resets.asked_bytes() <= limits::ONE_SEGMENT.bytes()
}

fn advice(resets: &ServerResets, scope: &Scope) -> Vec<Advice> {
    let app = application(scope);
    let port = resets.here.listener.local.port;
    let (read, command, at) = match app {
        "nginx" => (
            "Set `lingering_close always;` and make its timeouts cover the time that clients need to send a request; \
             larger bodies need a larger `client_max_body_size`."
                .to_string(),
            shell!("nginx -T | grep -E 'lingering|client_max_body_size'"),
            "nginx.conf, in http, server or location; then `nginx -s reload`".to_string(),
        ),
        _ if turns_away(resets) => {
            let limit = programs::setting(scope, Setting::Clients);
            let limit = limit.map_or("a client limit".into(), |name| {
                format!("its client limit, {name}")
            });
            (
                format!(
                    "Check the log of {app} for why it closes before it reads a request ({limit}; overload); it \
                     should read the request of a client that it turns away."
                ),
                shell!("ss -tnp 'sport = :{port}'", port),
                format!("the configuration of {app}; the command shows its clients"),
            )
        }
        _ => (
            format!(
                "Have {app} read each request to the end before it answers and closes; or answer, call \
                 shutdown(SHUT_WR), and read and discard input until the client closes."
            ),
            shell!("ss -tnp state established 'sport = :{port}'", port),
            format!("the source or configuration of {app}; the command shows unread data as Recv-Q"),
        ),
    };
    let read = Advice::to(read)
        .by(command_in(&scope.netns, command))
        .at(at)
        .risk(
            "A client that never stops sending keeps its connection open: limit the bytes and the time spent on it.",
        )
        .effect(format!(
            "The {} of connections that now end with a reset end with the answer.",
            percent(resets.share())
        ))
        .change(Change::ReadToEnd {
            listener: resets.here.address(),
        });
    let ask =
        Advice::to("Or have clients ask before they send a large body (Expect: 100-continue).")
            .at("the clients")
            .risk("One more round trip per request.")
            .effect("Clients get the error before they send the body.");
    let large = !turns_away(resets);
    [read].into_iter().chain(large.then_some(ask)).collect()
}

#[cfg(test)]
mod tests;
