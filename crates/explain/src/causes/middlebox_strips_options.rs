//! C07: something on the path removes TCP options from handshakes, without any cookie.

mod evidence;

use std::collections::BTreeMap;

use analysis::words::{count, fitting, list, plural};
use analysis::{Agreed, Rise};

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::{Scene, doubts, scenes};
use crate::places::options::{Pace, Sorted, any_lasts};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::MIDDLEBOX_STRIPS_OPTIONS,
    number: "C07",
    title: "a box on the path strips TCP options",
    page: include_str!("middlebox_strips_options.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::States], &[SourceName::Sockets]],
    seen_from: "a transfer that waits for its window 20 % of its busy time",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

/// A transfer is held up by the window if it waits for it this share of its busy time…
const MIN_WAITED: f64 = 0.2;
/// … or, seen from the receiver, if it reaches this share of 65,535 bytes per round trip.
const MIN_OF_CEILING: f64 = 0.5;
/// Servers that clients of this host connect to, looked at one by one.
const MAX_PLACES: usize = 65_536;

/// Connections to one place that lack options.
struct Case<'a> {
    story: &'a Story,
    /// The listener, when it is on this host.
    scene: Option<Scene<'a>>,
    at: Endpoint,
    netns: u32,
    lacking: Vec<ConnId>,
    kept: Vec<ConnId>,
    /// Connections whose two ends are on this host, both with the options switched on.
    proven: u64,
    pace: Pace,
}

fn find(story: &Story) -> Vec<Finding> {
    let here = scenes(story).filter_map(|scene| {
        let sorted = Sorted::of(scene);
        let (at, netns) = (scene.listener.local, scene.listener.netns);
        Case::of(story, Some(scene), at, netns, sorted.plain, sorted.kept)
    });
    let away = elsewhere(story)
        .into_iter()
        .filter_map(|((netns, at), place)| {
            Case::of(story, None, at, netns, place.lacking, place.kept)
        });
    here.chain(away).map(|case| case.finding()).collect()
}

#[derive(Default)]
struct Place {
    lacking: Vec<ConnId>,
    kept: Vec<ConnId>,
}

/// Connections that were opened here to servers on other hosts, by server.
fn elsewhere(story: &Story) -> BTreeMap<(u32, Endpoint), Place> {
    let mut places: BTreeMap<(u32, Endpoint), Place> = BTreeMap::new();
    for (id, conn) in story.conns.iter().enumerate() {
        let away = conn.peer.is_none() && conn.listener.is_none() && conn.side != Side::Accepted;
        let (Some(agreed), true) = (conn.agreed, away) else {
            continue;
        };
        let key = (conn.netns, conn.remote);
        if places.len() >= MAX_PLACES && !places.contains_key(&key) {
            continue;
        }
        let place = places.entry(key).or_default();
        match agreed.sack && agreed.window_scaling {
            true => place.kept.push(id as ConnId),
            false => place.lacking.push(id as ConnId),
        }
    }
    places
}

