//! The rights that recording takes: which capabilities, what each is for, and which are lacking.

use std::fs;
use std::io;

use rustix::fs::{PROC_SUPER_MAGIC, statfs};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::error::Error;
use crate::part::Part;
use crate::space;

/// One capability and what it is for.
struct Right {
    capability: CapabilitySet,
    name: &'static str,
    /// What it lets us do, as in "CAP_X (to ...)".
    to: &'static str,
    /// The parts that lose something without it; none: all.
    parts: &'static [Part],
}

/// Nothing can be recorded without these.
const NEEDED: &[Right] = &[
    Right {
        capability: CapabilitySet::BPF,
        name: "CAP_BPF",
        to: "load programs into the kernel",
        parts: &[],
    },
    Right {
        capability: CapabilitySet::PERFMON,
        name: "CAP_PERFMON",
        to: "attach them to tracepoints and clocks, and let them read the kernel's memory",
        parts: &[],
    },
];

/// Without each of these something is missing.
const USEFUL: &[Right] = &[
    Right {
        capability: CapabilitySet::SYS_ADMIN,
        name: "CAP_SYS_ADMIN",
        to: "enter network namespaces other than the own",
        parts: &[],
    },
    Right {
        capability: CapabilitySet::SYS_PTRACE,
        name: "CAP_SYS_PTRACE",
        to: "see namespaces, limits and functions of other users' processes",
        parts: &[],
    },
    Right {
        capability: CapabilitySet::DAC_READ_SEARCH,
        name: "CAP_DAC_READ_SEARCH",
        to: "read slabs, and programs that only their owners may read",
        parts: &[Part::Ports, Part::Profile],
    },
    Right {
        capability: CapabilitySet::SYSLOG,
        name: "CAP_SYSLOG",
        to: "name the kernel's functions: who called, SYN cookies, kinds of retransmits",
        parts: &[Part::Events, Part::Waits, Part::Profile],
    },
    Right {
        capability: CapabilitySet::NET_ADMIN,
        name: "CAP_NET_ADMIN",
        to: "count nftables rules",
        parts: &[Part::Ports],
    },
    Right {
        capability: CapabilitySet::NET_RAW,
        name: "CAP_NET_RAW",
        to: "see packets",
        parts: &[Part::Packets],
    },
];

/// A capability that is lacking, and what it would be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Lack {
    /// Such as `CAP_SYSLOG`.
    pub capability: &'static str,
    /// What it lets us do, as in "lacks CAP_X (to ...)".
    pub to: &'static str,
}

/// What this thread may do; where the kernel does not tell, everything.
fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::all(), |sets| sets.effective)
}

/// Besides what is [`NEEDED`] and [`USEFUL`]: to drain rings in time on a busy host, and to open the files that are
/// mapped without CAP_SYS_ADMIN (Linux 5.9).
const BESIDES: CapabilitySet = CapabilitySet::SYS_NICE.union(CapabilitySet::CHECKPOINT_RESTORE);
/// For who reads what processes have of their own: their arguments, and the programs that they run.
pub const OF_PROCESSES: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::DAC_READ_SEARCH);
/// Before Linux 5.11 the memory of programs counts against a limit.
const ATTACHING: CapabilitySet = CapabilitySet::SYS_RESOURCE.union(CapabilitySet::IPC_LOCK);

/// From now on the calling thread, and those that it starts, have no rights but those that recording takes:
/// `attaching`, or once that is done. They were given for this, and more would be there for whoever finds a fault.
pub fn shed(attaching: bool) {
    let rights = NEEDED.iter().chain(USEFUL).map(|right| right.capability);
    let mut kept = rights.fold(BESIDES, CapabilitySet::union);
    if attaching {
        kept |= ATTACHING;
    }
    keep_only(kept);
}

