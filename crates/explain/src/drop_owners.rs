//! Who answers for a drop, by its kind: the causes that claim it, or why no connection suffers from it.

use recording::drop_reason::DropKind;

use crate::id::Id;

/// Who answers for drops of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// These causes look at them.
    Causes(&'static [Id]),
    /// No connection waits for such a packet.
    Harmless(&'static str),
    /// No cause looks at them: where somebody waits, they are told with their meaning.
    Nobody,
}

/// Who answers for a kind.
pub(crate) fn owner(kind: DropKind) -> Owner {
    use Owner::{Causes, Harmless, Nobody};
    match kind {
        DropKind::UsedUp => {
            Harmless("nothing was lost: the packet had been used, or its socket had ended")
        }
        DropKind::Unspecified => Causes(&[Id::TIME_WAIT_COLLISION]),
        DropKind::NoSocket => Causes(&[
            Id::CONNECTION_REFUSED,
            Id::SYN_COOKIE_OPTIONS_LOST,
            Id::TIME_WAIT_TABLE_FULL,
            Id::RESET_BY_PEER,
        ]),
        DropKind::Duplicate => Harmless("the receiver has it already, and says so"),
        DropKind::Foreign => Causes(&[
            Id::TIME_WAIT_COLLISION,
            Id::HALF_OPEN,
            Id::INJECTED_RESET,
            Id::RESET_BY_PEER,
        ]),
        DropKind::Closed => Causes(&[Id::RESET_UNREAD_DATA, Id::IDLE_TIMEOUT_MISMATCH]),
        DropKind::Window => Causes(&[Id::ZERO_WINDOW, Id::SLOW_READER, Id::RECEIVE_QUEUE_PRUNED]),
        DropKind::Memory => Causes(&[Id::RECEIVE_QUEUE_PRUNED, Id::TCP_MEMORY_PRESSURE]),
        DropKind::ListenerFull => Causes(&[Id::ACCEPT_QUEUE_OVERFLOW]),
        DropKind::SocketBacklog => Causes(&[Id::SOCKET_BACKLOG_DROP]),
        DropKind::CpuBacklog => Causes(&[Id::RECEIVE_BACKLOG_DROP]),
        DropKind::Qdisc => Causes(&[Id::QDISC_DROP]),
        DropKind::Firewall => Causes(&[
            Id::LOCAL_FIREWALL_DROP,
            Id::CONNTRACK_FULL,
            Id::CONNTRACK_INSERT_FAILED,
            Id::SNAT_PORTS_EXHAUSTED,
        ]),
        DropKind::Damaged => Causes(&[Id::DAMAGED_PACKETS]),
        DropKind::OtherHost
        | DropKind::NotOurs
        | DropKind::NoRoute
        | DropKind::ReversePath
        | DropKind::OwnSource
        | DropKind::Martian
        | DropKind::Neighbour => Causes(&[Id::ROUTE_OR_NEIGHBOUR_FAILURE]),
        DropKind::TooBig => Causes(&[Id::PMTU_BLACK_HOLE]),
        DropKind::Demands | DropKind::Device => Nobody,
        DropKind::NotTcp => {
            Harmless("it is no packet of TCP, or a fragment or tunnel's own packet")
        }
    }
}

#[cfg(test)]
mod tests {
    use recording::drop_reason::ALL as REASONS;

    use super::*;
    use crate::causes::ALL;

    /// What no cause looks at is a list that is looked at: of packets that a socket demands more of, and of devices.
    #[test]
    fn every_drop_has_an_owner() {
        for reason in REASONS {
            match owner(reason.kind) {
                Owner::Causes(ids) => {
                    let declared = |id: &Id| ALL.iter().any(|cause| cause.id == *id);
                    assert!(
                        !ids.is_empty() && ids.iter().all(declared),
                        "{}",
                        reason.name
                    );
                }
                Owner::Harmless(why) => assert!(!why.is_empty(), "{}", reason.name),
                Owner::Nobody => {
                    let known = matches!(reason.kind, DropKind::Demands | DropKind::Device);
                    assert!(known, "{}", reason.name);
                }
            }
        }
    }
}
