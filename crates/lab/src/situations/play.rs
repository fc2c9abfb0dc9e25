//! One situation from its first host to its last line: built, met by its callers, gone wrong, recorded.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use super::acts::acts;
use super::kinds::Age;
use super::log::{self, Moments};
use super::programs;
use super::sitting::Played;
use super::situation::Situation;
use super::stage::Stage;
use crate::command::run;
use crate::recorder::{Recorded, Recorder};
use crate::{Error, Programs, Stop};

/// So long nothing is wrong, s: what is usual is measured.
const USUAL_S: f64 = 2.5;
/// So long it goes on while it is recorded, s.
const WRONG_S: f64 = 6.0;
/// So much older than the recording it is, s.
const OLDER_S: f64 = 1.0;

/// A certificate with its key, for servers that speak TLS.
pub(super) fn certificate() -> Result<String, Error> {
    let dir = crate::leftovers::temp_dir()?;
    let (key, cert) = (dir.path().join("key"), dir.path().join("cert"));
    let (key_path, cert_path) = (key.to_string_lossy(), cert.to_string_lossy());
    run([
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=backend",
        "-keyout",
        &key_path,
        "-out",
        &cert_path,
    ])?;
    let text =
        |path: &Path| std::fs::read_to_string(path).map_err(Error::io("reading the certificate"));
    Ok(text(&key)? + &text(&cert)?)
}

/// Plays a situation. One that fails says why.
pub(super) fn play(
    s: &Situation,
    programs: &Programs,
    recording: &Path,
    cert: &str,
    stop: &Stop,
) -> Played {
    let mut played = Played {
        situation: s.clone(),
        hosts: Vec::new(),
        met: log::Met::default(),
        dropped: 0,
        own_s: 0.0,
        failed: None,
        seconds: 0.0,
    };
    // Of a seed that is played again.
    let _ = std::fs::remove_dir_all(recording);
    if let Err(e) = on_stage(&mut played, programs, recording, cert, stop) {
        played.failed = Some(e.to_string());
    }
    played
}

fn on_stage(
    played: &mut Played,
    programs: &Programs,
    recording: &Path,
    cert: &str,
    stop: &Stop,
) -> Result<(), Error> {
    let s = played.situation.clone();
    let mut stage = Stage::build(&s, cert, stop)?;
    played.hosts = stage.recorded();
    let hosts = played.hosts.clone();
    let namespaces: Vec<&str> = hosts.iter().map(|(name, _)| name.as_str()).collect();
    let what = Recorded {
        recording,
        namespaces: &namespaces,
        parts: &[],
        options: &[],
        at_most: std::time::Duration::from_secs(60),
    };
    let record = || Recorder::begin(&programs.tcpwhy, &what)?.begun(stop);
    let is_older = s.fault.is_some() && s.age == Age::Before;
    let mut recorder = if is_older { None } else { Some(record()?) };
    let mut from = now();
    let file = stage.start_callers()?;
    stage.rest(USUAL_S)?;
    stage.check()?;
    let wrong = now();
    let end = wrong + WRONG_S;
    match (s.fault, s.harmless) {
        (Some((fault, level)), _) => stage.plant(&acts(fault, &s, level), || now() >= end)?,
        (None, Some(harmless)) => stage.harmless(harmless)?,
        (None, None) => {}
    }
    let recorder = match recorder.take() {
        Some(recorder) => {
            stage.rest((end - now()).max(0.0))?;
            recorder
        }
        None => {
            stage.rest(OLDER_S)?;
            let recorder = record()?;
            from = now();
            stage.rest(WRONG_S)?;
            recorder
        }
    };
    let until = now();
    recorder.finish(stop)?;
    stage.end_callers()?;
    let text =
        std::fs::read_to_string(&file).map_err(Error::io("reading what the caller wrote down"))?;
    played.met = log::met(
        &log::read(&text),
        Moments {
            wrong,
            from,
            until,
            threads: s.threads,
        },
    );
    played.dropped = stage.dropped();
    let own = std::fs::read_to_string(stage.file("server", programs::OWN_LOG)).unwrap_or_default();
    played.own_s = log::read(&own).iter().map(|o| o.s).sum();
    if played.met.before == 0 {
        return Err(Error::Command {
            command: "the caller".into(),
            why: "had no success while nothing was wrong".into(),
        });
    }
    Ok(())
}

/// CLOCK_MONOTONIC, in which callers write.
fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
