//! Closed forms beside the simulation: what it must come to where a formula says so.

use super::params::Params;

/// TIME_WAITs that a search finds at a service, when the search before was longer ago than they last.
pub(super) fn time_waits(p: &Params, service: u16) -> f64 {
    p.service(service).0 * p.time_wait_ns() as f64 / 1e9
}

/// Connections open in front of a TIME_WAIT of a service, on average. A connection of age a has
/// λ ∫ P(life > t) dt up to a of them in front; in TIME_WAIT are those that lived X and closed up to
/// T ago. With a life of d and an exponential part of mean s that is λ (d + s - s/2 · s/T (1 - e^(-T/s))).
pub(super) fn in_front(p: &Params, service: u16) -> f64 {
    let (rate, dwell) = p.service(service);
    let (s, t) = (dwell * p.spread, p.time_wait_ns() as f64 / 1e9);
    let missing = if s > 0.0 {
        s / 2.0 * s / t * (1.0 - (-t / s).exp())
    } else {
        0.0
    };
    rate * (dwell - missing)
}

/// Entries that the look-up of a service passes: each TIME_WAIT it ends costs those in front of it
/// and itself, the last walk what stays and the listener.
pub(super) fn passed(p: &Params, service: u16) -> f64 {
    let (rate, dwell) = p.service(service);
    let stay = rate * dwell + 1.0;
    let waits = time_waits(p, service);
    match (p.purges(), p.restarts()) {
        (true, true) => waits * (in_front(p, service) + 1.0) + stay,
        _ => waits + stay,
    }
}

/// connect() calls per second for which there are ports, where TIME_WAITs are left to their timer:
/// each holds one for its life and its TIME_WAIT.
pub(super) fn most_connects(p: &Params) -> f64 {
    let held = p.outbound_life + p.outbound_first * p.time_wait_ns() as f64 / 1e9;
    f64::from(p.ports()) / held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    #[test]
    fn the_numbers_of_the_case() {
        let p = Params::with(&[]);
        let article = [
            (64_984_631.0, 5_501.0),
            (9_382.0, 524.0),
            (2_084_890.0, 9_836.0),
            (569.0, 20.0),
            (19_998.0, 745.0),
        ];
        for (service, (entries, waits)) in (0..).zip(article) {
            let got = (passed(&p, service), time_waits(&p, service));
            assert!((got.0 / entries - 1.0).abs() < 0.001, "{service}: {got:?}");
            assert!((got.1 / waits - 1.0).abs() < 0.001, "{service}: {got:?}");
        }
        // One pass: 17,343 entries, of which 5,501 TIME_WAITs and a listener.
        let once = passed(&Params::with(&["restart=0"]), 0);
        assert!((once - 17_344.0).abs() < 20.0, "{once}");
        assert_eq!(most_connects(&p), 16_384.0 / 80.0);
    }
}