impl<'a> Case<'a> {
    fn of(
        story: &'a Story,
        scene: Option<Scene<'a>>,
        at: Endpoint,
        netns: u32,
        mut lacking: Vec<ConnId>,
        kept: Vec<ConnId>,
    ) -> Option<Case<'a>> {
        lacking.retain(|id| story.conn(*id).is_some_and(|c| stripped(story, c)));
        let pairs = story
            .all(&lacking)
            .filter(|(_, c)| c.peer.is_some())
            .count() as u64;
        let pace = Pace::of(story, &lacking, &kept);
        let matters = match pairs {
            // The other end may never have offered them: that is no fault unless it hurts.
            0 => held_up(&pace),
            _ => !pace.slow.is_empty() || any_lasts(story, &lacking),
        };
        (!lacking.is_empty() && matters).then_some(Case {
            story,
            scene,
            at,
            netns,
            lacking,
            kept,
            proven: pairs,
            pace,
        })
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks: Vec<Check> = self.pace.rate_check().into_iter().collect();
        let (n, of) = (self.affected(), self.of_all());
        let who = match self.proven {
            0 => "The peers, or a box on the path, refuse",
            _ => "A box on the path strips",
        };
        let missing = list(&self.missing());
        let cases = format!("{} of {} connections", count(n), count(of));
        let verb = if scope.role == Role::Client {
            "to"
        } else {
            "at"
        };
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: self.pace.lost(self.story, &self.lacking),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!("{who} {missing} of {cases} {verb} {}.", named(&scope)),
                format!("{who} {missing} of {cases} {verb} {}.", named_short(&scope)),
                format!("{who} {missing} of {cases} {verb} {}.", scope.listener),
            ]),
            fix: match self.proven {
                0 => {
                    "Compare a SYN at both ends; make the firewall between leave TCP options alone."
                        .into()
                }
                _ => "Make the firewall or load balancer between the ends leave TCP options alone."
                    .into(),
            },
            impact: self.pace.impact(n, of, &self.cost()),
            confidence: self.confidence(&checks),
            evidence: self.evidence(&missing),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope),
            verify: format!(
                "Connect again: `ss -tien '( sport = :{0} or dport = :{0} )'` shows sack and wscale \
                 at both ends.",
                self.at.port
            ),
            scope,
        }
    }

    fn affected(&self) -> u64 {
        self.lacking.len() as u64
    }

    fn of_all(&self) -> u64 {
        self.affected() + self.kept.len() as u64
    }

    fn scope(&self) -> Scope {
        if let Some(scene) = self.scene {
            return scene.scope();
        }
        let callers = self.story.all(&self.lacking);
        let caller = callers
            .filter_map(|(_, c)| Some((c.pid?, c.comm.clone())))
            .next();
        Scope {
            netns: self.story.netns(self.netns),
            listener: self.at.to_string(),
            role: Role::Client,
            pid: caller.as_ref().map(|(pid, _)| *pid),
            pids: caller.iter().map(|(pid, _)| *pid).collect(),
            comm: caller.and_then(|(_, comm)| Some(comm?.to_string())),
            ..Scope::default()
        }
    }

    /// Names of the options that any of them lacks.
    fn missing(&self) -> Vec<String> {
        let lacks = |of: fn(Agreed) -> bool| {
            let mut agreed = self.story.all(&self.lacking).filter_map(|(_, c)| c.agreed);
            agreed.any(|a| !of(a))
        };
        let mut names = Vec::new();
        if lacks(|a| a.sack) {
            names.push("SACK".into());
        }
        if lacks(|a| a.window_scaling) {
            names.push("window scaling".into());
        }
        names
    }

    fn scaling_lost(&self) -> bool {
        self.missing().iter().any(|m| m == "window scaling")
    }

    fn cost(&self) -> String {
        match self.scaling_lost() {
            true => self.pace.cost(),
            false => "recover from each loss with a round trip per hole, or a time-out".into(),
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        match self.proven {
            0 => self.one_end(&mut c),
            n => c.because(format!(
                "both ends of {} are on this host and have the options switched on: only something \
                 between them can remove them",
                plural(n, "connection")
            )),
        }
        let older = self.story.all(&self.lacking);
        let older = older.filter(|(_, c)| c.side == Side::Older).count() as u64;
        if older == self.affected() && self.proven == 0 {
            c.at_most(Level::Low, "all of them are older than the recording");
        }
        if self.unseen() > 0 && self.cookies().value > 0 {
            let n = plural(self.unseen(), "connection");
            let why =
                format!("whether a cookie made {n} was not seen, and there have been cookies");
            c.at_most(Level::Medium, why);
        }
        c.weigh_checks(checks);
        let used = [SourceName::States, SourceName::Sockets];
        doubts(self.story, &mut c, &used);
        c
    }

    fn one_end(&self, c: &mut Confidence) {
        let Some(_) = self.scene else {
            c.at_most(
                Level::Low,
                "only the client is on this host: SYN cookies at the server, or its settings, look \
                 the same from here",
            );
            return;
        };
        let with = self.story.all(&self.kept).map(|(_, c)| c.remote.addr);
        let with: std::collections::BTreeSet<_> = with.collect();
        let mut lacking = self.story.all(&self.lacking);
        match lacking.any(|(_, c)| with.contains(&c.remote.addr)) {
            true => c.at_most(
                Level::Medium,
                "only the server is on this host, but the same clients have them on other \
                 connections",
            ),
            false => c.at_most(
                Level::Low,
                "only the server is on this host: these clients may never have offered them",
            ),
        }
    }

    /// Cookies that came back to the namespace.
    fn cookies(&self) -> Rise {
        self.story
            .counters
            .rise(self.netns, counter::SYNCOOKIES_RECV)
    }

    /// Accepted connections of which it is not known whether a cookie made them.
    fn unseen(&self) -> u64 {
        let unseen = self.story.all(&self.lacking);
        let unseen = unseen.filter(|(_, c)| c.cookie.is_none());
        self.scene.map_or(0, |_| unseen.count() as u64)
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let received = self.cookies().by;
        let cookies = match self.scene {
            Some(_) => format!(
                "{} of them were made from a cookie; SyncookiesRecv rose by {}",
                match self.unseen() {
                    0 => "none".into(),
                    n => format!("at most {}", count(n)),
                },
                count(received)
            ),
            None => format!(
                "not ruled out from this side; {} with SACK and window scaling to the same server \
                 in the recording",
                plural(self.kept.len() as u64, "connection")
            ),
        };
        let mut out = vec![RuledOut::new(Id::SYN_COOKIE_OPTIONS_LOST, cookies)];
        if let Some(window) = self.pace.widest() {
            out.push(RuledOut::new(
                Id::SLOW_READER,
                format!(
                    "the peers offer up to {} bytes: the window is small, not closed",
                    count(window.into())
                ),
            ));
        }
        out
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let port = self.at.port;
        let gain = match self.scaling_lost() {
            true => format!("New connections can go {}.", self.pace.gain()),
            false => "New connections repair several losses in one round trip.".into(),
        };
        let strip = "nft list ruleset | grep -n 'tcp option'; iptables-save | grep TCPOPTSTRIP";
        vec![
            Advice {
                action: format!(
                    "Find what rewrites the options of SYNs to port {port} and let {} pass.",
                    list(&self.missing())
                ),
                command: Some(strip.into()),
                r#where: "every firewall, load balancer and tunnel end between the two".into(),
                risk: "The rule was made for a reason: ask who made it.".into(),
                expected: format!("{gain} Existing ones stay as they are until they reconnect."),
                change: Some(Change::KeepOptions {
                    listener: scope.listener.clone(),
                }),
            },
            Advice {
                action: "Compare the options of one SYN where it leaves and where it arrives."
                    .into(),
                command: command_in(
                    &scope.netns,
                    &format!("tcpdump -nvi any 'port {port} and tcp[13] & 2 != 0'"),
                ),
                r#where: "both ends, at the same time".into(),
                risk: "None.".into(),
                expected: "The hop after which sackOK or wscale is missing is the one to fix."
                    .into(),
                change: None,
            },
        ]
    }
}

