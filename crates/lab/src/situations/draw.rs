//! The situation that a seed draws. Pure.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::fault::Fault;
use super::fits::complaint;
use super::kinds::{
    Age, Beside, Caller, Harmless, Patience, Proxy, SMALL_TRANSFER, Server, Shape, Side, Topology,
};
use super::situation::{Situation, Speaks};

/// Seeds that grade. Whoever builds tcpwhy looks at 1 to 999, and never runs these.
pub const GRADED: std::ops::RangeInclusive<u64> = 5001..=5400;

/// Draws until the parts go together: so often of the same corner …
const TRIES: u32 = 200;
/// … and of so many corners.
const CORNERS: u32 = 100_000;

/// Where and by whom it is met. Drawn first, so that one of which little goes together is met as often as others.
type Corner = (Topology, Server, Caller, Shape);

impl Situation {
    /// The situation of a seed. Every third is healthy, and the faults of the others take turns.
    pub fn compose(seed: u64) -> Situation {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let fault = (!seed.is_multiple_of(3)).then(|| {
            let turn = (seed - seed / 3) as usize;
            Fault::ALL[turn % Fault::ALL.len()]
        });
        for _ in 0..CORNERS {
            let servers = [Server::ALL, &[Server::Nginx, Server::Node, Server::Python]].concat();
            let corner = (
                one(&mut rng, Topology::ALL),
                one(&mut rng, &servers),
                one(&mut rng, Caller::ALL),
                one(&mut rng, Shape::ALL),
            );
            if !meet(corner) {
                continue;
            }
            let mut tries = (0..TRIES).map(|_| once(&mut rng, seed, fault, corner));
            if let Some(situation) = tries.find(|s| complaint(s).is_none()) {
                return situation;
            }
        }
        unreachable!("a test draws each fault");
    }
}

/// What a corner that is worth trying has.
fn meet((topology, server, caller, shape): Corner) -> bool {
    use Server::{Iperf3, Nginx, Node, Postgres, Python, Redis};
    use Shape::{Ask, Short, Tls};
    let asks = match caller {
        Caller::Python => server != Iperf3,
        Caller::Iperf3 => server == Iperf3,
        Caller::Node => {
            matches!(server, Nginx | Node | Python) && matches!(shape, Ask | Short | Tls)
        }
        Caller::Curl => matches!(server, Nginx | Node | Python) && matches!(shape, Short | Tls),
        Caller::Psql => server == Postgres && shape == Short,
        Caller::RedisCli => server == Redis && shape == Short,
    };
    let shares = topology != Topology::SharedPort || server == Python;
    asks && shares && Speaks::of(server, shape).is_some()
}

