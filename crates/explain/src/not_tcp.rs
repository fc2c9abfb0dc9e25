//! Whose time it was when it was not TCP's: that of the recorded command, or that of a service's own side.

use std::collections::BTreeMap;

use analysis::account::{Parts, Percentiles, Requests, Role, Service, Slow, State};
use analysis::words::{list, percent, rounded};
use analysis::{Endpoint, Side, Story};
use recording::Waker;
use serde::{Deserialize, Serialize};

use crate::command::CommandTime;
use crate::handshakes::Handshakes;
use crate::limits;
use crate::lockstep::Lockstep;
use crate::name_waits::NameWaits;
use crate::named::{name, seconds};

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
}

impl TimeOf {
    /// What its sentence begins with.
    pub fn label(self) -> &'static str {
        match self {
            TimeOf::Command | TimeOf::Application | TimeOf::Peer | TimeOf::NameServer => "NOT TCP",
            TimeOf::Handshakes => "HANDSHAKES",
            TimeOf::RoundTrips => "ROUND TRIPS",
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
        .or_else(|| of_services(services, &Arrivals::of(story)))
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

fn of_services(services: &[Service], arrivals: &Arrivals) -> Option<NotTcp> {
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
    if is_transfer(service, r) || is_event(services, service, r) {
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
            "{who} at {} answers half of its requests within {}, and {}; {share} of that time is its own{}{}.",
            service.at,
            seconds(p.p50_s),
            the_others(p),
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
            "{who} at {} takes {} of {} ({share}) per request on average{}{}{}.",
            service.at,
            seconds(each(its_own)),
            seconds(whole),
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

/// An event loop answered when something else had happened: another client's word (BRPOP, chats), or a timer after a
/// second or longer (heartbeats, long polls). It did nothing for the request until then, and owed nothing.
fn is_event(services: &[Service], service: &Service, r: &Requests) -> bool {
    if service.role != Role::Server || r.thinking.alone >= limits::MOST.share() * r.spent_s.think {
        return false;
    }
    let asks = |at| {
        let mut asked = services.iter().filter(|s| s.role == Role::Client);
        asked.any(|s| s.at == at && s.comm == service.comm)
    };
    let is_event = |slow: &Slow| {
        let last = slow.answered_after.as_ref();
        last.is_some_and(|wait| match wait.awaited {
            Some(from) => from != slow.remote && !asks(from),
            None => wait.woken_by == Waker::Timer.as_str() && slow.took_s >= limits::HELD.s(),
        })
    };
    let ended = r.slowest.iter().filter(|slow| !slow.open);
    let events = ended.clone().filter(|slow| is_event(slow)).count() as u64;
    events > 0 && limits::MOST.reached(events, ended.count() as u64)
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

/// Services that a request passes: each answers once its own requests to the next are answered.
struct Chain<'a> {
    /// The one that is asked, and those behind it that are on this host.
    servers: Vec<&'a Service>,
    /// Whom the last of them asks, where that is elsewhere.
    elsewhere: Option<&'a Service>,
    /// What the last one takes of each request that the first one answers, s.
    takes_s: f64,
}

/// In which network namespace connections arrive whose other end is on this host: by where they begin, and lead to. Hosts
/// of one machine listen at the same ports.
#[derive(Debug, Default)]
struct Arrivals(BTreeMap<(u32, Endpoint), u32>);

impl Arrivals {
    fn of(story: &Story) -> Arrivals {
        let opened = story.conns.iter().filter(|c| c.side == Side::Opened);
        let here = opened.filter_map(|c| Some((c, story.conn(c.peer?)?)));
        Arrivals(
            here.map(|(c, peer)| ((c.netns, c.remote), peer.netns))
                .collect(),
        )
    }
}

/// More proxies than this do not follow each other.
const MAX_HOPS: usize = 8;

impl<'a> Chain<'a> {
    /// Whom the requests of `first` wait for; `None` where that is its own process.
    fn of(
        services: &'a [Service],
        arrivals: &Arrivals,
        first: &'a Service,
        r: &Requests,
    ) -> Option<Chain<'a>> {
        let mut chain = Chain {
            servers: vec![first],
            elsewhere: None,
            takes_s: 0.0,
        };
        while let Some((asked, takes_s)) = chain.servers.last().and_then(|s| awaited(services, s)) {
            chain.takes_s = takes_s / r.exchanges.max(1) as f64;
            let netns = arrivals.0.get(&(asked.netns.inode, asked.at));
            let its = |s: &&Service| {
                let there = s.at.addr.is_any() || s.at == asked.at;
                s.role == Role::Server
                    && s.at.port == asked.at.port
                    && there
                    && netns.is_none_or(|inode| *inode == s.netns.inode)
                    && s.requests.is_some()
                    && !chain.servers.iter().any(|known| std::ptr::eq(*known, *s))
            };
            let known = chain.servers.len();
            match services.iter().find(its) {
                Some(next) if known < MAX_HOPS => chain.servers.push(next),
                _ => {
                    chain.elsewhere = Some(asked);
                    break;
                }
            }
        }
        (chain.servers.len() > 1 || chain.elsewhere.is_some()).then_some(chain)
    }

    /// `whole_s` is what each request takes. Nothing where most of it is the way to whom the last of them asks.
    fn tell(&self, whole_s: f64, tail: String) -> Option<NotTcp> {
        let takes_s = self.takes_s.min(whole_s) * self.elsewhere.map_or(1.0, own_share);
        if takes_s < limits::MOST.share() * whole_s {
            return None;
        }
        let share = takes_s / whole_s;
        let (last, before) = match (self.elsewhere, self.servers.split_last()) {
            (None, Some((last, before))) => (format!("{} at {}", name(last), last.at), before),
            (asked, _) => (
                asked.map_or_else(String::new, |s| s.at.to_string()),
                &self.servers[..],
            ),
        };
        let behind = before
            .iter()
            .rev()
            .map(|s| format!("{} at {}", name(s), s.at));
        let behind: Vec<String> = behind.collect();
        let who_adds = match before {
            [one] => one.comm.as_deref().unwrap_or("it"),
            _ => "the others",
        };
        let adds = if before.len() == 1 { "adds" } else { "add" };
        let says = format!(
            "{last}, behind {}, takes {} of {} ({}) per request on average{tail}; {who_adds} {adds} {}.",
            list(&behind),
            seconds(takes_s),
            seconds(whole_s),
            percent(share),
            seconds(whole_s - takes_s)
        );
        Some(NotTcp {
            whose: match self.elsewhere {
                Some(_) => TimeOf::Peer,
                None => TimeOf::Application,
            },
            share: rounded(share),
            says,
        })
    }
}

/// Which part of what a process waits for whom it asks is not the way there and back, connecting included.
fn own_share(asked: &Service) -> f64 {
    asked.requests.as_ref().map_or(1.0, |r| {
        let network = r.whose_s.network + connecting_s(asked);
        1.0 - network / (r.total_s + connecting_s(asked)).max(f64::MIN_POSITIVE)
    })
}

/// How long connecting to a place took in all, s.
fn connecting_s(service: &Service) -> f64 {
    service.spent_s.of(State::Connecting) as f64 / 1e9
}

/// Whom a service's process asks itself.
fn asks<'a>(
    services: &'a [Service],
    server: &Service,
) -> impl Iterator<Item = (&'a Service, &'a Requests)> + Clone {
    let (netns, comm, at) = (server.netns.clone(), server.comm.clone(), server.at);
    let asked = services.iter().filter(move |s| {
        let same = s.netns == netns && s.comm.is_some() && s.comm == comm;
        s.role == Role::Client && same && s.at != at
    });
    asked.filter_map(|s| Some((s, s.requests.as_ref()?)))
}

/// Whom a service's process asks while requests wait for it, and how long it waits there, s: as often as it is asked,
/// and for most of the time that it takes. Where one loop serves many, the two sides' times are all that tells.
fn awaited<'a>(services: &'a [Service], server: &Service) -> Option<(&'a Service, f64)> {
    let r = server.requests.as_ref()?;
    let asked = asks(services, server);
    let exchanges: u64 = asked.clone().map(|(_, r)| r.exchanges).sum();
    let waited = asked.clone().map(|(s, r)| r.total_s + connecting_s(s));
    let waited_s: f64 = waited.sum();
    let most = asked.max_by(|a, b| a.1.total_s.total_cmp(&b.1.total_s));
    let often = limits::MOST.reached(exchanges, r.exchanges);
    let long = limits::MOST.reached(waited_s, r.whose_s.application);
    // One each, but for those that had begun before the recording, or were under way at its end.
    let apart = exchanges.abs_diff(r.exchanges) as f64 / r.exchanges.max(1) as f64;
    let waited_s = if apart <= limits::ALIKE.share() {
        waited_s * r.exchanges as f64 / exchanges.max(1) as f64
    } else {
        waited_s
    };
    most.filter(|_| often && long).map(|(s, _)| (s, waited_s))
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
mod tests {
    use analysis::Netns;
    use analysis::account::{Slept, Spent, Whose};

    use super::*;

    fn of_services(services: &[Service]) -> Option<NotTcp> {
        super::of_services(services, &Arrivals::default())
    }

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
        of_services(&[service(Role::Client, "10.0.0.9:443", "app", requests)])
    }

    fn service(role: Role, at: &str, comm: &str, requests: Requests) -> Service {
        let (addr, port, _) = synth::place(at);
        Service {
            netns: Netns {
                inode: 1,
                name: None,
            },
            role,
            at: Endpoint::new(addr, port),
            pid: Some(7),
            comm: Some(comm.into()),
            home: None,
            ends: 1,
            duplex: 0,
            bytes: 0,
            samples: 0,
            total_s: 0.5,
            spent_s: Spent::default(),
            opened: None,
            requests: Some(requests),
        }
    }

    /// So many requests that took so long each, almost all of it the application's or the peer's.
    fn took(exchanges: u64, each_s: f64, role: Role) -> Requests {
        let total_s = exchanges as f64 * each_s;
        let its_own = 0.99 * total_s;
        let whose_s = match role {
            Role::Server => Whose {
                application: its_own,
                ..Whose::default()
            },
            _ => Whose {
                peer: its_own,
                ..Whose::default()
            },
        };
        Requests {
            exchanges,
            total_s,
            whose_s,
            spent_s: Parts {
                think: its_own,
                ..Parts::default()
            },
            ..Requests::default()
        }
    }

    fn served(at: &str, comm: &str, exchanges: u64, each_s: f64) -> Service {
        service(
            Role::Server,
            at,
            comm,
            took(exchanges, each_s, Role::Server),
        )
    }

    fn asked(at: &str, comm: &str, exchanges: u64, each_s: f64) -> Service {
        service(
            Role::Client,
            at,
            comm,
            took(exchanges, each_s, Role::Client),
        )
    }

    #[test]
    fn a_proxy_is_not_blamed_for_whom_it_asks() {
        let proxy = || served("0.0.0.0:8080", "haproxy", 100, 0.510);
        let told = of_services(&[proxy(), asked("10.0.0.9:8081", "haproxy", 100, 0.5)]).unwrap();
        assert_eq!((told.whose, told.share), (TimeOf::Peer, 0.9804));
        let says = "10.0.0.9:8081, behind haproxy (pid 7) at 0.0.0.0:8080, takes 500 ms of 510 ms (98 %) per request on \
                    average; haproxy adds 10 ms.";
        assert_eq!(told.says, says);
        // The one that it asks is here, and asks a third in its turn.
        let services = [
            proxy(),
            asked("10.0.0.9:8081", "haproxy", 100, 0.5),
            served("0.0.0.0:8081", "shop", 100, 0.5),
            asked("10.0.0.7:5432", "shop", 300, 0.16),
            served("10.0.0.7:5432", "postgres", 300, 0.16),
        ];
        let told = of_services(&services).unwrap();
        assert_eq!((told.whose, told.share), (TimeOf::Application, 0.9412));
        let says = "postgres (pid 7) at 10.0.0.7:5432, behind shop (pid 7) at 0.0.0.0:8081 and haproxy (pid 7) at \
                    0.0.0.0:8080, takes 480 ms of 510 ms (94 %) per request on average; the others add 30 ms.";
        assert_eq!(told.says, says);
    }

    #[test]
    fn a_far_backend_is_not_slow() {
        let far = |each_s: f64, network: f64, connecting_ns: u64| {
            let mut backend = asked("10.0.0.9:8081", "haproxy", 100, each_s);
            backend.requests.as_mut().unwrap().whose_s.network = network;
            backend.spent_s.add(State::Connecting, connecting_ns);
            of_services(&[served("0.0.0.0:8080", "haproxy", 100, 0.17), backend])
        };
        // 80 ms of connecting and 80 ms of a round trip.
        assert_eq!(far(0.08, 7.9, 8_000_000_000), None);
        // It takes most of that itself.
        let told = far(0.15, 0.1, 800_000_000).unwrap();
        assert_eq!(told.whose, TimeOf::Peer, "{}", told.says);
    }

    #[test]
    fn hosts_of_one_machine_that_listen_at_the_same_port_are_told_apart() {
        let inside = |inode, mut service: Service| {
            service.netns.inode = inode;
            service
        };
        let services = [
            inside(1, served("0.0.0.0:8000", "haproxy", 100, 0.51)),
            inside(1, asked("10.9.1.2:8000", "haproxy", 100, 0.505)),
            inside(3, served("0.0.0.0:8000", "python3", 100, 0.5)),
            inside(2, served("0.0.0.0:8000", "haproxy", 100, 0.505)),
            inside(2, asked("10.9.3.2:8000", "haproxy", 100, 0.5)),
        ];
        let to = |at: &str| {
            let (addr, port, _) = synth::place(at);
            Endpoint::new(addr, port)
        };
        let arrivals = [((1, to("10.9.1.2:8000")), 2), ((2, to("10.9.3.2:8000")), 3)];
        let told = super::of_services(&services, &Arrivals(arrivals.into())).unwrap();
        assert!(
            told.says
                .starts_with("python3 (pid 7) at 0.0.0.0:8000, behind haproxy"),
            "{}",
            told.says
        );
    }

    #[test]
    fn who_asks_others_now_and_then_is_slow_itself() {
        let server = || served("0.0.0.0:8080", "shop", 100, 0.5);
        let own = |others: Service| {
            let told = of_services(&[server(), others]).unwrap();
            assert!(
                told.says
                    .starts_with("shop (pid 7) at 0.0.0.0:8080 takes 495 ms of 500 ms"),
                "{}",
                told.says
            );
        };
        // A long poll: seldom, and long. A cache: often, and short. Another program's requests.
        own(asked("10.0.0.9:9092", "shop", 3, 20.0));
        own(asked("10.0.0.9:6379", "shop", 300, 0.001));
        own(asked("10.0.0.9:8081", "other", 100, 0.49));
    }

    #[test]
    fn what_an_event_ends_is_held_and_not_worked_on() {
        let woken = |from: Option<&str>, by: &str| Slept {
            slept_s: 0.05,
            awaited: from.map(|at| {
                let (addr, port, _) = synth::place(at);
                Endpoint::new(addr, port)
            }),
            woken_by: by.into(),
            ..Slept::default()
        };
        let says = |each_s: f64, last: Slept, others: Option<Service>| {
            let mut server = served("0.0.0.0:6379", "redis", 100, each_s);
            let (remote, port, _) = synth::place("10.0.0.1:40000");
            let slow = Slow {
                took_s: each_s,
                remote: Endpoint::new(remote, port),
                answered_after: Some(last),
                ..Slow::default()
            };
            server.requests.as_mut().unwrap().slowest = vec![slow; 3];
            let services: Vec<_> = std::iter::once(server).chain(others).collect();
            of_services(&services)
        };
        // BRPOP until another client pushes; a heartbeat of 4 s.
        assert_eq!(
            says(1.3, woken(Some("10.0.0.2:50000"), "softirq"), None),
            None
        );
        assert_eq!(says(4.0, woken(None, "timer"), None), None);
        // A rate limit; a worker behind a Unix socket; the caller's own next piece; a database asked now and then.
        assert!(says(0.5, woken(None, "timer"), None).is_some());
        assert!(says(4.0, woken(None, "php-fpm"), None).is_some());
        let own = woken(Some("10.0.0.1:40000"), "softirq");
        assert!(says(1.3, own, None).is_some());
        let database = asked("10.0.0.9:5432", "redis", 30, 0.2);
        let answered = woken(Some("10.0.0.9:5432"), "softirq");
        assert!(says(1.3, answered, Some(database)).is_some());
    }

    #[test]
    fn a_queue_before_the_server_is_told_apart_from_its_work() {
        let mut server = served("0.0.0.0:80", "gunicorn", 20, 3.0);
        let r = server.requests.as_mut().unwrap();
        (r.spent_s.accept, r.spent_s.think) = (54.0, 5.4);
        let told = of_services(&[server.clone()]).unwrap().says;
        let says = "gunicorn (pid 7) at 0.0.0.0:80 takes 2.97 s of 3 s (99 %) per request on average, 2.7 s of it \
                    before accept().";
        assert_eq!(told, says);
        // A proxy that lets one request through at a time.
        let mut backend = asked("10.0.0.9:8081", "haproxy", 20, 0.3);
        backend.requests.as_mut().unwrap().response = Some(Percentiles {
            p50_s: 0.3,
            p90_s: 0.3,
            p99_s: 0.3,
        });
        let told = of_services(&[served("0.0.0.0:80", "haproxy", 20, 3.0), backend])
            .unwrap()
            .says;
        assert!(
            told.ends_with("; 10.0.0.9:8081 answers half of its requests within 300 ms."),
            "{told}"
        );
    }

    #[test]
    fn half_of_them_are_not_one_in_a_hundred() {
        let mut asks = asked("10.0.0.9:25", "app", 100, 1.5);
        asks.requests.as_mut().unwrap().response = Some(Percentiles {
            p50_s: 0.004,
            p90_s: 3.0,
            p99_s: 3.0,
        });
        let told = of_services(&[asks]).unwrap().says;
        assert!(
            told.contains("and one in ten takes 3 s or longer"),
            "{told}"
        );
    }

    #[test]
    fn a_download_at_full_speed_is_nobodys_time() {
        let mut server = served("0.0.0.0:80", "nginx", 100, 0.02);
        server.bytes = 100 * 20_000_000;
        assert_eq!(of_services(&[server.clone()]), None);
        server.bytes /= 10;
        assert!(of_services(&[server]).is_some());
    }

    #[test]
    fn few_that_take_long_are_felt_though_the_mean_is_short() {
        let not_tcp = asks(0.09).unwrap();
        assert_eq!((not_tcp.whose, not_tcp.share), (TimeOf::Peer, 0.96));
        let says = not_tcp.says;
        let told = "10.0.0.9:443 answers half of the requests of app (pid 7) within 1.6 ms, and one in a hundred takes \
                    90 ms or longer; 96 % of that time is the peer's. A round trip takes 0 µs.";
        assert_eq!(says, told);
        assert_eq!(asks(0.015), None);
        assert_eq!(asks(0.009), None);
    }
}
