//! What is right to say of a fault from where it is looked at, and why. Pure.
//!
//! It follows from who sees the mechanism act: the host on which it acts, the end of a connection that waits for it, a
//! host that is further away. An answer is a cause's id, or whose time it was where it was not TCP's.

use serde::{Deserialize, Serialize};

use super::fault::{At, Fault};
use super::kinds::{Server, Shape, Side, Topology};
use super::situation::Situation;

/// What is right of a situation, as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Right {
    /// Any of these is right.
    pub best: Vec<String>,
    /// Any of these is a part of it: what follows from the fault, or less than can be known from there.
    pub partly: Vec<String>,
    /// To say nothing is right as well: from there nobody can know.
    pub silence: bool,
    /// Why.
    pub why: String,
    /// The server's program is to be blamed, and not what passes on: its command name.
    pub blamed: Option<String>,
}

/// Who of the connection that the fault hurts is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct View {
    /// The host that asks over it.
    pub(super) near: bool,
    /// The host that answers over it.
    pub(super) far: bool,
    /// The router.
    pub(super) router: bool,
    /// A host that asks the one that asks.
    pub(super) before: bool,
    /// A host that is asked by the one that answers.
    pub(super) behind: bool,
}

impl View {
    /// From the side that is recorded.
    pub(super) fn of(s: &Situation) -> View {
        // Hosts with an end of a connection, from the caller to the server.
        let last = s.proxies.len() + 1;
        let recorded = |host: usize| match s.side {
            Side::All => true,
            Side::Client => host == 0,
            Side::Server => host == last,
            Side::Middle => host > 0 && host < last,
        };
        let at = s.fault.map_or(At::Network, |(fault, _)| fault.at());
        let near = match at {
            At::Network | At::Near | At::Far | At::Router => s.network_behind,
            At::Server => last - 1,
            At::Proxy | At::Caller => 0,
        };
        let routed = matches!(s.topology, Topology::Router | Topology::Nat);
        View {
            near: recorded(near),
            far: recorded(near + 1),
            router: routed && matches!(s.side, Side::Middle | Side::All),
            before: (0..near).any(recorded),
            behind: (near + 2..=last).any(recorded),
        }
    }
}

/// The waits of who asks, when whoever answers takes them.
const WAITS: &[&str] = &["slow-peer", "not-tcp:peer"];
/// The time of who answers.
const TAKES: &[&str] = &["slow-application", "not-tcp:application"];
/// Nothing comes back.
const HANGS: &[&str] = &["path-outage", "peer-gone", "path-drops-syn"];
/// Something gets lost.
const LOSES: &[&str] = &["path-loss", "tail-loss"];
const ROUTE: &str = "route-or-neighbour-failure";
const FIREWALL: &str = "local-firewall-drop";

/// Answers that are right and that nobody gave when this was written: until somebody does, silence is a miss.
pub const UNTOLD: &[&str] = &[
    "slow-names",
    "connect-given-up",
    "corked-messages",
    "listener-ended",
];

/// Every cause that is right, or a part of what is right, of any of so many situations.
pub fn answers(seeds: std::ops::Range<u64>) -> std::collections::BTreeSet<String> {
    let all = seeds.map(|seed| right(&Situation::compose(seed)));
    let all = all.flat_map(|right| right.best.into_iter().chain(right.partly));
    all.filter(|id| !id.starts_with("not-tcp:")).collect()
}

/// What is right of it.
pub(super) fn right(s: &Situation) -> Right {
    let Some((fault, _)) = s.fault else {
        return Right {
            silence: true,
            why: "nothing is wrong".into(),
            ..Right::default()
        };
    };
    let view = View::of(s);
    let mut right = of_leg(fault, s, view);
    let sees_leg = view.near || view.far || (fault.at() == At::Router && view.router);
    if !sees_leg {
        right = if view.before {
            said(
                &[
                    WAITS,
                    &[
                        "connection-refused",
                        "reset-by-peer",
                        "reset-by-application",
                    ],
                ],
                &[TAKES],
                "who is recorded waits for a proxy, and only the proxy's host knows for whom that waits",
            )
        } else {
            let mut none = said(
                &[],
                &[HANGS, LOSES],
                "nothing of it reaches what is recorded",
            );
            none.silence = true;
            none
        };
        // A proxy says so at once, with a status that nobody sees: to its caller that is an answer.
        right.silence |= matches!(
            fault,
            Fault::ServerGone
                | Fault::Restart
                | Fault::ResetsAnswers
                | Fault::ClosesUnread
                | Fault::RefusedByBox
                | Fault::UnreachableByBox
                | Fault::ResetByBox
                | Fault::DeadNeighbour
        );
    } else if view.before && !s.proxies.is_empty() {
        // What a proxy's caller meets follows from it.
        right
            .partly
            .extend(WAITS.iter().map(|id| (*id).to_string()));
    }
    if fault.at() == At::Server && view.far {
        right.blamed = Some(comm(s.server).to_string());
    }
    right.partly.retain(|id| !right.best.contains(id));
    right
}

