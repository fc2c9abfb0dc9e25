//! `tcpwhy top`: the live screen, or a recording with a time cursor. Only wiring: what keys do and
//! what is painted is `view::top`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use observe::{Options, Part, Session};
use recording::{Feed, Filter, Manifest, Next, Recording, Window, monotonic_ns};
use view::How;
use view::top::{
    About, Effect, Findings, Picture, Seen, State, Timeline, draw, to_clipboard, waiting,
};

use crate::at::AtArgs;
use crate::explainer::{Done, Explainer, Job};
use crate::filters::FilterArgs;
use crate::given;
use crate::live::WhatArgs;
use crate::seen::{self, Reports};
use crate::terminal::{self, Input, Terminal};
use crate::watch::{stop_session, without_tasks};
use crate::{looks, surroundings};

/// Arguments of `tcpwhy top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Replay this recording instead of watching the live host
    recording: Option<PathBuf>,
    /// The same as RECORDING; every verb that reads a recording takes --from
    #[arg(
        long,
        value_name = "RECORDING",
        conflicts_with = "recording",
        hide_short_help = true
    )]
    from: Option<PathBuf>,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    what: WhatArgs,
    // Last, as its heading would go on over what follows.
    #[command(flatten)]
    filters: FilterArgs,
}

/// A picture is painted at most so often.
const PAINT_EVERY: Duration = Duration::from_millis(250);
/// Rows are handed over every second, so a second is whole when it is this old.
const HOLD: Duration = Duration::from_millis(1_500);
/// So often it is looked whether the reader has had enough of waiting.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What is older is removed from the disk.
const KEEP: Duration = Duration::from_secs(60);

