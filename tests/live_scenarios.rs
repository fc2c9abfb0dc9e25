//! The scenarios of the lab, each once: those of `make test`, and with `--ignored` those that
//! `make test-lab` adds. What is right of them, and who runs them, stands in their own files.

mod common;

use std::process::ExitCode;

use common::{json_lines, need_root, run, stderr};
use lab::Check;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let trials = [true, false].into_iter().flat_map(|quick| {
        let checks = lab::checks(quick).expect("the scenarios are sound");
        checks
            .into_iter()
            .map(move |check| trial(check).with_ignored_flag(!quick))
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

fn trial(check: Check) -> Trial {
    Trial::test(check.name.clone(), move || {
        need_root();
        let args: Vec<&str> = check.args.iter().map(String::as_str).collect();
        let output = run(&[&["lab", "run"], &args[..], &["--json"]].concat());
        let [outcome] = &json_lines(&output)[..] else {
            return Err(Failed::from(stderr(&output)));
        };
        // `passed` is the judge's word; the rest is for whoever has to find out.
        if outcome["passed"] == true && output.status.success() {
            Ok(())
        } else {
            Err(Failed::from(format!("{}\n{outcome:#}", outcome["why"])))
        }
    })
}
