//! SYNs of new connections: told from those retransmitted, so that each connection can lose its first.

use std::collections::HashSet;

use super::strip::tcp_offset;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Past this many connections the oldest are forgotten with all others.
const MAX_SEEN: usize = 1 << 16;

/// The SYNs that have been seen.
#[derive(Debug, Default)]
pub(super) struct Syns(HashSet<Box<[u8]>>);

impl Syns {
    /// Whether this is the first SYN of a connection: of its addresses, ports and sequence number.
    pub(super) fn is_first(&mut self, packet: &[u8]) -> bool {
        let Some(connection) = syn(packet) else {
            return false;
        };
        if self.0.len() >= MAX_SEEN {
            self.0.clear();
        }
        self.0.insert(connection)
    }
}

/// Whether a packet opens a connection.
pub(super) fn is_syn(packet: &[u8]) -> bool {
    syn(packet).is_some()
}

/// Whether a packet is a SYN or the answer to one.
pub(super) fn is_handshake(packet: &[u8]) -> bool {
    let flags = tcp_offset(packet).and_then(|start| packet.get(start + 13));
    flags.is_some_and(|flags| flags & SYN != 0)
}

/// What tells one connection's SYN from another's; `None` for other packets.
fn syn(packet: &[u8]) -> Option<Box<[u8]>> {
    let start = tcp_offset(packet)?;
    let tcp = packet.get(start..start + 14)?;
    if tcp[13] & (SYN | ACK) != SYN {
        return None;
    }
    let addresses = match packet[0] >> 4 {
        4 => &packet[12..20],
        _ => packet.get(8..40)?,
    };
    Some([addresses, &tcp[..8]].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with a TCP header.
    fn packet(port: u8, seq: u8, flags: u8) -> [u8; 40] {
        let mut p = [0; 40];
        (p[0], p[9], p[15], p[19]) = (0x45, 6, 1, 2);
        (p[21], p[23], p[27], p[32], p[33]) = (port, 80, seq, 0x50, flags);
        p
    }

    #[test]
    fn only_the_first_syn_of_each_connection_is_first() {
        let mut syns = Syns::default();
        assert!(syns.is_first(&packet(1, 1, SYN)));
        assert!(!syns.is_first(&packet(1, 1, SYN)), "retransmitted");
        assert!(syns.is_first(&packet(2, 1, SYN)), "another port");
        assert!(
            syns.is_first(&packet(1, 2, SYN)),
            "the port's next connection"
        );
        assert!(!syns.is_first(&packet(3, 1, SYN | ACK)));
        assert!(!syns.is_first(&packet(3, 1, ACK)));
        for len in 0..34 {
            assert!(!syns.is_first(&packet(9, 9, SYN)[..len]));
        }
    }
}
