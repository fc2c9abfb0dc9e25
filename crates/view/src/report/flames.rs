//! Flame graphs as trees: CPU, softirqs, each hot CPU, off-CPU by waker.

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
/// Of fewer samples shares are a matter of chance: one in ten of 500 is right to a third.
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
                "{} What only the first recording has is not drawn.",
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

/// A function while the tree is made: shares of this and of the other recording.
#[derive(Default)]
struct Growing<'p> {
    value: u64,
    before: u64,
    children: std::collections::BTreeMap<&'p str, Growing<'p>>,
}

impl<'p> Growing<'p> {
    fn add(&mut self, stack: &'p str, value: u64, before: u64) {
        let mut node = self;
        node.value = node.value.saturating_add(value);
        node.before = node.before.saturating_add(before);
        let mut above = "";
        for frame in stack.split(';').take(MAX_DEPTH) {
            // Where no symbols are, a run of frames of one file says no more than one.
            if frame == above && is_nameless(frame) {
                continue;
            }
            above = frame;
            node = node.children.entry(frame).or_default();
            node.value = node.value.saturating_add(value);
            node.before = node.before.saturating_add(before);
        }
    }
}

/// Whether a frame has no function's name, only its file's or none.
fn is_nameless(frame: &str) -> bool {
    frame.starts_with(['?', '['])
}

/// The tree of a profile, or of what changed since another one.
fn tree(profile: &Profile, before: Option<&Profile>) -> Node {
    let mut root = Growing::default();
    for (stack, n) in &profile.stacks {
        root.add(stack, *n, 0);
    }
    for (stack, n) in before.iter().flat_map(|b| &b.stacks) {
        root.add(stack, 0, *n);
    }
    let least = (root.value as f64 * LEAST_SHARE) as u64;
    let drawing = Drawing {
        least,
        of: profile.of_all(),
        before: before.map(Profile::of_all),
        scale: match profile.unit {
            Unit::Samples => 1.0,
            Unit::Microseconds => 1e-3,
        },
    };
    drawing.node("all", &root)
}

/// What the nodes of a tree share.
struct Drawing {
    least: u64,
    of: f64,
    before: Option<f64>,
    scale: f64,
}

impl Drawing {
    fn node(&self, name: &str, growing: &Growing) -> Node {
        let drawn = |child: &&Growing| child.value > self.least;
        let mut children = Vec::new();
        let mut rest = Growing::default();
        for (name, child) in &growing.children {
            if drawn(&child) {
                children.push(self.node(name, child));
            } else {
                rest.value = rest.value.saturating_add(child.value);
                rest.before = rest.before.saturating_add(child.before);
            }
        }
        if rest.value > 0 {
            children.push(self.node(REST, &rest));
        }
        let delta = self.before.map(|of| {
            let change = growing.value as f64 / self.of - growing.before as f64 / of;
            (change * 1e6).round() / 1e6
        });
        Node {
            name: name.into(),
            value: (growing.value as f64 * self.scale * 1e3).round() / 1e3,
            delta,
            children,
        }
    }
}
