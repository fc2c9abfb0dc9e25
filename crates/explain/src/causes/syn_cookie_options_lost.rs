//! C06: connections answered with SYN cookies lost SACK and window scaling.

use analysis::stats::{median, most_within};
use analysis::words::{count, fitting, plural};

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::{Scene, doubts, raise_backlog, roomy_backlog, scenes};
use crate::places::options::{Pace, Sorted, UNSCALED_WINDOW, any_lasts};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SYN_COOKIE_OPTIONS_LOST,
    number: "C06",
    title: "SYN cookies strip SACK and window scaling",
    page: include_str!("syn_cookie_options_lost.md"),
    ground: Ground::Listeners,
    needs: &[&[SourceName::States], &[SourceName::Symbols]],
    seen_from: "a connection of at least 1 s, or with bulk, without SACK and window scaling",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

/// Without a measured round trip, SYNs within this time of each other count as simultaneous.
const USUAL_RTT_NS: u64 = 10_000_000;

/// The connections of a listener, and what those that lost their options lost with them.
struct Case<'a> {
    scene: Scene<'a>,
    sorted: Sorted,
    /// All that lost their options to a cookie, seen or inferred.
    lost: Vec<ConnId>,
    pace: Pace,
}

fn find(story: &Story) -> Vec<Finding> {
    findings(scenes(story), Case::of, Case::finding)
}

