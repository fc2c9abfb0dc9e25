//! Source `settings`: the sysctls that matter to TCP, of a namespace and of the host.

use std::collections::HashMap;
use std::fs;

use recording::tables::Setting;
use recording::{TableWriter, Text, monotonic_ns};

use crate::error::Error;

/// Settings of a namespace. One that the kernel does not have is passed over; which ones a kernel
/// has says nothing about it.
const OF_NAMESPACE: &[&str] = &[
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_ehash_entries",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_invalid_ratelimit",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_retries1",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rfc1337",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_linear_timeouts",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_tw_reuse_delay",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// Settings that all namespaces share.
const OF_HOST: &[&str] = &[
    "fs.file-max",
    "fs.nr_open",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_mem",
];

/// The values seen last.
#[derive(Default)]
pub struct Settings {
    last: HashMap<(u32, &'static str), Text>,
}

impl Settings {
    /// Writes the settings of the calling thread's namespace `netns` that changed.
    pub fn of_namespace(
        &mut self,
        netns: u32,
        rows: &mut TableWriter<Setting>,
    ) -> Result<(), Error> {
        self.sample(netns, OF_NAMESPACE, rows)
    }

    /// Writes the settings of the host that changed.
    pub fn of_host(&mut self, rows: &mut TableWriter<Setting>) -> Result<(), Error> {
        self.sample(0, OF_HOST, rows)
    }

    fn sample(
        &mut self,
        netns: u32,
        names: &[&'static str],
        rows: &mut TableWriter<Setting>,
    ) -> Result<(), Error> {
        for &name in names {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            let Ok(value) = fs::read_to_string(path) else {
                continue;
            };
            let value: Vec<&str> = value.split_ascii_whitespace().collect();
            let value = Text::from(value.join(" "));
            if self.last.get(&(netns, name)) != Some(&value) {
                rows.push(Setting {
                    time_ns: monotonic_ns(),
                    netns,
                    name: name.into(),
                    value: value.clone(),
                })?;
                self.last.insert((netns, name), value);
            }
        }
        Ok(())
    }
}
