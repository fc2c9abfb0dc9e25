//! What a network namespace counts and how it is set.

use crate::table::table;
use crate::{Addr, Text};

table! {
    /// A network counter of a namespace: all that are not zero in the first sample, then each that changed; `Tcp.InSegs` in every sample, so that its rows tell when samples were taken.
    Counter = "counter" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// Group: Ip, Icmp, Tcp, TcpExt, IpExt, MPTcpExt.
        group: Text, Name;
        /// Name, the kernel's.
        name: Text, Name;
        /// Value since the namespace was made.
        value: i64, Count;
        /// Change since the previous sample.
        delta: Option<i64>, Count, null "the first sample of a namespace that is older than the recording: there is nothing to compare with";
    }
}

table! {
    /// A setting that matters to TCP: all at the start, then each that changed.
    Setting = "setting" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace; 0 for settings of the whole host.
        netns: u32, Id;
        /// Name, as sysctl prints it; of an interface with a device `eth0.threaded`, `eth0.rx-usecs` (as `ethtool -c`), `eth0.rx-0.rps_cpus`, and of an interrupt line of it `eth0.virtio0-input.0.smp_affinity_list`.
        name: Text, Name;
        /// Value, blanks folded.
        value: Text, Name;
    }
}

table! {
    /// What an address is called on this host, when first seen: the name that `/etc/hosts` gives it as a process with sockets sees that file (loopback addresses left out), and the host name of processes in a UTS namespace that is not the recorder's.
    HostName = "host_name" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace of the process: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// What is called so.
        addr: Option<Addr>, Address, null "the process's host: every address of its network namespace";
        /// Its name.
        name: Text, Host;
    }
}

table! {
    /// An address of an interface, when first seen.
    InterfaceAddress = "interface_address" {
        /// When it was read.
        time_ns: u64, Ns;
        /// Network namespace: the inode of `/proc/PID/ns/net`.
        netns: u32, Id;
        /// Interface.
        interface: Text, Name;
        /// Its address.
        addr: Addr, Address;
    }
}