/// Runs the verb.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    terminal::require()?;
    let store = args.at.store();
    let named = args.recording.as_ref().or(args.from.as_ref());
    match named.or(store.as_ref()) {
        Some(path) => recorded(path, args)?,
        None => live(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn recorded(path: &Path, args: &TopArgs) -> Result<()> {
    let stop = surroundings::begin()?;
    // What is saved goes into the directory that it is run in.
    let _held = given::hold_orderly([path], Some(Path::new(".")))?;
    let recording = given::open_at(path, &args.at)?;
    let filter = args.filters.of(&recording)?;
    let terminal = begin(&format!("reading {} …", path.display()))?;
    let Some((recording, timeline)) = read(recording, filter.clone(), &stop)? else {
        return Ok(());
    };
    let mut about = about(&recording.manifest, false);
    let span = timeline.span();
    let mut explainer = Explainer::start(explain::Options::default().about(filter), None)?;
    let job = Job {
        recording,
        remove: None,
        span,
    };
    explainer.begin(job, false);
    about.health = missing(&about, &timeline, 0);
    about.slowed = timeline.health().slowed();
    let mut reports = Reports::default();
    let mut screen = Screen::begin(terminal, about, timeline)?;
    while !screen.ended && !stop.load(Ordering::Relaxed) {
        if let Some(done) = explainer.done() {
            screen.explained(done, false);
        }
        if let Some(says) = reports.done() {
            screen.say(says);
        }
        match screen.turn()? {
            Some(Effect::Save) => screen.say(format!("it is a recording: {}", path.display())),
            Some(Effect::Report) => {
                let says = reports.begin(|| Ok((given::open_at(path, &args.at)?, None)));
                screen.say(says);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads it on a thread of its own, which ends with the process where the reader does not wait for it.
fn read(
    recording: Recording,
    filter: Filter,
    stop: &AtomicBool,
) -> Result<Option<(Recording, Timeline)>> {
    let reading = thread::Builder::new()
        .name("reading".into())
        .spawn(move || {
            let timeline = Timeline::read(&recording, filter)?;
            Ok((recording, timeline))
        });
    let reading = reading.context("starting a thread")?;
    while !reading.is_finished() {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
    match reading.join() {
        Ok(read) => read.map(Some),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn live(args: &TopArgs) -> Result<()> {
    let filter = args.filters.live()?;
    let stop = surroundings::begin()?;
    let dir = surroundings::scratch_in_memory("top")?;
    let at = dir.path().join("live.tcpwhy");
    let parts = Part::by_default().chain([Part::Threads, Part::Requests]);
    let options = Options {
        stop: stop.clone(),
        ..args.what.options(without_tasks(&filter), parts)
    };
    let mut explainer = Explainer::start(
        explain::Options::default().about(filter.clone()),
        Some(dir.path()),
    )?;
    let terminal = begin("attaching to the kernel …")?;
    let (mut session, feed) = match Session::followed(&at, &options) {
        Ok(begun) => begun,
        // Nothing was to be seen yet.
        Err(observe::Error::Stopped) => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    let mut window = Window::of(&at);
    let manifest = session.manifest();
    let timeline = Timeline::live(manifest, filter);
    let mut reports = Reports::default();
    let screen = Screen::begin(terminal, about(manifest, true), timeline);
    let shown = screen.and_then(|mut screen| {
        let mut links = 0;
        while !screen.ended && !stop.load(Ordering::Relaxed) && !session.failed() {
            take(&feed, &mut window, &mut screen.timeline)?;
            let now = monotonic_ns();
            if screen.timeline.reach(before(now, HOLD)) {
                screen.about.health = missing(&screen.about, &screen.timeline, window.dropped());
                screen.about.slowed = screen.timeline.health().slowed();
                screen.changed = true;
                window.forget(before(now, KEEP))?;
                // What was switched off is among what the recorder says of itself.
                let _ = session.tick()?;
            }
            if let Some(done) = explainer.done() {
                let paced = explainer.is_paced();
                screen.explained(done, paced);
            }
            let trouble = screen.timeline.is_in_trouble();
            if explainer.is_due(trouble) {
                links += 1;
                let to = dir.path().join(format!("window-{links}"));
                let from = before(now, explainer.length()).max(session.manifest().start_ns);
                let manifest = Manifest {
                    end_ns: now,
                    ..session.manifest().clone()
                };
                let job = Job {
                    recording: window.link(from, &manifest, &to)?,
                    remove: Some(to),
                    span: (from, now),
                };
                explainer.begin(job, trouble);
            }
            if let Some(says) = reports.done() {
                screen.say(says);
            }
            match screen.turn()? {
                Some(Effect::Save) => {
                    let time = (before(now, KEEP), now);
                    screen.say(seen::recording(&window, session.manifest(), time));
                }
                Some(Effect::Report) => {
                    links += 1;
                    let to = dir.path().join(format!("window-{links}"));
                    let manifest = Manifest {
                        end_ns: now,
                        ..session.manifest().clone()
                    };
                    let from = before(now, KEEP).max(manifest.start_ns);
                    let says = reports.begin(|| {
                        let linked = window.link(from, &manifest, &to)?;
                        Ok((linked, Some(to)))
                    });
                    screen.say(says);
                }
                _ => {}
            }
        }
        Ok(())
    });
    // The terminal is as it was: what is said now is read.
    let stopped = stop_session(session, &feed, |_| Ok(()))?;
    shown.and(stopped.map(drop))
}

/// The terminal, with what the reader waits for.
fn begin(says: &str) -> Result<Terminal> {
    let mut terminal = Terminal::take()?;
    terminal.draw(|frame| waiting(frame, says))?;
    Ok(terminal)
}

/// Takes what has come.
fn take(feed: &Feed, window: &mut Window, timeline: &mut Timeline) -> Result<()> {
    while let Next::Segment(segment) = feed.next(Duration::ZERO) {
        window.add(&segment);
        timeline.add(&segment)?;
    }
    Ok(())
}

fn before(now_ns: u64, time: Duration) -> u64 {
    now_ns.saturating_sub(time.as_nanos() as u64)
}

fn about(manifest: &Manifest, live: bool) -> About {
    About {
        host: format!("{} (Linux {})", manifest.host.name, manifest.host.kernel),
        live,
        colour: looks::colour(),
        how: How::of(manifest).zoned(looks::zone(), manifest),
        failed: manifest.failures().collect(),
        health: None,
        slowed: None,
    }
}

/// What could not be had and what was lost.
fn missing(about: &About, timeline: &Timeline, forgotten: u64) -> Option<String> {
    let lost = timeline.health().holes();
    let old = (forgotten > 0)
        .then(|| "the owners of the oldest sockets were forgotten: there are too many".to_string());
    let all: Vec<String> = about
        .failed
        .iter()
        .cloned()
        .chain(lost)
        .chain(old)
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The screen, and what is on it.
struct Screen {
    terminal: Terminal,
    timeline: Timeline,
    findings: Findings,
    about: About,
    state: State,
    /// What was painted last.
    seen: Seen,
    painted: Instant,
    changed: bool,
    ended: bool,
}

impl Screen {
    fn begin(terminal: Terminal, about: About, timeline: Timeline) -> Result<Screen> {
        let mut screen = Screen {
            terminal,
            timeline,
            findings: Findings::default(),
            about,
            state: State::default(),
            seen: Seen::default(),
            painted: Instant::now(),
            changed: true,
            ended: false,
        };
        screen.paint()?;
        Ok(screen)
    }

    fn explained(&mut self, done: Done, paced: bool) {
        let (from, to) = done.span;
        match done.explained {
            Ok(explanation) => self.findings.explained(explanation, from, to, paced),
            Err(why) => self.findings.failed(why),
        }
        self.changed = true;
    }

    /// Says it until the next key.
    fn say(&mut self, says: String) {
        self.state.status = Some(says);
        self.changed = true;
    }

    /// Puts the command of the finding on the clipboard of the terminal.
    fn copy(&mut self) -> Result<()> {
        let says = match self.findings.command(&self.state, &self.seen) {
            Err(why) => why.to_string(),
            Ok(command) => match to_clipboard(command) {
                None => "not copied: it has letters that would act on the terminal".into(),
                Some(sequence) => {
                    self.terminal.send(&sequence)?;
                    format!("copied, if the terminal supports OSC 52: {command}")
                }
            },
        };
        self.say(says);
        self.paint()
    }

    /// Waits a moment for keys, and paints what has changed. What the reader asks for that is not done here.
    fn turn(&mut self) -> Result<Option<Effect>> {
        let mut wait = PAINT_EVERY;
        while let Some(input) = self.terminal.input(wait)? {
            wait = Duration::ZERO;
            let effect = match input {
                Input::Key(key) => self.state.key(key, &self.seen),
                Input::Resize => Effect::Redraw,
            };
            match effect {
                Effect::Quit => self.ended = true,
                // What a key means depends on what is seen: each has its own picture.
                Effect::Redraw => self.paint()?,
                Effect::Copy => self.copy()?,
                Effect::Save | Effect::Report => return Ok(Some(effect)),
                Effect::Nothing => {}
            }
            if self.ended {
                return Ok(None);
            }
        }
        if self.changed && self.painted.elapsed() >= PAINT_EVERY {
            self.paint()?;
        }
        Ok(None)
    }

    fn paint(&mut self) -> Result<()> {
        let (width, height) = self.terminal.size()?;
        let snapshot = self
            .timeline
            .snapshot(self.state.cursor_ns, self.state.order);
        let time = (self.timeline.span(), self.timeline.step_ns());
        let picture = Picture::new(
            &self.state,
            &snapshot,
            &self.findings,
            &self.about,
            time,
            width,
        );
        self.seen = picture.seen(self.state.focus, width, height);
        self.state.settle(&self.seen);
        self.terminal
            .draw(|frame| draw(frame, &picture, &self.state, &self.about))?;
        self.painted = Instant::now();
        self.changed = false;
        Ok(())
    }
}
