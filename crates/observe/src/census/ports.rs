//! Source `ports`: the range that local ports are chosen from, and who holds how many of it.

use recording::Addr;
use recording::tables::PortUse;

use crate::procfile::{ProcFile, numbers};
use crate::wire::{tw_destination, tw_port_count};

/// Destinations with fewer ports are no trouble and would be many, unless the range has hardly more.
const LEAST: u32 = 16;

/// The ports that connect() chooses from in a namespace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lowest.
    pub low: u16,
    /// Highest.
    pub high: u16,
    /// Of them, set aside.
    pub reserved: u32,
}

impl Range {
    /// Of the calling thread's namespace.
    pub fn read(file: &mut ProcFile) -> Option<Range> {
        let text = file.read("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
        let (low, high) = parse_range(&text)?;
        let reserved = file.read("/proc/sys/net/ipv4/ip_local_reserved_ports");
        let reserved = reserved.map_or(0, |text| within(&text, low, high));
        Some(Range {
            low,
            high,
            reserved,
        })
    }

    /// Whether a destination holds enough ports to be told: many, or half of a narrow range.
    pub fn tells(&self, n: &tw_port_count) -> bool {
        let size = (u32::from(self.high) + 1).saturating_sub(self.low.into());
        let half = size.saturating_sub(self.reserved).div_ceil(2).max(1);
        n.used.max(n.server_time_wait) >= LEAST.min(half)
    }

    /// The row of a destination.
    pub fn row(&self, time_ns: u64, netns: u32, to: &tw_destination, n: &tw_port_count) -> PortUse {
        let remote_addr = Addr(to.remote_addr);
        PortUse {
            time_ns,
            netns,
            family: if remote_addr.ip().is_ipv4() { 4 } else { 6 },
            local_addr: Addr(to.local_addr),
            remote_addr,
            remote_port: to.remote_port as u16,
            ports_used: n.used,
            time_wait: n.time_wait,
            established: n.established,
            server_time_wait: Some(n.server_time_wait),
            range_low: self.low,
            range_high: self.high,
            reserved: self.reserved,
        }
    }
}

fn parse_range(text: &str) -> Option<(u16, u16)> {
    match numbers(text).collect::<Vec<_>>()[..] {
        [low, high] => Some((low.try_into().ok()?, high.try_into().ok()?)),
        _ => None,
    }
}

/// How many of the ports `8080,9148-9200` lie in the range.
fn within(list: &str, low: u16, high: u16) -> u32 {
    let overlap = |part: &str| {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b): (u16, u16) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
        let (a, b) = (a.max(low), b.min(high));
        (a <= b).then(|| u32::from(b - a) + 1)
    };
    list.split(',').filter_map(overlap).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_what_is_set_aside() {
        assert_eq!(parse_range("32768\t60999\n"), Some((32768, 60999)));
        assert_eq!(parse_range("1 70000"), None);
        assert_eq!(parse_range(""), None);
        assert_eq!(within("8080,9148-9200\n", 9000, 9150), 3);
        assert_eq!(within("1-65535", 10, 19), 10);
        assert_eq!(within("\n", 10, 19), 0);
        assert_eq!(within("5-x,9-3", 1, 19), 0);
    }

    #[test]
    fn half_of_a_narrow_range_is_told() {
        let tells = |high, reserved, used| {
            let n = tw_port_count {
                used,
                ..tw_port_count::default()
            };
            let low = 42_000;
            Range {
                low,
                high,
                reserved,
            }
            .tells(&n)
        };
        assert!(!tells(60_999, 0, 15) && tells(60_999, 0, 16));
        assert!(!tells(42_004, 0, 2) && tells(42_004, 0, 3));
        assert!(tells(42_004, 3, 1) && !tells(42_004, 5, 0));
    }
}
