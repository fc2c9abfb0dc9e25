//! Recordings made to hurt whoever reads them, and what reading them comes to. For tests only:
//! nothing that is installed uses it.

mod base;
mod bombs;
mod bytes;
mod column;
mod copy;
mod files;
mod headers;
mod large;
mod manifest;
mod packed;
mod run;
mod semantic;
mod texts;

use std::path::Path;

use anyhow::Result;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub use base::base;
pub use bombs::{Bomb, set_texts};
pub use copy::recording as copy;
pub use headers::data_page;
pub use large::Large;
pub use packed::hostile_files;
pub use run::{Ended, Limits, Outcome, VERBS, run, run_apart};
pub use texts::{change_manifest, change_texts};

/// How a recording is spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Values, types, columns, rows, encodings: a well-formed file that says wrong things.
    Semantic,
    /// `manifest.json`: well-formed JSON that says wrong things.
    Manifest,
    /// Bytes of a file.
    Bytes,
    /// Headers of pages, and the footer.
    Headers,
    /// What lies where a file should.
    Files,
    /// All of it as one file, and what lies in that.
    Packed,
}

impl Class {
    /// All of them, with how often each is drawn.
    const ALL: &[(Class, u32)] = &[
        (Class::Semantic, 50),
        (Class::Manifest, 12),
        (Class::Bytes, 12),
        (Class::Headers, 16),
        (Class::Files, 10),
        (Class::Packed, 12),
    ];

    fn draw(rng: &mut Pcg64Mcg) -> Class {
        let all: u32 = Class::ALL.iter().map(|(_, n)| n).sum();
        let mut left = rng.random_range(0..all);
        for (class, n) in Class::ALL {
            match left.checked_sub(*n) {
                Some(rest) => left = rest,
                None => return *class,
            }
        }
        Class::Bytes
    }
}

/// A spoiled recording.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// How it was spoiled.
    pub class: Class,
    /// What was done to it, in order.
    pub what: Vec<String>,
    /// The verbs to try on it: places in [`VERBS`].
    pub verbs: Vec<usize>,
}

/// Verbs that a mutant is given to.
const TRIED: usize = 2;

/// Makes a mutant of the recording `base` in `to`, which must not exist, and in which no table is
/// given more rows than `most_rows`. The same seed makes the same.
pub fn mutate(base: &Path, to: &Path, seed: u64, most_rows: usize) -> Result<Mutant> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    copy::recording(base, to)?;
    let class = Class::draw(&mut rng);
    let times = if rng.random_ratio(1, 4) { 2 } else { 1 };
    let mut what = Vec::new();
    for _ in 0..times {
        let done = match class {
            Class::Semantic => semantic::mutate(to, &mut rng, most_rows),
            Class::Manifest => manifest::mutate(to, &mut rng),
            Class::Bytes => bytes::mutate(to, &mut rng),
            Class::Headers => headers::mutate(to, &mut rng),
            Class::Files => files::mutate(to, &mut rng),
            Class::Packed => packed::mutate(to, &mut rng),
        };
        match done {
            Ok(done) => what.push(done),
            // The second time the first may be in the way.
            Err(_) if !what.is_empty() => break,
            Err(e) => return Err(e),
        }
    }
    // Explaining reads most: it is always tried.
    let mut verbs = vec![0];
    while verbs.len() < TRIED {
        verbs.push(rng.random_range(1..VERBS.len()));
    }
    Ok(Mutant { class, what, verbs })
}

/// One of several.
fn one<'a, T>(rng: &mut Pcg64Mcg, of: &'a [T]) -> &'a T {
    &of[rng.random_range(0..of.len())]
}