/// The same with no rights but these.
pub fn keep_only(mut kept: CapabilitySet) {
    let Ok(has) = capabilities(None) else {
        return;
    };
    if kept.contains(CapabilitySet::CHECKPOINT_RESTORE)
        && !has.permitted.contains(CapabilitySet::CHECKPOINT_RESTORE)
    {
        // Of a kernel that has no such part of it.
        kept |= CapabilitySet::SYS_ADMIN;
    }
    let less = CapabilitySets {
        effective: has.effective & kept,
        permitted: has.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    // Less is never refused.
    let _ = set_capabilities(None, less);
}

/// Whether this process may enter namespaces other than its own.
pub fn may_visit() -> bool {
    effective().contains(CapabilitySet::SYS_ADMIN)
}

/// Whether it has the right to see the kernel's addresses.
pub fn may_see_addresses() -> bool {
    effective().contains(CapabilitySet::SYSLOG)
}

/// Fails, naming what is lacking, unless this process may record the host.
pub fn require() -> Result<(), Error> {
    require_proc()?;
    if space::is_user_namespace() {
        return Err(Error::Rights(
            "this process has rights only in a user namespace of its own; run it with sudo outside \
             of that (a rootless container cannot record its host)"
                .into(),
        ));
    }
    let has = effective();
    if has.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(()); // implies those of BPF
    }
    let lacking = if splits_sys_admin() {
        lacks(NEEDED, has, |_| true)
    } else {
        // Before Linux 5.8 it has no parts.
        vec![Lack {
            capability: "CAP_SYS_ADMIN",
            to: "load programs into the kernel and attach them",
        }]
    };
    if lacking.is_empty() {
        return Ok(());
    }
    let lacking: Vec<String> = lacking.iter().map(Lack::in_words).collect();
    let advice = if rustix::process::geteuid().is_root() {
        "run it outside of this container, or give the container these (--cap-add)"
    } else {
        "run it with sudo, or give it these (setpriv, setcap)"
    };
    Err(Error::Rights(format!(
        "this process lacks {}; {advice}",
        lacking.join(" and ")
    )))
}

impl Lack {
    /// As in "lacks ...".
    pub fn in_words(&self) -> String {
        format!("{} (to {})", self.capability, self.to)
    }
}

/// Why the system refused something, and the right that it takes if that is lacking.
pub fn reason(e: &io::Error, takes: CapabilitySet) -> String {
    let refused = e.kind() == io::ErrorKind::PermissionDenied;
    let lacking = lacks(USEFUL, effective(), |right| {
        takes.contains(right.capability)
    });
    match lacking.first() {
        Some(lack) if refused => format!("{e}: this process lacks {}", lack.in_words()),
        _ => e.to_string(),
    }
}

/// What is lacking of all that is useful.
pub fn lacking() -> Vec<Lack> {
    lacks(USEFUL, effective(), |_| true)
}

/// What is lacking of that which these parts use.
pub fn lacking_for(parts: impl IntoIterator<Item = Part> + Clone) -> Vec<Lack> {
    let concerns = |right: &Right| {
        let mut asked = parts.clone().into_iter();
        right.parts.is_empty() || asked.any(|part| right.parts.contains(&part))
    };
    lacks(USEFUL, effective(), concerns)
}

fn lacks(rights: &[Right], has: CapabilitySet, concerns: impl Fn(&Right) -> bool) -> Vec<Lack> {
    let lacking = rights
        .iter()
        .filter(|r| !has.contains(r.capability) && concerns(r));
    lacking
        .map(|r| Lack {
            capability: r.name,
            to: r.to,
        })
        .collect()
}

/// Whether this kernel knows CAP_PERFMON and CAP_BPF (Linux 5.8), the last ones but one.
fn splits_sys_admin() -> bool {
    const CAP_BPF: u32 = 39;
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap");
    let last = last.ok().and_then(|last| last.trim().parse::<u32>().ok());
    last.is_none_or(|last| last >= CAP_BPF)
}

/// Fails unless /proc is what it should be: nearly everything is read there.
fn require_proc() -> Result<(), Error> {
    if !statfs("/proc").is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC) {
        return Err(Error::Kernel(
            "/proc is not mounted here; mount it first: mount -t proc proc /proc".into(),
        ));
    }
    // Of a PID namespace that we are not in, it does not know us.
    fs::metadata("/proc/self/stat").map_err(|_| {
        Error::Kernel(
            "/proc here is of a PID namespace that this process is not in; mount its own: mount -t \
             proc proc /proc"
                .into(),
        )
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_named_with_what_it_is_for() {
        let has = CapabilitySet::BPF | CapabilitySet::SYS_PTRACE;
        let lack = lacks(NEEDED, has, |_| true);
        assert_eq!(lack.len(), 1);
        let words = lack[0].in_words();
        assert!(words.starts_with("CAP_PERFMON (to attach"), "{words}");
        let names = |lack: Vec<Lack>| lack.iter().map(|l| l.capability).collect::<Vec<_>>();
        let all = names(lacks(USEFUL, CapabilitySet::empty(), |_| true));
        assert_eq!(all.len(), USEFUL.len());
        let some = lacks(USEFUL, has, |r| r.parts.is_empty());
        assert_eq!(names(some), ["CAP_SYS_ADMIN"]);
    }

    #[test]
    fn proc_is_there() {
        require_proc().unwrap();
    }
}