fn one<T: Copy>(rng: &mut Pcg64Mcg, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

fn once(rng: &mut Pcg64Mcg, seed: u64, fault: Option<Fault>, corner: Corner) -> Situation {
    let (topology, server, caller, shape) = corner;
    let hops = match topology {
        Topology::Proxy => 1,
        Topology::TwoProxies => 2,
        _ => 0,
    };
    let bulk = matches!(shape, Shape::Down | Shape::Up | Shape::Both);
    let delay_ms = one(rng, &[0.0, 0.0, 1.0, 5.0, 20.0, 40.0]);
    let besides: &[Beside] = match (server, shape) {
        (Server::Redis, _) => &[Beside::RedisBenchmark],
        (Server::Postgres, _) => &[Beside::Pgbench],
        (_, Shape::Ask) => &[Beside::Wrk],
        (_, Shape::Short) => &[Beside::Ab],
        _ => &[],
    };
    let beside = delay_ms >= 5.0 && !besides.is_empty() && rng.random_bool(0.5);
    Situation {
        seed,
        topology,
        proxies: (0..hops).map(|_| one(rng, Proxy::ALL)).collect(),
        network_behind: rng.random_range(0..=hops),
        shape,
        server,
        caller,
        beside: beside.then(|| one(rng, besides)),
        threads: one(rng, &[1, 2, 4, 6]),
        patience: Patience {
            gives_up_s: one(rng, &[0.25, 1.0, 3.0, 10.0]),
            retries: one(rng, &[0, 0, 1, 2]),
            addresses: one(rng, &[1, 1, 2]),
            pause_s: one(rng, &[0.02, 0.1, 0.1, 0.4]),
        },
        size: if bulk {
            one(rng, &[SMALL_TRANSFER, 20_000_000])
        } else {
            one(rng, &[200, 4_000, 30_000])
        },
        delay_ms,
        rate_mbit: (bulk && delay_ms > 0.0 && rng.random_bool(0.7))
            .then(|| one(rng, &[20.0, 60.0])),
        fault: fault.map(|fault| (fault, rng.random_range(0..3))),
        harmless: (fault.is_none() && rng.random_bool(0.4)).then(|| one(rng, Harmless::ALL)),
        side: one(rng, &[Side::Client, Side::Server, Side::Middle, Side::All]),
        age: match fault {
            Some(_) => one(rng, Age::ALL),
            None => Age::While,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::situations::kinds::word;

    #[test]
    fn a_seed_is_one_situation_for_ever() {
        for seed in 1..60 {
            let situation = Situation::compose(seed);
            assert_eq!(situation, Situation::compose(seed));
            assert_eq!(situation.fault.is_none(), seed % 3 == 0);
            let text = serde_json::to_string(&situation).unwrap();
            assert_eq!(situation, serde_json::from_str(&text).unwrap());
        }
    }

    #[test]
    fn what_grades_holds_every_kind() {
        let all: Vec<Situation> = GRADED.map(Situation::compose).collect();
        assert!(all.iter().all(|s| complaint(s).is_none()));
        let healthy = all.iter().filter(|s| s.fault.is_none()).count();
        assert!((130..=136).contains(&healthy), "{healthy}");
        let mut met: BTreeMap<String, u32> = BTreeMap::new();
        for s in &all {
            let mut words = vec![
                word(&s.topology),
                word(&s.shape),
                word(&s.server),
                format!("by-{}", word(&s.caller)),
                format!("side-{}", word(&s.side)),
                format!("age-{}", word(&s.age)),
                format!("gives-up-{}", s.patience.gives_up_s),
                format!("addresses-{}", s.patience.addresses),
            ];
            words.extend(s.beside.iter().map(word));
            words.extend(s.harmless.iter().map(word));
            words.extend(s.fault.iter().map(|(fault, _)| word(fault)));
            words.extend(s.proxies.iter().map(|p| format!("via-{}", word(p))));
            for word in words {
                *met.entry(word).or_default() += 1;
            }
        }
        let all_words = Topology::ALL.iter().map(word);
        let all_words = all_words.chain(Shape::ALL.iter().map(word));
        let all_words = all_words.chain(Server::ALL.iter().map(word));
        let all_words = all_words.chain(Beside::ALL.iter().map(word));
        let all_words = all_words.chain(Harmless::ALL.iter().map(word));
        let all_words = all_words.chain(Caller::ALL.iter().map(|c| format!("by-{}", word(c))));
        let all_words = all_words.chain(Proxy::ALL.iter().map(|p| format!("via-{}", word(p))));
        let all_words = all_words.chain(Side::ALL.iter().map(|s| format!("side-{}", word(s))));
        for word in all_words.chain(Fault::ALL.iter().map(word)) {
            assert!(met.get(&word).is_some_and(|n| *n >= 2), "{word}: {met:?}");
        }
    }

    #[test]
    fn each_fault_is_met_in_several_ways() {
        for fault in Fault::ALL {
            let mut ways = std::collections::BTreeSet::new();
            let turns = (1..).filter(|seed| seed % 3 != 0);
            let of_fault = turns.filter(|seed| {
                let turn = (seed - seed / 3) as usize;
                Fault::ALL[turn % Fault::ALL.len()] == *fault
            });
            for seed in of_fault.take(15) {
                let s = Situation::compose(seed);
                assert_eq!(s.fault.unwrap().0, *fault);
                ways.insert((s.topology, s.shape, s.server, s.side));
            }
            assert!(ways.len() >= 4, "{fault:?}: {ways:?}");
        }
    }
}