fn said(best: &[&[&str]], partly: &[&[&str]], why: &str) -> Right {
    let all = |of: &[&[&str]]| {
        of.iter()
            .flat_map(|ids| ids.iter().map(|id| (*id).to_string()))
            .collect()
    };
    Right {
        best: all(best),
        partly: all(partly),
        silence: false,
        why: why.into(),
        blamed: None,
    }
}

fn or_nothing(mut right: Right) -> Right {
    right.silence = true;
    right
}

/// What can be said of it from an end of the connection that it hurts, or from the router.
fn of_leg(fault: Fault, s: &Situation, view: View) -> Right {
    use Fault::*;
    let View { near, far, .. } = view;
    let both = near && far;
    let sends_there = matches!(s.shape, Shape::Up | Shape::Both);
    let sends_back = !matches!(s.shape, Shape::Up);
    // Who sends the bulk of the bytes, and so is who repairs.
    let sender = (near && sends_there) || (far && sends_back);
    match fault {
        SynLost if near => said(
            &[&["path-drops-syn"]],
            &[HANGS, WAITS],
            "its SYNs are retransmitted, and nothing here dropped them",
        ),
        SynLost => or_nothing(said(
            &[],
            &[&["path-drops-syn"]],
            "SYNs that do not come leave nothing at the server",
        )),
        SynAnswerLost if far => said(
            &[HANGS, LOSES],
            &[WAITS],
            "SYN-ACKs are retransmitted, and nobody answers them",
        ),
        SynAnswerLost => said(
            &[&["path-drops-syn"]],
            &[HANGS, WAITS],
            "from the caller a lost SYN-ACK is a lost SYN",
        ),
        FirewallNearSyn if near => said(
            &[&[FIREWALL]],
            &[HANGS],
            "a rule on the asking host drops them",
        ),
        FirewallNearSyn => said(
            &[HANGS, LOSES],
            &[],
            "SYN-ACKs are retransmitted, and nobody answers them",
        ),
        BigLost | MtuHole if sender => said(
            &[&["pmtu-black-hole"]],
            &[HANGS, LOSES, WAITS],
            "large segments are retransmitted and small ones pass",
        ),
        BigLost | MtuHole => or_nothing(said(
            &[&["pmtu-black-hole"], WAITS],
            &[HANGS, LOSES],
            "who receives only sees that nothing comes",
        )),
        AllLost if near || sender => said(
            &[HANGS],
            &[LOSES, WAITS],
            "nothing comes back, of any connection",
        ),
        WayThereLost if near => said(&[HANGS], &[LOSES, WAITS], "nothing comes back"),
        WayBackLost if near || sender => said(&[HANGS], &[LOSES, WAITS], "nothing comes back"),
        WayThereLost if sender && s.is_bulk() => {
            said(&[HANGS], &[LOSES, WAITS], "no acknowledgement comes back")
        }
        AllLost | WayThereLost | WayBackLost => or_nothing(said(
            &[],
            &[HANGS, LOSES, WAITS],
            "to who only waits for the other it is a pause",
        )),
        Loss if sender || both => said(
            &[LOSES],
            &[&["path-outage", "path-drops-syn", "pmtu-black-hole"], WAITS],
            "segments are retransmitted that nothing here dropped",
        ),
        Loss if near => said(
            &[LOSES, &["path-drops-syn"], WAITS],
            &[HANGS],
            "its requests are retransmitted; of the answers only the sender knows",
        ),
        Loss => or_nothing(said(
            &[LOSES],
            &[HANGS],
            "of what the other end retransmits little is known",
        )),
        ShortQueue if sender => said(
            &[LOSES, &["bufferbloat"]],
            &[],
            "segments are retransmitted that nothing here dropped",
        ),
        LongQueue if sender => said(
            &[&["bufferbloat"]],
            &[LOSES],
            "the round trip grows with what is sent",
        ),
        ShortQueue | LongQueue => or_nothing(said(
            &[LOSES, &["bufferbloat"], WAITS],
            &[],
            "what queues on the way is known to who sends",
        )),
        ResetByBox if both => said(
            &[&["injected-reset"]],
            &[&["reset-by-peer"]],
            "resets come that the other end did not send",
        ),
        ResetByBox if near => said(
            &[&["injected-reset", "reset-by-peer"]],
            &[],
            "resets come; whether the peer sent them only its host knows",
        ),
        ResetByBox => or_nothing(said(
            &[],
            &[HANGS, WAITS],
            "the reset went to the other end",
        )),
        RefusedByBox if near => said(
            &[&["connection-refused", "injected-reset"]],
            &[],
            "SYNs are answered by resets",
        ),
        UnreachableByBox if near => said(
            &[&[ROUTE, "connection-refused"]],
            &[&["path-drops-syn"]],
            "ICMP says that it cannot be reached",
        ),
        RefusedByBox | UnreachableByBox => or_nothing(said(
            &[],
            &[HANGS],
            "SYNs that do not come leave nothing at the server",
        )),
        DeadNeighbour if near => said(
            &[&[ROUTE]],
            &[HANGS, LOSES, WAITS],
            "the gateway's address does not resolve",
        ),
        DeadNeighbour => or_nothing(said(
            &[],
            &[HANGS, LOSES, WAITS],
            "to the other end it is a pause",
        )),
        FirewallFarSyn if far => said(
            &[&[FIREWALL]],
            &[&["path-drops-syn"]],
            "a rule on the server's host drops them",
        ),
        FirewallFarSyn => said(
            &[&["path-drops-syn"]],
            &[HANGS, WAITS],
            "its SYNs are retransmitted",
        ),
        FirewallFarAll if far => said(
            &[&[FIREWALL]],
            &[HANGS, LOSES],
            "a rule on the server's host drops them",
        ),
        FirewallFarAll => said(&[HANGS], &[LOSES, WAITS], "nothing comes back"),
        FirewallNearAll if near => said(
            &[&[FIREWALL]],
            &[HANGS, LOSES, WAITS],
            "a rule on the asking host drops them",
        ),
        FirewallNearAll if sender => said(&[HANGS], &[LOSES], "no acknowledgement comes back"),
        FirewallNearAll => or_nothing(said(
            &[],
            &[HANGS, LOSES],
            "to who only waits for the other it is a pause",
        )),
        FirewallRouter | FirewallRouterSyn if view.router => said(
            &[&[FIREWALL]],
            &[HANGS, LOSES, WAITS],
            "a rule on the router drops them",
        ),
        FirewallRouter if near || sender => said(&[HANGS], &[LOSES, WAITS], "nothing comes back"),
        FirewallRouterSyn if near => said(
            &[&["path-drops-syn"]],
            &[HANGS, WAITS],
            "its SYNs are retransmitted",
        ),
        FirewallRouter | FirewallRouterSyn => or_nothing(said(
            &[],
            &[HANGS, LOSES],
            "nothing of it reaches the server",
        )),
        AddressGone | RouteBackGone | RpFilter if far => said(
            &[&[ROUTE]],
            &[HANGS, LOSES, WAITS],
            "the server's host drops what comes to it, or has no way back",
        ),
        AddressGone | RouteBackGone | RpFilter => {
            said(&[HANGS], &[LOSES, WAITS], "nothing comes back")
        }
        OwnQueue if far => said(
            &[&["qdisc-drop"]],
            &[LOSES, &["bufferbloat"]],
            "the server's own device drops",
        ),
        OwnQueue => or_nothing(said(
            &[LOSES, WAITS],
            &[&["bufferbloat"]],
            "what is dropped before it is sent is known to who sends",
        )),
        HairpinBare => said(
            &[&[ROUTE]],
            &[HANGS, &[FIREWALL], WAITS],
            "the host drops packets that come from itself",
        ),
        NotAccepting if far => said(
            &[&["slow-accept", "accept-queue-overflow"]],
            &[TAKES, WAITS, &["path-drops-syn", "accept-imbalance"]],
            "connections wait for accept()",
        ),
        NotAccepting => said(
            &[WAITS, &["path-drops-syn"]],
            &[HANGS],
            "connected and not answered, or SYNs that get no answer",
        ),
        Stopped | StopsAndGoes | WorkerStuck | ProxyStopped if far => {
            let of_port: &[&str] = if fault == WorkerStuck {
                &["accept-imbalance"]
            } else {
                &[]
            };
            let bulk: &[&str] = if sends_there {
                &["zero-window", "slow-reader"]
            } else {
                &[]
            };
            said(
                &[
                    TAKES,
                    of_port,
                    bulk,
                    &["slow-accept", "accept-queue-overflow"],
                ],
                &[WAITS, &["path-drops-syn"]],
                "its processes are stopped",
            )
        }
        Stopped | StopsAndGoes | WorkerStuck | ProxyStopped => {
            let bulk: &[&str] = if sends_there {
                &["zero-window", "slow-reader"]
            } else {
                &[]
            };
            said(
                &[WAITS, bulk, &["path-drops-syn"]],
                &[HANGS],
                "the other end acknowledges and does not answer",
            )
        }
        Quota if far => said(
            &[&["cpu-contention"]],
            &[TAKES, WAITS, &["slow-accept", "cpu-saturated"]],
            "its cgroup is throttled",
        ),
        SlowAnswers | SlowNowAndThen | SlowGreeting | RedisScript | PostgresLock if far => said(
            &[TAKES],
            &[WAITS, &["cpu-contention"]],
            "the program takes the time",
        ),
        Quota | SlowAnswers | SlowNowAndThen | SlowGreeting | RedisScript | PostgresLock => said(
            &[WAITS],
            &[TAKES],
            "the other end acknowledges and answers late",
        ),
        ServerGone | Restart => said(
            &[&["connection-refused"]],
            &[WAITS, &["reset-by-peer", "listener-ended"]],
            "SYNs are answered by resets",
        ),
        ResetsAnswers if far => said(
            &[&["reset-by-application"]],
            &[&["reset-by-peer"]],
            "the program resets (SO_LINGER 0)",
        ),
        ResetsAnswers => said(
            &[&["reset-by-peer"]],
            &[&["injected-reset", "reset-by-application"]],
            "resets come instead of answers",
        ),
        ClosesUnread if far => said(
            &[&["reset-unread-data"]],
            &[&["reset-by-peer", "reset-by-application"]],
            "it closes with data unread",
        ),
        ClosesUnread => said(
            &[&["reset-by-peer", "reset-unread-data"]],
            &[&["injected-reset"]],
            "resets come before the answer is read",
        ),
        FewDescriptors if far => said(
            &[&["descriptors-exhausted"]],
            &[&["slow-accept", "accept-queue-overflow"], TAKES, WAITS],
            "accept() fails with EMFILE",
        ),
        FewDescriptors => said(
            &[WAITS],
            &[&["path-drops-syn"]],
            "connected and not answered",
        ),
        IdleClose => said(
            &[&["idle-timeout-mismatch"]],
            &[&["reset-by-peer", "reset-by-application", "reset-unread-data"]],
            "connections close while the next request is on its way",
        ),
        SmallSendBuffer if far => said(
            &[&["send-buffer-small"]],
            &[TAKES],
            "what is sent in a round trip is the buffer",
        ),
        SmallSendBuffer => or_nothing(said(
            &[WAITS],
            &[],
            "from the receiver a small send buffer is a slow path",
        )),
        SplitAnswers if far => said(
            &[&["nagle-delayed-ack"]],
            &[TAKES, WAITS],
            "small writes wait for delayed acknowledgements",
        ),
        Cork if far => said(
            &[&["nagle-delayed-ack", "corked-messages"]],
            &[TAKES, WAITS],
            "what is written stays in the socket for 200 ms",
        ),
        SplitAnswers | Cork => said(
            &[WAITS, &["nagle-delayed-ack"]],
            &[],
            "the answer comes late, in parts",
        ),
        SlowReader if both => said(
            &[&["slow-reader", "zero-window"]],
            &[],
            "the receiver's window closes, as its program does not read",
        ),
        SlowReader => said(
            &[&["slow-reader", "zero-window"]],
            &[TAKES, WAITS, &["receive-buffer-small"]],
            "the window closes",
        ),
        SmallReceiveBuffer => said(
            &[&["receive-buffer-small"]],
            &[&["slow-reader", "zero-window"], WAITS],
            "the window stays small and what comes is read at once",
        ),
        NagledRequests if near => said(
            &[&["nagle-delayed-ack"]],
            &[WAITS],
            "the second write waits for a delayed acknowledgement",
        ),
        FewPorts if near => said(
            &[&["ports-exhausted"]],
            &[],
            "connect() fails with EADDRNOTAVAIL",
        ),
        SlowNames if near => said(
            &[&["slow-names"]],
            &[&["not-tcp:command"]],
            "the resolver answers late, over UDP: no TCP",
        ),
        Impatient if near => said(
            &[&["connect-given-up"]],
            &[&["path-drops-syn", "reset-by-application"], WAITS],
            "it gives up before the path answers",
        ),
        NagledRequests | FewPorts | SlowNames | Impatient => {
            or_nothing(said(&[], &[WAITS, TAKES], "the caller's own affair"))
        }
    }
}

/// What the kernel calls the processes of a server.
pub(super) fn comm(server: Server) -> &'static str {
    match server {
        Server::Nginx => "nginx",
        Server::Node => "node",
        Server::Python => "python3",
        Server::Redis => "redis-server",
        Server::Postgres => "postgres",
        Server::Iperf3 => "iperf3",
    }
}