/// Whether the connection lacks what this end, and the other if it is here, has switched on.
fn stripped(story: &Story, conn: &Conn) -> bool {
    let Some(agreed) = conn.agreed else {
        return false;
    };
    let peer = conn.peer.and_then(|peer| story.conn(peer));
    let on = |name| {
        let here = story.settings.number(conn.netns, name);
        let there = peer.map_or(Some(1), |p| story.settings.number(p.netns, name));
        here.is_some_and(|v| v > 0) && there.is_some_and(|v| v > 0)
    };
    (!agreed.sack && on(sysctl::TCP_SACK))
        || (!agreed.window_scaling && on(sysctl::TCP_WINDOW_SCALING))
}

/// Whether a transfer without window scaling is held up by the small window.
fn held_up(pace: &Pace) -> bool {
    let small = |window: Option<u32>| window.is_none_or(|w| w <= u32::from(u16::MAX));
    let Some(ceiling) = pace.ceiling() else {
        return false;
    };
    pace.slow.iter().any(|f| {
        let waits = f.rwnd_share.is_some_and(|share| share >= MIN_WAITED);
        let at_ceiling = f.rate >= MIN_OF_CEILING * ceiling && f.rate <= ceiling * 1.25;
        small(f.snd_wnd) && (waits || (f.rwnd_share.is_none() && at_ceiling))
    })
}

#[cfg(test)]
mod tests;
