//! The middlebox: takes SACK-permitted, window scale and timestamps out of a handshake, as
//! firewalls and proxies do that do not know them.

/// Kinds of TCP options, RFC 9293 and RFC 7323.
const END: u8 = 0;
const NOP: u8 = 1;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;

const TCP: u8 = 6;
const TCP_HEADER: usize = 20;
const SYN: u8 = 0x02;

/// Overwrites the options of a SYN or SYN-ACK with no-operations and mends the checksum, in an
/// IPv4 or IPv6 packet. Gives whether anything was there; any other packet stays as it is.
pub(super) fn strip(packet: &mut [u8]) -> bool {
    let Some(start) = tcp_offset(packet) else {
        return false;
    };
    let tcp = &mut packet[start..];
    if tcp.len() < TCP_HEADER || tcp[13] & SYN == 0 {
        return false;
    }
    let header = usize::from(tcp[12] >> 4) * 4;
    if header < TCP_HEADER || tcp.len() < header {
        return false;
    }
    let before = sum(&tcp[TCP_HEADER..header]);
    let changed = blank(&mut tcp[TCP_HEADER..header]);
    if changed {
        // RFC 1624: the checksum moves by the difference. Computing it anew would hide damage
        // that the packet already had.
        let after = sum(&tcp[TCP_HEADER..header]);
        let checksum = !u16::from_be_bytes([tcp[16], tcp[17]]);
        let mended = !fold(u32::from(checksum) + u32::from(!before) + u32::from(after));
        tcp[16..18].copy_from_slice(&mended.to_be_bytes());
    }
    changed
}

/// Replaces the three options in a TCP option list; stops where the list is malformed.
fn blank(options: &mut [u8]) -> bool {
    let mut changed = false;
    let mut at = 0;
    while at < options.len() {
        let len = match options[at] {
            END => break,
            NOP => 1,
            _ => match options.get(at + 1) {
                Some(&len) if len >= 2 && at + usize::from(len) <= options.len() => {
                    usize::from(len)
                }
                _ => break,
            },
        };
        if matches!(options[at], WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS) {
            options[at..at + len].fill(NOP);
            changed = true;
        }
        at += len;
    }
    changed
}

/// Where the TCP header begins, in a packet that has one whole.
pub(super) fn tcp_offset(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0x0f) * 4;
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
            (header >= 20 && *packet.get(9)? == TCP && fragment == 0).then_some(header)
        }
        6 => ipv6_payload(packet),
        _ => None,
    }
    .filter(|start| *start <= packet.len())
}

/// Where the TCP header begins behind IPv6's chain of headers.
fn ipv6_payload(packet: &[u8]) -> Option<usize> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const DESTINATION: u8 = 60;
    let mut next = *packet.get(6)?;
    let mut at = 40;
    // A fragment is left alone: a handshake is never fragmented.
    while matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
        next = *packet.get(at)?;
        at += 8 * (1 + usize::from(*packet.get(at + 1)?));
    }
    (next == TCP).then_some(at)
}

/// One's complement sum of 16-bit words. TCP options fill whole words of 32 bits.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)]));
    fold(words.map(u32::from).sum())
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What Linux puts into a SYN: MSS 1460, SACK permitted, timestamps, NOP, window scale 10.
    const LINUX: [u8; 20] = [
        2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 10,
    ];
    const STRIPPED: [u8; 20] = [
        2, 4, 5, 0xb4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ];

    /// A TCP packet with a valid checksum.
    fn packet(ipv6: bool, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0u8; TCP_HEADER];
        tcp[..4].copy_from_slice(&[0xc3, 0x50, 0x1b, 0x58]);
        tcp[12] = (((TCP_HEADER + options.len()) / 4) as u8) << 4;
        tcp[13] = flags;
        tcp.extend_from_slice(options);
        tcp.extend_from_slice(payload);
        let mut ip = if ipv6 {
            let mut ip = vec![0x60, 0, 0, 0, 0, 0, TCP, 64];
            ip.extend((1..=32).map(|b| b as u8));
            ip
        } else {
            let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, TCP, 0, 0];
            ip.extend([198, 18, 1, 1, 198, 18, 1, 2]);
            ip
        };
        let start = ip.len();
        ip.extend(&tcp);
        let checksum = !checksum_sum(&ip, start);
        ip[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
        ip
    }

    /// The sum that a receiver computes: all ones when the checksum is right.
    fn checksum_sum(packet: &[u8], start: usize) -> u16 {
        let addresses = if packet[0] >> 4 == 4 {
            &packet[12..20]
        } else {
            &packet[8..40]
        };
        let tcp = &packet[start..];
        fold(u32::from(sum(addresses)) + u32::from(TCP) + tcp.len() as u32 + u32::from(sum(tcp)))
    }

    #[test]
    fn a_linux_syn_loses_everything_but_its_mss() {
        for ipv6 in [false, true] {
            for flags in [SYN, SYN | 0x10] {
                let mut p = packet(ipv6, flags, &LINUX, b"");
                let start = if ipv6 { 40 } else { 20 };
                assert!(strip(&mut p));
                assert_eq!(p[start + TCP_HEADER..], STRIPPED);
                assert_eq!(checksum_sum(&p, start), 0xffff);
                assert!(!strip(&mut p), "nothing is left to take");
            }
        }
    }

    #[test]
    fn other_packets_pass_untouched() {
        let timestamps = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
        for p in [
            packet(false, 0x10, &timestamps, b"data"),
            packet(true, 0x18, &timestamps, b"data"),
            packet(false, SYN, &[2, 4, 5, 0xb4], b""),
        ] {
            let mut q = p.clone();
            assert!(!strip(&mut q));
            assert_eq!(p, q);
        }
    }

    #[test]
    fn ipv6_headers_in_front_are_walked() {
        let mut p = packet(true, SYN, &LINUX, b"");
        p[6] = 0;
        p.splice(40..40, [TCP, 0, 1, 4, 0, 0, 0, 0]);
        assert!(strip(&mut p));
        assert_eq!(p[48 + TCP_HEADER..], STRIPPED);
    }

    #[test]
    fn damage_stays_visible() {
        let mut p = packet(false, SYN, &LINUX, b"");
        p[25] ^= 0x40;
        assert!(strip(&mut p));
        assert_ne!(checksum_sum(&p, 20), 0xffff);
    }

    proptest! {
        #[test]
        fn any_options_keep_the_checksum_right(
            ipv6: bool,
            words in proptest::collection::vec(any::<[u8; 4]>(), 0..=10),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut p = packet(ipv6, SYN, &words.concat(), &payload);
            let before = p.clone();
            let start = if ipv6 { 40 } else { 20 };
            strip(&mut p);
            prop_assert_eq!(checksum_sum(&p, start), 0xffff);
            prop_assert_eq!(&p[..start + 16], &before[..start + 16]);
            prop_assert_eq!(p.len(), before.len());
        }

        #[test]
        fn garbage_does_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), version in 0u8..16) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | (*first & 0x0f);
            }
            let len = bytes.len();
            strip(&mut bytes);
            prop_assert_eq!(bytes.len(), len);
        }

        #[test]
        fn truncation_does_no_harm(ipv6: bool, cut in 0usize..80, next: u8) {
            let mut p = packet(ipv6, SYN, &LINUX, b"");
            if ipv6 {
                p[6] = next;
            }
            p.truncate(cut);
            strip(&mut p);
        }
    }
}
