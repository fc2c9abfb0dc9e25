//! The records that the BPF programs write, as Rust sees them: types from the objects' own BTF.

use std::mem::{MaybeUninit, offset_of, size_of};

/// The skeleton that libbpf-cargo made of `bpf/NAME.bpf.c`.
macro_rules! skeleton {
    ($($name:ident)+) => { $(
        #[allow(
            missing_docs,
            unused_qualifications,
            clippy::all,
            clippy::undocumented_unsafe_blocks
        )]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".skel.rs"));
        }
    )+ };
}
skeleton! { events sockets holders owners census calls packets tasks profile requests heartbeats files }

pub use calls::types::{tw_call, tw_call_kind, tw_call_loss};
pub use census::types::{tw_census, tw_destination, tw_port_count};
pub use events::types::{
    tw_bits, tw_caller, tw_event, tw_filter, tw_kind, tw_life, tw_prefix, tw_range, tw_reset,
    tw_slot, tw_slot_word,
};
pub use heartbeats::types::{tw_beat_count, tw_gap};
pub use holders::types::tw_holder;
pub use owners::types::tw_owner;
pub use packets::types::{tw_packet, tw_packet_loss};
pub use profile::types::tw_sample;
pub use requests::types::{tw_exchange, tw_part, tw_requests, tw_role, tw_service};
pub use sockets::types::{tw_listener, tw_record, tw_socket, tw_socket_tells};
pub use tasks::types::{
    tw_on, tw_signal, tw_sleep, tw_state, tw_task_kind, tw_thread, tw_wait, tw_wait_bits,
};

/// The words for the numbers of a C enum, an array in their order: what is missing, twice or out of
/// order does not build.
macro_rules! tied {
    (from $first:expr; $($number:path => $word:expr),+ $(,)?) => {{
        const {
            let mut next = $first;
            $( assert!($number.0 == next, "in the order of the C enum"); next += 1; )+
            _ = next;
        }
        [ $($word),+ ]
    }};
}
pub(crate) use tied;

// The same numbers are asserted in bpf/wire.h: a change on one side alone does not build.
const _: () = {
    assert!(size_of::<tw_event>() == 152 && offset_of!(tw_event, comm) == 132);
    assert!(size_of::<tw_life>() == 168 && offset_of!(tw_life, established_ns) == 160);
    assert!(size_of::<tw_slot>() == 192 && offset_of!(tw_slot, life) == 8);
    assert!(size_of::<tw_reset>() == 344 && offset_of!(tw_reset, frames) == 152);
    assert!(size_of::<tw_range>() == 24);
    assert!(size_of::<tw_listener>() == 96 && offset_of!(tw_listener, local_port) == 84);
    assert!(size_of::<tw_socket>() == 376 && offset_of!(tw_socket, local_port) == 354);
    assert!(size_of::<tw_holder>() == 32);
    assert!(size_of::<tw_owner>() == 16);
    assert!(size_of::<tw_destination>() == 36 && size_of::<tw_port_count>() == 16);
    assert!(size_of::<tw_census>() == 56 && offset_of!(tw_census, listeners) == 16);
    assert!(size_of::<tw_call>() == 128 && offset_of!(tw_call, comm) == 112);
    assert!(size_of::<tw_packet>() == 120 && offset_of!(tw_packet, tcp) == 56);
    assert!(size_of::<tw_wait>() == 1584 && offset_of!(tw_wait, frames) == 184);
    assert!(size_of::<tw_on>() == 24 && offset_of!(tw_on, runqueue_ns) == 16);
    assert!(size_of::<tw_signal>() == 56 && offset_of!(tw_signal, sender_comm) == 40);
    assert!(size_of::<tw_thread>() == 344 && offset_of!(tw_thread, comm) == 328);
    assert!(size_of::<tw_service>() == 24 && offset_of!(tw_service, role) == 22);
    assert!(size_of::<tw_requests>() == 7072 && offset_of!(tw_requests, response) == 156);
    assert!(size_of::<tw_exchange>() == 200 && offset_of!(tw_exchange, family) == 192);
    assert!(size_of::<tw_gap>() == 104 && offset_of!(tw_gap, family) == 100);
    assert!(size_of::<tw_sample>() == 2080 && offset_of!(tw_sample, frames) == 48);
};

/// A type that any bytes are a value of, written by our own programs.
///
/// # Safety
/// `#[repr(C)]`, only integers and arrays of integers.
pub unsafe trait Record: Copy {}
/// Promises for many types at once.
macro_rules! records {
    ($($record:path),+ $(,)?) => { $(
        // SAFETY: see bpf/wire.h and bpf/filter.h: integers and arrays of integers only.
        unsafe impl Record for $record {}
    )+ };
}
records! {
    tw_event, tw_life, tw_reset, tw_listener, tw_socket, tw_holder, tw_owner, tw_destination, tw_port_count, tw_census,
    tw_call, tw_packet, tw_wait, tw_on, tw_signal, tw_thread, tw_sample, tw_service, tw_requests, tw_exchange, tw_gap,
    tw_filter, tw_range,
    // The same struct, which each object has anew.
    census::types::tw_filter, calls::types::tw_filter, packets::types::tw_filter,
    tasks::types::tw_filter, profile::types::tw_filter, requests::types::tw_filter,
    heartbeats::types::tw_filter, tasks::types::tw_range,
}

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
