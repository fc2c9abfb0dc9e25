//! Which runs of which scenarios `make test` and `make test-lab` hold.

use super::{ALL, Scenario, Suite, Truth};
use crate::Error;

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
