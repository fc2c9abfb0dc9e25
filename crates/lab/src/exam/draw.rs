//! The situation that a seed draws. Pure.

use std::sync::OnceLock;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::build;
use super::situation::{Part, Side, Situation};
use crate::Error;
use crate::scenario::{LADDER, Scenario, list};

/// This seed and those that follow it grade. They are never drawn anew; whoever builds tcpwhy looks at those
/// below.
pub const GRADING: u64 = 1_000_000;

/// Healthy scenarios that are light enough to stand beside a fault on a host of two CPUs.
const BESIDE: &[&str] = &[
    "healthy-pool",
    "healthy-short",
    "healthy-bursts",
    "healthy-access",
    "healthy-scanned",
    "healthy-drained",
    "healthy-resets",
    "healthy-idle",
    "healthy-services",
    "healthy-redis",
    "healthy-proxy",
    "healthy-postgres",
];
/// Those of which one at a time is enough.
const HEAVY: &[&str] = &[
    "healthy-busy",
    "healthy-churn",
    "healthy-keepalive",
    "healthy-bulk",
    "healthy-path",
    "healthy-table",
];

impl Situation {
    /// The situation of a seed. Every third is healthy, and the causes of the first fault of the others
    /// take turns: what is drawn of a few hundred is then spread evenly.
    pub fn draw(seed: u64) -> Result<Situation, Error> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let templates = templates()?;
        let chosen = match seed % 3 {
            0 => Vec::new(),
            _ => faults(&mut rng, templates, seed - seed / 3),
        };
        let mut parts = Vec::new();
        for template in &chosen {
            let mut part = part(&mut rng, &template.name)?;
            let [low, high] = LADDER.map(f64::ln);
            part.times = Some(rng.random_range(low..=high).exp());
            part.side = side(&mut rng, template);
            parts.push(part);
        }
        for name in neighbours(&mut rng, parts.is_empty()) {
            parts.push(part(&mut rng, name)?);
        }
        for (part, prefix) in parts.iter_mut().zip('a'..='z') {
            part.prefix = prefix.to_string();
        }
        let severity = |t: &&Scenario| t.severity.as_ref().is_some_and(|s| s.may_be_older);
        let may_be_older = chosen.iter().all(severity);
        let older_ms = if may_be_older && rng.random_bool(0.25) {
            f64::from(rng.random_range(500..3_000))
        } else {
            0.0
        };
        let longer_s = [0.0, 0.0, 0.0, 2.0, 5.0][rng.random_range(0..5)];
        Ok(Situation {
            seed,
            older_ms,
            longer_s,
            parts,
        })
    }
}

/// The scenarios that say how severe they are.
pub(crate) fn templates() -> Result<&'static [Scenario], Error> {
    static TEMPLATES: OnceLock<Vec<Scenario>> = OnceLock::new();
    if let Some(templates) = TEMPLATES.get() {
        return Ok(templates);
    }
    let all = list()?.into_iter().map(|s| Scenario::load(s.name, 1));
    let all: Vec<Scenario> = all.collect::<Result<_, _>>()?;
    let of_faults = all.into_iter().filter(|s| s.severity.is_some());
    Ok(TEMPLATES.get_or_init(|| of_faults.collect()))
}

/// One to three faults of different causes, the first of them that whose `turn` it is. Causes are drawn, not
/// files: each is met as often as any other.
fn faults<'t>(rng: &mut Pcg64Mcg, templates: &'t [Scenario], turn: u64) -> Vec<&'t Scenario> {
    let mut causes: Vec<&str> = templates.iter().map(|t| t.truth.cause.as_str()).collect();
    causes.sort_unstable();
    causes.dedup();
    let many = [1, 1, 1, 1, 1, 1, 2, 2, 2, 3][rng.random_range(0..10)];
    let alone = |t: &Scenario| t.alone.is_some();
    let mut chosen: Vec<&Scenario> = Vec::new();
    while chosen.len() < many {
        let at = if chosen.is_empty() {
            turn as usize % causes.len()
        } else {
            rng.random_range(0..causes.len())
        };
        let cause = causes.swap_remove(at);
        let of_cause = templates.iter().filter(|t| t.truth.cause == cause);
        // What wants a host of its own is the only fault, or none of several.
        let of_cause: Vec<_> = of_cause
            .filter(|t| chosen.is_empty() || !alone(t))
            .collect();
        if of_cause.is_empty() {
            continue;
        }
        let one = of_cause[rng.random_range(0..of_cause.len())];
        chosen.push(one);
        if alone(one) {
            break;
        }
    }
    chosen
}

