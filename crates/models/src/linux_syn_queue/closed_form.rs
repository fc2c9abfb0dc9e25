//! Closed forms beside the simulation: what it must come to where a formula says so.

use super::params::{Params, S, UNSCALED};

/// Share of runs in which some listener answers with a cookie, when every node makes all of its
/// connects at once, at a moment of its own within `start_spread`, and every handshake takes the same
/// time. `None` where there is no formula: more trains than two are needed, and fewer than come; or
/// all are, and a handshake takes more than half of the spread.
///
/// A train of c SYNs comes from each of N - 1 nodes. A listener that keeps K requests sends a cookie
/// when k = (K + 1) ÷ c trains, rounded up, come within one handshake, a share r of the spread.
pub(super) fn runs_with_cookie(p: &Params) -> Option<f64> {
    let trains = (p.most_requests() + 1).div_ceil(p.sockets);
    let (nodes, others) = (f64::from(p.nodes), p.nodes - 1);
    let r = p.handshake_ns() as f64 / p.spread_ns() as f64;
    match trains {
        1 => Some(1.0),
        n if n > others => Some(0.0),
        // No two of all nodes within r: each pair has a third node that hears both.
        2 if others > 2 => Some(1.0 - (1.0 - f64::from(others) * r).max(0.0).powf(nodes)),
        // All but the first, or all but the last. That either is so, of sorted starts: the sum of
        // N - 2 neighbouring gaps is Beta(N - 2, 3), twice, less both.
        n if n == others && r >= 1.0 => Some(1.0),
        n if n == others && r <= 0.5 => {
            let range = (p.nodes - 2..=p.nodes).map(|j| {
                let chosen = [1.0, nodes, nodes * (nodes - 1.0) / 2.0][(p.nodes - j) as usize];
                chosen * r.powi(j as i32) * (1.0 - r).powi((p.nodes - j) as i32)
            });
            let both = 2.0 * nodes * (1.0 - r) * r.powi(others as i32);
            Some(2.0 * range.sum::<f64>() - both)
        }
        _ => None,
    }
}

/// What a socket without window scaling moves in one direction: 65,535 bytes per round trip, MB/s.
pub(super) fn ceiling(p: &Params) -> f64 {
    f64::from(UNSCALED) / 1e6 / (p.rtt_ns() as f64 / S as f64)
}

/// By what a link falls short of its load whose one data socket has lost its options, MB/s.
pub(super) fn short(p: &Params) -> f64 {
    let asked = p.asked() / 1e6;
    2.0 * (asked - ceiling(p)).max(0.0)
}

/// By what share the window without scaling is smaller than another: both grow to twice what may be
/// in flight.
pub(super) fn smaller(window_bytes: f64) -> f64 {
    1.0 - f64::from(UNSCALED) / window_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    fn share(set: &[&str]) -> Option<f64> {
        let at_once = ["start_spread=1", "handshake_rtt=100"];
        runs_with_cookie(&Params::with(&[&at_once, set].concat()))
    }

    #[test]
    fn shares_of_runs() {
        let near = |got: Option<f64>, expected: f64| {
            assert!((got.unwrap() - expected).abs() < 1e-4, "{got:?} {expected}");
        };
        near(share(&["sockets=1"]), 0.0);
        near(share(&["sockets=2"]), 0.0974);
        near(share(&["sockets=3"]), 0.7599);
        near(share(&["sockets=6"]), 1.0);
        // Three nodes: two trains of three, from any pair: 1 - (1 - 2 r)³.
        near(share(&["nodes=3", "sockets=3"]), 0.488);
        // One more is kept today: 7 need four trains of two.
        near(share(&["sockets=2", "later_rule=1"]), 0.0);
        near(share(&["sockets=3", "backlog=128"]), 0.0);
        assert_eq!(share(&["nodes=10", "sockets=1"]), None);
        assert_eq!(share(&["sockets=2", "start_spread=0.15"]), None);
        near(share(&["nodes=7", "sockets=1", "start_spread=0.1"]), 1.0);
    }

    #[test]
    fn the_slow_link_of_the_article() {
        let p = Params::with(&[]);
        assert!((ceiling(&p) - 121.1).abs() < 0.1, "{}", ceiling(&p));
        assert!((short(&p) - 174.4).abs() < 0.1, "{}", short(&p));
        let slower = Params::with(&["loaded_rtt=1000"]);
        assert!((short(&slower) - 285.6).abs() < 0.1, "{}", short(&slower));
        assert!((smaller(0.64e6) - 0.8976).abs() < 1e-4);
        assert_eq!(short(&Params::with(&["throughput=100"])), 0.0);
    }
}