impl<'a> Case<'a> {
    /// One connection is enough: a single slow one can hold up a cluster. But it must carry bulk,
    /// or live on.
    fn of(scene: Scene<'a>) -> Option<Case<'a>> {
        let sorted = Sorted::of(scene);
        let lost = [&sorted.cookie[..], &sorted.perhaps_cookie[..]].concat();
        if lost.is_empty() {
            return None;
        }
        let pace = Pace::of(scene.story, &lost, &sorted.kept);
        let matters = !pace.slow.is_empty() || any_lasts(scene.story, &sorted.cookie);
        matters.then_some(Case {
            scene,
            sorted,
            lost,
            pace,
        })
    }

    fn finding(&self) -> Finding {
        let scope = self.scene.scope();
        let checks = self.arithmetic();
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: self.pace.lost(self.scene.story, &self.lost),
            since: None,
            episodes: Vec::new(),
            title: self.title(&scope),
            fix: self.fix(&scope),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(application(&scope)),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope),
            verify: format!(
                "Connect again under the same load: `nstat -az TcpExtTCPReqQFullDoCookies` no \
                 longer rises, and `ss -tien 'sport = :{}'` shows sack and wscale on every new \
                 connection.",
                self.scene.listener.local.port
            ),
            scope,
        }
    }

    fn affected(&self) -> u64 {
        self.lost.len() as u64
    }

    fn of_all(&self) -> u64 {
        self.affected() + self.sorted.kept.len() as u64 + self.sorted.plain.len() as u64
    }

    fn title(&self, scope: &Scope) -> String {
        let lost = format!(
            "{} of {} connections lost SACK and window scaling to SYN cookies.",
            count(self.affected()),
            count(self.of_all())
        );
        fitting([
            format!("{}: {lost}", named(scope)),
            format!("{}: {lost}", named_short(scope)),
        ])
    }

    fn fix(&self, scope: &Scope) -> String {
        let to = count(self.new_backlog().into());
        let backlog = match scope.backlog {
            Some(b) => format!("from {} to {to}", count(b.into())),
            None => format!("to {to}"),
        };
        let timestamps = match self.timestamps_off() {
            true => ", set net.ipv4.tcp_timestamps=1",
            false => "",
        };
        if self.always() {
            return format!(
                "Set net.ipv4.tcp_syncookies=1{timestamps}, and reconnect the clients."
            );
        }
        fitting([
            format!("Raise its listen() backlog {backlog}{timestamps}, and reconnect the clients."),
            format!("Raise its listen() backlog {backlog}{timestamps}, and reconnect."),
        ])
    }

    fn impact(&self) -> Impact {
        let cost = self.pace.cost();
        self.pace.impact(self.affected(), self.of_all(), &cost)
    }

    fn timestamps_off(&self) -> bool {
        self.scene.setting(sysctl::TCP_TIMESTAMPS) == Some(0)
    }

    /// Every SYN is answered by a cookie, however empty the queue.
    fn always(&self) -> bool {
        self.scene.setting(sysctl::TCP_SYNCOOKIES) == Some(2)
    }

    /// Other namespaces of this host from which its clients connect without timestamps.
    fn clients_without(&self) -> Vec<u32> {
        let story = self.scene.story;
        let peers = story
            .all(&self.lost)
            .filter_map(|(_, c)| story.conn(c.peer?));
        let mut netns: Vec<u32> = peers.map(|p| p.netns).collect();
        netns.sort_unstable();
        netns.dedup();
        netns.retain(|n| *n != self.scene.listener.netns);
        netns.retain(|n| story.settings.number(*n, sysctl::TCP_TIMESTAMPS) == Some(0));
        netns
    }

    /// The most connections that arrived within one round trip: they are half-open at once. Of the
    /// round trips known, that of the path when it is idle: data have yet to come.
    fn at_once(&self) -> u64 {
        let story = self.scene.story;
        let transfers = self.scene.listener.accepted.iter();
        let transfers = transfers.filter_map(|id| story.transfers.of(*id));
        let known = transfers.map(|t| t.min_rtt_us).filter(|us| *us > 0);
        let idle_ns = median(&mut known.collect::<Vec<_>>()).map(|us| u64::from(us) * 1_000);
        let width = idle_ns.or(self.pace.rtt_ns).unwrap_or(USUAL_RTT_NS);
        let accepted = story.all(&self.scene.listener.accepted);
        let accepted = accepted.filter(|(_, c)| c.side == Side::Accepted);
        let mut times: Vec<u64> = accepted.map(|(_, c)| c.start_ns).collect();
        most_within(&mut times, width)
    }

    fn new_backlog(&self) -> u32 {
        roomy_backlog(self.scene, self.at_once())
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        let (seen, unseen) = (self.sorted.cookie.len(), self.sorted.perhaps_cookie.len());
        if seen > 0 {
            let were = if seen == 1 { "was" } else { "were" };
            c.because(format!(
                "the kernel's stack at establishment shows that {} {were} made from a cookie",
                count(seen as u64)
            ));
        }
        if unseen > 0 {
            let n = plural(unseen as u64, "connection");
            let why = format!(
                "the making of {n} was not seen; the kernel's count of accepted cookies covers them"
            );
            match seen {
                0 => c.at_most(Level::Medium, why),
                _ => c.because(why),
            }
        }
        c.weigh_checks(checks);
        let used = [
            SourceName::States,
            SourceName::Symbols,
            SourceName::Counters,
            SourceName::Sockets,
        ];
        doubts(self.scene.story, &mut c, &used);
        c
    }

    fn evidence(&self, application: &str) -> Vec<Step> {
        let mut steps = vec![self.options_step()];
        steps.extend(
            self.pace
                .rate_step(self.scene.story, self.scene.listener.netns),
        );
        steps.extend(self.pace.window_step());
        steps.push(self.cookie_step());
        steps.push(self.queue_step(application));
        steps.push(self.timestamp_step());
        steps
    }

    fn rows(&self, ids: &[ConnId]) -> Vec<RowRef> {
        let story = self.scene.story;
        let row = |c: &Conn| c.row().or(story.samples(c).map(|s| s.last.row));
        let rows = story.all(ids).filter_map(|(_, c)| row(c));
        rows.take(SHOWN_ROWS).collect()
    }

    fn options_step(&self) -> Step {
        let (n, kept) = (self.affected(), self.sorted.kept.len() as u64);
        let others = match kept {
            0 => "no other connection of this listener has them".into(),
            1 => "1 other has them".into(),
            _ => format!("{} others have them", count(kept)),
        };
        let run = if n == 1 { "runs" } else { "run" };
        Step::new(format!(
            "{} {run} without SACK and window scaling; {others}.",
            plural(n, "accepted connection")
        ))
        .number("without", n)
        .number("with", kept)
        .rows(self.rows(&self.lost))
    }

    fn cookie_step(&self) -> Step {
        let sent = self.scene.rise(counter::SYNCOOKIES_SENT);
        let received = self.scene.rise(counter::SYNCOOKIES_RECV);
        let seen = self.sorted.cookie.len() as u64;
        let mut says: String = match seen {
            0 => "They are older than the recording, or their making was not seen.".into(),
            1 if self.affected() == 1 => "It was made from a SYN cookie.".into(),
            n if n == self.affected() => "All of them were made from SYN cookies.".into(),
            n => format!(
                "{} of them were seen to be made from SYN cookies.",
                count(n)
            ),
        };
        says += &match (sent.by, received.by) {
            (0, 0) => format!(
                " The namespace has accepted {} since it was made (SyncookiesRecv).",
                plural(received.value, "cookie")
            ),
            (s, r) => format!(
                " The namespace sent {} and got {} back (SyncookiesSent, SyncookiesRecv).",
                plural(s, "cookie"),
                count(r)
            ),
        };
        Step::new(says)
            .number("cookie_connections", seen)
            .number(counter::short(counter::SYNCOOKIES_SENT), sent.by)
            .number(counter::short(counter::SYNCOOKIES_RECV), received.by)
            .number("SyncookiesRecv_total", received.value)
            .rows(self.rows(&self.sorted.cookie))
            .rows(received.rows())
    }

    fn queue_step(&self, application: &str) -> Step {
        let listener = self.scene.listener;
        let full = self.scene.rise(counter::TCP_REQ_Q_FULL_DO_COOKIES);
        let at_once = self.at_once();
        let mut says: String = match full.by {
            _ if self.always() => {
                "net.ipv4.tcp_syncookies=2: every SYN is answered by a cookie, however empty the \
                 SYN queue."
                    .into()
            }
            0 => "A listener sends cookies when its SYN queue is full.".into(),
            n => format!(
                "Cookies were sent because the SYN queue was full, {} (TCPReqQFullDoCookies).",
                plural(n, "time")
            ),
        };
        says += &match listener.backlog() {
            _ if self.always() => String::new(),
            Some(b) => format!(
                " Its limit is the backlog that {application} gave to listen(): {}.",
                count(b.into())
            ),
            None => " Its limit, the listen() backlog, was not sampled.".into(),
        };
        if at_once > 0 {
            let arrived = plural(at_once, "connection");
            says += &format!(" {arrived} arrived within one round trip.");
        }
        if listener.warned() {
            says += " The kernel has logged \"Possible SYN flooding\" for it.";
        }
        let sampled = listener.most_half_open();
        Step::new(says)
            .number(counter::short(counter::TCP_REQ_Q_FULL_DO_COOKIES), full.by)
            .number_if("backlog", listener.backlog())
            .number("arrived_at_once", at_once)
            .number_if("somaxconn", self.scene.setting(sysctl::SOMAXCONN))
            .number_if("tcp_syncookies", self.scene.setting(sysctl::TCP_SYNCOOKIES))
            .number_if("longest_syn_queue", sampled.map(|s| s.longest_syn_queue.0))
            .number("synflood_warned", listener.warned())
            .rows(
                self.always()
                    .then(|| self.scene.setting_row(sysctl::TCP_SYNCOOKIES))
                    .flatten(),
            )
            .rows(sampled.map(|s| s.last_row))
            .rows(self.scene.call_row())
            .rows(full.rows())
    }

    fn timestamp_step(&self) -> Step {
        let here = self.scene.setting(sysctl::TCP_TIMESTAMPS);
        let says = match here {
            Some(0) => {
                "net.ipv4.tcp_timestamps=0 on this side: a cookie keeps SACK and window scaling \
                 only inside the timestamp option."
            }
            Some(_) => {
                "net.ipv4.tcp_timestamps is on here, so the clients' SYNs carried no timestamp, \
                 the only place where a cookie keeps SACK and window scaling."
            }
            None => {
                "None of them uses timestamps, the only place where a cookie keeps SACK and \
                 window scaling."
            }
        };
        Step::new(says)
            .number_if("tcp_timestamps", here)
            .rows(self.scene.setting_row(sysctl::TCP_TIMESTAMPS))
            .rows(self.rows(&self.lost).into_iter().take(1))
    }

    fn arithmetic(&self) -> Vec<Check> {
        let received = self.scene.rise(counter::SYNCOOKIES_RECV).by;
        let (dropped, _) = self.scene.ghosts();
        let made = self.scene.story.sums(self.scene.listener.netns).cookies;
        // Without drops the ACKs among them that led to nothing are not known.
        let whole = self.scene.story.health.sees(&SourceName::Drops);
        let cookies = (whole && received > 0 && !self.sorted.cookie.is_empty()).then(|| {
            same_count(
                "cookies that came back (SyncookiesRecv), less those whose ACK was dropped = \
                 connections made from cookies",
                received.saturating_sub(dropped),
                made,
                "connections",
            )
        });
        cookies.into_iter().chain(self.pace.rate_check()).collect()
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let (seen, plain) = (
            self.sorted.cookie.len() as u64,
            self.sorted.plain.len() as u64,
        );
        let stripped = match (seen, plain) {
            (0, _) => {
                "the kernel has accepted at least as many cookies as connections lack options"
                    .into()
            }
            (n, 0) => format!(
                "{} without options came from a cookie, none lacks them without one",
                plural(n, "connection")
            ),
            (n, plain) => format!(
                "{} without options came from a cookie, {} lack some without one",
                plural(n, "connection"),
                count(plain)
            ),
        };
        let mut out = vec![RuledOut::new(Id::MIDDLEBOX_STRIPS_OPTIONS, stripped)];
        if let Some(window) = self.pace.widest()
            && f64::from(window) <= UNSCALED_WINDOW
        {
            out.push(RuledOut::new(
                Id::SLOW_READER,
                format!(
                    "their peers offer up to {} bytes, all that the header's 16 bits hold: the \
                     window is small, not closed",
                    count(window.into())
                ),
            ));
        }
        let dropped = self.scene.rise(counter::TCP_REQ_Q_FULL_DROP).by;
        out.push(RuledOut::new(
            Id::SYN_QUEUE_OVERFLOW,
            format!(
                "TCPReqQFullDrop rose by {}: the full SYN queue dropped none, cookies answered",
                count(dropped)
            ),
        ));
        if dropped > 0 {
            out.pop();
        }
        out
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let fits = match self.at_once() {
            0 => "SYNs that arrive together fit".into(),
            n => format!("{} within one round trip fit", plural(n, "connection")),
        };
        let gain = format!(
            "new connections keep their options and can go {}. Existing ones keep what they have \
             until they reconnect.",
            self.pace.gain()
        );
        let mut advice = match self.always() {
            true => vec![set_sysctl(
                &scope.netns,
                sysctl::TCP_SYNCOOKIES,
                1,
                "None for a listener whose backlog is as long as its bursts: cookies still answer \
                 what does not fit.",
                format!("While the SYN queue has room no cookie is sent: {gain}"),
            )],
            false => raise_backlog(
                self.scene,
                scope,
                self.new_backlog(),
                "Up to that many clients may wait unaccepted. Restarting breaks present \
                 connections.",
                format!("{fits}, so no cookie is sent: {gain}"),
            ),
        };
        let risk = "12 bytes per segment, nothing else today.";
        let expected = "Cookies that are still sent keep SACK and window scaling; both ends need \
                        it. Existing connections keep what they have until they reconnect.";
        let off = self.timestamps_off().then_some(self.scene.listener.netns);
        let off: Vec<u32> = off.into_iter().chain(self.clients_without()).collect();
        for netns in &off {
            let netns = self.scene.story.netns(*netns);
            advice.push(set_sysctl(
                &netns,
                sysctl::TCP_TIMESTAMPS,
                1,
                risk,
                expected.into(),
            ));
        }
        if off.is_empty() {
            advice.push(Advice {
                action: "Turn timestamps on at the clients.".into(),
                command: Some("sysctl -w net.ipv4.tcp_timestamps=1".into()),
                r#where: "every client host".into(),
                risk: risk.into(),
                expected: expected.into(),
                change: None,
            });
        }
        advice
    }
}

#[cfg(test)]
mod tests;
