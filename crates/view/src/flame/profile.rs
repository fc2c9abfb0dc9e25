//! The profile of a recording: its samples by stack.

use std::collections::{BTreeMap, HashMap};

use recording::tables::Sample;
use recording::{Error, Filter, Place, Recording, Stacks, Text};

use crate::escape;

/// Which samples.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Of these tasks.
    pub filter: Filter,
    /// On these CPUs; empty means all.
    pub cpus: Vec<u32>,
    /// In softirqs only, whoever they interrupted.
    pub softirq: bool,
}

/// Samples by stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Samples of each stack, which is its functions, the outermost first, joined by `;`.
    pub stacks: BTreeMap<String, u64>,
    /// Samples that were looked at: those in the stacks, idle ones, those left out.
    pub samples: u64,
    /// The CPU was idle.
    pub idle: u64,
    /// In more different stacks than are kept.
    pub left_out: u64,
}

/// Different stacks that are kept; a busy host has some thousand.
const MAX_STACKS: usize = 1 << 17;
/// A function of the kernel, as flame graphs colour it.
const KERNEL: &str = "_[k]";
/// Below these, a softirq: what was interrupted by it does not matter to it.
const SOFTIRQ: &[&str] = &["handle_softirqs", "__do_softirq"];

/// A task's name, its kernel stack and its user stack.
type Key = (Text, Option<u64>, Option<u64>);

impl Profile {
    /// The chosen samples of a recording. Samples of softirqs alone are told without the task that
    /// they interrupted.
    pub fn of(recording: &Recording, choice: &Choice) -> Result<Profile, Error> {
        let mut profile = Profile::default();
        let mut counts: HashMap<Key, u64> = HashMap::new();
        for batch in recording.scan::<Sample>()? {
            for (_, row) in batch?.rows() {
                let on = choice.cpus.is_empty() || choice.cpus.contains(&row.cpu);
                let task = choice.filter.task_ok(Some(row.pid), Some(&row.comm), None);
                if !on || !task {
                    continue;
                }
                profile.samples += 1;
                let idle = row.pid == 0 && !row.softirq && row.kernel_stack.is_none();
                if idle {
                    profile.idle += 1;
                }
                if idle || choice.softirq && !row.softirq {
                    continue;
                }
                let comm = match choice.softirq {
                    true => Text::default(),
                    false => row.comm.clone(),
                };
                let user = row.user_stack.filter(|_| !choice.softirq);
                let key = (comm, row.kernel_stack, user);
                if counts.len() < MAX_STACKS || counts.contains_key(&key) {
                    *counts.entry(key).or_default() += 1;
                } else {
                    profile.left_out += 1;
                }
            }
        }
        let stacks = Stacks::read(recording)?;
        for ((comm, kernel, user), n) in counts {
            let folded = fold(&stacks, &comm, kernel, user, choice.softirq);
            *profile.stacks.entry(folded).or_default() += n;
        }
        Ok(profile)
    }

    /// Samples that were looked at, of which each stack has a share; never 0.
    pub fn of_all(&self) -> f64 {
        self.samples.max(1) as f64
    }
}

fn fold(
    stacks: &Stacks,
    comm: &str,
    kernel: Option<u64>,
    user: Option<u64>,
    softirq: bool,
) -> String {
    let root = if softirq { "softirq" } else { comm };
    let mut folded = clean(root);
    let mut push = |place: Option<&Place>, kind: &str| {
        folded.push(';');
        folded.push_str(&place.map_or("?".into(), name));
        folded.push_str(kind);
    };
    if let Some(places) = user.and_then(|id| stacks.places(id)) {
        places.into_iter().rev().for_each(|place| push(place, ""));
    }
    if let Some(mut places) = kernel.and_then(|id| stacks.places(id)) {
        let is_softirq = |p: &Option<&Place>| p.is_some_and(|p| SOFTIRQ.contains(&&*p.function));
        if let Some(outermost) = places.iter().rposition(is_softirq).filter(|_| softirq) {
            places.truncate(outermost + 1);
        }
        places
            .into_iter()
            .rev()
            .for_each(|place| push(place, KERNEL));
    }
    folded
}

/// A function without a symbol is as good as the file that it is in.
fn name(place: &Place) -> String {
    match place.function.starts_with("0x") {
        true => {
            let file = place.module.rsplit('/').next().unwrap_or_default();
            format!("[{}]", clean(file))
        }
        false => clean(&place.function),
    }
}

/// A name without what separates names, nor anything a terminal would act on.
pub(super) fn clean(name: &str) -> String {
    match name.trim() {
        "" => "?".into(),
        name => escape(name).replace(';', ":"),
    }
}

/// The function that a frame of a folded stack names.
pub(super) fn function(frame: &str) -> &str {
    frame.strip_suffix(KERNEL).unwrap_or(frame)
}
