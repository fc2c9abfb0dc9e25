//! Which system calls are watched: their numbers here, and the family that each belongs to.

use libc::c_long;
use recording::CallKind;

use crate::wire::{tied, tw_call_kind};

/// The families by the program's number for them, which counts from 1.
pub static FAMILIES: [CallKind; tw_call_kind::TW_CALL_KINDS.0 as usize - 1] = tied! {
    from tw_call_kind::TW_CALL_CONNECT.0;
    tw_call_kind::TW_CALL_CONNECT => CallKind::Connect,
    tw_call_kind::TW_CALL_ACCEPT => CallKind::Accept,
    tw_call_kind::TW_CALL_BIND => CallKind::Bind,
    tw_call_kind::TW_CALL_LISTEN => CallKind::Listen,
    tw_call_kind::TW_CALL_CLOSE => CallKind::Close,
    tw_call_kind::TW_CALL_SHUTDOWN => CallKind::Shutdown,
    tw_call_kind::TW_CALL_SENDMSG => CallKind::Sendmsg,
    tw_call_kind::TW_CALL_RECVMSG => CallKind::Recvmsg,
    tw_call_kind::TW_CALL_EPOLL => CallKind::EpollWait,
    tw_call_kind::TW_CALL_POLL => CallKind::Poll,
    tw_call_kind::TW_CALL_SELECT => CallKind::Select,
};

/// The family that the program means by this number.
pub fn family(kind: u8) -> Option<&'static CallKind> {
    FAMILIES.get(usize::from(kind).checked_sub(1)?)
}

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

/// The family of every call by its number, as the program reads it: of all families, or only of
/// those named.
pub fn kinds<const N: usize>(only: &[CallKind]) -> [u8; N] {
    let mut kinds = [0; N];
    for &(number, kind) in CALLS {
        let place = usize::try_from(number).ok().and_then(|n| kinds.get_mut(n));
        let asked = only.is_empty() || family(kind.0 as u8).is_some_and(|f| only.contains(f));
        if let Some(place) = place.filter(|_| asked) {
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
        let kinds = kinds::<512>(&[]);
        let watched = kinds.iter().filter(|&&k| k != 0).count();
        assert_eq!(watched, CALLS.len(), "no number is beyond the table");
        let name = |number: c_long| family(kinds[number as usize]).map_or("", CallKind::as_str);
        assert_eq!(name(libc::SYS_connect), "connect");
        assert_eq!(name(libc::SYS_accept4), "accept");
        assert_eq!(name(libc::SYS_write), "sendmsg");
        assert_eq!(name(libc::SYS_read), "recvmsg");
        let few = super::kinds::<512>(&[CallKind::Connect]);
        assert_eq!(few.iter().filter(|&&k| k != 0).count(), 1);
        assert_eq!(name(libc::SYS_epoll_pwait2), "epoll_wait");
        assert_eq!(name(libc::SYS_pselect6), "select");
        assert_eq!(name(libc::SYS_getppid), "");
    }
}
