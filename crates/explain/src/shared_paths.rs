//! Tells trouble on paths once ([`ToldWith::Paths`]). Trouble on most of a host's paths belongs to what they share: the way out of the
//! host, or the network that they lead to. Trouble on a few of many clients on the internet is their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use analysis::account::{self, Role};
use analysis::words::duration;
use analysis::{Conn, ConnId, Story};
use recording::Addr;

use crate::cause::ToldWith;
use crate::finding::Finding;
use crate::id::Id;
use crate::limits;
use crate::place::Place;
use crate::places::path::End;
use crate::say::{Quantity, say};

/// How many of the addresses that are reported together are named.
const SHOWN_NAMES: usize = 5;
/// Why the trouble of a single one is not a finding.
const OWN_LINE: &str = "most clients on the internet are fine: it is this one's own line";

/// Merges the findings of one cause, the most time lost first, by what their paths share.
pub(crate) fn told_by_path(
    story: &Story,
    with: Option<ToldWith>,
    found: Vec<Finding>,
) -> Vec<Finding> {
    let do_what = match with {
        Some(ToldWith::Paths(do_what)) => Some(do_what),
        Some(ToldWith::Readers) => None,
        Some(ToldWith::Stop) | None => return found,
    };
    let mut told = Vec::new();
    let mut of_netns: BTreeMap<u32, Vec<Troubled>> = BTreeMap::new();
    for finding in found {
        match Troubled::of(story, finding) {
            Ok(troubled) => of_netns.entry(troubled.netns).or_default().push(troubled),
            Err(finding) => told.push(*finding),
        }
    }
    let mut paths = Paths::of(story, of_netns.keys().copied());
    for (netns, troubled) in of_netns {
        let paths = paths.remove(&netns).unwrap_or_default();
        match do_what {
            Some(do_what) => told.extend(paths.told(troubled, do_what)),
            None => told.extend(troubled.into_iter().map(|one| paths.alone(one))),
        }
    }
    told
}

/// A finding about the path to one address.
struct Troubled {
    netns: u32,
    to: Addr,
    /// Whether the path leads to a client of a listener on this host.
    is_client: bool,
    finding: Finding,
}

impl Troubled {
    /// Returns the finding as an error if it is not about the path to one address.
    fn of(story: &Story, finding: Finding) -> Result<Troubled, Box<Finding>> {
        let conns = ids(&finding).into_iter();
        let conns: Vec<&Conn> = conns.filter_map(|id| story.conn(id)).collect();
        // If the reader is recorded, the trouble is an application's, not a path's.
        let is_application = [Id::SLOW_READER, Id::ZERO_WINDOW].contains(&finding.cause)
            && (conns.is_empty() || conns.iter().any(|c| c.peer.is_some()))
            || matches!(finding.place, Some(Place::Receivers(_)));
        let to: BTreeSet<(u32, Addr)> = if !conns.is_empty() {
            conns.iter().map(|c| (c.netns, c.remote.addr)).collect()
        } else {
            let lost = finding.lost_s.ends();
            lost.map(|(netns, _, remote, _)| (netns, remote.addr))
                .collect()
        };
        match (to.len(), to.first()) {
            (1, Some((netns, to))) if !is_application => Ok(Troubled {
                netns: *netns,
                to: *to,
                is_client: conns
                    .iter()
                    .any(|c| account::service(story, c).1 == Role::Server),
                finding,
            }),
            _ => Err(Box::new(finding)),
        }
    }

    /// The address and what the trouble cost.
    fn named(&self) -> String {
        match self.finding.lost_s.claimed() {
            0 => self.to.to_string(),
            ns => format!("{} ({})", self.to, duration(ns)),
        }
    }
}

/// The addresses to which a namespace sent data.
#[derive(Default)]
struct Paths {
    to: BTreeSet<Addr>,
    /// The clients of its listeners among them.
    clients: BTreeSet<Addr>,
    /// How many of these clients are on the internet.
    of_internet: usize,
}

impl Paths {
    /// The paths of each of these namespaces.
    fn of(story: &Story, of_netns: impl Iterator<Item = u32>) -> BTreeMap<u32, Paths> {
        let mut all: BTreeMap<u32, Paths> = of_netns.map(|n| (n, Paths::default())).collect();
        for (id, conn) in (0..).zip(&story.conns) {
            let Some(paths) = all.get_mut(&conn.netns) else {
                continue;
            };
            let outside = !conn.remote.is_loopback();
            let sampled = || End::of(story, id).is_some_and(|e| e.transfer.segments() > 0);
            if outside && (conn.bytes_acked > 0 || sampled()) {
                paths.to.insert(conn.remote.addr);
                if account::service(story, conn).1 == Role::Server {
                    let is_new = paths.clients.insert(conn.remote.addr);
                    let internet = is_new && is_internet(conn.remote.addr.ip());
                    paths.of_internet += usize::from(internet);
                }
            }
        }
        all
    }

