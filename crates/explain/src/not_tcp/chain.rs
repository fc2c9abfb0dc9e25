//! Proxies and what stands behind them: whom the requests of a service wait for, followed to the last that this host sees.

use std::collections::BTreeMap;

use analysis::account::{Requests, Role, Service, State};
use analysis::words::{list, percent, rounded};
use analysis::{Endpoint, Side, Story};

use super::{NotTcp, TimeOf};
use crate::limits;
use crate::named::{name, seconds};

/// Services that a request passes: each answers once its own requests to the next are answered.
pub(super) struct Chain<'a> {
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
pub(super) struct Arrivals(pub(super) BTreeMap<(u32, Endpoint), u32>);

impl Arrivals {
    pub(super) fn of(story: &Story) -> Arrivals {
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
    pub(super) fn of(
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
    pub(super) fn tell(&self, whole_s: f64, tail: String) -> Option<NotTcp> {
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
        1.0 - network / (all_waited_s(r) + connecting_s(asked)).max(f64::MIN_POSITIVE)
    })
}

/// How long all requests waited, those that were given up included (a proxy's timeout), s.
fn all_waited_s(r: &Requests) -> f64 {
    r.total_s + r.given_up_s
}

/// How long connecting to a place took in all, s.
fn connecting_s(service: &Service) -> f64 {
    service.spent_s.of(State::Connecting) as f64 / 1e9
}

/// Whom a service's process asks itself.
pub(super) fn asks<'a>(
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
    let exchanges: u64 = asked.clone().map(|(_, r)| r.exchanges + r.given_up).sum();
    let waited = asked
        .clone()
        .map(|(s, r)| all_waited_s(r) + connecting_s(s));
    let waited_s: f64 = waited.sum();
    let most = asked.max_by(|a, b| all_waited_s(a.1).total_cmp(&all_waited_s(b.1)));
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
