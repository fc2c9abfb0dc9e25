//! From a TCP header as it was on the wire to a row of the `packet` table.

use recording::Addr;
use recording::tables::Packet;

use crate::wire::tw_packet;

/// The options of a header that matter here; the first of a kind counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TcpOptions {
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(u32, u32)>,
}

impl TcpOptions {
    /// Of any bytes: what is cut short or makes no sense ends the list, as it does in the kernel.
    fn parse(mut bytes: &[u8]) -> TcpOptions {
        let mut options = TcpOptions::default();
        while let Some((&kind, after)) = bytes.split_first() {
            if kind == END {
                break;
            }
            if kind == NOP {
                bytes = after;
                continue;
            }
            let len = after.first().map_or(0, |&len| usize::from(len));
            let Some(value) = bytes.get(2..len) else {
                break;
            };
            options.take(kind, value);
            bytes = &bytes[len..];
        }
        options
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, &[a, b]) => self.mss = self.mss.or(Some(u16::from_be_bytes([a, b]))),
            (WINDOW_SCALE, &[shift]) => self.window_scale = self.window_scale.or(Some(shift)),
            (SACK_PERMITTED, &[]) => self.sack_permitted = true,
            (TIMESTAMPS, value) => {
                if let Ok(&[a, b, c, d, e, f, g, h]) = <&[u8; 8]>::try_from(value) {
                    let (value, echo) = ([a, b, c, d], [e, f, g, h]);
                    let both = (u32::from_be_bytes(value), u32::from_be_bytes(echo));
                    self.timestamps = self.timestamps.or(Some(both));
                }
            }
            _ => {}
        }
    }
}

// Kinds of options (RFC 9293, 7323, 2018).
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;

/// A header without options.
const PLAIN: usize = 20;

/// The row of a record.
pub fn row(p: &tw_packet) -> Packet {
    let tcp = &p.tcp;
    let len = usize::from(p.tcp_len).clamp(PLAIN, tcp.len());
    let options = TcpOptions::parse(&tcp[PLAIN..len]);
    let u16_at = |i: usize| u16::from_be_bytes([tcp[i], tcp[i + 1]]);
    let u32_at = |i: usize| u32::from_be_bytes([tcp[i], tcp[i + 1], tcp[i + 2], tcp[i + 3]]);
    Packet {
        time_ns: p.time_ns,
        netns: p.netns,
        ifindex: p.ifindex,
        outgoing: p.outgoing != 0,
        family: p.family,
        src_addr: Addr(p.src_addr),
        src_port: u16_at(0),
        dst_addr: Addr(p.dst_addr),
        dst_port: u16_at(2),
        flags: tcp[13],
        seq: u32_at(4),
        ack: u32_at(8),
        window: u16_at(14),
        ttl: p.ttl,
        payload: p.payload,
        mss: options.mss,
        window_scale: options.window_scale,
        sack_permitted: options.sack_permitted,
        tsval: options.timestamps.map(|t| t.0),
        tsecr: options.timestamps.map(|t| t.1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What Linux offers in a SYN on loopback.
    const SYN: [u8; 20] = [
        2, 4, 0xff, 0xd7, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 10,
    ];

    #[test]
    fn the_options_of_a_syn() {
        let options = TcpOptions::parse(&SYN);
        assert_eq!(options.mss, Some(65495));
        assert_eq!(options.window_scale, Some(10));
        assert!(options.sack_permitted);
        assert_eq!(options.timestamps, Some((7, 0)));
    }

    #[test]
    fn options_cut_short_end_the_list() {
        assert_eq!(TcpOptions::parse(&SYN[..3]), TcpOptions::default());
        assert_eq!(TcpOptions::parse(&SYN[..8]).timestamps, None);
        assert!(TcpOptions::parse(&SYN[..8]).sack_permitted);
        // A length of 0 or 1 would never end.
        for len in [0, 1] {
            let bytes = [NOP, 9, len, 4, 2];
            assert_eq!(TcpOptions::parse(&bytes), TcpOptions::default());
        }
        // What follows the end of the list is padding.
        assert_eq!(TcpOptions::parse(&[0, 4, 2]), TcpOptions::default());
        // A known option of a wrong length is passed over.
        let bytes = [2, 3, 9, 4, 2];
        assert_eq!(TcpOptions::parse(&bytes).mss, None);
        assert!(TcpOptions::parse(&bytes).sack_permitted);
    }

    #[test]
    fn the_header_is_read_in_network_order() {
        let mut p = tw_packet {
            outgoing: 1,
            family: 4,
            ttl: 64,
            tcp_len: 40,
            payload: 3,
            ..tw_packet::default()
        };
        p.tcp[..20].copy_from_slice(&[
            0x1f, 0x90, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0xa0, 2, 0xff, 0xd7, 0, 0, 0, 0,
        ]);
        p.tcp[20..40].copy_from_slice(&SYN);
        let row = row(&p);
        assert_eq!((row.src_port, row.dst_port), (8080, 80));
        assert_eq!((row.seq, row.ack), (0x01020304, 0x05060708));
        assert_eq!((row.flags, row.window, row.payload), (2, 65495, 3));
        assert_eq!((row.mss, row.tsval), (Some(65495), Some(7)));
        assert!(row.outgoing && row.sack_permitted);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_row(tcp in prop::array::uniform32(any::<u8>()), more in prop::array::uniform28(any::<u8>()), tcp_len: u8) {
            let mut p = tw_packet { tcp_len, ..tw_packet::default() };
            p.tcp[..32].copy_from_slice(&tcp);
            p.tcp[32..].copy_from_slice(&more);
            let row = row(&p);
            prop_assert_eq!(row.tsval.is_some(), row.tsecr.is_some());
        }

        #[test]
        fn any_options_end(bytes in prop::collection::vec(prop_oneof![0u8..10, any::<u8>()], 0..60)) {
            TcpOptions::parse(&bytes);
        }
    }
}
