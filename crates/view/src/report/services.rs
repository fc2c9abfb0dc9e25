//! Whose time the requests of each service took: the report's first picture.

use std::collections::BTreeMap;

use analysis::Story;
use analysis::account::{Requests, Role, Service, ServiceKey};
use analysis::timeline;
use recording::{Error, Recording};

use super::page::{Part, ServiceTime, Services, Whose};
use super::{Names, Thinned, short};
use crate::requests::{Owner, pieces};

/// Services that have a bar.
const MAX_SERVICES: usize = 24;

/// The services that had requests, those first whose exchanges took most time; `None` when none had.
pub(super) fn services(
    recording: &Recording,
    story: &Story,
    account: &[Service],
    names: &Names,
    thinned: &mut Thinned,
) -> Result<Option<Services>, Error> {
    let mut asked = asked(account);
    let all = asked.len();
    thinned.say(all > MAX_SERVICES, || {
        format!("The page has the requests of {MAX_SERVICES} of {all} listeners and destinations.")
    });
    asked.truncate(MAX_SERVICES);
    if asked.is_empty() {
        return Ok(None);
    }
    let parts = timeline::requests(recording, story)?;
    let length_s = recording.manifest.length().as_secs_f64().max(1e-3);
    let service = |(service, requests): (&Service, &Requests)| {
        told(service, requests, names, length_s, &parts.requests)
    };
    Ok(Some(Services {
        parts: pieces(&Requests::default()).map(part).into(),
        width_s: parts.width_s,
        services: asked.into_iter().map(service).collect(),
    }))
}

/// The services that had requests, those first whose exchanges took most time.
pub(super) fn asked(account: &[Service]) -> Vec<(&Service, &Requests)> {
    let asked = account
        .iter()
        .filter_map(|s| Some((s, s.requests.as_ref()?)));
    let mut asked: Vec<(&Service, &Requests)> = asked.filter(|(_, r)| r.total_s > 0.0).collect();
    asked.sort_by(|a, b| b.1.total_s.total_cmp(&a.1.total_s));
    asked
}

fn part((owner, name, _): (Owner, &str, f64)) -> Part {
    Part {
        name: name.into(),
        whose: match owner {
            Owner::Application => Whose::Application,
            Owner::Tcp => Whose::Tcp,
            Owner::Network => Whose::Network,
            Owner::NetworkOrPeer => Whose::NetworkOrPeer,
            Owner::Peer => Whose::Peer,
        },
    }
}

fn told(
    service: &Service,
    requests: &Requests,
    names: &Names,
    length_s: f64,
    parts: &[BTreeMap<ServiceKey, Requests>],
) -> ServiceTime {
    let role = service.role;
    let key = (service.netns.inode, role, service.at);
    let seconds = |r: &Requests| pieces(r).map(|(.., s)| micro(s)).into();
    let over_time = parts.iter().map(|part| match part.get(&key) {
        Some(r) => {
            let mut r = r.clone();
            if let Some(s) = requests.round_trip_s {
                r.round_trip(role, s);
            }
            seconds(&r)
        }
        None => Vec::new(),
    });
    let owner = match (&service.comm, service.pid) {
        (Some(comm), Some(pid)) => format!("{comm}, pid {pid}"),
        (None, Some(pid)) => format!("pid {pid}"),
        _ => String::new(),
    };
    let ms = |s: f64| (s * 1e6).round() / 1e3;
    ServiceTime {
        serves: role == Role::Server,
        at: service.at.to_string(),
        netns: names.netns(service.netns.inode),
        owner: short(&owner),
        exchanges: requests.exchanges as f64,
        per_s: requests.exchanges as f64 / length_s,
        open: requests.open as f64,
        unanswered: requests.unanswered as f64,
        multiplexed: requests.multiplexed,
        p50_ms: requests.response.map(|p| ms(p.p50_s)),
        p90_ms: requests.response.map(|p| ms(p.p90_s)),
        p99_ms: requests.response.map(|p| ms(p.p99_s)),
        spent_s: seconds(requests),
        over_time: over_time.collect(),
    }
}

/// To the microsecond.
fn micro(s: f64) -> f64 {
    (s * 1e6).round() / 1e6
}
