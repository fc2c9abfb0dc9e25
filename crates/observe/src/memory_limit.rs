//! Whether the cgroup that this process is in leaves recording the memory that it takes.

use std::path::Path;

use crate::error::Error;
use crate::part::Part;
use crate::procfile::ProcFile;
use crate::usage::{Version, mounted_hierarchies};

/// Beside the ring, with what the kernel keeps for it; measured: below this the kernel ends the recorder.
const RECORDING: u64 = 28 << 20;
/// The same with all that explaining takes.
const EXPLAINING: u64 = 46 << 20;

/// Fails, naming the limit, where recording these parts would be ended by the kernel for want of memory.
pub fn check<'p>(ring_bytes: u32, mut parts: impl Iterator<Item = &'p Part>) -> Result<(), Error> {
    let by_default = |part: &Part| Part::by_default().any(|default| default == *part);
    let needs = if parts.any(|part| !by_default(part)) {
        EXPLAINING
    } else {
        RECORDING
    };
    let found = limit(&mut ProcFile::default());
    match found.and_then(|found| refusal(found, needs + u64::from(ring_bytes))) {
        None => Ok(()),
        Some(why) => Err(Error::Kernel(why)),
    }
}

fn refusal((limit, cgroup): (u64, String), needs: u64) -> Option<String> {
    (limit < needs).then(|| {
        format!(
            "the cgroup {cgroup} may use {} MiB of memory, and recording takes some {}: record from outside of it, \
             raise its limit, or take a smaller ring (--ring-kib)",
            limit >> 20,
            needs >> 20
        )
    })
}

/// The least that the own cgroup and those above it allow, and which says it.
fn limit(file: &mut ProcFile) -> Option<(u64, String)> {
    let own = file.read("/proc/self/cgroup").ok()?.into_owned();
    let mut limits = Vec::new();
    for hierarchy in mounted_hierarchies() {
        let name = match hierarchy.version {
            Version::Two => "memory.max",
            Version::OneMemory => "memory.limit_in_bytes",
            Version::OneCpu => continue,
        };
        // In a cgroup namespace the root is that of the container.
        for path in hierarchy.paths(&own).chain([""]) {
            let at = Path::new(&hierarchy.mount).join(path.trim_start_matches('/'));
            let shown = if path.is_empty() { "/" } else { path };
            // "max" is no number.
            limits.extend(
                file.number(at.join(name))
                    .map(|limit| (limit, shown.to_string())),
            );
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_that_is_too_small_is_named() {
        let of = |limit: u64| refusal((limit << 20, "/pod".into()), RECORDING + (16 << 20));
        assert_eq!(of(44), None);
        let why = of(40).expect("too little");
        assert!(
            why.contains("/pod may use 40 MiB") && why.contains("some 44"),
            "{why}"
        );
    }

    #[test]
    fn where_there_is_room_nothing_is_said() {
        check(4096, Part::by_default().collect::<Vec<_>>().iter()).unwrap();
        check(4096, Part::to_explain().collect::<Vec<_>>().iter()).unwrap();
    }
}
