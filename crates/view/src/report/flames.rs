//! Flame graphs as trees: CPU, softirqs, each hot CPU, off-CPU by waker.

use std::collections::BTreeMap;

use analysis::words::plural;
use recording::{Error, Filter, Recording};

use super::Thinned;
use super::page::{Flame, Node};
use crate::flame::{Profile, Samples, Unit, off_cpu};

/// CPUs that have a graph of their own.
const MAX_CPUS: usize = 16;
/// A function with a smaller share of the whole is folded into its siblings.
const LEAST_SHARE: f64 = 0.0005;
/// Deeper frames are left out; the kernel gives 127 of each kind.
const MAX_DEPTH: usize = 256;
/// What stands for the functions that were folded.
const REST: &str = "…";
/// With fewer samples, shares are a matter of chance: one in ten of 500 is right to a third.
const FEW: u64 = 500;

/// The profiles of a recording, each with its id and title.
pub(super) struct Profiles(Vec<(String, String, Profile)>);

impl Profiles {
    /// All that the recording has samples or waits for.
    pub(super) fn read(recording: &Recording) -> Result<Profiles, Error> {
        let samples = Samples::read(recording, &Filter::default())?;
        let mut all = Vec::new();
        let mut add = |id: &str, title: &str, profile: Profile| {
            if !profile.stacks.is_empty() {
                all.push((id.to_string(), title.to_string(), profile));
            }
        };
        add("cpu", "CPU time", samples.profile(&[], false));
        add(
            "softirq",
            "CPU time in softirqs",
            samples.profile(&[], true),
        );
        let mut cpus = samples.busy_cpus();
        cpus.truncate(MAX_CPUS);
        cpus.sort_unstable();
        for cpu in cpus {
            let title = format!("CPU time on CPU {cpu}");
            add(
                &format!("cpu-{cpu}"),
                &title,
                samples.profile(&[cpu], false),
            );
        }
        let waits = off_cpu(recording, &Filter::default())?;
        add("off-cpu", "Off-CPU time, by thread, call and waker", waits);
        Ok(Profiles(all))
    }

    /// Their trees.
    pub(super) fn flames(&self, thinned: &mut Thinned) -> Vec<Flame> {
        let flames = self.0.iter().map(|(id, title, profile)| {
            thinned.say(profile.left_out > 0, || {
                format!(
                    "{title}: {} are left out, in more different stacks than are kept.",
                    profile.left_out
                )
            });
            // Those of one CPU are among those of all.
            let names = profile.names.says().filter(|_| !id.starts_with("cpu-"));
            if let Some(names) = names {
                thinned.say(true, || format!("{title}: {names}."));
            }
            Flame {
                id: id.clone(),
                title: title.clone(),
                unit: unit(profile).into(),
                root: tree(profile, None),
                note: note(profile),
            }
        });
        flames.collect()
    }

    /// The same as differences to another recording's, for what both have.
    pub(super) fn differences(&self, before: &Profiles) -> Vec<Flame> {
        let both = self.0.iter().filter_map(|(id, title, profile)| {
            let known = before.0.iter().find(|(known, ..)| known == id);
            known.map(|(.., before)| (id, title, profile, before))
        });
        let flames = both.map(|(id, title, profile, before)| Flame {
            id: id.clone(),
            title: format!("{title}: what grew since the first recording"),
            unit: unit(profile).into(),
            root: tree(profile, Some(before)),
            note: format!(
                "{} Stacks found only in the first recording are not drawn.",
                note(profile)
            ),
        });
        flames.collect()
    }
}

fn unit(profile: &Profile) -> &'static str {
    match profile.unit {
        Unit::Samples => "samples",
        Unit::Microseconds => "ms",
    }
}

fn note(profile: &Profile) -> String {
    let folded = format!(
        "Functions below {} % are folded into “{REST}”.",
        LEAST_SHARE * 100.0
    );
    match profile.unit {
        Unit::Samples => {
            let idle = 100.0 * profile.idle as f64 / profile.of_all();
            let few = if profile.samples < FEW {
                ": too few to compare functions by"
            } else {
                ""
            };
            format!(
                "{}{few}; idle in {idle:.0} % of them, which are not drawn. {folded}",
                plural(profile.samples, "sample")
            )
        }
        Unit::Microseconds => format!(
            "Waits that were recorded: thread, system call, waker, and the waker's stack. {folded}"
        ),
    }
}

