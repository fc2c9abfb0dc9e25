//! The records that the BPF programs write, as Rust sees them: types from the objects' own BTF.

use std::mem::{offset_of, size_of};

#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod events {
    include!(concat!(env!("OUT_DIR"), "/events.skel.rs"));
}
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod sockets {
    include!(concat!(env!("OUT_DIR"), "/sockets.skel.rs"));
}
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod holders {
    include!(concat!(env!("OUT_DIR"), "/holders.skel.rs"));
}
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod calls {
    include!(concat!(env!("OUT_DIR"), "/calls.skel.rs"));
}
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod packets {
    include!(concat!(env!("OUT_DIR"), "/packets.skel.rs"));
}

#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod owners {
    include!(concat!(env!("OUT_DIR"), "/owners.skel.rs"));
}
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod census {
    include!(concat!(env!("OUT_DIR"), "/census.skel.rs"));
}

pub use calls::types::{tw_call, tw_call_kind, tw_call_loss};
pub use census::types::{tw_census, tw_destination, tw_port_count};
pub use events::types::{tw_bits, tw_caller, tw_event, tw_filter, tw_kind, tw_prefix, tw_range};
pub use holders::types::tw_holder;
pub use owners::types::tw_owner;
pub use packets::types::{tw_packet, tw_packet_loss};
pub use sockets::types::{tw_listener, tw_record, tw_socket};

// The same numbers are asserted in bpf/wire.h: a change on one side alone does not build.
const _: () = {
    assert!(size_of::<tw_event>() == 152 && offset_of!(tw_event, comm) == 132);
    assert!(size_of::<tw_range>() == 24);
    assert!(size_of::<tw_listener>() == 80 && offset_of!(tw_listener, local_port) == 72);
    assert!(size_of::<tw_socket>() == 344 && offset_of!(tw_socket, local_port) == 324);
    assert!(size_of::<tw_holder>() == 32);
    assert!(size_of::<tw_owner>() == 16);
    assert!(size_of::<tw_destination>() == 36 && size_of::<tw_port_count>() == 12);
    assert!(size_of::<tw_census>() == 56 && offset_of!(tw_census, listeners) == 16);
    assert!(size_of::<tw_call>() == 128 && offset_of!(tw_call, comm) == 112);
    assert!(size_of::<tw_packet>() == 120 && offset_of!(tw_packet, tcp) == 56);
};

/// A type that any bytes are a value of, written by our own programs.
///
/// # Safety
/// `#[repr(C)]`, only integers and arrays of integers.
pub unsafe trait Record: Copy {}
// SAFETY: see the structs in bpf/wire.h: integers and arrays of integers only.
unsafe impl Record for tw_event {}
// SAFETY: as above.
unsafe impl Record for tw_listener {}
// SAFETY: as above.
unsafe impl Record for tw_socket {}
// SAFETY: as above.
unsafe impl Record for tw_holder {}
// SAFETY: as above.
unsafe impl Record for tw_owner {}
// SAFETY: as above.
unsafe impl Record for tw_destination {}
// SAFETY: as above.
unsafe impl Record for tw_port_count {}
// SAFETY: see bpf/filter.h: integers and arrays of integers only.
unsafe impl Record for tw_filter {}
// SAFETY: as above.
unsafe impl Record for census::types::tw_filter {}
// SAFETY: as above.
unsafe impl Record for tw_call {}
// SAFETY: as above.
unsafe impl Record for tw_packet {}
// SAFETY: as above.
unsafe impl Record for calls::types::tw_filter {}
// SAFETY: as above.
unsafe impl Record for packets::types::tw_filter {}

/// The same record as another object's type: each skeleton has types of its own for what the
/// programs share.
pub fn same<A: Record, B: Record>(a: &A) -> B {
    const { assert!(size_of::<A>() == size_of::<B>()) };
    // SAFETY: both are as large, any bytes make a B, and alignment is not assumed.
    unsafe { std::ptr::from_ref(a).cast::<B>().read_unaligned() }
}

/// The record at the start of `bytes`; `None` when they are too few.
pub fn read<R: Record>(bytes: &[u8]) -> Option<R> {
    if bytes.len() < size_of::<R>() {
        return None;
    }
    // SAFETY: there are enough bytes, any of them make an R, and alignment is not assumed.
    Some(unsafe { bytes.as_ptr().cast::<R>().read_unaligned() })
}

/// A C string in a fixed array, as text; what is not UTF-8 is replaced.
pub fn text(chars: &[i8]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .take_while(|&&c| c != 0)
        .map(|&c| c as u8)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_where_c_put_them() {
        let mut bytes = vec![0u8; size_of::<tw_event>() + 1];
        // time_ns is first, comm at 132; the record starts at an odd address.
        bytes[1..9].copy_from_slice(&7u64.to_ne_bytes());
        bytes[1 + 132..1 + 132 + 5].copy_from_slice(b"nginx");
        let event: tw_event = read(&bytes[1..]).unwrap();
        assert_eq!(event.time_ns, 7);
        assert_eq!(text(&event.comm), "nginx");
        assert!(read::<tw_event>(&bytes[2..]).is_none(), "too short");
    }

    #[test]
    fn names_of_the_host_may_be_any_bytes() {
        assert_eq!(text(&[-1, 65, 0, 66]), "\u{fffd}A");
        assert_eq!(text(&[65; 16]).len(), 16, "without a closing zero");
    }
}
