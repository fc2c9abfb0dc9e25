//! The hosts of a situation in a row, and a situation in a line. Pure.

use super::kinds::{Age, Proxy, Topology, word};
use super::situation::Situation;

/// What a host of the row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Client,
    Network,
    Router,
    Proxy(usize),
    Server,
}

/// The hosts, from the caller to the server. Pure.
pub(super) fn row(s: &Situation) -> Vec<Host> {
    if s.topology == Topology::Hairpin {
        return vec![Host::Client, Host::Network];
    }
    let mut row = vec![Host::Client];
    row.extend((0..s.proxies.len()).map(Host::Proxy));
    row.push(Host::Server);
    row.insert(s.network_behind + 1, Host::Network);
    if matches!(s.topology, Topology::Router | Topology::Nat) {
        row.insert(1, Host::Router);
    }
    row
}

/// How findings call a host.
pub(super) fn named(host: Host) -> String {
    match host {
        Host::Proxy(n) => format!("proxy{n}"),
        Host::Client => "client".into(),
        Host::Network => "network".into(),
        Host::Router => "router".into(),
        Host::Server => "server".into(),
    }
}

/// What stands, in a few words, for a line.
pub(super) fn in_words(s: &Situation) -> String {
    let fault = s.fault.map_or("healthy".into(), |(fault, level)| {
        format!("{} ×{}", word(&fault), level + 1)
    });
    let harmless = s
        .harmless
        .map_or(String::new(), |what| format!(" + {}", word(&what)));
    let by = |p: &Proxy| format!(" via {}", word(p));
    let proxies: String = s.proxies.iter().map(by).collect();
    let beside = s
        .beside
        .map_or(String::new(), |b| format!(" + {}", word(&b)));
    format!(
        "{fault}{harmless}: {}{beside} {} {}{proxies} -> {} ({}), {} recorded{}",
        word(&s.caller),
        word(&s.shape),
        word(&s.topology),
        word(&s.server),
        if s.delay_ms > 0.0 {
            format!("{} ms", s.delay_ms)
        } else {
            "no delay".into()
        },
        word(&s.side),
        if s.fault.is_some() && s.age == Age::Before {
            ", older"
        } else {
            ""
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_in_every_row_between_two_hosts() {
        for seed in 1..120 {
            let s = Situation::compose(seed);
            let row = row(&s);
            let at = row.iter().position(|h| *h == Host::Network).unwrap();
            assert!(at > 0 && row[0] == Host::Client, "{row:?}");
            if s.topology != Topology::Hairpin {
                assert_eq!(row.last(), Some(&Host::Server));
                assert!(at + 1 < row.len());
            }
        }
    }
}
