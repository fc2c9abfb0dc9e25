"""Both ends of every connection: which were found, how far clocks are apart, what was lost where, who was slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .fleet import Fleet
from .text import milliseconds, number, plural, shown

SHOWN = 20
SHOWN_SLOW = 10
SHOWN_HOSTS = 6

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
        slow=fleet.rows(f"SELECT * FROM slow_requests ORDER BY total_ms DESC LIMIT {SHOWN_SLOW}"),  # noqa: S608
    )


def lines(of: Ends) -> list[str]:
    """The same for people."""
    both = sum(m["connections"] for m in of.matched)
    by_isn = sum(m["connections"] for m in of.matched if m["matched_by"] == "isn")
    translated = sum(m["connections"] for m in of.matched if m["translated"])
    said = [
        f"{plural(of.established, 'end')} established; both ends of {plural(both, 'connection')}: "
        f"{by_isn:,} by initial sequence numbers, {both - by_isn:,} by addresses, ports and time; "
        f"{translated:,} translated on the way.",
        f"{of.alone:,} ends stay alone, {of.not_recorded:,} of them with a host that was not recorded.",
        "",
        "CLOCKS",
    ]
    said += _clocks(of.clocks)
    said += ["", "LOSSES: what one end sent against what the other received, from what cost most"]
    said += [_loss(row) for row in of.losses[:SHOWN]] or ["nothing was retransmitted between recorded hosts"]
    said += _more(of.losses)
    said += ["", "SLOWEST REQUESTS of which both ends were recorded"]
    said += [_slow(row) for row in of.slow] or ["none: requests were not recorded at both ends (--with requests)"]
    return [*said, ""]


def _more(rows: Sequence[object]) -> list[str]:
    return [f"and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []


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
        said.append(f"{plural(agree, 'pair')} of hosts {agrees}, as far as connections tell (± {milliseconds(widest)})")
    while off:
        counts = Counter(host for row in off for host in (row["host_a"], row["host_b"]))
        host = min(counts, key=lambda name: (-counts[name], name))
        mine = [row for row in off if host in (row["host_a"], row["host_b"])]
        off = [row for row in off if row not in mine]
        said += _clock(host, mine)
    return said[:SHOWN] + _more(said)


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
        names = ", ".join(shown(name) for name in others[:SHOWN_HOSTS]) + (" …" if len(others) > SHOWN_HOSTS else "")
        length = f"{milliseconds(abs(ahead))} ± {milliseconds(within)}"
        said.append(f"{shown(host)} is {length} {way} {names}")
    return said


def _loss(row: dict[str, Any]) -> str:
    sent, retransmitted = int(row["segments_out"]), int(row["retransmitted"])
    least, most = int(row["lost_least"]), int(row["lost_most"])
    here, there = max(int(row["dropped_here"]), int(row["not_left"])), int(row["dropped_there"])
    said = [f"{retransmitted:,} of {sent:,} segments retransmitted"]
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
    if row["came_twice"]:
        said.append(f"at least {int(row['came_twice']):,} retransmitted though they had come")
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


def _slow(row: dict[str, Any]) -> str:
    parts = f"client {number(row['client_ms'])}, wire {number(row['wire_ms'])}, server {number(row['server_ms'])} ms"
    repair = f" (repair {number(row['repair_ms'])} ms)" if row["repair_ms"] else ""
    where = (
        f"{shown(row['client_host'])} → {shown(row['server_host'])} {shown(row['server_addr'])}:{row['server_port']}"
    )
    return f"{where}: {number(row['total_ms'])} ms = {parts}{repair}"
