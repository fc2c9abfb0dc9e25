//! What a SYN cookie remembers of the client's SYN.
//!
//! The server's sequence number has room for one of four segment sizes. SACK and the window's shift
//! fit into the low bits of the timestamp that it sends, if the SYN carried one.

use super::params::Params;

/// What the two ends of a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) sack: bool,
    pub(super) window_scaling: bool,
    /// The client's segment size as the server remembers it, bytes.
    pub(super) client_mss: u32,
}

/// Segment sizes that a cookie can say (net/ipv4/syncookies.c, net/ipv6/syncookies.c).
const SIZES_V4: [u32; 4] = [536, 1_300, 1_440, 1_460];
const SIZES_V6: [u32; 4] = [1_280 - 60, 1_480 - 60, 1_500 - 60, 9_000 - 60];

impl Agreed {
    /// Of a handshake whose request was kept.
    pub(super) fn kept(p: &Params) -> Agreed {
        Agreed {
            sack: p.sack(),
            window_scaling: p.window_scaling(),
            client_mss: p.announced_mss(),
        }
    }

    /// Of a handshake by cookie.
    pub(super) fn cookie(p: &Params) -> Agreed {
        let sizes = if p.family == 6 { SIZES_V6 } else { SIZES_V4 };
        let fits = sizes.iter().rev().find(|s| **s <= p.announced_mss());
        Agreed {
            sack: p.sack() && p.timestamps(),
            window_scaling: p.window_scaling() && p.timestamps(),
            client_mss: *fits.unwrap_or(&sizes[0]),
        }
    }

    /// Whether it lacks what a kept request would have had.
    pub(super) fn lost(self, p: &Params) -> bool {
        let kept = Agreed::kept(p);
        self.sack != kept.sack || self.window_scaling != kept.window_scaling
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    fn cookie(set: &[&str]) -> (bool, u32) {
        let p = Params::with(set);
        let agreed = Agreed::cookie(&p);
        assert_eq!(agreed.sack, agreed.window_scaling);
        (agreed.lost(&p), agreed.client_mss)
    }

    #[test]
    fn options_survive_in_timestamps_only_and_segment_sizes_are_rounded_down() {
        assert_eq!(cookie(&[]), (true, 1_440));
        assert_eq!(cookie(&["tcp_timestamps=1"]), (false, 1_440));
        assert_eq!(cookie(&["mtu=9000"]), (true, 8_940));
        assert_eq!(cookie(&["mtu=9000", "family=4"]), (true, 1_460));
        assert_eq!(cookie(&["mtu=1400"]), (true, 1_220));
        assert_eq!(cookie(&["mtu=1280"]), (true, 1_220));
        // Nothing to lose.
        assert_eq!(
            cookie(&["tcp_sack=0", "tcp_window_scaling=0"]),
            (false, 1_440)
        );
    }
}
