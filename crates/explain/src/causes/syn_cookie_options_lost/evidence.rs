//! The chain of lost options: which connections lack them, what it costs, the cookie, the full queue, the timestamps.

use analysis::words::{count, plural};

use super::Cookies;
use crate::places::options::WithoutOptions;
use crate::vocabulary::*;

pub(super) fn steps(cookies: &Cookies, scope: &Scope) -> Vec<Step> {
    let (story, netns) = (cookies.here.story, cookies.here.listener.netns);
    let mut steps = vec![options(cookies)];
    steps.extend(cookies.throughput.rate_step(story, netns));
    steps.extend(cookies.throughput.window_step());
    steps.extend([
        made(cookies),
        queue(cookies, application(scope)),
        timestamps(cookies),
    ]);
    steps
}

fn options(cookies: &Cookies) -> Step {
    let (n, kept) = (cookies.affected(), cookies.sorted.kept.len() as u64);
    let others = match kept {
        0 => "no other connection of this listener has them".into(),
        1 => "1 other has them".into(),
        _ => format!("{} others have them", count(kept)),
    };
    let run = if n == 1 { "runs" } else { "run" };
    let without = Quantity::of(n, "accepted connection").rows(cookies.without_options().rows());
    say!(
        "{without} {run} without SACK and window scaling; {others}.",
        without
    )
    .number("with", kept)
}

fn made(cookies: &Cookies) -> Step {
    let sent = cookies.here.rise(counter::SYNCOOKIES_SENT);
    let received = cookies.here.rise(counter::SYNCOOKIES_RECV);
    let from_cookie = &cookies.sorted.cookie;
    let seen = from_cookie.len() as u64;
    let were = match seen {
        0 => "They are older than the recording, or their creation was not seen.".into(),
        1 if cookies.affected() == 1 => "It was made from a SYN cookie.".into(),
        n if n == cookies.affected() => "All of them were made from SYN cookies.".into(),
        n => format!(
            "{} of them were seen to be made from SYN cookies.",
            count(n)
        ),
    };
    let counted = match (sent.by, received.by) {
        (0, 0) => format!(
            "The namespace has accepted {} since it was created (SyncookiesRecv).",
            plural(received.value, "cookie")
        ),
        (s, r) => format!(
            "The namespace sent {} and got {} back (SyncookiesSent, SyncookiesRecv).",
            plural(s, "cookie"),
            count(r)
        ),
    };
    Step::new(format!("{were} {counted}"))
        .number("cookie_connections", seen)
        .number(counter::short(counter::SYNCOOKIES_SENT), sent.by)
        .number(counter::short(counter::SYNCOOKIES_RECV), received.by)
        .number("SyncookiesRecv_total", received.value)
        .rows(WithoutOptions::of(cookies.here.story, from_cookie).rows())
        .rows(received.rows())
}

fn queue(cookies: &Cookies, application: &str) -> Step {
    let (here, listener) = (cookies.here, cookies.here.listener);
    let full = here.rise(counter::TCP_REQ_Q_FULL_DO_COOKIES);
    let why = match full.by {
        _ if cookies.always() => {
            "net.ipv4.tcp_syncookies=2: every SYN is answered by a cookie, however empty the SYN queue."
                .into()
        }
        0 => "A listener sends cookies when its SYN queue is full.".into(),
        n => format!(
            "Cookies were sent because the SYN queue was full, {} (TCPReqQFullDoCookies).",
            plural(n, "time")
        ),
    };
    let limit = match listener.backlog() {
        _ if cookies.always() => String::new(),
        Some(b) => format!(
            " Its limit is the backlog that {application} gave to listen(): {}.",
            count(b.into())
        ),
        None => " Its limit, the listen() backlog, was not sampled.".into(),
    };
    let arrived = match cookies.at_once {
        0 => String::new(),
        n => format!(
            " {} arrived within one round trip.",
            plural(n, "connection")
        ),
    };
    let warned = if listener.warned() {
        " The kernel has logged \"Possible SYN flooding\" for it."
    } else {
        ""
    };
    let sampled = listener.most_half_open();
    let always = cookies
        .always()
        .then(|| here.setting_row(sysctl::TCP_SYNCOOKIES));
    Step::new(format!("{why}{limit}{arrived}{warned}"))
        .number(counter::short(counter::TCP_REQ_Q_FULL_DO_COOKIES), full.by)
        .number_if("backlog", listener.backlog())
        .number("arrived_at_once", cookies.at_once)
        .number_if("somaxconn", here.setting(sysctl::SOMAXCONN))
        .number_if("tcp_syncookies", here.setting(sysctl::TCP_SYNCOOKIES))
        .number_if("longest_syn_queue", sampled.map(|s| s.longest_syn_queue.0))
        .number("synflood_warned", listener.warned())
        .rows(always.flatten())
        .rows(sampled.map(|s| s.last_row))
        .rows(here.call_row())
        .rows(full.rows())
}

fn timestamps(cookies: &Cookies) -> Step {
    let here = cookies.here.setting(sysctl::TCP_TIMESTAMPS);
    let says = match here {
        Some(0) => {
            "net.ipv4.tcp_timestamps=0 on this side: a cookie keeps SACK and window scaling only \
             inside the timestamp option."
        }
        Some(_) => {
            "net.ipv4.tcp_timestamps is on here, so the clients' SYNs carried no timestamp, the only \
             place where a cookie keeps SACK and window scaling."
        }
        None => {
            "None of them uses timestamps, the only place where a cookie keeps SACK and window scaling."
        }
    };
    Step::new(says)
        .number_if("tcp_timestamps", here)
        .rows(cookies.here.setting_row(sysctl::TCP_TIMESTAMPS))
        .rows(cookies.without_options().rows().into_iter().take(1))
}
