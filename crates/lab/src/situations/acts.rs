//! How each fault is planted: rules, devices, signals, and what a program does wrong from a moment on. Pure.

use super::fault::Fault;
use super::kinds::PORT;
use super::situation::Situation;

/// On which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Network,
    Near,
    Far,
    Router,
    Client,
}

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Server,
    Worker,
    Proxy,
    Caller,
}

/// One thing that is done to plant a fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// A command of a shell on a host; `{near}` and `{far}` are addresses, `{left}` and `{right}` devices.
    Sh(Where, String),
    /// What a program does wrong from now on, as JSON.
    Switch(Who, String),
    /// `STOP`, `CONT` to all processes of a program.
    Stop(Who),
    Go(Who),
    /// It is killed.
    Kill(Who),
    /// It is started again.
    Start(Who),
    /// A CPU quota for it.
    Quota(Who, f64),
    /// So many descriptors beyond those that it has.
    Descriptors(Who, u64),
    /// A program that disturbs, on the server's host.
    Disturb(&'static str, Vec<String>),
    /// Time passes, s.
    Wait(f64),
    /// From here on all is done again, until the situation ends.
    Again,
}

/// How it is planted.
pub(super) fn acts(fault: Fault, s: &Situation, level: usize) -> Vec<Act> {
    use Fault::*;
    use Where::{Client, Far, Near, Network, Router};
    let pick = |of: [f64; 3]| of[level.min(2)];
    let there = format!("tcp dport {PORT}");
    let back = format!("tcp sport {PORT}");
    let syn = "tcp flags & (syn|ack) == syn";
    let syn_ack = "tcp flags & (syn|ack) == (syn|ack)";
    let some = |share: f64| {
        if share >= 100.0 {
            String::new()
        } else {
            format!("numgen random mod 1000 < {}", (10.0 * share) as u32)
        }
    };
    // On a host of its own, or on the way through it.
    let rule = |hook: &str, rules: &[String]| {
        let mut text = format!(
            "nft add table ip filter2; nft 'add chain ip filter2 {hook} {{ type filter hook {hook} priority 0; }}'"
        );
        for rule in rules {
            text += &format!("; nft 'add rule ip filter2 {hook} {rule}'");
        }
        text
    };
    let on = |at: Where, hook: &str, rules: &[String]| vec![Act::Sh(at, rule(hook, rules))];
    let in_network = |rules: &[String]| on(Network, "forward", rules);
    let shares = pick([40.0, 70.0, 100.0]);
    match fault {
        SynLost => in_network(&[format!("{there} {syn} {} counter drop", some(shares))]),
        SynAnswerLost => in_network(&[format!("{back} {syn_ack} {} counter drop", some(shares))]),
        BigLost => {
            let size = pick([1300.0, 900.0, 600.0]);
            let large = format!("meta length > {size} counter drop");
            in_network(&[format!("{back} {large}"), format!("{there} {large}")])
        }
        AllLost => in_network(&[
            format!("{there} counter drop"),
            format!("{back} counter drop"),
        ]),
        WayThereLost => in_network(&[format!("{there} counter drop")]),
        WayBackLost => in_network(&[format!("{back} counter drop")]),
        Loss => {
            let share = some(pick([2.0, 6.0, 15.0]));
            in_network(&[
                format!("{there} {share} counter drop"),
                format!("{back} {share} counter drop"),
            ])
        }
        ShortQueue => {
            let limit = pick([20_000.0, 12_000.0, 8_000.0]);
            both_devices(&format!("tbf rate 10mbit burst 4000 limit {limit}"))
        }
        LongQueue => {
            let limit = pick([200_000.0, 600_000.0, 1_500_000.0]);
            both_devices(&format!("tbf rate 8mbit burst 4000 limit {limit}"))
        }
        MtuHole => {
            let mtu = pick([1400.0, 1280.0, 1000.0]);
            let mut acts = on(
                Network,
                "output",
                &["icmp type destination-unreachable counter drop".into()],
            );
            acts.push(Act::Sh(
                Network,
                format!("ip link set {{left}} mtu {mtu}; ip link set {{right}} mtu {mtu}"),
            ));
            acts
        }
        ResetByBox => {
            let share = some(pick([5.0, 20.0, 60.0]));
            let data = "tcp flags & (syn|psh) == psh";
            in_network(&[format!(
                "{there} {data} {share} counter reject with tcp reset"
            )])
        }
        RefusedByBox => in_network(&[format!(
            "{there} {syn} {} counter reject with tcp reset",
            some(shares)
        )]),
        UnreachableByBox => {
            let kind = ["host-unreachable", "admin-prohibited", "net-unreachable"][level.min(2)];
            in_network(&[format!(
                "{there} {syn} counter reject with icmp type {kind}"
            )])
        }
        DeadNeighbour => vec![
            Act::Sh(Network, "ip link set {left} arp off".into()),
            Act::Sh(
                Near,
                "ip neigh flush all; ip link set {right} arp off; ip link set {right} arp on; \
                 ip neigh flush all"
                    .into(),
            ),
        ],
        FirewallFarSyn => on(
            Far,
            "input",
            &[format!("{there} {syn} {} counter drop", some(shares))],
        ),
        FirewallFarAll => on(Far, "input", &[format!("{there} counter drop")]),
        FirewallNearSyn => on(
            Near,
            "input",
            &[format!("{back} {syn_ack} {} counter drop", some(shares))],
        ),
        FirewallNearAll => on(Near, "input", &[format!("{back} counter drop")]),
        FirewallRouter => on(
            Router,
            "forward",
            &[
                format!("{there} counter drop"),
                format!("{back} counter drop"),
            ],
        ),
        FirewallRouterSyn => on(
            Router,
            "forward",
            &[format!("{there} {syn} {} counter drop", some(shares))],
        ),
        AddressGone => vec![Act::Sh(Far, "ip addr del 10.9.200.1/32 dev lo".into())],
        RouteBackGone => vec![Act::Sh(Far, "ip route add blackhole {near}/32".into())],
        RpFilter => vec![Act::Sh(
            Far,
            "ip link add other type veth peer name other-end; ip link set other-end up; \
             ip link set other up; ip addr add 10.77.0.1/24 dev other; \
             ip route add {near}/32 via 10.77.0.2; \
             for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $f; done"
                .into(),
        )],
        OwnQueue => {
            let limit = pick([20_000.0, 12_000.0, 8_000.0]);
            vec![Act::Sh(
                Far,
                format!("tc qdisc add dev {{left}} root tbf rate 10mbit burst 4000 limit {limit}"),
            )]
        }
        HairpinBare => vec![Act::Sh(
            Network,
            "nft flush chain ip nat post; conntrack -F 2>/dev/null || true".into(),
        )],
        NotAccepting => vec![Act::Switch(Who::Server, "{\"accept\": false}".into())],
        Stopped => vec![Act::Stop(Who::Server)],
        StopsAndGoes => {
            let rests = pick([2.0, 1.0, 0.5]);
            vec![
                Act::Again,
                Act::Stop(Who::Server),
                Act::Wait(1.0),
                Act::Go(Who::Server),
                Act::Wait(rests),
            ]
        }
        Quota => vec![Act::Quota(Who::Server, pick([0.015, 0.01, 0.01]))],
        SlowAnswers => vec![Act::Switch(
            Who::Server,
            format!("{{\"delay\": {}}}", pick([0.1, 0.4, 1.5])),
        )],
        SlowNowAndThen => {
            vec![Act::Switch(
                Who::Server,
                format!("{{\"delay\": {}, \"every\": 6}}", pick([0.3, 0.8, 2.0])),
            )]
        }
        SlowGreeting => vec![Act::Switch(
            Who::Server,
            format!("{{\"greeting\": {}}}", pick([0.3, 1.0, 3.0])),
        )],
        RedisScript => {
            let rounds = pick([1e7, 3e7, 1e8]) as u64;
            let script = format!("local x = 0 for i = 1, {rounds} do x = x + i end return x");
            let words = [
                "redis-cli",
                "-p",
                "8000",
                "-r",
                "100",
                "-i",
                "0.2",
                "EVAL",
                &script,
                "0",
            ];
            vec![Act::Disturb("batch", words.map(String::from).to_vec())]
        }
        PostgresLock => {
            let query = "BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)";
            let words = [
                "psql",
                "-h",
                "127.0.0.1",
                "-p",
                "8000",
                "-U",
                "postgres",
                "-c",
                query,
            ];
            vec![Act::Disturb("batch", words.map(String::from).to_vec())]
        }
        ServerGone => vec![Act::Kill(Who::Server)],
        Restart => vec![
            Act::Kill(Who::Server),
            Act::Wait(pick([0.7, 1.5, 3.0])),
            Act::Start(Who::Server),
        ],
        ResetsAnswers => vec![Act::Switch(
            Who::Server,
            format!("{{\"reset\": {}}}", pick([10.0, 4.0, 1.0])),
        )],
        ClosesUnread => vec![Act::Switch(
            Who::Server,
            format!("{{\"unread\": {}}}", pick([8.0, 3.0, 1.0])),
        )],
        FewDescriptors => vec![Act::Descriptors(Who::Server, pick([1.0, 1.0, 0.0]) as u64)],
        IdleClose => {
            // Within a round trip of when it is used again.
            vec![Act::Switch(
                Who::Server,
                format!(
                    "{{\"idle\": {}}}",
                    s.patience.pause_s - pick([0.0, 0.03, 0.06])
                ),
            )]
        }
        SmallSendBuffer => {
            let bytes = pick([32_768.0, 16_384.0, 8_192.0]);
            vec![Act::Switch(Who::Server, format!("{{\"sndbuf\": {bytes}}}"))]
        }
        SplitAnswers => vec![Act::Switch(Who::Server, "{\"split\": true}".into())],
        Cork => vec![Act::Switch(Who::Server, "{\"cork\": true}".into())],
        WorkerStuck => vec![Act::Stop(Who::Worker)],
        ProxyStopped => vec![Act::Stop(Who::Proxy)],
        SlowReader => vec![Act::Switch(
            Who::Caller,
            format!("{{\"read_pause\": {}}}", pick([0.02, 0.06, 0.2])),
        )],
        SmallReceiveBuffer => {
            let bytes = pick([16_384.0, 8_192.0, 4_096.0]);
            vec![Act::Switch(Who::Caller, format!("{{\"rcvbuf\": {bytes}}}"))]
        }
        NagledRequests => vec![Act::Switch(Who::Caller, "{\"nagle\": true}".into())],
        FewPorts => {
            let last = pick([42_030.0, 42_012.0, 42_004.0]);
            let file = "/proc/sys/net/ipv4/ip_local_port_range";
            vec![Act::Sh(Client, format!("echo 42000 {last} > {file}"))]
        }
        SlowNames => vec![Act::Switch(
            Who::Caller,
            format!("{{\"resolver\": {}}}", pick([0.2, 0.8, 2.5])),
        )],
        Impatient => {
            let seconds = s.delay_ms / 1e3 * pick([1.9, 1.5, 0.8]);
            vec![Act::Switch(
                Who::Caller,
                format!("{{\"patience\": {seconds}}}"),
            )]
        }
    }
}

/// A queueing discipline on both devices of the network.
fn both_devices(qdisc: &str) -> Vec<Act> {
    let text =
        format!("tc qdisc add dev {{left}} root {qdisc}; tc qdisc add dev {{right}} root {qdisc}");
    vec![Act::Sh(Where::Network, text)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_planted_by_something_that_a_host_understands() {
        for seed in (1..400).filter(|seed| seed % 3 != 0) {
            let s = Situation::compose(seed);
            let (fault, _) = s.fault.unwrap();
            for level in 0..3 {
                let acts = acts(fault, &s, level);
                assert!(!acts.is_empty(), "{fault:?}");
                for act in acts {
                    match act {
                        Act::Switch(_, text) => {
                            serde_json::from_str::<serde_json::Value>(&text).unwrap();
                        }
                        Act::Sh(_, text) => {
                            let known = ["{near}", "{far}", "{left}", "{right}"];
                            let left = known.iter().fold(text, |t, word| t.replace(word, ""));
                            // The braces of nft's chains have a blank behind them.
                            let other = left.match_indices('{');
                            let is_word = |(at, _): (usize, &str)| !left[at..].starts_with("{ ");
                            assert!(!other.into_iter().any(is_word), "{left}");
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}
