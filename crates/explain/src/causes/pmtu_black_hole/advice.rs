//! What to do about a black hole: smaller segments, or the ICMP errors that report it.

use std::net::IpAddr;

use super::BlackHole;
use crate::vocabulary::*;

pub(super) fn of(hole: &BlackHole, netns: &Netns) -> Vec<Advice> {
    let settings = &hole.path.story.settings;
    let probing = settings.number(hole.path.netns, sysctl::TCP_MTU_PROBING) == Some(0);
    let probing = probing.then(|| {
        let risk = "Each new connection first hangs for some timeouts (tcp_retries1, about 3 s); one to a peer that \
                    is merely slow may continue with small segments.";
        let effect = "A connection that hangs tries segments of tcp_base_mss (1,024 bytes) and continues with a size \
                      that passes.";
        set_sysctl(netns, sysctl::TCP_MTU_PROBING, 1, risk, effect.into())
    });
    let (to, (mtu, mss)) = (hole.path.to, hole.safe);
    let let_icmp_pass = Advice::to(
        "Let ICMP \"fragmentation needed\" (IPv6: \"packet too big\") pass every firewall between the \
         narrow link and this host.",
    )
    .by(command_in(netns, shell!("tracepath -n {to}", to)))
    .at(
        "firewalls and load balancers on the path; the command shows how far large packets get",
    )
    .risk("Forged ICMP can lower the MTU of a path, though TCP checks it against the data in flight.")
    .effect("Senders learn the size that fits from the first packet that is too large.");
    let lower_mtu = Advice::to(format!("Or lower the MTU of the route to {to} to {mtu}."))
        .by_route(netns, to, shell!("mtu {mtu} advmss {mss}", mtu, mss))
        .risk(
            "All traffic to it uses smaller packets, UDP too; the peer needs the same for its own packets.",
        )
        .effect("Hanging connections resume with their next timeout.");
    [clamp(hole, netns), let_icmp_pass]
        .into_iter()
        .chain(probing)
        .chain([lower_mtu])
        .collect()
}

fn clamp(hole: &BlackHole, netns: &Netns) -> Advice {
    let (to, (mtu, mss)) = (hole.path.to, hole.safe);
    let family = match to.ip() {
        IpAddr::V4(_) => "ip",
        IpAddr::V6(_) => "ip6",
    };
    let rules = shell!(
        "nft 'add table inet mss; \
         add chain inet mss pre {{ type filter hook prerouting priority mangle; }}; \
         add chain inet mss out {{ type filter hook output priority mangle; }}; \
         add rule inet mss pre {family} saddr {to} tcp flags syn tcp option maxseg size set {mss}; \
         add rule inet mss out {family} daddr {to} tcp flags syn tcp option maxseg size set {mss}'",
        family,
        to,
        mss
    );
    Advice::to(format!(
        "Clamp the MSS of connections with {to} to {mss} bytes, here or, better, on the router before \
         the narrow link (there `size set rt mtu` in the forward chain)."
    ))
    .by(command_in(netns, rules))
    .undo(command_in(netns, shell!("nft delete table inet mss")))
    .at(format!("{}, or a router on the path", namespace(netns)))
    .risk(format!(
        "More and smaller packets: {} bytes instead of {}. Open connections are not changed; UDP is not helped.",
        Quantity::count(mss),
        hole.mss()
    ))
    .effect(format!(
        "Packets have at most {} bytes, which every IPv6 link must carry.",
        Quantity::count(mtu)
    ))
    .change(Change::ClampMss {
        netns: hole.path.netns,
        to: to.to_string(),
        mss,
    })
}
