//! C06: connections answered with SYN cookies lost SACK and window scaling.

mod advice;
mod evidence;

use analysis::stats::{median, most_within};
use analysis::words::{count, plural};

use crate::limits;
use crate::places::listener::{ListenerPlace, listener_places, roomy_backlog};
use crate::places::options::{QUEUED, Sorted, ThroughputLoss, WithoutOptions, any_lasts};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SYN_COOKIE_OPTIONS_LOST,
    number: "C06",
    title: "SYN cookies strip SACK and window scaling",
    page: include_str!("syn_cookie_options_lost.md"),
    layer: Layer::Application,
    ground: Ground::Listeners,
    needs: &[&[SourceName::States], &[SourceName::Symbols]],
    seen_from: || {
        "a connection of at least 1 s, or with bulk, without SACK and window scaling".into()
    },
    signature: &[
        "some connections are slow for as long as they last, new ones are fast",
        "possible SYN flooding on port, sending cookies",
        "throughput never above 64 kB per round trip",
    ],
    rivals: &[
        Id::MIDDLEBOX_STRIPS_OPTIONS,
        Id::SLOW_READER,
        Id::SYN_QUEUE_OVERFLOW,
        Id::SYN_FLOOD,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        listener_places(story)
            .filter_map(Cookies::of)
            .map(|c| judge(&c))
            .collect()
    },
};

/// Why it is a note.
const TOO_SHORT: &str = "none of them lasted, or sent enough, to be slow";

/// Why the last ACK is dropped that brings a cookie back to a full accept queue; that of a request is dropped as
/// TCP_LISTEN_OVERFLOW.
const OF_COOKIE: &str = "NO_SOCKET";

/// A listener whose connections lost their options to SYN cookies.
struct Cookies<'a> {
    here: ListenerPlace<'a>,
    sorted: Sorted,
    /// All that lost their options to a cookie, seen or inferred.
    lost: Vec<ConnId>,
    throughput: ThroughputLoss,
    /// The most connections that arrived within one round trip.
    at_once: u64,
    /// None carried bulk or is still open: so far it cost nothing.
    short: bool,
}

