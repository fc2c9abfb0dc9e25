//! Boots other kernels under emulation and checks there what `kernels.toml` expects; writes
//! docs/kernels.md. Minutes long, hence ignored unless asked for: `make test-kernels`.

#[path = "kernels/guest.rs"]
mod guest;
#[path = "kernels/page.rs"]
mod page;
#[path = "kernels/spec.rs"]
mod spec;

use std::fs;
use std::path::Path;
use std::thread::{self, available_parallelism};

use guest::Guest;
use spec::{Kernel, Matrix};

#[test]
#[ignore = "minutes long: make test-kernels"]
fn every_kernel_gives_what_is_expected_of_it() {
    let matrix = Matrix::load();
    // One suite alone, while something is being tried out; the page needs all.
    let only = std::env::var("SUITE").ok();
    let wanted = |kernel: &&Kernel| only.as_ref().is_none_or(|suite| *suite == kernel.suite);
    let kernels: Vec<&Kernel> = matrix.kernel.iter().filter(wanted).collect();
    let mut guests = Vec::new();
    let mut wrong = Vec::new();
    // Each guest is one thread of the emulator.
    let at_once = available_parallelism().map_or(1, |n| n.get());
    for kernels in kernels.chunks(at_once) {
        let booted: Vec<Result<Guest, String>> = thread::scope(|scope| {
            let mut threads = Vec::new();
            for kernel in kernels {
                eprintln!("booting the kernel of {}", kernel.suite);
                threads.push(scope.spawn(|| Guest::boot(&matrix, kernel)));
            }
            let ends = threads.into_iter().map(|t| t.join().expect("no panic"));
            ends.collect()
        });
        for guest in booted {
            match guest {
                Ok(guest) => {
                    eprintln!("{}", guest.summary());
                    wrong.extend(guest.wrong(&matrix));
                    guests.push(guest);
                }
                Err(why) => wrong.push(why),
            }
        }
    }
    let page = page::page(&matrix, &guests);
    println!("{page}");
    if guests.len() == matrix.kernel.len() {
        fs::write(page::path(), page).expect("docs/kernels.md can be written");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_page_has_every_kernel_and_situation() {
    let matrix = Matrix::load();
    let page = fs::read_to_string(page::path()).unwrap_or_default();
    let kernels = matrix.kernel.iter().map(|k| k.suite.as_str());
    let scenarios = matrix.scenario.iter().map(|s| s.name.as_str());
    let situations = matrix.situation.iter().map(|s| s.name.as_str());
    for word in kernels.chain(scenarios).chain(situations) {
        assert!(page.contains(word), "{word}: run make test-kernels");
    }
}

#[test]
fn every_scenario_is_one_of_the_labs() {
    let known: Vec<&str> = lab::list().unwrap().into_iter().map(|s| s.name).collect();
    for scenario in Matrix::load().scenario {
        assert!(known.contains(&scenario.name.as_str()), "{}", scenario.name);
    }
}

/// The root of the workspace.
fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