/// What stands beside: something when nothing is wrong, else up to two.
fn neighbours(rng: &mut Pcg64Mcg, healthy: bool) -> Vec<&'static str> {
    let mut light = BESIDE.to_vec();
    let mut chosen = Vec::new();
    if healthy && rng.random_bool(0.5) {
        chosen.push(HEAVY[rng.random_range(0..HEAVY.len())]);
    }
    let least = usize::from(healthy && chosen.is_empty());
    for _ in 0..rng.random_range(least..=2) {
        chosen.push(light.swap_remove(rng.random_range(0..light.len())));
    }
    chosen
}

/// A harmless part, with what else is drawn for it.
fn part(rng: &mut Pcg64Mcg, name: &str) -> Result<Part, Error> {
    const INDIFFERENT: &[(&str, &[i64])] = &[
        ("net.ipv4.tcp_ecn", &[0, 1]),
        ("net.ipv4.tcp_slow_start_after_idle", &[0]),
        ("net.ipv4.tcp_syn_linear_timeouts", &[0, 2]),
    ];
    let seed = rng.random_range(1..1_000_000);
    let scenario = Scenario::load(name, seed)?;
    let ipv6 = rng.random_bool(0.25) && build::can_use_ipv6(&scenario);
    let nat = rng.random_bool(0.2) && !ipv6 && build::can_be_translated(&scenario);
    let mut sysctls = Vec::new();
    for (sysctl, values) in INDIFFERENT {
        let value = values[rng.random_range(0..values.len())];
        if rng.random_bool(0.2) {
            sysctls.push(((*sysctl).to_string(), value));
        }
    }
    Ok(Part {
        scenario: name.to_string(),
        prefix: String::new(),
        seed,
        times: None,
        side: Side::AsWritten,
        ipv6,
        nat,
        sysctls,
    })
}

/// Where a fault is looked at from: as far as its file knows what is right from there.
fn side(rng: &mut Pcg64Mcg, template: &Scenario) -> Side {
    let mut sides = vec![Side::Both, Side::Both];
    if let Some(severity) = &template.severity {
        sides.extend(severity.client_tells.iter().map(|_| Side::Client));
        sides.extend(severity.server_tells.iter().map(|_| Side::Server));
    }
    sides[rng.random_range(0..sides.len())]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_seed_is_one_situation_for_ever() {
        let situation = Situation::draw(GRADING).unwrap();
        assert_eq!(situation, Situation::draw(GRADING).unwrap());
        let text = serde_json::to_string(&situation).unwrap();
        let read: Situation = serde_json::from_str(&text).unwrap();
        assert_eq!(read.parts.len(), situation.parts.len());
    }

    #[test]
    fn seven_hundred_situations_hold_what_is_asked_of_an_exam() {
        let all = (GRADING..GRADING + 720).map(|seed| Situation::draw(seed).unwrap());
        let all: Vec<Situation> = all.collect();
        let healthy = all.iter().filter(|s| s.is_healthy()).count();
        assert_eq!(healthy, 240);
        let mut causes: BTreeMap<String, u32> = BTreeMap::new();
        let mut scenarios: BTreeMap<&str, u32> = BTreeMap::new();
        for part in all.iter().flat_map(|s| &s.parts) {
            *scenarios.entry(&part.scenario).or_default() += 1;
            if part.is_fault() {
                let truth = Scenario::load(&part.scenario, 1).unwrap().truth;
                *causes.entry(truth.cause).or_default() += 1;
            }
        }
        assert!(causes.values().all(|n| *n >= 11), "{causes:?}");
        for template in templates().unwrap().iter() {
            assert!(
                scenarios.contains_key(template.name.as_str()),
                "{}",
                template.name
            );
        }
        for healthy in BESIDE.iter().chain(HEAVY) {
            assert!(scenarios[healthy] >= 10, "{healthy}: {scenarios:?}");
        }
        let faults = |n| {
            all.iter()
                .filter(move |s| s.parts.iter().filter(|p| p.is_fault()).count() == n)
        };
        assert!(faults(2).count() >= 50 && faults(3).count() >= 10);
        let parts = || all.iter().flat_map(|s| &s.parts);
        assert!(parts().filter(|p| p.ipv6).count() >= 50);
        assert!(parts().filter(|p| p.nat).count() >= 20);
        assert!(all.iter().filter(|s| s.older_ms > 0.0).count() >= 50);
        for side in [Side::Client, Side::Server] {
            assert!(parts().filter(|p| p.side == side).count() >= 50);
        }
    }

    #[test]
    fn every_situation_is_sound_with_and_without_its_faults() {
        for seed in (GRADING..GRADING + 150).chain(1..150) {
            let situation = Situation::draw(seed).unwrap();
            for planted in [true, false] {
                build::build(&situation, planted).unwrap();
            }
        }
    }
}
