//! Closed forms beside the simulation: what it must come to where a formula says so.

use super::params::Params;

/// Half of the space of sequence numbers: a SYN that is ahead by more looks old.
const HALF: f64 = 2_147_483_648.0;
/// What the clock adds per second with tcp_strong_iss 1 and 2: one per 4096 ns.
const CLOCK_PER_S: f64 = 1e9 / 4_096.0;

/// Connections over loopback before the first can be refused: each draws two ISS.
pub(super) fn before_refusal(p: &Params) -> f64 {
    HALF / f64::from(p.tcp_iss_incr)
}

/// Connects blocked after `n` connections over loopback, all of which are still in TIME_WAIT. A
/// port is bad if its last connection is more than `before_refusal` ago, which is so for
/// (n - n0) · e^(-n0/P) of P ports; the sum of these odds is taken.
pub(super) fn blocked(p: &Params, n: f64) -> f64 {
    let (n0, ports) = (before_refusal(p), f64::from(p.ports()));
    let beyond = (n - n0).max(0.0);
    (-n0 / ports).exp() * beyond * beyond / (2.0 * ports)
}

/// ISS advance of a host that draws `calls` ISS per second, per second.
fn speed(p: &Params, calls: f64) -> f64 {
    f64::from(p.tcp_iss_incr) / 2.0 * calls + CLOCK_PER_S
}

/// Odds that a connect of an open load is refused: `rate` connects per second to one listener from
/// one address on a host that draws `calls` ISS per second. A port's last connection is t ago with
/// density r/P · e^(-rt/P); bad are those t at which the ISS is in the second half of a turn.
pub(super) fn refused_share(p: &Params, rate: f64, calls: f64) -> f64 {
    let per_port = rate / f64::from(p.ports());
    let time_wait = p.tcp_time_wait_interval as f64 / 1e3;
    let half_turn = HALF / speed(p, calls);
    let bad = (0..).map(|k| f64::from(2 * k + 1) * half_turn);
    let bad = bad.take_while(|from| *from < time_wait);
    let odds = bad.map(|from| {
        let to = (from + half_turn).min(time_wait);
        (-per_port * from).exp() - (-per_port * to).exp()
    });
    odds.sum()
}

/// ISS per second below which no connect can be refused: the ISS goes less than half around
/// within a TIME_WAIT.
pub(super) fn onset_calls(p: &Params) -> f64 {
    let time_wait = p.tcp_time_wait_interval as f64 / 1e3;
    (HALF / time_wait - CLOCK_PER_S) / (f64::from(p.tcp_iss_incr) / 2.0)
}

/// The rate at which long runs settle: connects per second over loopback of `clients` closed-loop
/// clients that lose `timeout_s` with each refusal, λ (1 - e^(-λT/P)) = 2N/B.
pub(super) fn settled_rate(p: &Params, timeout_s: f64) -> f64 {
    let time_wait = p.tcp_time_wait_interval as f64 / 1e3;
    let lost = |rate: f64| rate * (1.0 - (-rate * time_wait / f64::from(p.ports())).exp());
    let want = 2.0 * f64::from(p.clients) / timeout_s;
    let (mut low, mut high) = (0.0, p.capacity);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if lost(middle) < want {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// Odds that a connect is refused of one client that connects in turn, where the ISS goes around many
/// times within a TIME_WAIT: half of the TIME_WAITs met are bad. Who is refused waits for the timeout,
/// so that connects, and TIME_WAITs, become fewer: f = (1 - e^(-λT/P)) / 2 with λ = 1 / (s + f B).
pub(super) fn in_turn_share(p: &Params, timeout_s: f64) -> f64 {
    let time_wait = p.tcp_time_wait_interval as f64 / 1e3;
    let healthy_s = 1.0 / p.capacity + 4.0 * p.path_delay / 1e6;
    let odds = |share: f64| {
        let rate = 1.0 / (healthy_s + share * timeout_s);
        (1.0 - (-rate * time_wait / f64::from(p.ports())).exp()) / 2.0
    };
    let (mut low, mut high) = (0.0, 0.5);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if odds(middle) > middle {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    #[test]
    fn the_numbers_of_the_cases() {
        let p = Params::with(&[]);
        assert_eq!(before_refusal(&p).round(), 8_590.0);
        assert!(
            (blocked(&p, 10_788.0) - 56.7).abs() < 0.3,
            "{}",
            blocked(&p, 10_788.0)
        );
        assert!((onset_calls(&p) - 284.4).abs() < 0.2, "{}", onset_calls(&p));
        assert!((settled_rate(&p, 1.125) - 365.0).abs() < 3.0);
        // One client: about √(T / 2 P B), which four times the ports halve.
        let in_turn = |largest: &str| {
            let set = [
                "clients=1",
                "capacity=500",
                "tcp_smallest_anon_port=8192",
                largest,
            ];
            in_turn_share(&Params::with(&set), 1.125)
        };
        let (few, many) = (
            in_turn("tcp_largest_anon_port=22527"),
            in_turn("tcp_largest_anon_port=65535"),
        );
        assert!((few - 0.0413).abs() < 0.0001, "{few}");
        assert!((many - few / 2.0).abs() < 0.0005, "{many}");
        for (rate, calls, odds) in [
            (100.0, 200.0, 0.0),
            (100.0, 400.0, 0.045),
            (122.0, 600.0, 0.091),
        ] {
            let got = refused_share(&p, rate, calls);
            assert!((got - odds).abs() < 0.001, "{rate} {calls}: {got}");
        }
    }
}
