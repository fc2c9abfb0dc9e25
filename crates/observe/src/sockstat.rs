//! How many TCP sockets a namespace has: /proc/net/sockstat, which costs a few microseconds.

use crate::procfile::{ProcFile, numbers};

/// What /proc/net/sockstat says of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SockStat {
    /// Hashed sockets of the namespace, IPv4: listeners and connections, not TIME_WAIT.
    pub in_use: u64,
    /// Sockets without a process, of the whole host.
    pub orphans: u64,
    /// TIME_WAIT of the namespace, IPv4 and IPv6.
    pub time_wait: u64,
    /// Pages of all buffers of the whole host.
    pub pages: u64,
}

impl SockStat {
    /// Of the calling thread's namespace.
    pub fn read(file: &mut ProcFile) -> Option<SockStat> {
        parse(&file.read("/proc/thread-self/net/sockstat").ok()?)
    }
}

/// Hashed sockets of the calling thread's namespace, IPv6; none where there is no IPv6.
pub fn in_use6(file: &mut ProcFile) -> u64 {
    let text = file.read("/proc/thread-self/net/sockstat6");
    let count = |text: &str| numbers(text.lines().next()?.strip_prefix("TCP6: inuse")?).next();
    text.ok().and_then(|text| count(&text)).unwrap_or(0)
}

/// TCP sockets of the calling thread's namespace in any state: what a walk over them would find. A SYN
/// queue has a listener, so that it is never alone. `None` where the kernel does not tell.
pub fn sockets(file: &mut ProcFile) -> Option<u64> {
    let stat = SockStat::read(file)?;
    Some(stat.in_use + stat.time_wait + in_use6(file))
}

/// `TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 160`.
fn parse(text: &str) -> Option<SockStat> {
    let line = text.lines().find_map(|l| l.strip_prefix("TCP:"))?;
    let mut words = line.split_ascii_whitespace();
    let mut stat = SockStat::default();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let Ok(value) = value.parse() else {
            continue;
        };
        match name {
            "inuse" => stat.in_use = value,
            "orphan" => stat.orphans = value,
            "tw" => stat.time_wait = value,
            "mem" => stat.pages = value,
            _ => {}
        }
    }
    Some(stat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_tcp_is_read_by_name() {
        let text = "sockets: used 13\nTCP: inuse 1 orphan 2 tw 3 alloc 4 mem 160\nUDP: inuse 9\n";
        let expected = SockStat {
            in_use: 1,
            orphans: 2,
            time_wait: 3,
            pages: 160,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(
            parse("TCP: inuse x orphan 5"),
            Some(SockStat {
                orphans: 5,
                ..SockStat::default()
            })
        );
        assert_eq!(parse("UDP: inuse 9"), None);
    }
}
