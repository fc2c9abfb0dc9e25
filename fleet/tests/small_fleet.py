"""A fleet of four hosts in which every view has something to say; what it holds is told line by line.

web1 (clock right) and web2 connect to db (clock 90 s ahead, backlog 5); edge reaches db through a translation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .recordings import MS, Made

WEB1, WEB2, DB, EDGE, OUTSIDE = "10.0.0.1", "10.0.0.2", "10.0.0.9", "192.168.7.4", "10.0.0.7"
PORT = 5432


def connected(
    made: Made, at: float, sock: int, local: tuple[str, int], remote: tuple[str, int], *, took: float, **more: Any
) -> None:
    """The end that connects: SYN_SENT, then established."""
    tuple_ = _tuple(sock, local, remote)
    made.row("event", at, kind="state", state="SYN_SENT", old_state="CLOSE", comm="app", pid=7, cgroup=3, **tuple_)
    made.row("event", at + took, kind="state", state="ESTABLISHED", old_state="SYN_SENT", **tuple_, **more)


def accepted(made: Made, at: float, sock: int, local: tuple[str, int], remote: tuple[str, int], **more: Any) -> None:
    """The end that is accepted."""
    tuple_ = _tuple(sock, local, remote)
    made.row("event", at, kind="state", state="ESTABLISHED", old_state="SYN_RECV", **tuple_, **more)


def closed(
    made: Made, at: float, sock: int, local: tuple[str, int], remote: tuple[str, int], *, first: bool, **more: Any
) -> None:
    """An end that closes, first or last."""
    old = "FIN_WAIT2" if first else "LAST_ACK"
    made.row("event", at, kind="state", state="CLOSE", old_state=old, **_tuple(sock, local, remote), **more)


def sampled(made: Made, at: float, sock: int, local: tuple[str, int], remote: tuple[str, int], **more: Any) -> None:
    """A sample of an end."""
    values = {"state": "ESTABLISHED", "congestion": "cubic", "snd_mss": 1448, "rtt_us": 2000, "min_rtt_us": 1000}
    made.row("socket", at, **_tuple(sock, local, remote), **(values | more))


def _tuple(sock: int, local: tuple[str, int], remote: tuple[str, int]) -> dict[str, Any]:
    return {
        "sock": sock,
        "family": 4,
        "local_addr": local[0],
        "local_port": local[1],
        "remote_addr": remote[0],
        "remote_port": remote[1],
    }


OPTIONS: dict[str, Any] = {"sack": True, "window_scaling": True, "timestamps": True}
BARE: dict[str, Any] = {"sack": False, "window_scaling": False, "timestamps": False}


def make(directory: Path) -> None:
    """Writes the recordings."""
    web1, web2, db, edge = Made("web1"), Made("web2"), Made("db", clock_s=90.0), Made("edge")
    db.row("listener", 0.1, sock=1, family=4, local_addr="0.0.0.0", local_port=PORT, backlog=5, drops=10)
    db.row("listener", 9.1, sock=1, family=4, local_addr="0.0.0.0", local_port=PORT, backlog=5, drops=14,
           accept_queue=6, syn_queue=2, synflood_warned=True)  # fmt: skip
    for made in (web1, web2, edge):
        # They listen as well, so that a port nobody listens at is a client's.
        made.row("listener", 0.1, sock=1, family=4, local_addr="0.0.0.0", local_port=22, backlog=128)
    _with_options(web1, db)
    _from_cookie(web2, db)
    _older(web1, db)
    _translated(edge, db)
    _short(edge, db)
    _refused(web2)
    _backwards(db, web1)
    _requests(web1, db)
    _of_hosts(web1, web2, db, edge)
    _findings(web1, db)
    for made in (web1, web2, db, edge):
        made.manifest["sources"].append(
            {"name": "drop", "gives": "", "intent": "optional", "verdict": {"is": "attached"}, "lost": 0}
        )
        made.write(directory)


def _with_options(web1: Made, db: Made) -> None:
    """A connection with all options that loses: 6 segments retransmitted, 4 lost, one DSACK."""
    ends = (WEB1, 40001), (DB, PORT)
    connected(web1, 1.0, 101, *ends, took=0.002, **OPTIONS, mss=1448, rtt_us=2000)
    accepted(db, 1.0025, 901, ends[1], ends[0], **OPTIONS, cookie=False, mss=1448, rtt_us=2000)
    isn: tuple[dict[str, Any], dict[str, Any]] = {"snd_isn": 1000, "rcv_isn": 5000}, {"snd_isn": 5000, "rcv_isn": 1001}
    sampled(web1, 2.0, 101, *ends, data_segs_out=100, data_segs_in=10, total_retrans=2, unacked=3, bytes_acked=140_000,
            busy_us=500_000, notsent_bytes=9000, **isn[0])  # fmt: skip
    sampled(web1, 4.0, 101, *ends, data_segs_out=206, data_segs_in=20, total_retrans=6, dsack_dups=1, unacked=0,
            bytes_acked=290_000, busy_us=1_000_000, **isn[0])  # fmt: skip
    sampled(db, 2.1, 901, ends[1], ends[0], data_segs_out=11, data_segs_in=99, total_retrans=0, unacked=0, **isn[1])
    sampled(db, 6.0, 901, ends[1], ends[0], data_segs_out=20, data_segs_in=202, total_retrans=0, unacked=0, **isn[1])
    tuple_ = _tuple(101, *ends)
    web1.row("event", 1.5, kind="retransmit", state="ESTABLISHED", retransmits=1, send_error="0", **tuple_)
    web1.row("event", 1.6, kind="retransmit", state="ESTABLISHED", retransmits=2, send_error="NET_XMIT_DROP", **tuple_)
    # Two that its own queueing discipline dropped, one that the firewall of the other did; what TCP dropped had come.
    for at in (1.55, 1.6):
        web1.row("event", at, kind="drop", reason="QDISC_DROP", **_tuple(0, ends[1], ends[0]) | {"sock": None})
    for reason in ("NETFILTER_DROP", "TCP_OLD_DATA"):
        db.row("event", 1.7, kind="drop", reason=reason, **_tuple(901, ends[1], ends[0]))
    closed(web1, 7.0, 101, *ends, first=True, bytes_acked=290_000, bytes_received=9_000, retransmits=6, rtt_us=2100)
    closed(db, 7.0015, 901, ends[1], ends[0], first=False, bytes_acked=9_000, bytes_received=290_000, retransmits=0)


def _from_cookie(web2: Made, db: Made) -> None:
    """A connection that a SYN cookie made, after a SYN was retransmitted: no options; a whole life at the server."""
    ends = (WEB2, 40002), (DB, PORT)
    connected(web2, 2.0, 201, *ends, took=1.003, **BARE, mss=536, rtt_us=3000)
    web2.row("event", 3.0, kind="retransmit", state="SYN_SENT", retransmits=1, attempt=1, **_tuple(201, *ends))
    closed(db, 5.0, 902, ends[1], ends[0], first=True, established_ns=3.004, **BARE, cookie=True, mss=536,
           bytes_acked=700, bytes_received=900)  # fmt: skip
    closed(web2, 5.002, 201, *ends, first=False, bytes_acked=900, bytes_received=700, retransmits=0)


def _older(web1: Made, db: Made) -> None:
    """A connection older than the recordings: sampled only; what was sent before does not count."""
    ends = (WEB1, 33333), (DB, PORT)
    isn: tuple[dict[str, Any], dict[str, Any]] = {"snd_isn": 4294967295, "rcv_isn": 77}, {"snd_isn": 77, "rcv_isn": 0}
    for at, out in ((0.5, 1000), (8.5, 1040)):
        sampled(web1, at, 102, *ends, data_segs_out=out, data_segs_in=out, bytes_acked=out * 100, busy_us=out, **isn[0])
        sampled(db, at, 903, ends[1], ends[0], data_segs_out=out, data_segs_in=out, bytes_acked=out, **isn[1])


def _translated(edge: Made, db: Made) -> None:
    """A connection through a translation: only its initial sequence numbers are the same at both ends."""
    inside, outside = (EDGE, 50000), (OUTSIDE, 61000)
    connected(edge, 4.0, 301, inside, (DB, PORT), took=0.004, **OPTIONS, mss=1448)
    accepted(db, 4.0045, 904, (DB, PORT), outside, **OPTIONS, cookie=False, mss=1448)
    sampled(edge, 5.0, 301, inside, (DB, PORT), data_segs_out=9, data_segs_in=9, snd_isn=1, rcv_isn=2)
    sampled(db, 5.0, 904, (DB, PORT), outside, data_segs_out=9, data_segs_in=9, snd_isn=2, rcv_isn=2)


def _short(edge: Made, db: Made) -> None:
    """A connection through the translation that nobody sampled: its SYN and SYN-ACK were seen at both ends."""
    inside, outside, to = (EDGE, 50001), (OUTSIDE, 61001), (DB, PORT)
    connected(edge, 6.0, 302, inside, to, took=0.004)
    accepted(db, 6.0045, 906, to, outside, cookie=False)
    for made, source in ((edge, inside), (db, outside)):
        for at, (src, dst), flags, seq in ((6.0, (source, to), 2, 4294967295), (6.001, (to, source), 18, 700)):
            made.row("packet", at, family=4, src_addr=src[0], src_port=src[1], dst_addr=dst[0], dst_port=dst[1],
                     flags=flags, seq=seq, outgoing=(made is edge) == (flags == 2))  # fmt: skip


def _refused(web2: Made) -> None:
    """A connect that nobody listens for."""
    ends = (WEB2, 40009), (WEB1, 81)
    tuple_ = _tuple(209, *ends)
    web2.row("event", 6.0, kind="state", state="SYN_SENT", old_state="CLOSE", comm="probe", pid=8, cgroup=3, **tuple_)
    web2.row("event", 6.001, kind="state", state="CLOSE", old_state="SYN_SENT", error="ECONNREFUSED", **tuple_)


def _backwards(db: Made, web1: Made) -> None:
    """The database connects to a web server: that bounds the clocks from the other side."""
    ends = (DB, 42000), (WEB1, 22)
    connected(db, 3.0, 905, *ends, took=0.002, **OPTIONS, mss=1448)
    accepted(web1, 3.0025, 103, ends[1], ends[0], **OPTIONS, cookie=False, mss=1448)


def _requests(web1: Made, db: Made) -> None:
    """Ten exchanges in a second, one of them slow and told from both ends."""
    to = {"role": "client", "addr": DB, "port": PORT}
    at = {"role": "server", "addr": DB, "port": PORT}
    web1.row("request", 2.0, exchanges=10, await_ns=90 * MS, think_ns=10 * MS, repair_ns=5 * MS, one_in=1, **to)
    db.row("request", 2.0, exchanges=10, think_ns=60 * MS, unread_ns=2 * MS, one_in=1, **at)
    for made, who in ((web1, to), (db, at)):
        made.row("request_time", 2.0, what="response", at_least_ns=0, below_ns=8 * MS, count=9, **who)
        made.row("request_time", 2.0, what="response", at_least_ns=8 * MS, below_ns=64 * MS, count=1, **who)
    ends = (WEB1, 40001), (DB, PORT)
    web1.row("exchange", 1.16, began_ns=1.1, role="client", comm="app", pid=7, tid=7, await_ns=46 * MS,
             send_ns=4 * MS, unheard_ns=5 * MS, think_ns=5 * MS, **_tuple(101, *ends))  # fmt: skip
    db.row("exchange", 1.15, began_ns=1.107, role="server", comm="postgres", pid=9, tid=9, think_ns=40 * MS,
           unread_ns=3 * MS, repair_ns=4 * MS, **_tuple(901, ends[1], ends[0]))  # fmt: skip


def _of_hosts(*hosts: Made) -> None:
    """Counters, settings, interfaces, cgroups and labels."""
    for made, interface, addr in zip(hosts, ("eth0", "eth0", "bond0", "lan"), (WEB1, WEB2, DB, EDGE), strict=True):
        made.row("interface_address", 0.1, interface=interface, addr=addr)
        made.row("interface_address", 0.1, interface="lo", addr="127.0.0.1")
    # An address that two interfaces have is of neither.
    hosts[2].row("interface_address", 0.1, interface="eth7", addr="10.0.0.77")
    hosts[2].row("interface_address", 0.1, interface="eth8", addr="10.0.0.77")
    for made in hosts[:2]:
        made.row("cgroup", 0.1, cgroup=1, path="/")
        made.row("cgroup", 0.1, cgroup=3, path="/system.slice/app.service")
    for n, made in enumerate(hosts):
        made.row("counter", 0.1, group="TcpExt", name="ListenDrops", value=10)
        made.row("counter", 5.0, group="TcpExt", name="ListenDrops", value=10 + n, delta=n)
        made.row("setting", 0.1, name="net.ipv4.tcp_syncookies", value="1")
        made.row("setting", 5.0, name="net.ipv4.tcp_syncookies", value="2" if n else "1")
        for instance, rise in (("eth0", 3.0 + n), ("dummy0", 100.0)):
            for at, dropped in ((0.1, 5.0), (9.0, 5.0 + rise)):
                made.row("resource", at, resource="network", instance=instance, aspect="saturation",
                         metric="tx_dropped", value=dropped, unit="count", cumulative=True)  # fmt: skip
        made.manifest["labels"] = [f"rack=r{n % 2}", "zone=z1", "spare"]


def _findings(web1: Made, db: Made) -> None:
    """One fault told by both of its ends, one that only the database tells of, in two episodes."""
    said = {"layer": "this-host", "confidence": "high", "counted": "connections", "fix": "raise it", "role": "listener"}
    db.row("finding", 2.0, finding=1, cause="accept-queue-overflow", title="full", listener=f"0.0.0.0:{PORT}",
           affected=5, of=10, lost_ns=4_000_000_000, comm="postgres", backlog=5, says="5 of 10", **said)  # fmt: skip
    db.row("finding", 0.0, finding=2, cause="cpu-contention", title="busy", resource="CPU 1", affected=1, of=1, **said)
    db.row("episode", 1.0, finding=1, ended_ns=2.5)
    db.row("episode", 4.0, finding=1, ended_ns=4.5)
    db.row("answer", 0.0, cause="accept-queue-overflow", answer="found")
    web1.row("finding", 2.0, finding=1, cause="accept-queue-overflow", title="slow", listener=f"{DB}:{PORT}",
             affected=3, of=9, lost_ns=5_500_000_000, says="3 of 9", **said | {"role": "client"})  # fmt: skip
    web1.row("answer", 0.0, cause="accept-queue-overflow", answer="found")