fn no(asked: &Asked) -> Option<Step> {
    let lacking = asked.without_options()?;
    let netns = lacking.listener_place()?.listener.netns;
    let counters = &asked.story.counters;
    let received = counters.rise(netns, counter::SYNCOOKIES_RECV);
    let never = counters.covers(netns) && received.value == 0;
    let seen = lacking.created(None) == 0;
    let syncookies_recv = Quantity::count(received.by).rows(received.rows());
    (lacking.created(Some(true)) == 0 && (seen || never)).then(|| {
        say!(
            "none of them were made from a cookie; SyncookiesRecv rose by {syncookies_recv}",
            syncookies_recv
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let places = whole.listeners().map(|here| {
        let sorted = Sorted::of(here);
        let lost = sorted.cookie.len() + sorted.perhaps_cookie.len();
        let of = (lost + sorted.plain.len() + sorted.kept.len()) as u64;
        let received = here.rise(counter::SYNCOOKIES_RECV);
        let step = say!(
            "{from_cookies} of {connections} to {local} lost their options to a SYN cookie (SyncookiesRecv rose by \
             {syncookies_recv})",
            local = Quantity::new(here.address(), here.address()),
            from_cookies = Quantity::count(lost as u64),
            connections = Quantity::of(of, "connection"),
            syncookies_recv = Quantity::count(received.by).rows(received.rows())
        );
        every([Test::events(lost as u64, of, &limits::ONE, step)])
    });
    let nothing = "the options of no incoming connection are known";
    Verdict::nearest(places, nothing)
}

fn judge(cookies: &Cookies) -> Finding {
    let (here, story) = (cookies.here, cookies.here.story);
    let scope = here.scope();
    let (affected, of) = (cookies.affected(), cookies.of_all());
    let lost = format!(
        "{} of {} connections lost SACK and window scaling to SYN cookies.",
        count(affected),
        count(of)
    );
    let (seen, unseen) = (&cookies.sorted.cookie, &cookies.sorted.perhaps_cookie);
    let mut case = Case::new(story, CAUSE, scope.clone())
        .placed(cookies.without_options().place())
        .title([
            format!("{}: {lost}", named(&scope)),
            format!("{}: {lost}", named_short(&scope)),
        ])
        .fix(cookies.fix(&scope))
        .affects(
            cookies
                .throughput
                .impact(affected, of, &cookies.throughput.cost()),
            cookies.throughput.lost(story, &cookies.lost),
        );
    if !seen.is_empty() {
        let were = if seen.len() == 1 { "was" } else { "were" };
        case = case.because(format!(
            "the kernel's stack at establishment shows that {} {were} made from a cookie",
            count(seen.len() as u64)
        ));
    }
    if !unseen.is_empty() {
        let n = plural(unseen.len() as u64, "connection");
        let why = format!(
            "the creation of {n} was not seen; the kernel's count of accepted cookies covers them"
        );
        case = if seen.is_empty() {
            case.at_most(Level::Medium, &why)
        } else {
            case.because(why)
        };
    }
    let queued = cookies.without_options().are_queued(&cookies.sorted.kept);
    let queued = queued.then_some(QUEUED);
    case.noted(cookies.short.then_some(TOO_SHORT).or(queued))
        .rests_on(&[SourceName::Counters, SourceName::Sockets])
        .steps(evidence::steps(cookies, &scope))
        .checks(cookies.came_back())
        .checks(cookies.throughput.rate_check())
        .advise(advice::advice(cookies, &scope))
        .verify(sentence!("Connect again under the same load: `nstat -az TcpExtTCPReqQFullDoCookies` no longer \
             rises, and `ss -tien 'sport = :{port}'` shows sack and wscale on every new connection.", port = here.listener.local.port))
}

impl<'a> Cookies<'a> {
    /// One connection is enough: a single slow one can hold up a cluster. But a finding needs bulk, or a connection
    /// that is still open; short ones that were seen to be made from cookies are a note.
    fn of(here: ListenerPlace<'a>) -> Option<Cookies<'a>> {
        let sorted = Sorted::of(here);
        let lost = [&sorted.cookie[..], &sorted.perhaps_cookie[..]].concat();
        if lost.is_empty() {
            return None;
        }
        let throughput = ThroughputLoss::of(here.story, &lost, &sorted.kept);
        let matters = !throughput.slow.is_empty() || any_lasts(here.story, &sorted.cookie);
        (matters || !sorted.cookie.is_empty()).then(|| Cookies {
            here,
            short: !matters,
            sorted,
            lost,
            at_once: at_once(here, &throughput),
            throughput,
        })
    }

    fn without_options(&self) -> WithoutOptions<'_> {
        WithoutOptions::of(self.here.story, &self.lost)
    }

    fn affected(&self) -> u64 {
        self.lost.len() as u64
    }

    fn of_all(&self) -> u64 {
        self.affected() + self.sorted.kept.len() as u64 + self.sorted.plain.len() as u64
    }

    fn timestamps_off(&self) -> bool {
        self.here.setting(sysctl::TCP_TIMESTAMPS) == Some(0)
    }

    /// Every SYN is answered by a cookie, however empty the queue.
    fn always(&self) -> bool {
        self.here.setting(sysctl::TCP_SYNCOOKIES) == Some(2)
    }

    fn new_backlog(&self) -> u32 {
        roomy_backlog(self.here, self.at_once)
    }

    fn fix(&self, scope: &Scope) -> [String; 2] {
        let to = count(self.new_backlog().into());
        let backlog = match scope.backlog {
            Some(b) => format!("from {} to {to}", count(b.into())),
            None => format!("to {to}"),
        };
        let timestamps = if self.timestamps_off() {
            ", set net.ipv4.tcp_timestamps=1"
        } else {
            ""
        };
        let what = if self.always() {
            format!("Set net.ipv4.tcp_syncookies=1{timestamps}")
        } else {
            format!("Raise its listen() backlog {backlog}{timestamps}")
        };
        [
            format!("{what}, and reconnect the clients."),
            format!("{what}, and reconnect."),
        ]
    }

    /// The cookies that clients sent back, against the connections that were seen to be made from them.
    fn came_back(&self) -> Option<Check> {
        let story = self.here.story;
        let received = self.here.rise(counter::SYNCOOKIES_RECV).by;
        // SyncookiesRecv does not count the ACKs of requests that the listener kept.
        let dropped = self.here.late_acks_dropped(OF_COOKIE);
        let made = story.sums(self.here.listener.netns).cookies;
        // Without drops it is unknown which of the ACKs led to nothing.
        let whole = story.health.sees(&SourceName::Drops);
        let formula = "returned cookies (SyncookiesRecv), less those whose ACK was dropped = connections made from \
                       cookies";
        let came_back = received.saturating_sub(dropped);
        (whole && received > 0 && !self.sorted.cookie.is_empty())
            .then(|| same_count(formula, came_back, made, "connections"))
    }
}

/// The most connections that arrived within one round trip: they are in SYN_RECV at once. The path's idle round trip is
/// taken: data is yet to come.
fn at_once(here: ListenerPlace, throughput: &ThroughputLoss) -> u64 {
    let story = here.story;
    let transfers = here.listener.accepted.iter();
    let transfers = transfers.filter_map(|id| story.transfers.of(*id));
    let known = transfers.map(|t| t.min_rtt_us).filter(|us| *us > 0);
    let idle_ns = median(&mut known.collect::<Vec<_>>()).map(|us| u64::from(us) * 1_000);
    let width = idle_ns
        .or(throughput.rtt_ns)
        .unwrap_or(limits::RECORDED_WAIT.ns());
    let accepted = story.all(&here.listener.accepted);
    let accepted = accepted.filter(|(_, c)| c.side == Side::Accepted);
    let mut times: Vec<u64> = accepted.map(|(_, c)| c.start_ns).collect();
    most_within(&mut times, width)
}

#[cfg(test)]
mod tests;
