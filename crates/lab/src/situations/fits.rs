//! Which parts of a situation go together, and where each fault can act. Pure.

use super::fault::Fault;
use super::kinds::{
    Age, Beside, Caller, Harmless, Proxy, SMALL_TRANSFER, Server, Shape, Side, Topology,
};
use super::situation::{Situation, Speaks};

/// Why the parts do not go together; `None` if they do.
pub(super) fn complaint(s: &Situation) -> Option<&'static str> {
    use Topology::{Direct, Hairpin, Nat, Proxy as One, Router, SharedPort, TwoProxies};
    let Some(speaks) = s.speaks() else {
        return Some("the server does not speak in this shape");
    };
    let http = speaks == Speaks::Http;
    let caller = match s.caller {
        Caller::Python => speaks != Speaks::Iperf3,
        Caller::Node => {
            (http || speaks == Speaks::Tls)
                && matches!(s.shape, Shape::Ask | Shape::Short | Shape::Tls)
        }
        Caller::Curl => (http && matches!(s.shape, Shape::Short)) || speaks == Speaks::Tls,
        Caller::Psql => speaks == Speaks::Postgres && s.shape == Shape::Short,
        Caller::RedisCli => speaks == Speaks::Redis && s.shape == Shape::Short,
        Caller::Iperf3 => speaks == Speaks::Iperf3,
    };
    if !caller {
        return Some("the caller does not speak so");
    }
    let hops = match s.topology {
        One => 1,
        TwoProxies => 2,
        _ => 0,
    };
    if s.proxies.len() != hops || s.network_behind > hops {
        return Some("as many proxies as the topology has");
    }
    if !http && s.proxies.iter().any(|p| *p != Proxy::HaproxyTcp) {
        return Some("a proxy of requests passes requests only");
    }
    if s.topology == SharedPort && s.server != Server::Python {
        return Some("only the program in Python shares its port");
    }
    let middle = matches!(s.topology, Router | Nat | One | TwoProxies);
    let sides = match s.side {
        Side::All => true,
        Side::Middle => middle,
        Side::Client | Side::Server => s.topology != Hairpin,
    };
    if !sides {
        return Some("no such side");
    }
    let several = s.patience.addresses > 1;
    if several && !(matches!(s.topology, Direct | Router) && s.caller == Caller::Python) {
        return Some("one address");
    }
    let beside = match s.beside {
        None => true,
        Some(Beside::Wrk) => http && s.shape == Shape::Ask,
        Some(Beside::Ab) => http && s.shape == Shape::Short,
        Some(Beside::RedisBenchmark) => speaks == Speaks::Redis,
        Some(Beside::Pgbench) => speaks == Speaks::Postgres,
    };
    // Without a path to wait for these take all CPUs.
    if !beside || (s.beside.is_some() && s.delay_ms < 5.0) {
        return Some("does not stand beside it");
    }
    let round_trips_s = 4.0 * 2.0 * s.delay_ms / 1e3;
    if s.patience.gives_up_s
        < round_trips_s.max(if s.is_bulk() || s.shape == Shape::Push {
            1.0
        } else {
            0.0
        })
    {
        return Some("gives up on what is healthy");
    }
    let process = !matches!(s.caller, Caller::Python | Caller::Node | Caller::Iperf3);
    if process && (s.threads > 2 || s.patience.pause_s < 0.1 || s.patience.gives_up_s < 1.0) {
        return Some("a process a request, in bounds");
    }
    if s.is_bulk() && s.threads > 2 || speaks == Speaks::Iperf3 && s.threads > 1 {
        return Some("one or two transfers");
    }
    if s.rate_mbit.is_some() && !(s.is_bulk() && s.delay_ms > 0.0) {
        return Some("a rate is for transfers");
    }
    if s.is_bulk() && s.rate_mbit.is_none() && s.delay_ms >= 5.0 {
        // And to say so would be right, of what is to be healthy.
        return Some("the default buffers are what limits it");
    }
    if s.fault.is_some() && s.harmless.is_some() {
        return Some("either a fault or what is harmless");
    }
    if s.harmless == Some(Harmless::SmallerMtu) && s.topology == Hairpin {
        return Some("one device");
    }
    let reloads = s.server == Server::Nginx || s.proxies.contains(&Proxy::Nginx);
    if s.harmless == Some(Harmless::Reload) && !reloads {
        return Some("nothing that reads its settings again");
    }
    if let Some((fault, _)) = s.fault
        && !fits(fault, s)
    {
        return Some("the fault does not act here");
    }
    let ends = [Fault::StopsAndGoes, Fault::Restart];
    if s.fault.is_some_and(|(fault, _)| ends.contains(&fault)) && s.age == Age::Before {
        return Some("over, or still being planted, when the recording begins");
    }
    None
}

