//! Defects of kernels that recording would meet: what is left undone on which, so that no host is harmed.

use std::collections::BTreeSet;
use std::fs;

use super::btf::KernelBtf;
use crate::error::Error;
use crate::part::Part;

/// Major, minor and patch of the Linux release that a kernel was made from.
type Version = [u32; 3];

/// Walks over TCP sockets with a BPF iterator drop those in TIME_WAIT as if they were whole sockets, and memory beside
/// them is overwritten: from the first number to before the second (Linux 580031ff9952). It came with walks in batches.
const FREES_TIME_WAIT_WRONGLY: &[[Version; 2]] = &[
    [[5, 15, 0], [5, 15, 108]],
    [[5, 16, 0], [6, 1, 25]],
    [[6, 2, 0], [6, 2, 12]],
];
/// On PREEMPT_RT the lock of a BPF ring may sleep, also where nothing may (CVE-2024-50138).
const RINGS_SPIN: Version = [6, 12, 0];
/// What a program keeps with a task is allocated without locks that the scheduler holds (Linux 08a7ce384e33).
const TASK_STORAGE_IS_SAFE: Version = [6, 4, 0];
/// To count slabs, the kernel walks lists for which all CPUs wait (Linux 046f4c69090c bounds that).
const SLABS_ARE_CHEAP: Version = [6, 10, 0];

/// What a kernel has tells more than what it calls itself: vendors keep a number for years and take in what is new.
#[derive(Clone, Copy, Debug)]
struct Has {
    /// Walks go in batches (Linux 5.15, 04c7820b776f).
    batches: bool,
    /// Its BPF is younger than the end of the defect (a type of Linux 6.4).
    younger: bool,
}

impl Has {
    fn read(btf: &KernelBtf) -> Has {
        Has {
            batches: btf.has_struct("bpf_tcp_iter_state"),
            younger: btf.has_struct("bpf_iter_num"),
        }
    }
}

/// Fails, naming the defect, where these parts would harm the host.
pub fn check(parts: &BTreeSet<Part>) -> Result<(), Error> {
    // Without types nothing can be recorded, which is said elsewhere.
    let has = KernelBtf::load().ok().map(|btf| Has::read(&btf));
    match harm(upstream(), has, is_realtime(), parts) {
        None => Ok(()),
        Some(why) => Err(Error::Kernel(why)),
    }
}

/// Whether programs may keep something with a task that the scheduler is at. A kernel that does not say which it is
/// may be an old one.
pub fn task_storage_is_safe() -> bool {
    upstream().is_some_and(|version| version >= TASK_STORAGE_IS_SAFE)
}

/// Whether reading /proc/slabinfo may stall the host for as long as it takes.
pub fn slabs_stall() -> bool {
    upstream().is_none_or(|version| version < SLABS_ARE_CHEAP)
}

fn harm(
    version: Option<Version>,
    has: Option<Has>,
    is_realtime: bool,
    parts: &BTreeSet<Part>,
) -> Option<String> {
    let version = version?;
    let [major, minor, patch] = version;
    if is_realtime && version < RINGS_SPIN {
        return Some(format!(
            "Linux {major}.{minor}.{patch} with PREEMPT_RT may hang when a BPF program writes to a ring; this was mended \
             in 6.12"
        ));
    }
    let walks = parts.contains(&Part::Sockets) || parts.contains(&Part::Ports);
    if !walks || has.is_some_and(|has| has.younger || !has.batches) {
        return None;
    }
    let mut affected = FREES_TIME_WAIT_WRONGLY.iter();
    if let Some([_, [to_major, to_minor, to_patch]]) =
        affected.find(|[from, to]| (*from..*to).contains(&version))
    {
        let vendor = match patch {
            // Most vendors' numbers end so for ever.
            0 => "; whether its vendor has mended it cannot be told",
            _ => "",
        };
        return Some(format!(
            "Linux {major}.{minor}.{patch} corrupts its memory when sockets in TIME_WAIT are walked, which was mended in \
             {to_major}.{to_minor}.{to_patch}{vendor}: update it, or record --without sockets,ports"
        ));
    }
    let taken_in = has.is_some() && version < FREES_TIME_WAIT_WRONGLY[0][0];
    taken_in.then(|| {
        format!(
            "this kernel calls itself Linux {major}.{minor}.{patch} and walks sockets as 5.15 to 6.2 do, some of which \
             corrupt their memory by it: whether this one does cannot be told: update it, or record --without \
             sockets,ports"
        )
    })
}

