//! What client and server say to each other: a request begins with a header that tells the
//! server what to expect and what to answer, so that one server serves every client.

/// Length of the header, bytes.
pub(super) const HEADER: usize = 24;

/// A length that never ends.
pub(super) const ENDLESS: u64 = u64::MAX;

/// Takes `by` off the bytes that are left of a transfer; an endless one stays endless.
pub(super) fn spend(left: &mut u64, by: usize) {
    // The header is spent first, so endless is not one number but the upper half of them.
    if *left < ENDLESS / 2 {
        *left -= by as u64;
    }
}

/// Tells our requests from a stranger's.
const MAGIC: u32 = 0x6c61_6221;

const SERVER_CLOSES: u32 = 1;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the request, this header included.
    pub(super) request: u64,
    /// Bytes of the response.
    pub(super) response: u64,
    /// The server closes once it has answered.
    pub(super) server_closes: bool,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        let flags = if self.server_closes { SERVER_CLOSES } else { 0 };
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&flags.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.request.to_be_bytes());
        bytes[16..].copy_from_slice(&self.response.to_be_bytes());
        bytes
    }

    /// `None` when the bytes are no request of ours.
    pub(super) fn from_bytes(bytes: &[u8; HEADER]) -> Option<Header> {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let header = Header {
            request: long(8),
            response: long(16),
            server_closes: word(4) == SERVER_CLOSES,
        };
        (word(0) == MAGIC && word(4) <= SERVER_CLOSES && header.request >= HEADER as u64)
            .then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_comes_back(request in HEADER as u64.., response: u64, server_closes: bool) {
            let header = Header { request, response, server_closes };
            prop_assert_eq!(Header::from_bytes(&header.to_bytes()), Some(header));
        }

        #[test]
        fn a_stranger_is_no_request(bytes: [u8; HEADER]) {
            prop_assume!(bytes[..4] != MAGIC.to_be_bytes());
            prop_assert_eq!(Header::from_bytes(&bytes), None);
        }
    }
}
