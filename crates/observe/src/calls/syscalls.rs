//! Which system calls are watched: their numbers here, and the family that each belongs to.

use libc::c_long;

use crate::wire::tw_call_kind;

/// A family's name, by its number.
pub const NAMES: [&str; tw_call_kind::TW_CALL_KINDS.0 as usize] = [
    "",
    "connect",
    "accept",
    "bind",
    "listen",
    "close",
    "shutdown",
    "sendmsg",
    "recvmsg",
    "epoll_wait",
    "poll",
    "select",
];

const CALLS: &[(c_long, tw_call_kind)] = &[
    (libc::SYS_connect, tw_call_kind::TW_CALL_CONNECT),
    (libc::SYS_accept, tw_call_kind::TW_CALL_ACCEPT),
    (libc::SYS_accept4, tw_call_kind::TW_CALL_ACCEPT),
    (libc::SYS_bind, tw_call_kind::TW_CALL_BIND),
    (libc::SYS_listen, tw_call_kind::TW_CALL_LISTEN),
    (libc::SYS_close, tw_call_kind::TW_CALL_CLOSE),
    (libc::SYS_shutdown, tw_call_kind::TW_CALL_SHUTDOWN),
    (libc::SYS_sendto, tw_call_kind::TW_CALL_SENDMSG),
    (libc::SYS_sendmsg, tw_call_kind::TW_CALL_SENDMSG),
    (libc::SYS_sendmmsg, tw_call_kind::TW_CALL_SENDMSG),
    (libc::SYS_write, tw_call_kind::TW_CALL_SENDMSG),
    (libc::SYS_writev, tw_call_kind::TW_CALL_SENDMSG),
    (libc::SYS_sendfile, tw_call_kind::TW_CALL_SENDMSG),
    (libc::SYS_recvfrom, tw_call_kind::TW_CALL_RECVMSG),
    (libc::SYS_recvmsg, tw_call_kind::TW_CALL_RECVMSG),
    (libc::SYS_recvmmsg, tw_call_kind::TW_CALL_RECVMSG),
    (libc::SYS_read, tw_call_kind::TW_CALL_RECVMSG),
    (libc::SYS_readv, tw_call_kind::TW_CALL_RECVMSG),
    (libc::SYS_epoll_pwait, tw_call_kind::TW_CALL_EPOLL),
    (libc::SYS_epoll_pwait2, tw_call_kind::TW_CALL_EPOLL),
    (libc::SYS_ppoll, tw_call_kind::TW_CALL_POLL),
    (libc::SYS_pselect6, tw_call_kind::TW_CALL_SELECT),
    // Not among those of younger architectures.
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, tw_call_kind::TW_CALL_EPOLL),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, tw_call_kind::TW_CALL_POLL),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, tw_call_kind::TW_CALL_SELECT),
];

/// The family of every call by its number, as the program reads it.
pub fn kinds<const N: usize>() -> [u8; N] {
    let mut kinds = [0; N];
    for &(number, kind) in CALLS {
        let place = usize::try_from(number).ok().and_then(|n| kinds.get_mut(n));
        if let Some(place) = place {
            *place = kind.0 as u8;
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_its_place_and_its_name() {
        let kinds = kinds::<512>();
        let watched = kinds.iter().filter(|&&k| k != 0).count();
        assert_eq!(watched, CALLS.len(), "no number is beyond the table");
        let name = |number: c_long| NAMES[usize::from(kinds[number as usize])];
        assert_eq!(name(libc::SYS_connect), "connect");
        assert_eq!(name(libc::SYS_accept4), "accept");
        assert_eq!(name(libc::SYS_write), "sendmsg");
        assert_eq!(name(libc::SYS_read), "recvmsg");
        assert_eq!(name(libc::SYS_epoll_pwait2), "epoll_wait");
        assert_eq!(name(libc::SYS_pselect6), "select");
        assert_eq!(name(libc::SYS_getppid), "");
    }
}
