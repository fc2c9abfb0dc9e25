//! Whose time it was when it was not TCP's: that of the recorded command, of a name server, of round trips that callers
//! could spare themselves, or of a service's own side.

mod chain;
mod held;
mod standstill;

use analysis::Story;
use analysis::account::{Parts, Percentiles, Requests, Role, Service};
use analysis::words::{percent, rounded};
use serde::{Deserialize, Serialize};

use crate::command::CommandTime;
use crate::handshakes::Handshakes;
use crate::limits;
use crate::lockstep::Lockstep;
use crate::name_waits::NameWaits;
use crate::named::{name, seconds};
use chain::{Arrivals, Chain, asks};
use held::{Departures, is_event};
pub(crate) use standstill::standstill;

/// Whose time it was, where it was not TCP's: the answer where there is no finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotTcp {
    /// Whose.
    pub whose: TimeOf,
    /// Which part of the command's time, or of the requests', or (name servers) of the recording's, 0..1.
    pub share: f64,
    /// In one sentence.
    pub says: String,
}

/// Who took time that TCP did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimeOf {
    /// The command that was recorded, without a TCP connection.
    Command,
    /// The application that serves the requests that took most time.
    Application,
    /// The peer that was asked.
    Peer,
    /// A name server that programs waited for.
    NameServer,
    /// Handshakes of connections that a caller could have kept.
    Handshakes,
    /// A stream of which each part waits for a word of the other side.
    RoundTrips,
    /// A service that answers nobody.
    Standstill,
}

impl TimeOf {
    /// What its sentence begins with.
    pub fn label(self) -> &'static str {
        match self {
            TimeOf::Command | TimeOf::Application | TimeOf::Peer | TimeOf::NameServer => "NOT TCP",
            TimeOf::Handshakes => "HANDSHAKES",
            TimeOf::RoundTrips => "ROUND TRIPS",
            TimeOf::Standstill => "WAITING",
        }
    }
}

/// The command's, where it was asked about; else that of the name server or the service for which was waited longest,
/// or of the round trips that callers could have spared themselves.
pub(crate) fn not_tcp(
    command: Option<&CommandTime>,
    names: Option<&NameWaits>,
    story: &Story,
    services: &[Service],
) -> Option<NotTcp> {
    let command = command.map(|command| NotTcp {
        whose: TimeOf::Command,
        share: rounded(command.without_tcp_s / command.ran_s),
        says: command.says.clone(),
    });
    let handshakes = Handshakes::most(services).map(|handshakes| {
        let told = NotTcp {
            whose: TimeOf::Handshakes,
            share: rounded(handshakes.share()),
            says: handshakes.says(),
        };
        (handshakes.took_s(), told)
    });
    let lockstep = Lockstep::most(story, services).map(|lockstep| {
        let told = NotTcp {
            whose: TimeOf::RoundTrips,
            share: rounded(lockstep.share()),
            says: lockstep.says(),
        };
        (lockstep.took_s(), told)
    });
    // More than any service's own side took of its requests.
    let asked = services.iter().filter_map(|s| s.requests.as_ref());
    let own = asked.map(|r| r.whose_s.application.max(r.whose_s.peer));
    let longest_s = own.fold(0.0, f64::max);
    let spared = handshakes.into_iter().chain(lockstep);
    let spared = spared.max_by(|a, b| a.0.total_cmp(&b.0));
    let first = spared.clone().filter(|(s, _)| *s >= longest_s);
    command
        .or_else(|| of_names(names, services, story.seconds()))
        .or_else(|| first.map(|(_, told)| told))
        .or_else(|| of_services(services, &Arrivals::of(story), &Departures::of(story)))
        .or_else(|| spared.map(|(_, told)| told))
}

/// That of a name server for which was waited as long as for any service: one that looks names up is as slow as these
/// are.
fn of_names(names: Option<&NameWaits>, services: &[Service], seconds: f64) -> Option<NotTcp> {
    let served = services.iter().filter_map(|s| s.requests.as_ref());
    let served_s = served.map(|r| r.total_s).fold(0.0, f64::max);
    let names = names.filter(|n| n.total_s() >= limits::MOST.share() * served_s)?;
    Some(NotTcp {
        whose: TimeOf::NameServer,
        share: rounded((names.total_s() / seconds.max(names.total_s())).min(1.0)),
        says: names.says() + ".",
    })
}

