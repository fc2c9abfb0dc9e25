//! Situations as production composes them, drawn at random: topology, shape, patience, programs, a mechanism that goes
//! wrong, and the side that is recorded. The second exam: it knows no scenario, and no cause by which one was made.

mod acts;
mod draw;
mod fault;
mod fits;
mod grade;
mod kinds;
mod log;
mod play;
mod programs;
mod render;
mod row;
mod sitting;
mod situation;
mod stage;
mod truth;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Mutex, RwLock};
use std::time::Instant;

pub use draw::GRADED;
pub use fault::Fault as Mechanism;
pub use grade::{Mark, Marked, SituationGrade, Tally};
pub use log::Met;
pub use render::{render_composed, render_marked, render_situations, situations_markdown};
pub use sitting::{Played, Said, Sat, Told};
pub use situation::Situation as Composed;
pub use truth::{Right, UNTOLD, answers};

use crate::leftovers::clean_leftovers;
use crate::plant::require_root;
use crate::recorder::diagnose;
use crate::shield::Shield;
use crate::{Error, Programs, Stop};

/// How to play situations.
#[derive(Clone, Debug)]
pub struct SituationOptions {
    /// Where they stand, and are added to.
    pub dir: PathBuf,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Those that are there are played again.
    pub again: bool,
    /// So many at once.
    pub at_once: usize,
    /// The binary to drive; the program that runs this code when absent.
    pub programs: Option<Programs>,
}

/// Plays what the directory does not have yet; `each` is told of every one, how many were played and of how many.
/// Wants root; takes SIGINT, SIGTERM and SIGHUP from here on.
pub fn situations(
    options: &SituationOptions,
    mut each: impl FnMut(&Played, &Said, usize, usize),
) -> Result<Sat, Error> {
    let mut sat = Sat::open(&options.dir)?;
    let open =
        |seed: &u64| options.again || sat.played.get(seed).is_none_or(|p| p.failed.is_some());
    let seeds: BTreeSet<u64> = options.seeds.iter().copied().filter(open).collect();
    if seeds.is_empty() {
        return Ok(sat);
    }
    require_root()?;
    let stop = Stop::on_signals()?;
    let programs = options
        .programs
        .clone()
        .map_or_else(Programs::current, Ok)?;
    clean_leftovers()?;
    sat.make()?;
    let cert = play::certificate()?;
    // Left when everything that ran in it has ended.
    let _shield = Shield::raise();
    let of = seeds.len();
    let jobs: Vec<_> = seeds
        .into_iter()
        .map(|seed| (seed, sat.recording(seed)))
        .collect();
    let queue = Mutex::new(jobs.into_iter());
    // What takes a CPU by itself is played by itself.
    let alone = RwLock::new(());
    let (sender, done) = channel();
    std::thread::scope(|scope| {
        for _ in 0..options.at_once.max(1) {
            let (sender, queue, alone) = (sender.clone(), &queue, &alone);
            let (programs, stop, cert) = (&programs, &stop, &cert);
            scope.spawn(move || {
                loop {
                    let job = queue.lock().unwrap_or_else(|e| e.into_inner()).next();
                    let Some((seed, recording)) = job.filter(|_| !stop.is_set()) else {
                        return;
                    };
                    let situation = Composed::compose(seed);
                    let began = Instant::now();
                    let (mut shared, mut own) = (None, None);
                    if situation.is_heavy() {
                        own = Some(alone.write());
                    } else {
                        shared = Some(alone.read());
                    }
                    let mut played = play::play(&situation, programs, &recording, cert, stop);
                    drop((shared.take(), own.take()));
                    played.seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
                    let said = read(&played, programs, &recording, stop);
                    if stop.is_set() || sender.send((played, said)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (at, (played, said)) in done.iter().enumerate() {
            each(&played, &said, at + 1, of);
            let kept = sat.add(played).and_then(|()| sat.say(said));
            if kept.is_err() {
                stop.set();
            }
            kept?;
        }
        Ok::<(), Error>(())
    })?;
    if stop.is_set() {
        return Err(Error::Interrupted);
    }
    Ok(sat)
}

/// Asks the binary again for the reasons, of every recording that was kept.
pub fn explain_again(dir: &std::path::Path, programs: Option<Programs>) -> Result<Sat, Error> {
    let mut sat = Sat::open(dir)?;
    let stop = Stop::on_signals()?;
    let programs = programs.map_or_else(Programs::current, Ok)?;
    let all: Vec<Played> = sat.played.values().cloned().collect();
    for played in all.iter().filter(|p| p.failed.is_none()) {
        let said = read(
            played,
            &programs,
            &sat.recording(played.situation.seed),
            &stop,
        );
        if stop.is_set() {
            return Err(Error::Interrupted);
        }
        sat.say(said)?;
    }
    Ok(sat)
}

fn read(played: &Played, programs: &Programs, recording: &std::path::Path, stop: &Stop) -> Said {
    let failed = |why: String| Said {
        seed: played.situation.seed,
        failed: Some(why),
        ..Said::default()
    };
    if played.failed.is_some() {
        return failed("it was not played".into());
    }
    match diagnose(&programs.tcpwhy, recording, stop) {
        Ok(diagnosis) => Said::of(played, &diagnosis),
        Err(e) => failed(e.to_string()),
    }
}
