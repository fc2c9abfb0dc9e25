//! What the sources of this part give, and whether this kernel has them.

use std::fs::File;
use std::mem::MaybeUninit;

use recording::{Source, SourceName, Verdict};

use super::hierarchy::{self, Hierarchy};
use super::owners::Owners;
use crate::space;

/// The sources with their verdicts.
pub fn sources(owners: Verdict, hierarchies: &[Hierarchy]) -> Vec<Source> {
    let owners = match space::pids_verdict() {
        Verdict::Attached => owners,
        not_here => not_here,
    };
    let cgroups = match (&owners, hierarchies.is_empty()) {
        (Verdict::Attached, true) => Verdict::Unsupported("no cgroups are mounted".into()),
        (Verdict::Attached, false) => Verdict::Attached,
        _ => Verdict::Unsupported("the processes that hold sockets are not known".into()),
    };
    vec![
        Source::required(
            SourceName::Cpus,
            "time of each CPU as in /proc/stat, packets processed, dropped and left over (softnet)",
            readable("/proc/stat"),
        ),
        Source::optional(
            SourceName::Interrupts,
            "interrupts by line, device and CPU; softirqs by kind and CPU",
            readable("/proc/interrupts"),
        ),
        Source::optional(
            SourceName::Resources,
            "load, memory, disks, interfaces, socket memory, descriptors against their limits",
            Verdict::Attached,
        ),
        Source::optional(
            SourceName::Pressure,
            "how long work waited for CPU, memory and disks (PSI)",
            match readable("/proc/pressure/cpu") {
                Verdict::Attached => Verdict::Attached,
                _ => Verdict::Unsupported(
                    "the kernel keeps none: CONFIG_PSI, and psi=1 on its command line".into(),
                ),
            },
        ),
        Source::optional(
            SourceName::Owners,
            "open files of the processes that hold TCP sockets, against their limit",
            owners,
        ),
        Source::optional(
            SourceName::Cgroups,
            "CPU throttling and memory limits of the cgroups of those processes",
            cgroups,
        ),
    ]
}

/// Tries everything and lets go again.
pub fn checkup() -> Vec<Source> {
    let mut object = MaybeUninit::uninit();
    let owners = match Owners::load(&mut object) {
        Ok(_) => Verdict::Attached,
        Err(e) => Verdict::Failed(e.reason()),
    };
    sources(owners, &hierarchy::mounted())
}

fn readable(path: &str) -> Verdict {
    match File::open(path) {
        Ok(_) => Verdict::Attached,
        Err(why) => Verdict::Unsupported(format!("{path} cannot be read: {why}")),
    }
}
