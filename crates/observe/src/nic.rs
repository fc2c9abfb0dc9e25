//! Settings of physical network interfaces: NAPI, interrupts and where they go, coalescing.

use std::fs;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

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

/// Every setting of the interfaces that have a device, as `eth0.threaded`.
pub fn settings() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for name in entries("/sys/class/net").into_iter().take(MAX_INTERFACES) {
        let at = Path::new("/sys/class/net").join(&name);
        if !at.join("device").exists() {
            continue;
        }
        for setting in OF_INTERFACE {
            all.extend(read(&at.join(setting)).map(|value| (format!("{name}.{setting}"), value)));
        }
        for queue in entries(at.join("queues")).into_iter().take(MAX_LINES) {
            let value = read(&at.join("queues").join(&queue).join("rps_cpus"));
            all.extend(value.map(|value| (format!("{name}.{queue}.rps_cpus"), value)));
        }
        for (line, affinity) in interrupts(&at) {
            all.push((format!("{name}.{line}.smp_affinity_list"), affinity));
        }
        for (setting, value) in coalescing(&name).unwrap_or_default() {
            all.push((format!("{name}.{setting}"), value.to_string()));
        }
    }
    all
}

/// The interrupt lines of a device by their name, and the CPUs that each may go to. A virtio device has
/// those of the bus's device above it.
fn interrupts(interface: &Path) -> Vec<(String, String)> {
    let device = interface.join("device");
    let above = [device.join("msi_irqs"), device.join("../msi_irqs")];
    let numbers = above.iter().map(entries).find(|all| !all.is_empty());
    let lines = numbers.unwrap_or_default().into_iter().take(MAX_LINES);
    let lines = lines.filter_map(|number| {
        let actions = read(&PathBuf::from(format!("/sys/kernel/irq/{number}/actions")))?;
        let affinity = read(&PathBuf::from(format!(
            "/proc/irq/{number}/smp_affinity_list"
        )))?;
        (!actions.is_empty()).then_some((actions, affinity))
    });
    lines.collect()
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
    fn every_setting_has_a_name_and_one_line() {
        for (name, value) in settings() {
            assert!(
                name.contains('.') && !value.contains('\n'),
                "{name} {value}"
            );
        }
    }

    #[test]
    fn what_has_no_coalescing_says_so() {
        let error = coalescing("lo").unwrap_err().raw_os_error();
        assert_eq!(error, Some(libc::EOPNOTSUPP));
        let error = coalescing("no-such-interface").unwrap_err().raw_os_error();
        assert_eq!(error, Some(libc::ENODEV));
    }
}
