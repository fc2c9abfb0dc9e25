"""Both ends of every connection: which were found, how far clocks are apart, what was lost where, who was slow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .fleet import Fleet
from .text import joined, milliseconds, number, plural, shown

SHOWN = 12
SHOWN_HOSTS = 8
# From so many ms on a request is told in whole ones.
WHOLE_MS = 100

PATH_LOSSES = """
WITH sums AS (
SELECT
    host, remote_host,
    COUNT(*) AS connections,
    SUM(segments_out) AS segments_out,
    SUM(retransmitted) AS retransmitted,
    SUM(not_left) AS not_left,
    MAX(interface_drops) AS interface_drops,
    SUM(lost_least) AS lost_least,
    SUM(lost_most) AS lost_most,
    SUM(came_twice) AS came_twice,
    SUM(dropped_here) AS dropped_here,
    SUM(dropped_there) AS dropped_there,
    SUM(dropped_back) AS dropped_back,
    SUM(CASE WHEN lost_at = 'sender' THEN 1 ELSE 0 END) AS at_sender,
    SUM(CASE WHEN lost_at = 'receiver' THEN 1 ELSE 0 END) AS at_receiver,
    SUM(CASE WHEN lost_at = 'path' THEN 1 ELSE 0 END) AS at_path,
    SUM(CASE WHEN lost_at = 'back' THEN 1 ELSE 0 END) AS at_back
FROM losses
GROUP BY host, remote_host
)
SELECT * FROM sums
ORDER BY lost_least + dropped_here DESC, retransmitted DESC, host, remote_host
"""
MATCHED = """
SELECT
    matched_by, translated, COUNT(*) AS connections
FROM pairs
GROUP BY matched_by, translated
ORDER BY matched_by, translated
"""
ALONE = """
SELECT
    CASE WHEN e.role = 'server' THEN e.local_addr ELSE e.remote_addr END AS addr,
    SUM(CASE WHEN a.host IS NULL THEN 1 ELSE 0 END) AS not_recorded,
    COUNT(*) AS n
FROM ends AS e
LEFT JOIN addresses AS a ON a.addr = e.remote_addr
LEFT JOIN pairs AS c ON c.c_rec = e.rec AND c.c_netns = e.netns AND c.c_sock = e.sock AND c.c_port = e.local_port
LEFT JOIN pairs AS s ON s.s_rec = e.rec AND s.s_netns = e.netns AND s.s_sock = e.sock
    AND s.s_remote_port = e.remote_port
WHERE e.outcome = 'established' AND c.c_rec IS NULL AND s.s_rec IS NULL
GROUP BY CASE WHEN e.role = 'server' THEN e.local_addr ELSE e.remote_addr END
"""


# Of each service that a host asks, its slowest.
SLOW = """
WITH ranked AS (
SELECT
    *,
    COUNT(*) OVER (PARTITION BY client_host, server_host, server_addr, server_port) AS requests,
    ROW_NUMBER() OVER (
        PARTITION BY client_host, server_host, server_addr, server_port ORDER BY total_ms DESC, began_at_ns
    ) AS n
FROM slow_requests
)
SELECT
    client_host, server_host, server_addr, server_port, client_comm, server_comm, requests, began_at_ns,
    total_ms, client_ms, wire_ms, server_ms, held_back_ms, repair_ms, clock_within_ns
