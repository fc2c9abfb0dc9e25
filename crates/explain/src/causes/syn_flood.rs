//! C45: SYNs whose last ACK never comes; SYN cookies answer them without a place in the queue.

use std::collections::BTreeMap;

use analysis::words::{count, percent, plural};
use analysis::{Story, What};

use crate::limits;
use crate::places::listener::{ListenerPlace, listener_places};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SYN_FLOOD,
    number: "C45",
    title: "a flood of SYNs that are never completed",
    page: include_str!("syn_flood.md"),
    layer: Layer::Network,
    ground: Ground::Listeners,
    needs: &[&[SourceName::Counters], &[SourceName::Sockets]],
    seen_from: || "100 SYN cookies, of which at most half came back".into(),
    signature: &[
        "possible SYN flooding on port",
        "thousands of SYN_RECV from many addresses",
        "SYN flooding message in dmesg",
    ],
    rivals: &[Id::SYN_QUEUE_OVERFLOW, Id::ACCEPT_QUEUE_OVERFLOW],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| Flood::all(whole.story).iter().map(judge).collect(),
};

/// Why it is no finding.
const HOLDS: &str = "SYN cookies hold: other connects completed meanwhile, and none was dropped because of the flood";

/// A listener that gets SYNs that are never completed.
struct Flood<'a> {
    here: ListenerPlace<'a>,
    sent: analysis::Rise,
    returned: analysis::Rise,
}

