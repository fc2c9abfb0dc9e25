//! Off-CPU time: who waited, in which call, and what ended the wait.

use ahash::AHashMap;
use recording::tables::Wait;
use recording::{Error, Filter, Recording, Stacks, Text, Waker};

use super::names::Names;
use super::profile::{MAX_STACKS, Profile, Unit, clean, push_kernel, within_softirq};

/// Waits that are alike.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    comm: Text,
    syscall: Option<Text>,
    state: Text,
    waker: Waker,
    /// Empty where the waker is no task: then it is a bystander's name.
    waker_comm: Text,
    stack: Option<u64>,
}

/// The waits of a recording by thread, system call, waker and the waker's stack, in µs.
pub fn off_cpu(recording: &Recording, filter: &Filter) -> Result<Profile, Error> {
    let mut profile = Profile {
        unit: Unit::Microseconds,
        ..Profile::default()
    };
    let mut sums: AHashMap<Key, u64> = AHashMap::new();
    let mut names = Names::default();
    for batch in recording.scan::<Wait>()? {
        for (_, row) in batch?.rows() {
            if !filter.task_ok(Some(row.pid), Some(&row.comm), Some(row.cgroup)) {
                continue;
            }
            let us = row.waited_ns / 1_000;
            profile.samples = profile.samples.saturating_add(us);
            let waker_comm = match row.waker {
                Waker::Task => row.waker_comm,
                _ => Text::default(),
            };
            let folded = [names.count(&row.comm, us), names.count(&waker_comm, us)];
            if folded.contains(&true) {
                sums = with_fewer_names(sums, &names);
            }
            let key = Key {
                comm: row.comm,
                syscall: row.syscall,
                state: row.state,
                waker_comm,
                waker: row.waker,
                stack: row.waker_stack,
            };
            if sums.len() < MAX_STACKS || sums.contains_key(&key) {
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(us);
            } else {
                profile.left_out = profile.left_out.saturating_add(us);
            }
        }
    }
    profile.names = names.folded();
    let stacks = Stacks::read(recording)?;
    // What is shorter than a microsecond has no width.
    let seen = sums.into_iter().filter(|(_, us)| *us > 0);
    profile.fill(seen.collect(), |key| fold(&stacks, key));
    Ok(profile)
}

/// The same waits without the names that are no longer kept apart.
fn with_fewer_names(sums: AHashMap<Key, u64>, names: &Names) -> AHashMap<Key, u64> {
    let mut fewer = AHashMap::new();
    for (key, us) in sums {
        let key = Key {
            comm: names.told(key.comm),
            waker_comm: names.told(key.waker_comm),
            ..key
        };
        let sum: &mut u64 = fewer.entry(key).or_default();
        *sum = sum.saturating_add(us);
    }
    fewer
}

fn fold(stacks: &Stacks, key: &Key) -> String {
    let call = match (&key.syscall, &*key.state) {
        (Some(syscall), _) => clean(syscall),
        (None, "T" | "t") => "(stopped)".into(),
        (None, _) => "(no system call)".into(),
    };
    let waker = match &key.waker {
        Waker::Task => format!("woken by {}", clean(&key.waker_comm)),
        Waker::NotSeen => "woken by something unknown".into(),
        waker => format!("woken by a {}", clean(waker.as_str())),
    };
    let mut folded = format!("{};{call};{waker}", clean(&key.comm));
    if let Some(mut places) = key.stack.and_then(|id| stacks.places(id)) {
        // The task that an interrupt came upon has no part in what it woke.
        if key.waker != Waker::Task {
            within_softirq(&mut places);
        }
        push_kernel(&mut folded, &places);
    }
    folded
}
