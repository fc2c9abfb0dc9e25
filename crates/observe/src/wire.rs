//! The records that the BPF programs write, as Rust sees them: types from the objects' own BTF.

use std::mem::{MaybeUninit, offset_of, size_of};

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
pub mod tasks {
    include!(concat!(env!("OUT_DIR"), "/tasks.skel.rs"));
}
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod profile {
    include!(concat!(env!("OUT_DIR"), "/profile.skel.rs"));
}

pub use events::types::{tw_bits, tw_caller, tw_event, tw_filter, tw_kind, tw_prefix, tw_range};
pub use holders::types::tw_holder;
pub use profile::types::tw_sample;
pub use sockets::types::{tw_listener, tw_record, tw_socket};
pub use tasks::types::{tw_on, tw_sleep, tw_state, tw_task_kind, tw_thread, tw_wait, tw_wait_bits};

// The same numbers are asserted in bpf/wire.h: a change on one side alone does not build.
const _: () = {
    assert!(size_of::<tw_event>() == 152 && offset_of!(tw_event, comm) == 132);
    assert!(size_of::<tw_range>() == 24);
    assert!(size_of::<tw_listener>() == 80 && offset_of!(tw_listener, local_port) == 72);
    assert!(size_of::<tw_socket>() == 344 && offset_of!(tw_socket, local_port) == 324);
    assert!(size_of::<tw_holder>() == 32);
    assert!(size_of::<tw_wait>() == 1176 && offset_of!(tw_wait, frames) == 160);
    assert!(size_of::<tw_on>() == 24 && offset_of!(tw_on, runqueue_ns) == 16);
    assert!(size_of::<tw_thread>() == 280 && offset_of!(tw_thread, comm) == 264);
    assert!(size_of::<tw_sample>() == 2080 && offset_of!(tw_sample, frames) == 48);
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
unsafe impl Record for tw_wait {}
// SAFETY: as above.
unsafe impl Record for tw_on {}
// SAFETY: as above.
unsafe impl Record for tw_thread {}
// SAFETY: as above.
unsafe impl Record for tw_sample {}
// SAFETY: see bpf/filter.h: integers and arrays of integers only.
unsafe impl Record for tw_filter {}

/// The record at the start of `bytes`; `None` when they are too few.
pub fn read<R: Record>(bytes: &[u8]) -> Option<R> {
    if bytes.len() < size_of::<R>() {
        return None;
    }
    // SAFETY: there are enough bytes, any of them make an R, and alignment is not assumed.
    Some(unsafe { bytes.as_ptr().cast::<R>().read_unaligned() })
}

/// The record at the start of `bytes`, of whose end only what was used was passed; the rest is zero.
pub fn read_partly<R: Record>(bytes: &[u8], least: usize) -> Option<R> {
    if bytes.len() < least || bytes.len() > size_of::<R>() {
        return None;
    }
    let mut record = MaybeUninit::<R>::zeroed();
    // SAFETY: there is room for the bytes, and any bytes make an R.
    unsafe {
        let to = record.as_mut_ptr().cast::<u8>();
        to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        Some(record.assume_init())
    }
}

/// A struct that another object's skeleton declares under the same name, from ours.
///
/// Each skeleton has its own type for what a header shares between programs.
pub fn same<A: Record, B: Copy>(ours: A) -> B {
    const { assert!(size_of::<A>() == size_of::<B>()) };
    // SAFETY: both come from one declaration in C: integers only, and of one size.
    unsafe { std::mem::transmute_copy(&ours) }
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