/// Whether it can act in a situation.
fn fits(fault: Fault, s: &Situation) -> bool {
    use Fault::*;
    let Some(speaks) = s.speaks() else {
        return false;
    };
    let python = s.server == Server::Python;
    let toggles = matches!(s.server, Server::Python | Server::Node);
    let hairpin = s.topology == Topology::Hairpin;
    let router = matches!(s.topology, Topology::Router | Topology::Nat);
    let own_caller = s.caller == Caller::Python;
    let down = s.shape == Shape::Down || s.shape == Shape::Both;
    let big_answers = down || (s.size >= 4_000 && speaks == Speaks::Http);
    let asks = !s.is_bulk() && s.shape != Shape::Push;
    // What crosses the network by way of a proxy that keeps connections need not open any.
    match fault {
        SynLost | SynAnswerLost | RefusedByBox | UnreachableByBox => s.opens(),
        FirewallFarSyn | FirewallNearSyn => s.opens() && !hairpin,
        FirewallRouterSyn => router && s.opens(),
        FirewallRouter => router,
        AllLost | WayThereLost | WayBackLost => true,
        Loss => !matches!(s.caller, Caller::Psql | Caller::RedisCli | Caller::Curl),
        BigLost => big_answers || s.shape == Shape::Up,
        ShortQueue | LongQueue => s.is_bulk() && !hairpin,
        MtuHole => (big_answers || s.shape == Shape::Up) && !hairpin,
        ResetByBox => asks || s.shape == Shape::Up,
        DeadNeighbour => {
            // The host that asks is the network's neighbour, on a device that has ARP.
            !hairpin && !router && s.shape != Shape::Push
        }
        FirewallFarAll | FirewallNearAll => !hairpin,
        AddressGone => s.topology == Topology::Vip,
        RouteBackGone => !hairpin,
        RpFilter => !hairpin,
        OwnQueue => down && !hairpin && s.network_behind == s.proxies.len() && s.delay_ms == 0.0,
        HairpinBare => hairpin && s.opens(),
        NotAccepting => python && s.opens() && s.topology != Topology::SharedPort,
        Stopped | StopsAndGoes => s.topology != Topology::SharedPort,
        Quota => {
            // Requests enough to want more than the least that a cgroup can be given.
            asks && s.patience.pause_s < 0.05
                && s.threads >= 4
                && matches!(s.server, Server::Node | Server::Python | Server::Postgres)
                && s.topology != Topology::SharedPort
        }
        SlowAnswers => toggles && (asks || s.shape == Shape::Push),
        SlowNowAndThen => toggles && asks,
        SlowGreeting => s.shape == Shape::Greeting,
        RedisScript => s.server == Server::Redis,
        PostgresLock => s.server == Server::Postgres,
        ServerGone | Restart => s.topology != Topology::SharedPort,
        ResetsAnswers => toggles && asks && s.shape != Shape::Multiplexed && speaks != Speaks::Tls,
        ClosesUnread => python && matches!(s.shape, Shape::TwoWrites | Shape::Up),
        FewDescriptors => {
            // So many at once that they want more than are left.
            s.opens() && s.threads >= 4 && s.proxies.is_empty() && toggles
        }
        IdleClose => {
            python
                && own_caller
                && speaks == Speaks::Http
                && s.shape == Shape::Ask
                && s.is_end_to_end()
                && s.patience.pause_s >= 0.4
                && s.delay_ms >= 5.0
        }
        SmallSendBuffer => {
            python
                && s.shape == Shape::Down
                && s.delay_ms >= 5.0
                && s.is_end_to_end()
                && s.size <= SMALL_TRANSFER
        }
        SplitAnswers | Cork => {
            python && s.shape == Shape::Ask && s.is_end_to_end() && speaks == Speaks::Http
        }
        WorkerStuck => s.topology == Topology::SharedPort && s.opens(),
        ProxyStopped => !s.proxies.is_empty(),
        SlowReader => own_caller && s.shape == Shape::Down && s.is_end_to_end(),
        SmallReceiveBuffer => {
            own_caller
                && s.shape == Shape::Down
                && s.is_end_to_end()
                && s.delay_ms >= 5.0
                && s.size <= SMALL_TRANSFER
        }
        NagledRequests => own_caller && s.shape == Shape::TwoWrites,
        FewPorts => own_caller && s.shape == Shape::Greeting && !hairpin,
        SlowNames => {
            own_caller
                && s.opens()
                && s.network_behind == 0
                && !hairpin
                && s.topology != Topology::Nat
                && s.topology != Topology::Router
        }
        Impatient => own_caller && s.opens() && s.delay_ms >= 20.0 && s.network_behind == 0,
    }
}