fn no(asked: &Asked) -> Option<Step> {
    let here = asked.silent()?.listener_place()?;
    let (sent, returned) = cookies(here);
    if unanswered_requests(here) || !here.is_counted() {
        return None;
    }
    (!is_flood(sent.by, returned.by)).then(|| {
        say!(
            "{cookies_returned} of {cookies_sent} came back, and most requests in the SYN queue were young: \
             their clients answer",
            cookies_returned = Quantity::count(returned.by).rows(returned.rows()),
            cookies_sent = Quantity::of(sent.by, "SYN cookie").rows(sent.rows())
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let counted = whole.listeners().filter(|here| here.is_counted());
    let places = counted.map(|here| {
        let (sent, returned) = cookies(here);
        let of = here.accepted().saturating_add(sent.by);
        let says = || {
            say!(
                "{local} sent {cookies_sent} and accepted {accepted}; {cookies_returned} came back",
                local = Quantity::new(here.address(), here.address()),
                cookies_sent = Quantity::of(sent.by, "SYN cookie").rows(sent.rows()),
                accepted = Quantity::of(here.accepted(), "connection"),
                cookies_returned = Quantity::count(returned.by).rows(returned.rows())
            )
        };
        every([
            Test::events(sent.by, of, &limits::MANY, says()),
            Test::share(returned.by, sent.by, &limits::MOST, says()).below(),
        ])
    });
    Verdict::nearest(places, NO_ARRIVAL)
}

fn cookies(here: ListenerPlace) -> (analysis::Rise, analysis::Rise) {
    let sent = here.rise(counter::SYNCOOKIES_SENT);
    (sent, here.rise(counter::SYNCOOKIES_RECV))
}

fn is_flood(sent: u64, returned: u64) -> bool {
    sent >= limits::MANY.count() && !limits::MOST.exceeded(returned, sent)
}

/// Most of the requests in the longest queue had their SYN-ACK retransmitted.
fn unanswered_requests(here: ListenerPlace) -> bool {
    let fullest = here.listener.most_half_open();
    fullest.is_some_and(|s| {
        let stale = s.longest_syn_queue.0.saturating_sub(s.young);
        stale > 0 && limits::MOST.reached(stale, s.longest_syn_queue.0)
    })
}

impl<'a> Flood<'a> {
    /// The counters are the namespace's: they go to the listener whose SYN queue was full, and of several to the one
    /// with the longest (see [`all`](Flood::all)).
    fn of(here: ListenerPlace<'a>) -> Option<Flood<'a>> {
        let (sent, returned) = cookies(here);
        if !is_flood(sent.by, returned.by) || !fills(here) {
            return None;
        }
        Some(Flood {
            here,
            sent,
            returned,
        })
    }

    /// One for each namespace.
    fn all(story: &Story) -> Vec<Flood<'_>> {
        let mut longest: BTreeMap<u32, Flood> = BTreeMap::new();
        for flood in listener_places(story).filter_map(Flood::of) {
            let netns = flood.here.listener.netns;
            let known = longest.get(&netns).map_or(0, |known| queue(known.here));
            // On a tie the last.
            if queue(flood.here) >= known {
                longest.insert(netns, flood);
            }
        }
        let mut all: Vec<_> = longest.into_values().collect();
        all.sort_by_key(|flood| flood.here.index);
        all
    }

    fn unreturned(&self) -> u64 {
        self.sent.by.saturating_sub(self.returned.by)
    }

    /// Connections that it accepted, and those among them that retransmitted.
    fn accepted(&self) -> (u64, u64) {
        let accepted = self.here.story.all(&self.here.listener.accepted);
        let accepted = accepted
            .map(|(_, c)| c)
            .filter(|c| c.side == Side::Accepted);
        let resent = accepted.clone().filter(|c| c.retransmits > 0);
        (accepted.count() as u64, resent.count() as u64)
    }

    /// Others are not kept waiting.
    fn holds(&self) -> bool {
        self.accepted().0 > 0 && self.here.rise(counter::LISTEN_DROPS).by == 0
    }

    fn steps(&self) -> Vec<Step> {
        let here = self.here;
        let came = say!(
            "{cookies_sent} were sent as the SYN queue was full, and {cookies_returned} came back ({share}): real \
             clients answer.",
            cookies_sent = Quantity::of(self.sent.by, "SYN cookie").rows(self.sent.rows()),
            cookies_returned = Quantity::count(self.returned.by).rows(self.returned.rows()),
            share = Quantity::share(self.returned.by as f64 / self.sent.by.max(1) as f64)
        );
        let sock = here.listener.most_half_open();
        let queue = sock.map(|s| {
            let stale = s.longest_syn_queue.0.saturating_sub(s.young);
            say!(
                "Its SYN queue held {half_open} with a backlog of {backlog}; {stale} of them had had their \
                 SYN-ACK retransmitted.",
                half_open = Quantity::of(s.longest_syn_queue.0, "request").rows([s.longest_syn_queue.1]),
                backlog = Quantity::count(s.backlog),
                stale = Quantity::count(stale)
            )
        });
        let (accepted, resent) = self.accepted();
        let ids = here.story.all(&here.listener.accepted);
        let rows = ids.filter_map(|(_, c)| c.row()).take(SHOWN_ROWS);
        let others = say!(
            "{accepted} completed their handshake with it meanwhile, {resent} of which retransmitted segments; \
             ListenDrops rose by {listen_drops}.",
            accepted = Quantity::of(accepted, "client").rows(rows),
            resent = Quantity::count(resent),
            listen_drops = here.risen(counter::LISTEN_DROPS)
        );
        [came].into_iter().chain(queue).chain([others]).collect()
    }

    /// A path that loses the ACKs of real clients loses their data as well.
    fn no_path(&self) -> Option<Check> {
        let (accepted, resent) = self.accepted();
        let lost = self.unreturned() as f64 / self.sent.by.max(1) as f64;
        let measured = resent as f64 / accepted.max(1) as f64;
        (accepted > 0).then(|| Check {
            formula:
                "share of accepted connections that retransmitted < (share of cookies that did not \
                      come back, as if the path had lost them) ÷ 2"
                    .into(),
            expected: analysis::words::rounded(lost),
            measured: analysis::words::rounded(measured),
            unit: "share".into(),
            agrees: measured * limits::TWICE.times() <= lost,
            tolerance: "at most half of it".into(),
        })
    }

    fn advice(&self) -> [Advice; 2] {
        let netns = self.here.story.netns(self.here.listener.netns);
        let port = self.here.listener.local.port;
        [
            set_sysctl(
                &netns,
                sysctl::TCP_SYNCOOKIES,
                1,
                "None beyond the present one: a cookie keeps SACK and window scaling only where timestamps are on.",
                "Cookies stay on. A larger backlog would fill up, too.".into(),
            ),
            Advice::to(format!(
                "If the SYNs use up a CPU, limit them in front of the listener: by source, or by SYNPROXY, for port \
                 {port}."
            ))
            .by(command_in(&netns, shell!("ss -tn state syn-recv 'sport = :{port}'", port)))
            .at("a firewall in front of this host, or its own (nft `synproxy`); the command shows the sources")
            .risk("A limit by source also affects clients behind one NAT.")
            .effect(format!(
                "The {} that did not come back no longer reach the listener.",
                plural(self.unreturned(), "SYN")
            )),
        ]
    }
}

/// The most requests that waited in its SYN queue.
fn queue(here: ListenerPlace) -> u32 {
    let fullest = here.listener.most_half_open();
    fullest.map_or(0, |s| s.longest_syn_queue.0)
}

/// It is its SYN queue that is full.
fn fills(here: ListenerPlace) -> bool {
    let fullest = here.listener.most_half_open();
    let repeated = here.story.packets_at(here.index, What::SynAckRepeated);
    let repeated: u64 = repeated.map(|g| g.count).sum();
    let full = |s: &analysis::ListenSock| s.warned || s.longest_syn_queue.0 >= s.backlog;
    repeated > 0 && fullest.is_some_and(full)
}

fn judge(flood: &Flood) -> Finding {
    let here = flood.here;
    let scope = here.scope();
    let (unreturned, sent) = (flood.unreturned(), flood.sent.by);
    let share = percent(unreturned as f64 / sent.max(1) as f64);
    let says = format!(
        "{} of {} ({share}) did not come back.",
        count(unreturned),
        plural(sent, "SYN cookie")
    );
    Case::new(here.story, CAUSE, scope.clone())
        .placed(Place::Listener(here.index))
        .title([
            format!(
                "{} is flooded with SYNs: {} were never completed.",
                named(&scope),
                count(unreturned)
            ),
            format!("{} is flooded with SYNs.", named_short(&scope)),
        ])
        .fix([format!(
            "Leave SYN cookies on; do not raise the backlog of {} for it.",
            here.address()
        )])
        .noted(flood.holds().then_some(HOLDS))
        .affects(Impact::of(unreturned, sent, "SYNs", says), Lost::unknown())
        .because("cookies are sent when the SYN queue is full, and almost none came back")
        .steps(flood.steps())
        .checks(flood.no_path())
        .advise(flood.advice())
        .verify("`nstat -az TcpExtSyncookiesSent TcpExtSyncookiesRecv` rise alike, or not at all.")
}

#[cfg(test)]
mod tests;
