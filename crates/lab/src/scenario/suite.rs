//! Which runs of which scenarios `make test` and `make test-lab` hold, and which of them are one look.

use super::load::A_CPU;
use super::{ALL, Scenario, Suite, Truth};
use crate::Error;

/// Scenarios of one pack at most.
const MOST: usize = 4;
/// CPUs that the loads of a pack take at most, as far as is known: of the two of a small host, some are the recorder's.
const CPUS: f64 = 0.8;
/// The load of a scenario of a pack is at most so much shorter than the longest, s: the servers of what ended stand idle.
const SHORTER: f64 = 3.0;

/// One run that a suite holds: its name, and the arguments of `tcpwhy-lab lab run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The scenario, with `+fix` or `+runs` behind it.
    pub name: String,
    /// What to give to `lab run`.
    pub args: Vec<String>,
}

/// The runs of `make test` (`quick`), or those that `make test-lab` adds, in the order of the list
/// of scenarios.
pub fn checks(quick: bool) -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    for (name, _) in ALL {
        let scenario = Scenario::load(name, 1)?;
        let all = of(name, scenario.suite, &scenario.truth);
        let asked = all.into_iter().filter(|(is_quick, _)| *is_quick == quick);
        checks.extend(asked.map(|(_, check)| check));
    }
    Ok(checks)
}

/// The same in packs: what is planted side by side and looked at together. Those that own a CPU or the host are by
/// themselves, as are those whose load is greedy, and many runs of one.
pub fn packs(quick: bool) -> Result<Vec<Vec<Check>>, Error> {
    let mut all = Vec::new();
    for check in checks(quick)? {
        all.push((Scenario::load(&check.args[0], 1)?, check));
    }
    // The longest first, so that those of a pack are about as long.
    all.sort_by(|a, b| b.0.seconds().total_cmp(&a.0.seconds()));
    let mut packs: Vec<Vec<(Scenario, Check)>> = Vec::new();
    for (scenario, check) in all {
        let fits = |pack: &&mut Vec<(Scenario, Check)>| {
            let (longest, first) = &pack[0];
            let together = packable(longest, first) && packable(&scenario, &check);
            let alike = first.args[1..] == check.args[1..];
            let cpus = pack.iter().map(|(s, _)| s.cpus()).sum::<f64>() + scenario.cpus();
            let as_long = longest.seconds() - scenario.seconds() <= SHORTER;
            together && alike && pack.len() < MOST && cpus <= CPUS && as_long
        };
        match packs.iter_mut().find(fits) {
            Some(pack) => pack.push((scenario, check)),
            None => packs.push(vec![(scenario, check)]),
        }
    }
    let checks = |pack: Vec<_>| pack.into_iter().map(|(_, check)| check).collect();
    Ok(packs.into_iter().map(checks).collect())
}

fn packable(scenario: &Scenario, check: &Check) -> bool {
    let many = check.args.iter().any(|arg| arg == "--runs");
    scenario.alone.is_none() && scenario.cpus() < A_CPU && !many
}

/// The runs of one scenario, and whether `make test` holds them.
fn of(name: &str, suite: Suite, truth: &Truth) -> Vec<(bool, Check)> {
    let check = |more: &str, args: &[&str]| {
        let args = [&name].into_iter().chain(args).map(|a| a.to_string());
        Check {
            name: format!("{name}{more}"),
            args: args.collect(),
        }
    };
    let (plain, fix) = (|| check("", &[]), || check("+fix", &["--fix"]));
    let mut runs = match (suite, &truth.fix) {
        (Suite::Test, None) => vec![(true, plain())],
        (Suite::Test, Some(_)) => vec![(true, plain()), (false, fix())],
        (Suite::TestFix, _) => vec![(true, fix())],
        (Suite::Lab, None) => vec![(false, plain())],
        (Suite::Lab, Some(_)) => vec![(false, fix())],
        (Suite::Exam, _) => Vec::new(),
    };
    if let Some(many) = &truth.runs {
        let (seed, count) = (many.seed.to_string(), many.count.to_string());
        let args = ["--seed", &seed, "--runs", &count];
        runs.push((false, check("+runs", &args)));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two minutes of scenarios or so: each is some seconds of load, and as much with its advice.
    #[test]
    fn make_test_holds_a_bounded_choice_and_some_that_are_healthy() {
        let quick = checks(true).unwrap();
        assert!(quick.len() <= 14, "{quick:?}");
        let healthy = quick.iter().filter(|c| c.name.starts_with("healthy-"));
        assert!(healthy.count() >= 4, "{quick:?}");
        assert!(quick.iter().any(|c| c.args.contains(&"--fix".to_string())));
    }

    #[test]
    fn every_check_is_in_one_pack_with_others_of_its_kind() {
        for quick in [true, false] {
            let packs = packs(quick).unwrap();
            for pack in &packs {
                let loads = pack.iter().map(|c| Scenario::load(&c.args[0], 1).unwrap());
                let loads: Vec<_> = loads.collect();
                let sum: f64 = loads.iter().map(Scenario::cpus).sum();
                let names: Vec<_> = pack.iter().map(|c| &c.name[..]).collect();
                println!("{:.0} s, {sum:.2} CPUs: {names:?}", loads[0].seconds());
                assert!(pack.iter().all(|c| c.args[1..] == pack[0].args[1..]));
                assert!(pack.len() == 1 || loads.iter().all(|s| s.alone.is_none()));
            }
            let mut packed = packs.concat();
            let mut all = checks(quick).unwrap();
            packed.sort_by(|a, b| a.name.cmp(&b.name));
            all.sort_by(|a, b| a.name.cmp(&b.name));
            assert_eq!(packed, all);
        }
    }

    /// What takes a CPU or the host says so.
    #[test]
    fn what_cannot_stand_beside_others_says_why() {
        for (name, _) in ALL {
            let scenario = Scenario::load(name, 1).unwrap();
            let pinned = scenario.servers.iter().any(|s| s.cpu.is_some())
                || scenario.clients.iter().any(|c| c.cpu.is_some());
            let limited = scenario.servers.iter().any(|s| s.cpu_quota.is_some());
            let of_a_cpu = scenario.links.iter().any(|l| l.napi_cpu.is_some());
            let of_the_host = scenario.neighbours > 0 || !scenario.record.is_empty();
            let owns = pinned || limited || of_a_cpu || of_the_host || !scenario.hogs.is_empty();
            assert!(!owns || scenario.alone.is_some(), "{name}");
            assert!(scenario.alone.is_none_or(|why| why.len() > 10), "{name}");
        }
    }

    #[test]
    fn every_scenario_runs_unless_it_is_the_exams_alone() {
        let all = [checks(true).unwrap(), checks(false).unwrap()].concat();
        let mut names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        for (name, _) in ALL {
            let suite = Scenario::load(name, 1).unwrap().suite;
            let runs = all.iter().any(|c| c.args[0] == *name);
            assert_eq!(runs, suite != Suite::Exam, "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len(), "each once");
    }
}
