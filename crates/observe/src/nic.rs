//! Settings of physical network interfaces: NAPI, interrupts and where they go, coalescing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, socket};

/// A host has a few; what lies beyond is a switch.
const MAX_INTERFACES: usize = 64;
/// Interrupts and queues of one interface.
const MAX_LINES: usize = 256;

/// How an interface takes packets from its card.
const OF_INTERFACE: &[&str] = &[
    "threaded",
    "gro_flush_timeout",
    "napi_defer_hard_irqs",
    "mtu",
    "tx_queue_len",
];

/// Where the kernel tells them.
const SYS: &str = "/sys";
const PROC_IRQ: &str = "/proc/irq";

/// Every setting of the interfaces that have a device, as `eth0.threaded`; each once.
pub fn settings() -> BTreeMap<String, String> {
    let sys = Path::new(SYS);
    let mut all = BTreeMap::new();
    for name in cards(sys) {
        all.extend(in_files(sys, Path::new(PROC_IRQ), &name));
        for (setting, value) in coalescing(&name).unwrap_or_default() {
            all.insert(format!("{name}.{setting}"), value.to_string());
        }
    }
    all
}

/// The interfaces that have a device.
fn cards(sys: &Path) -> Vec<String> {
    let interfaces = sys.join("class/net");
    let mut names = entries(&interfaces);
    names.retain(|name| interfaces.join(name).join("device").exists());
    names.truncate(MAX_INTERFACES);
    names
}

/// Those of one interface that are files below /sys and /proc/irq.
fn in_files(sys: &Path, irq: &Path, name: &str) -> BTreeMap<String, String> {
    let at = sys.join("class/net").join(name);
    let mut all = BTreeMap::new();
    for setting in OF_INTERFACE {
        all.extend(read(&at.join(setting)).map(|value| (format!("{name}.{setting}"), value)));
    }
    for queue in entries(at.join("queues")).into_iter().take(MAX_LINES) {
        let value = read(&at.join("queues").join(&queue).join("rps_cpus"));
        all.extend(value.map(|value| (format!("{name}.{queue}.rps_cpus"), value)));
    }
    for number in lines_of(&at) {
        let Some(line) = read(&sys.join("kernel/irq").join(&number).join("actions")) else {
            continue;
        };
        let Some(cpus) = read(&irq.join(&number).join("smp_affinity_list")) else {
            continue;
        };
        // Some drivers give all lines of a device one name.
        all.entry(format!("{name}.{line}.smp_affinity_list"))
            .and_modify(|known: &mut String| *known += &format!(" {cpus}"))
            .or_insert(cpus);
    }
    all
}

/// The numbers of a device's interrupt lines. A virtio device has those of the bus's device above it.
fn lines_of(interface: &Path) -> Vec<String> {
    let device = interface.join("device");
    let above = [device.join("msi_irqs"), device.join("../msi_irqs")];
    let mut numbers = above
        .iter()
        .map(entries)
        .find(|all| !all.is_empty())
        .unwrap_or_default();
    numbers.truncate(MAX_LINES);
    numbers
}

/// Names in a directory, in order.
fn entries(of: impl AsRef<Path>) -> Vec<String> {
    let found = fs::read_dir(of).into_iter().flatten().flatten();
    let mut names: Vec<_> = found
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

/// `struct ethtool_coalesce`: the command, and what it gives.
type Coalesce = [u32; 23];
const GET: u32 = 0xe;

/// What `ethtool -c` shows, by its names and places in the structure.
const COALESCING: &[(&str, usize)] = &[
    ("rx-usecs", 1),
    ("rx-frames", 2),
    ("tx-usecs", 5),
    ("tx-frames", 6),
    ("adaptive-rx", 10),
    ("adaptive-tx", 11),
];

/// How long an interface of the calling thread's namespace waits for more packets before it interrupts.
fn coalescing(interface: &str) -> io::Result<Vec<(&'static str, u32)>> {
    let socket: OwnedFd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut gives: Coalesce = [0; 23];
    gives[0] = GET;
    // SAFETY: all zeroes are an ifreq without a name and a null pointer.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte ends the name.
    let name = interface.bytes().take(request.ifr_name.len() - 1);
    for (to, byte) in request.ifr_name.iter_mut().zip(name) {
        *to = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut gives).cast();
    // SAFETY: the request and the structure that it points to are as large as this command writes, and
    // outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(COALESCING
        .iter()
        .map(|(name, at)| (*name, gives[*at]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_card_are_told_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("sys/class/net/lo/threaded", "0\n");
        file("sys/class/net/eth9/threaded", "1\n");
        file("sys/class/net/eth9/queues/rx-0/rps_cpus", "f\n");
        for (number, line, cpus) in [
            ("41", "eth9-rx", "2"),
            ("42", "eth9-tx", "0-3"),
            ("43", "eth9-rx", "3"),
        ] {
            file(
                &format!("sys/class/net/eth9/device/msi_irqs/{number}"),
                "msix\n",
            );
            file(
                &format!("sys/kernel/irq/{number}/actions"),
                &format!("{line}\n"),
            );
            file(
                &format!("irq/{number}/smp_affinity_list"),
                &format!("{cpus}\n"),
            );
        }
        let sys = dir.path().join("sys");
        assert_eq!(cards(&sys), ["eth9"]);
        let told = in_files(&sys, &dir.path().join("irq"), "eth9");
        let expected = [
            ("eth9.eth9-rx.smp_affinity_list", "2 3"),
            ("eth9.eth9-tx.smp_affinity_list", "0-3"),
            ("eth9.rx-0.rps_cpus", "f"),
            ("eth9.threaded", "1"),
        ];
        let told: Vec<_> = told.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_has_no_coalescing_says_so() {
        let error = coalescing("lo").unwrap_err().raw_os_error();
        assert_eq!(error, Some(libc::EOPNOTSUPP));
        let error = coalescing("no-such-interface").unwrap_err().raw_os_error();
        assert_eq!(error, Some(libc::ENODEV));
    }
}