/// A stack with some of its frames in the tree: what is left of it, and its share of this and of the other recording.
struct Rest<'p> {
    /// `None` when all are in the tree.
    frames: Option<&'p str>,
    value: u64,
    before: u64,
}

impl<'p> Rest<'p> {
    fn of(stack: &'p str, value: u64, before: u64) -> Rest<'p> {
        let end = stack.match_indices(';').nth(MAX_DEPTH - 1);
        Rest {
            frames: Some(end.map_or(stack, |(end, _)| &stack[..end])),
            value,
            before,
        }
    }

    /// Its next frame, below one called `above`, and what is left then.
    fn next(self, above: &str) -> Option<(&'p str, Rest<'p>)> {
        let mut frames = self.frames?;
        loop {
            let (frame, below) = match frames.split_once(';') {
                Some((frame, below)) => (frame, Some(below)),
                None => (frames, None),
            };
            // Without symbols, a run of frames of one file says no more than one.
            if frame != above || !is_nameless(frame) {
                return Some((
                    frame,
                    Rest {
                        frames: below,
                        ..self
                    },
                ));
            }
            frames = below?;
        }
    }
}

/// Whether a frame has no function's name, only its file's or none.
fn is_nameless(frame: &str) -> bool {
    frame.starts_with(['?', '['])
}

/// The tree of a profile, or of what changed since another one.
fn tree(profile: &Profile, before: Option<&Profile>) -> Node {
    let now = profile.stacks.iter().map(|(s, n)| Rest::of(s, *n, 0));
    let then = before.iter().flat_map(|b| &b.stacks);
    let then = then.map(|(s, n)| Rest::of(s, 0, *n));
    let stacks: Vec<Rest> = now.chain(then).collect();
    let (value, _) = sums(&stacks);
    let drawing = Drawing {
        least: (value as f64 * LEAST_SHARE) as u64,
        of: profile.of_all(),
        before: before.map(Profile::of_all),
        scale: match profile.unit {
            Unit::Samples => 1.0,
            Unit::Microseconds => 1e-3,
        },
    };
    drawing.node("all", "", stacks)
}

fn sums(stacks: &[Rest]) -> (u64, u64) {
    stacks.iter().fold((0, 0), |(value, before), rest| {
        (
            value.saturating_add(rest.value),
            before.saturating_add(rest.before),
        )
    })
}

/// What the nodes of a tree share.
struct Drawing {
    least: u64,
    of: f64,
    before: Option<f64>,
    scale: f64,
}

impl Drawing {
    /// The function that all these stacks have reached, and what is drawn below it. No node is ever made for the
    /// rest, which may be a hundred thousand.
    fn node(&self, name: &str, frame: &str, stacks: Vec<Rest>) -> Node {
        let sum = sums(&stacks);
        let mut below: BTreeMap<&str, Vec<Rest>> = BTreeMap::new();
        for rest in stacks {
            if let Some((next, rest)) = rest.next(frame) {
                below.entry(next).or_default().push(rest);
            }
        }
        let mut children = Vec::new();
        let (mut rest, mut rest_before) = (0u64, 0u64);
        for (frame, stacks) in below {
            let (value, before) = sums(&stacks);
            if value > self.least {
                children.push(self.node(frame, frame, stacks));
            } else {
                rest = rest.saturating_add(value);
                rest_before = rest_before.saturating_add(before);
            }
        }
        if rest > 0 {
            children.push(self.leaf(REST, (rest, rest_before), Vec::new()));
        }
        self.leaf(name, sum, children)
    }

    fn leaf(&self, name: &str, (value, before): (u64, u64), children: Vec<Node>) -> Node {
        let delta = self.before.map(|of| {
            let change = value as f64 / self.of - before as f64 / of;
            (change * 1e6).round() / 1e6
        });
        Node {
            name: name.into(),
            value: (value as f64 * self.scale * 1e3).round() / 1e3,
            delta,
            children,
        }
    }
}