fn of_services(
    services: &[Service],
    arrivals: &Arrivals,
    departures: &Departures,
) -> Option<NotTcp> {
    let of_role = |role| services.iter().filter(move |s| s.role == role);
    let most = |role| {
        let asked = of_role(role).filter_map(|s| Some((s, s.requests.as_ref()?)));
        asked.max_by(|a, b| a.1.total_s.total_cmp(&b.1.total_s))
    };
    // Where both ends are here, what the client waits for is what the server does.
    let (service, r) = match (most(Role::Server), most(Role::Client)) {
        (Some(server), Some(client))
            if client.1.total_s < limits::TWICE.times() * server.1.total_s =>
        {
            server
        }
        (server, client) => client.or(server)?,
    };
    let each = |s: f64| s / r.exchanges.max(1) as f64;
    let whole = each(r.total_s);
    let its_own = match service.role {
        Role::Server => r.whose_s.application,
        Role::Client | Role::Unknown => r.whose_s.peer,
    };
    let tail = r.response.filter(|p| {
        p.p99_s >= limits::ANSWER_SLOW.s() && p.p99_s >= limits::ANSWER_TAIL.times() * p.p50_s
    });
    let slow = whole >= limits::ANSWER_SLOW.s() || tail.is_some();
    if r.exchanges == 0 || !slow || its_own < limits::MOST.share() * r.total_s {
        return None;
    }
    if is_transfer(service, r) || is_event(services, service, r, departures) {
        return None;
    }
    // The server is here, too, and answered at once: the client's wait was neither's own.
    let answered = of_role(Role::Server).filter_map(|s| Some((s, s.requests.as_ref()?)));
    let mut answered = answered.filter(|(s, _)| s.at.port == service.at.port);
    if service.role == Role::Client
        && answered.any(|(_, s)| {
            s.exchanges >= r.exchanges / 2 && s.total_s < limits::MOST.share() * its_own
        })
    {
        return None;
    }
    if service.role == Role::Server
        && let Some(chain) = Chain::of(services, arrivals, service, r)
    {
        return chain.tell(each(r.total_s), share_of_tail(tail));
    }
    let who = name(service);
    let share = percent(its_own / r.total_s);
    let says = match (service.role, tail) {
        // The average of two populations is nobody's time.
        (Role::Server, Some(p)) => format!(
            "{who} at {} answers half of its requests within {}, and {}; {share} of that time is its own{}{}{}.",
            service.at,
            seconds(p.p50_s),
            the_others(p),
            departures.says(service, r),
            meanwhile(r),
            asks_meanwhile(services, service)
        ),
        (_, Some(p)) => format!(
            "{} answers half of the requests of {who} within {}, and {}; {share} of that time is the peer's. A round \
             trip takes {}.",
            service.at,
            seconds(p.p50_s),
            the_others(p),
            seconds(r.round_trip_s.unwrap_or(0.0))
        ),
        (Role::Server, None) => format!(
            "{who} at {} takes {} of {} ({share}) per request on average{}{}{}{}.",
            service.at,
            seconds(each(its_own)),
            seconds(whole),
            departures.says(service, r),
            before_it_reads(&r.spent_s, r),
            meanwhile(r),
            asks_meanwhile(services, service)
        ),
        (Role::Client | Role::Unknown, None) => format!(
            "{} takes {} of the {} that {who} waits for an answer on average ({share}); a round trip takes {}.",
            service.at,
            seconds(each(its_own)),
            seconds(whole),
            seconds(r.round_trip_s.unwrap_or(0.0))
        ),
    };
    Some(NotTcp {
        whose: match service.role {
            Role::Server => TimeOf::Application,
            Role::Client | Role::Unknown => TimeOf::Peer,
        },
        share: rounded(its_own / r.total_s),
        says,
    })
}

/// Answers so large that the time is that of moving them.
fn is_transfer(service: &Service, r: &Requests) -> bool {
    service.bytes as f64 >= limits::ANSWER_FAST.number() * r.total_s
}

/// That few answers take most.
fn share_of_tail(tail: Option<Percentiles>) -> String {
    tail.map_or(String::new(), |p| {
        format!(
            "; half of the answers take {}, and {}",
            seconds(p.p50_s),
            the_others(p)
        )
    })
}

/// How many take how long, where half are answered much sooner.
fn the_others(p: Percentiles) -> String {
    let (who, s) = if p.p90_s >= limits::ANSWER_TAIL.times() * p.p50_s {
        ("ten", p.p90_s)
    } else {
        ("a hundred", p.p99_s)
    };
    format!("one in {who} takes {} or longer", seconds(s))
}

/// What of its time passed before it had the request, as it continues a sentence.
fn before_it_reads(spent: &Parts, r: &Requests) -> String {
    let parts = [
        (spent.accept, "before accept()"),
        (spent.unread, "before it reads"),
    ];
    let own = spent.accept + spent.unread + spent.think;
    let told = parts
        .into_iter()
        .filter(|(s, _)| *s >= limits::ALIKE.share() * own && *s > 0.0);
    told.map(|(s, when)| format!(", {} of it {when}", seconds(s / r.exchanges.max(1) as f64)))
        .collect()
}

/// Whom it asks meanwhile, and how soon that one answers: then the requests queue in it (a limit of connections, a pool
/// of workers), as it continues a sentence.
fn asks_meanwhile(services: &[Service], server: &Service) -> String {
    let most = asks(services, server)
        .filter(|(_, r)| {
            limits::MOST.reached(
                r.exchanges,
                server.requests.as_ref().map_or(0, |r| r.exchanges),
            )
        })
        .max_by(|a, b| a.1.total_s.total_cmp(&b.1.total_s));
    most.and_then(|(s, r)| Some((s, r.response?)))
        .map_or(String::new(), |(s, p)| {
            format!(
                "; {} answers half of its requests within {}",
                s.at,
                seconds(p.p50_s)
            )
        })
}

/// What its threads did for most of the service time, as it continues a sentence.
fn meanwhile(r: &Requests) -> String {
    let each = |s: f64| seconds(s / r.exchanges.max(1) as f64);
    let (t, think) = (&r.thinking, r.spent_s.think);
    let longest = t.cpu.max(t.runqueue).max(t.asleep());
    if longest < limits::MOST.share() * think || longest == 0.0 {
        return String::new();
    }
    let slowest = r.slowest.first().and_then(|slow| slow.waits.first());
    let doing = match longest {
        most if most == t.cpu => "on a CPU".to_string(),
        most if most == t.runqueue => "waiting for a CPU".to_string(),
        _ => match slowest.map(|w| (&w.awaited, &w.syscall)) {
            Some((Some(peer), _)) => format!("waiting for {peer}"),
            Some((None, Some(call))) => format!("asleep in {call}"),
            _ => "asleep".to_string(),
        },
    };
    format!(", {} of it {doing}", each(longest))
}

#[cfg(test)]
mod tests;