FROM ranked WHERE n = 1
ORDER BY total_ms DESC, client_host, server_host, server_addr, server_port
"""


@dataclass
class Ends:
    """What both ends tell together."""

    established: int
    matched: list[dict[str, Any]]
    alone: int
    not_recorded: int
    clocks: list[dict[str, Any]]
    losses: list[dict[str, Any]]
    slow: list[dict[str, Any]]


def read(fleet: Fleet) -> Ends:
    """Asks for all of it."""
    established = fleet.rows("SELECT COUNT(*) AS n FROM ends WHERE outcome = 'established'")[0]["n"]
    alone = fleet.rows(f"SELECT SUM(n) AS n, SUM(not_recorded) AS not_recorded FROM ({ALONE}) AS alone")[0]  # noqa: S608
    return Ends(
        established=established,
        matched=fleet.rows(MATCHED),
        alone=int(alone["n"] or 0),
        not_recorded=int(alone["not_recorded"] or 0),
        clocks=fleet.rows("SELECT * FROM clock_offsets ORDER BY host_a, host_b"),
        losses=fleet.rows(PATH_LOSSES),
        slow=fleet.rows(f"{SLOW} LIMIT {SHOWN + 1}"),
    )


def lines(of: Ends) -> list[str]:
    """The same for people."""
    both = sum(m["connections"] for m in of.matched)
    by_isn = sum(m["connections"] for m in of.matched if m["matched_by"] == "isn")
    translated = sum(m["connections"] for m in of.matched if m["translated"])
    how = []
    if by_isn:
        how.append(f"{by_isn:,} by initial sequence numbers")
    if both > by_isn:
        how.append(f"{both - by_isn:,} by addresses, ports and time")
    said = [f"both ends of {plural(both, 'connection')} are known{': ' if how else ''}{', '.join(how)}"]
    if translated:
        said[0] += f"; {translated:,} translated on the way"
    if of.alone:
        said.append(_alone(of))
    said += ["", "CLOCKS", *_clocks(of.clocks)]
    said += ["", "LOSSES: what one end sent against what the other received, most lost first"]
    said += [_loss(row) for row in of.losses[:SHOWN]] or ["nothing was retransmitted between recorded hosts"]
    if len(of.losses) > SHOWN:
        said.append(f"and {len(of.losses) - SHOWN:,} more; what they have in common: tcpwhy-fleet blame --of lossy")
    said += ["", "SLOWEST REQUESTS of each client and service, both ends recorded"]
    if of.slow:
        said += ["ms; of the wire, held back by windows and buffers, and repairing losses", *_slow(of.slow[:SHOWN])]
    else:
        said.append("none: requests were not recorded at both ends (--record '--with requests')")
    if len(of.slow) > SHOWN:
        said.append('and more: tcpwhy-fleet sql DIR "SELECT * FROM slow_requests ORDER BY total_ms DESC"')
    return [*said, ""]


def _alone(of: Ends) -> str:
    ends = f"{of.alone:,} of {plural(of.established, 'end')} {'is' if of.alone == 1 else 'are'} alone"
    if of.not_recorded == of.alone:
        return f"{ends}: the other host was not recorded"
    return f"{ends}, {of.not_recorded:,} because the other host was not recorded"


def _clocks(rows: list[dict[str, Any]]) -> list[str]:
    """Clocks that are off for sure, each once with those that it is off from; of the others how many agree."""
    if not rows:
        return ["no two hosts have a connection between them"]
    off = [row for row in rows if not row["consistent"] or not row["least_ns"] <= 0 <= row["most_ns"]]
    agree = len(rows) - len(off)
    said = []
    if agree:
        widest = max(row["most_ns"] - row["least_ns"] for row in rows if row not in off) / 2
        agrees = "agrees" if agree == 1 else "agree"
        said.append(
            f"{plural(agree, 'pair')} of hosts {agrees} within what connections tell (± {milliseconds(widest)})"
        )
    while off:
        counts = Counter(host for row in off for host in (row["host_a"], row["host_b"]))
        host = min(counts, key=lambda name: (-counts[name], name))
        mine = [row for row in off if host in (row["host_a"], row["host_b"])]
        off = [row for row in off if row not in mine]
        said += _clock(host, mine)
    more = [f"and {len(said) - SHOWN:,} more"] if len(said) > SHOWN else []
    return said[:SHOWN] + more


def _clock(host: str, rows: list[dict[str, Any]]) -> list[str]:
    """How far one clock is from others; those that it is equally far from are one line."""
    groups: list[tuple[float, float, list[str]]] = []
    said = []
    for row in sorted(rows, key=lambda r: (r["offset_ns"], r["host_a"], r["host_b"])):
        other, sign = (row["host_a"], 1) if row["host_b"] == host else (row["host_b"], -1)
        if not row["consistent"]:
            said.append(
                f"{shown(host)} and {shown(other)}: the bounds contradict each other: a clock was set meanwhile"
            )
            continue
        ahead, within = sign * row["offset_ns"], (row["most_ns"] - row["least_ns"]) / 2
        for at, (known, around, others) in enumerate(groups):
            if abs(known - ahead) <= min(around, within):
                groups[at] = (known, max(around, within), [*others, other])
                break
        else:
            groups.append((ahead, within, [other]))
    for ahead, within, others in groups:
        way = "ahead of" if ahead > 0 else "behind"
        names = joined([shown(name) for name in sorted(others)], SHOWN_HOSTS)
        length = f"{milliseconds(abs(ahead))} ± {milliseconds(within)}"
        said.append(f"{shown(host)} is {length} {way} {names}")
    return said


def _loss(row: dict[str, Any]) -> str:
    sent, retransmitted = int(row["segments_out"]), int(row["retransmitted"])
    least, most = int(row["lost_least"]), int(row["lost_most"])
    here, there = max(int(row["dropped_here"]), int(row["not_left"])), int(row["dropped_there"])
    spurious = f", {int(row['came_twice']):,} or more spuriously" if row["came_twice"] else ""
    said = [f"{retransmitted / sent:.1%} retransmitted ({retransmitted:,} of {sent:,} segments{spurious})"]
    if most:
        lost = f"{least:,} to {most:,}" if least != most else f"{least:,}"
        said.append(f"{lost} lost after they had left")
    if here:
        said.append(f"{shown(row['host'])} itself dropped {plural(here, 'packet')}")
    if there:
        said.append(f"{shown(row['remote_host'])} itself dropped {plural(there, 'packet')} before TCP had them")
    if row["at_back"] and row["dropped_back"]:
        said.append(
            f"{plural(int(row['dropped_back']), 'packet')} dropped on the way back, acknowledgements among them"
        )
    if row["interface_drops"]:
        said.append(f"its interface dropped {int(row['interface_drops']):,} packets as they left")
    return f"{shown(row['host'])} → {shown(row['remote_host'])}{_where(row)}: {'; '.join(said)}"


def _where(row: dict[str, Any]) -> str:
    """Where most of its connections lose, when that can be told."""
    places = {
        f"at {shown(row['host'])}": row["at_sender"],
        f"at {shown(row['remote_host'])}": row["at_receiver"],
        "on the path": row["at_path"],
        "on the way back": row["at_back"],
    }
    place = max(places, key=lambda name: places[name])
    return f", {place}" if places[place] else ""


def _slow(rows: list[dict[str, Any]]) -> list[str]:
    """A table: the parts that a request took, and which of them were TCP's."""
    heads = ["TOTAL", "CLIENT", "WIRE", "SERVER", "HELD BACK", "REPAIR", "RECORDED"]
    table = [[*heads, ""]]
    for row in rows:
        parts = [row[f"{head.lower().replace(' ', '_')}_ms"] for head in heads[:-1]]
        service = f"{shown(row['server_host'])} {shown(row['server_addr'])}:{row['server_port']}"
        # Of what took long, parts of a millisecond tell nothing.
        cells = [f"{ms:,.0f}" if row["total_ms"] >= WHOLE_MS else number(ms) for ms in parts]
        table.append([*cells, f"{row['requests']:,}", f"{shown(row['client_host'])} → {service}"])
    widths = [max(len(line[at]) for line in table) for at in range(len(heads))]
    return ["  ".join([*map(str.rjust, line, widths), line[-1]]).rstrip() for line in table]
