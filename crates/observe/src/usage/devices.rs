//! What is behind an interrupt line: the driver's name for it, and the interface it serves.

use std::collections::HashMap;
use std::fs;

/// Interfaces by interrupt number, looked up again whenever a line is new.
#[derive(Default)]
pub struct Devices {
    interfaces: HashMap<u32, String>,
}

impl Devices {
    /// What is behind line `name`, which /proc/interrupts describes so.
    pub fn of(&mut self, name: &str, described: &str) -> String {
        let Ok(number) = name.parse::<u32>() else {
            // An architecture's own line says it in plain words.
            return described.into();
        };
        if !self.interfaces.contains_key(&number) {
            self.interfaces = interfaces();
        }
        let driver = driver(described);
        match self.interfaces.get(&number) {
            // `eth0-rx-3` says it itself; `virtio2-input.0` does not.
            Some(interface) if !driver.contains(&**interface) => format!("{driver} ({interface})"),
            _ => driver.into(),
        }
    }
}

/// `PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`: the name that the driver gave comes last,
/// after two spaces, and may hold single ones. Without a driver there is none.
fn driver(described: &str) -> &str {
    let last = described.rsplit("  ").next().unwrap_or_default().trim();
    let is_trigger = last.starts_with(|c: char| c.is_ascii_digit())
        && ["-edge", "-fasteoi", "-level", " Edge", " Level"]
            .iter()
            .any(|end| last.ends_with(end));
    if is_trigger { "" } else { last }
}

/// A network interface's device has a directory with the numbers of its interrupts; where the
/// interface sits on a bus of its own (virtio), the device below that has it.
fn interfaces() -> HashMap<u32, String> {
    let mut found = HashMap::new();
    for entry in fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(device) = fs::canonicalize(entry.path().join("device")) else {
            continue;
        };
        let own = device.join("msi_irqs");
        let dir = match device.parent() {
            Some(parent) if !own.exists() => parent.join("msi_irqs"),
            _ => own,
        };
        for irq in fs::read_dir(dir).into_iter().flatten().flatten() {
            if let Some(number) = irq.file_name().to_str().and_then(|n| n.parse().ok()) {
                found.insert(number, entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_name_is_found() {
        for (described, expected) in [
            (
                "PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0",
                "virtio1-req.0",
            ),
            ("IR-PCI-MSI 524288-edge      eth0-TxRx-0", "eth0-TxRx-0"),
            ("IO-APIC   9-fasteoi   acpi, i801_smbus", "acpi, i801_smbus"),
            ("GICv3  27 Level     arch_timer", "arch_timer"),
            ("xen-dyn    -event     eth0-q0-rx", "eth0-q0-rx"),
            ("IO-APIC   5-edge", ""),
            ("", ""),
        ] {
            assert_eq!(driver(described), expected, "{described}");
        }
        let mut devices = Devices::default();
        assert_eq!(
            devices.of("LOC", "Local timer interrupts"),
            "Local timer interrupts"
        );
        devices.interfaces.insert(38, "eth0".into());
        assert_eq!(
            devices.of("38", "PCI  1-edge  virtio2-input.0"),
            "virtio2-input.0 (eth0)"
        );
        assert_eq!(devices.of("38", "PCI  1-edge  eth0-rx-1"), "eth0-rx-1");
    }
}
