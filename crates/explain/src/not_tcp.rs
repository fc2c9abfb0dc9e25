//! Whose time it was when it was not TCP's: that of the recorded command, or that of a service's own side.

use analysis::account::{Parts, Requests, Role, Service};
use analysis::words::{duration, percent, rounded};
use serde::{Deserialize, Serialize};

use crate::command::CommandTime;
use crate::limits;

/// Whose time it was, where it was not TCP's: the answer where there is no finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotTcp {
    /// Whose.
    pub whose: TimeOf,
    /// Which part of the command's time, or of the requests', 0..1.
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
}

/// The command's, where it was asked about; else that of the service whose requests took most time.
pub(crate) fn not_tcp(command: Option<&CommandTime>, services: &[Service]) -> Option<NotTcp> {
    let command = command.map(|command| NotTcp {
        whose: TimeOf::Command,
        share: rounded(command.without_tcp_s / command.ran_s),
        says: command.says.clone(),
    });
    command.or_else(|| of_services(services))
}

fn of_services(services: &[Service]) -> Option<NotTcp> {
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
    let who = match (&service.comm, service.pid) {
        (Some(comm), Some(pid)) => format!("{comm} (pid {pid})"),
        _ => "a client here".into(),
    };
    let share = percent(its_own / r.total_s);
    let tail = tail.map_or(String::new(), |p| {
        format!(
            "; half of the answers take {}, one in a hundred {} or longer",
            seconds(p.p50_s),
            seconds(p.p99_s)
        )
    });
    let says = match service.role {
        Role::Server => format!(
            "{who} at {} {} {} of {} ({share}) per request on average{}{tail}.",
            service.at,
            does(&r.spent_s),
            seconds(each(its_own)),
            seconds(whole),
            meanwhile(r)
        ),
        Role::Client | Role::Unknown => format!(
            "{} takes {} of the {} that {who} waits for an answer on average ({share}){tail}; a round trip takes {}.",
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

/// What a server does with most of its own time.
fn does(parts: &Parts) -> &'static str {
    let most = parts.think.max(parts.unread).max(parts.accept);
    match most {
        most if most == parts.think => "takes",
        most if most == parts.unread => "does not read for",
        _ => "does not accept for",
    }
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
    format!(", {} of them {doing}", each(longest))
}

/// A time in words.
fn seconds(s: f64) -> String {
    duration((s.max(0.0) * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use analysis::account::{Percentiles, Spent, Whose};
    use analysis::{Endpoint, Netns};

    use super::*;

    /// A client whose 100 requests waited 480 of 500 ms for the peer.
    fn asks(p99_s: f64) -> Option<NotTcp> {
        let requests = Requests {
            exchanges: 100,
            total_s: 0.5,
            whose_s: Whose {
                peer: 0.48,
                ..Whose::default()
            },
            response: Some(Percentiles {
                p50_s: 0.0016,
                p90_s: 0.002,
                p99_s,
            }),
            ..Requests::default()
        };
        let netns = Netns {
            inode: 1,
            name: None,
        };
        of_services(&[Service {
            netns,
            role: Role::Client,
            at: Endpoint::default(),
            pid: None,
            comm: None,
            ends: 1,
            duplex: 0,
            samples: 0,
            total_s: 0.5,
            spent_s: Spent::default(),
            requests: Some(requests),
        }])
    }

    #[test]
    fn few_that_take_long_are_felt_though_the_mean_is_short() {
        let not_tcp = asks(0.09).unwrap();
        assert_eq!((not_tcp.whose, not_tcp.share), (TimeOf::Peer, 0.96));
        let says = not_tcp.says;
        let tail = "; half of the answers take 1.6 ms, one in a hundred 90 ms or longer; a round trip takes 0 µs.";
        assert!(
            says.contains("takes 4.8 ms of the 5 ms") && says.ends_with(tail),
            "{says}"
        );
        assert_eq!(asks(0.015), None);
        assert_eq!(asks(0.009), None);
    }
}