    /// The findings, those that share what is at fault merged into one.
    fn told(&self, troubled: Vec<Troubled>, do_what: &str) -> Vec<Finding> {
        if are_most(&troubled, self.to.len()) {
            let out = Shared {
                paths: "paths of this host".into(),
                what: "the way out of this host".into(),
                all: self.to.len() as u64,
            };
            return out.told(troubled, do_what).into_iter().collect();
        }
        let mut of_network: BTreeMap<Network, Vec<Troubled>> = BTreeMap::new();
        for one in troubled {
            of_network.entry(Network::of(one.to)).or_default().push(one);
        }
        let mut of_all: BTreeMap<Network, usize> = BTreeMap::new();
        for to in &self.to {
            *of_all.entry(Network::of(*to)).or_default() += 1;
        }
        let mut told = Vec::new();
        for (network, troubled) in of_network {
            let all = of_all.get(&network).copied().unwrap_or(0);
            if are_most(&troubled, all) {
                let way = Shared {
                    paths: format!("paths to {network}"),
                    what: format!("the way to {network}"),
                    all: all as u64,
                };
                told.extend(way.told(troubled, do_what));
            } else {
                told.extend(troubled.into_iter().map(|one| self.alone(one)));
            }
        }
        told
    }

    /// A finding that shares its trouble with no other. It is a note if the server has many clients on the internet.
    fn alone(&self, troubled: Troubled) -> Finding {
        let Troubled {
            to,
            is_client,
            mut finding,
            ..
        } = troubled;
        let own = (is_client || self.clients.contains(&to)) && is_internet(to.ip());
        if own && self.of_internet >= limits::ENOUGH.as_usize() {
            finding.note = finding.note.or(Some(OWN_LINE));
        }
        finding
    }
}

/// What the paths in trouble share.
struct Shared {
    /// The paths, in the plural.
    paths: String,
    /// What is at fault.
    what: String,
    /// How many such paths there are.
    all: u64,
}

impl Shared {
    /// Merges them into one finding. Its evidence is the first one's, which lost most.
    fn told(&self, troubled: Vec<Troubled>, do_what: &str) -> Option<Finding> {
        let n = addresses(&troubled) as u64;
        let named: Vec<String> = troubled
            .iter()
            .take(SHOWN_NAMES)
            .map(Troubled::named)
            .collect();
        let (which, named) = (&self.paths, named.join(", "));
        let step = say!(
            "{troubled} of {paths} {which} {do_what}, first {named}. The evidence below is for the first.",
            troubled = Quantity::count(n),
            paths = Quantity::count(self.all)
        );
        let mut findings = troubled.into_iter().map(|one| one.finding);
        let mut first = findings.next()?;
        let mut ids = ids(&first);
        let (mut affected, mut conns) = (first.impact.affected, first.impact.of);
        for other in findings {
            ids.extend(self::ids(&other));
            affected = affected.saturating_add(other.impact.affected);
            conns = conns.saturating_add(other.impact.of);
            first.lost_s = first.lost_s.and(other.lost_s);
            first.scope.pids.extend(other.scope.pids);
        }
        first.scope.pids.sort_unstable();
        first.scope.pids.dedup();
        first.scope.resource = Some(self.paths.clone());
        first.scope.listener.clear();
        first.place = first.place.map(|_| Place::Ends(ids));
        let all = Quantity::count(self.all);
        first.title = format!("{n} of {all} {} {do_what}.", self.paths);
        first.fix = format!("Look at what they share: {}.", self.what);
        first.impact.says = format!("On the first of them: {}", first.impact.says);
        (first.impact.affected, first.impact.of) = (affected, conns);
        first.impact.share = affected as f64 / conns.max(1) as f64;
        first.evidence.insert(0, step);
        Some(first)
    }
}

fn ids(finding: &Finding) -> Vec<ConnId> {
    let ids = finding.place.as_ref().map_or(&[][..], Place::ids);
    ids.to_vec()
}

/// The number of addresses that the findings are about.
fn addresses(troubled: &[Troubled]) -> usize {
    let to: BTreeSet<Addr> = troubled.iter().map(|one| one.to).collect();
    to.len()
}

fn are_most(troubled: &[Troubled], of: usize) -> bool {
    let n = addresses(troubled);
    n > 1 && n as f64 > of as f64 * limits::MOST.share()
}

/// Whether an address is on the internet rather than in a private network.
fn is_internet(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let carrier = a == 100 && (64..128).contains(&b);
            !(v4.is_private() || v4.is_loopback() || v4.is_link_local() || carrier)
        }
        IpAddr::V6(v6) => !(v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local()),
    }
}

/// The network of an address: the smallest that is routed on the internet on its own (/24), or a link (/64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Network(Addr, u8);

impl Network {
    fn of(addr: Addr) -> Network {
        let mut bytes = addr.0;
        let (kept, bits) = match addr.ip() {
            IpAddr::V4(_) => (15, 24),
            IpAddr::V6(_) => (8, 64),
        };
        bytes[kept..].fill(0);
        Network(Addr(bytes), bits)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests;