fn is_realtime() -> bool {
    let told = fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    let uname = rustix::system::uname();
    told || uname.version().to_string_lossy().contains("PREEMPT_RT")
}

/// That of the running kernel.
fn upstream() -> Option<Version> {
    let uname = rustix::system::uname();
    let signature = fs::read_to_string("/proc/version_signature").unwrap_or_default();
    let (release, version) = (
        uname.release().to_string_lossy(),
        uname.version().to_string_lossy(),
    );
    upstream_of(&release, &version, &signature)
}

/// Debian and Ubuntu call a kernel by the first of its series, and say elsewhere which it is.
fn upstream_of(release: &str, version: &str, signature: &str) -> Option<Version> {
    let ubuntu = signature.split_whitespace().last().and_then(parse);
    let debian = version.split_once("Debian ").and_then(|(_, v)| parse(v));
    ubuntu.or(debian).or_else(|| parse(release))
}

fn parse(text: &str) -> Option<Version> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let mut numbers = text[..end.unwrap_or(text.len())].split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some([next()?, next()?, next().unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distribution_says_which_linux_it_is() {
        let of = upstream_of;
        assert_eq!(of("6.18.44-fc-v782", "#1 SMP", ""), Some([6, 18, 44]));
        assert_eq!(of("6.8-rc1", "", ""), Some([6, 8, 0]));
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.20-1 (2023-03-19)";
        assert_eq!(of("6.1.0-7-amd64", debian, ""), Some([6, 1, 20]));
        let ubuntu = "Ubuntu 5.15.0-91.101-generic 5.15.131\n";
        assert_eq!(
            of("5.15.0-91-generic", "#101-Ubuntu", ubuntu),
            Some([5, 15, 131])
        );
        for odd in ["", "linux", "6", "6.", "99999999999.1"] {
            assert_eq!(of(odd, odd, odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_kernel_that_would_be_harmed_is_not_recorded() {
        let all = BTreeSet::from([Part::Events, Part::Sockets]);
        let says = |version, parts: &BTreeSet<Part>| harm(Some(version), None, false, parts);
        for harmed in [[5, 15, 0], [5, 15, 107], [6, 0, 19], [6, 1, 24], [6, 2, 11]] {
            let why = says(harmed, &all).expect("it is one");
            assert!(
                why.contains("update it") && why.contains("mended in"),
                "{why}"
            );
            assert!(says(harmed, &BTreeSet::from([Part::Ports])).is_some());
            assert_eq!(says(harmed, &BTreeSet::from([Part::Events])), None);
        }
        for well in [
            [5, 10, 200],
            [5, 14, 0],
            [5, 15, 108],
            [6, 1, 25],
            [6, 2, 12],
            [6, 3, 0],
        ] {
            assert_eq!(says(well, &all), None, "{well:?}");
        }
        assert!(harm(Some([6, 6, 30]), None, true, &all).is_some());
        assert_eq!(harm(Some([6, 12, 0]), None, true, &all), None);
        assert_eq!(harm(None, None, true, &all), None, "nobody knows");
    }

    #[test]
    fn what_a_kernel_has_counts_for_more_than_its_number() {
        let all = BTreeSet::from([Part::Sockets]);
        let says = |version, batches, younger| {
            let has = Has { batches, younger };
            harm(Some(version), Some(has), false, &all)
        };
        // RHEL 9 is 5.14 for ever: first with the BPF of 5.15 and later, then with that of 6.4 and later.
        assert_eq!(says([5, 14, 0], false, false), None);
        let why = says([5, 14, 0], true, false).expect("it may");
        assert!(
            why.contains("cannot be told") && why.contains("--without"),
            "{why}"
        );
        assert_eq!(says([5, 14, 0], true, true), None);
        // UEK 7 is 5.15.0 for ever.
        let why = says([5, 15, 0], true, false).expect("by its number");
        assert!(why.contains("vendor"), "{why}");
        assert_eq!(says([6, 2, 1], true, true), None, "its BPF is younger");
        assert_eq!(says([6, 1, 25], true, false), None);
    }

    #[test]
    fn this_kernel_is_recorded() {
        check(&Part::by_default().collect()).unwrap();
    }
}
