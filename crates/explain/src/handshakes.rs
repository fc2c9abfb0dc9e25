//! Handshakes as the cost: callers that connect anew for requests that a connection they had could have carried.

use analysis::account::{Opened, Role, Service};
use analysis::words::{percent, plural};

use crate::limits;
use crate::named::{name, seconds};

/// A service whose callers wait for handshakes that reuse would spare them.
pub(crate) struct Handshakes<'a> {
    service: &'a Service,
    opened: Opened,
    /// What the requests themselves took, s.
    requests_s: f64,
    requests: u64,
}

impl<'a> Handshakes<'a> {
    /// The service that lost most to them, where that is much of what its callers waited.
    pub(crate) fn most(services: &'a [Service]) -> Option<Handshakes<'a>> {
        let all = services.iter().filter_map(Handshakes::of);
        all.max_by(|a, b| a.took_s().total_cmp(&b.took_s()))
    }

    fn of(service: &'a Service) -> Option<Handshakes<'a>> {
        let (opened, requests) = (service.opened?, service.requests.as_ref()?);
        let handshakes = Handshakes {
            service,
            opened,
            requests_s: requests.total_s,
            requests: requests.exchanges,
        };
        let tells = service.role == Role::Client
            && opened.again >= limits::ENOUGH.count()
            && requests.exchanges >= limits::ENOUGH.count()
            && handshakes.each_s() >= limits::ANSWER_SLOW.s()
            && handshakes.share() >= limits::HANDSHAKE_SHARE.share();
        tells.then_some(handshakes)
    }

    /// All of them, s.
    pub(crate) fn took_s(&self) -> f64 {
        self.opened.again_s
    }

    /// Which part of what its callers waited, 0..1.
    pub(crate) fn share(&self) -> f64 {
        self.took_s() / (self.took_s() + self.requests_s).max(f64::MIN_POSITIVE)
    }

    fn each_s(&self) -> f64 {
        self.took_s() / self.opened.again.max(1) as f64
    }

    /// In two sentences: what it costs, and what to do.
    pub(crate) fn says(&self) -> String {
        let (who, at) = (name(self.service), self.service.at);
        let closes_them = self
            .opened
            .closed_here
            .is_none_or(|n| limits::MOST.reached(n, 1.0));
        let fix = if closes_them {
            format!(
                "{who} closes them after the answer: keep more of them idle (the size of its pool, keepalive)"
            )
        } else {
            format!("{at} closes them after the answer: turn on keepalive there, or ask for it")
        };
        format!(
            "{who} opened {} to {at} for {} and could have kept earlier ones: connecting takes {} each, {} of what it \
             waits. {fix}.",
            plural(self.opened.again, "connection"),
            plural(self.requests, "request"),
            seconds(self.each_s()),
            percent(self.share())
        )
    }
}

/// How its requests came by their connections, as it continues their number; `None` where handshakes cost little.
pub fn on_new_connections(service: &Service) -> Option<String> {
    let (opened, requests) = (service.opened?, service.requests.as_ref()?);
    let connections = plural(opened.connections, "new connection");
    let each = match service.role {
        Role::Client => Handshakes::of(service)?.each_s(),
        // Whether its clients had others is not known here: a gateway hides many.
        Role::Server | Role::Unknown => requests.round_trip_s.filter(|s| {
            *s >= limits::ANSWER_SLOW.s()
                && opened.connections >= limits::ENOUGH.count()
                && limits::MOST.reached(opened.connections, requests.exchanges)
        })?,
    };
    Some(format!(
        "on {connections}, {} of connecting each",
        seconds(each)
    ))
}

#[cfg(test)]
mod tests;
