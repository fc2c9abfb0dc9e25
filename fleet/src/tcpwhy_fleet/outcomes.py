"""Which paths, connections and connects are bad: what `blame` separates. Counted in the engine, by what they share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .engine import Value
from .fleet import Fleet
from .statistics import at_least, valley
from .text import number, plural, shown

# Groups of connections that share all that is asked about; more are not looked at, the smallest first.
MOST_GROUPS = 200_000
# A path is lossy when it retransmits more than this for sure (Poisson), beyond what is usual. What the other end
# reported to have had (DSACK) does not count: acknowledgements of a busy host come late, and nothing was lost.
LOSSY = 0.005
LEAST_SEGMENTS = 100
# Steps of the histogram of throughput for each doubling; two modes are at least a factor of 3 apart. That few gaps
# are chance is not asked: nothing is claimed but what separates them, and that is held against chance. Nearer ones,
# a factor of 2 apart, are two where the gap is no chance: samples of one mode have such a one in less than one of 100.
STEPS = 3
APART = 5
NEAR = 3
MOST_PROGRAMS = 5
LEAST_CONNECTIONS = 20
# A connect that took this long had something retransmitted, or waited as long, ms.
SLOW_CONNECT_MS = 900


@dataclass
class Items:
    """What is asked about, by groups that share all attributes: `n` of each, `bad` of them bad."""

    what: str
    says: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(row["n"] for row in self.rows)

    @property
    def total_bad(self) -> int:
        return sum(row["bad"] for row in self.rows)


CONNECTION = (
    "client_host",
    "server_host",
    "server_addr",
    "server_port",
    "cookie",
    "sack",
    "window_scaling",
    "timestamps",
    "backlog",
    "congestion",
    "comm",
    "client_cgroup",
    "server_cgroup",
    "client_interface",
    "server_interface",
)


def lossy_paths(fleet: Fleet) -> list[Items]:
    """Paths by whether they lose."""
    rows = fleet.rows(
        "SELECT host, local_addr, remote_addr, remote_host, interface, remote_interface, segments_out,"
        " retransmitted - COALESCE(spurious, 0) AS needed FROM paths"
        " WHERE segments_out >= ? ORDER BY host, local_addr, remote_addr LIMIT ?",
        (LEAST_SEGMENTS, MOST_GROUPS),
    )
    for row in rows:
        share = at_least(max(0.0, float(row["needed"]))) / float(row["segments_out"])
        row |= {"n": 1, "bad": int(share > LOSSY)}
    items = Items("lossy paths", "", rows)
    counted = plural(items.total, "path")
    items.says = f"{items.total_bad:,} of {counted} lose more than {LOSSY:.1%} of their segments"
    if not rows:
        items.says = f"no path sent {LEAST_SEGMENTS} segments"
    return [items]


def slow_connections(fleet: Fleet) -> list[Items]:
    """Connections by throughput, where that of a program's connections to one port has two modes.

    Programs are not held against each other: one asks for little, another for much.
    """
    steps = fleet.rows(
        "SELECT program, server_port, step, COUNT(*) AS n FROM (SELECT COALESCE(comm, '') AS program, server_port,"
        " CAST(FLOOR(LN(send_rate) / LN(2) * ?) AS BIGINT) AS step FROM connections WHERE send_rate > 0) AS steps"
        " GROUP BY program, server_port, step ORDER BY program, server_port, step",
        (STEPS,),
    )
    histograms: dict[tuple[str, int], dict[int, int]] = {}
    for row in steps:
        histograms.setdefault((row["program"], row["server_port"]), {})[row["step"]] = row["n"]
    told = sum(sum(h.values()) for h in histograms.values())
    if not told:
        return [Items("slow connections", "of no connection was the throughput set by TCP, and not by its application")]
    # Of few, gaps are chance.
    many = {of: h for of, h in histograms.items() if sum(h.values()) >= LEAST_CONNECTIONS}
    rates = {of: rate for of, h in many.items() if (rate := _between_modes(h)) is not None}
    largest = sorted(rates, key=lambda of: (-sum(histograms[of].values()), of))[:MOST_PROGRAMS]
    if not largest:
        said = f"the throughput of {plural(told, 'connection')} has one mode, or they are too few of each program"
        return [Items("slow connections", said)]
    return [_slow_of(fleet, of, rates[of]) for of in largest]


def _slow_of(fleet: Fleet, of: tuple[str, int], rate: float) -> Items:
    """The connections of a program to a port, by whether they are below a rate."""
    which = "COALESCE(comm, '') = ? AND server_port = ? AND send_rate > 0"
    is_slow = "CASE WHEN send_rate < ? THEN 1 ELSE 0 END"
    items = Items("slow connections", "", _groups(fleet, which, is_slow, (rate, *of)))
    items.says = (
        f"the throughput of {plural(items.total, 'connection')} of {shown(of[0] or 'unknown programs')} to port {of[1]}"
        f" has two modes; {items.total_bad:,} are below {number(rate / 125e3)} Mbit/s"
    )
    return items


def _between_modes(steps: dict[int, int]) -> float | None:
    """The rate between two modes; none where there is one mode."""
    first, last = min(steps), max(steps)
    at = valley([steps.get(step, 0) for step in range(first, last + 1)], APART, NEAR)
    return None if at is None else math.exp2((first + at) / STEPS)


def slow_connects(fleet: Fleet) -> list[Items]:
    """Connects by whether they waited, or failed."""
    bad = "CASE WHEN syn_retransmits > 0 OR handshake_ms >= ? OR outcome IN ('refused', 'failed') THEN 1 ELSE 0 END"
    known = "seen_by IN ('both', 'client') AND (handshake_ms IS NOT NULL OR outcome <> 'established')"
    rows = _groups(fleet, known, bad, (SLOW_CONNECT_MS,))
    items = Items("slow or failed connects", "no connect was recorded", rows)
    if rows:
        items.says = (
            f"{items.total_bad:,} of {plural(items.total, 'connect')} failed,"
            f" had a SYN retransmitted, or took {SLOW_CONNECT_MS} ms and more"
        )
    return [items]


def _groups(fleet: Fleet, which: str, bad: str, values: tuple[Value, ...]) -> list[dict[str, Any]]:
    """Connections by what they share; only words of ours are in the query."""
    columns = ", ".join(CONNECTION)
    query = (
        f"SELECT {columns}, COUNT(*) AS n, CAST(SUM({bad}) AS BIGINT) AS bad FROM connections"  # noqa: S608
        f" WHERE {which} GROUP BY {columns} ORDER BY COUNT(*) DESC, {columns} LIMIT {MOST_GROUPS}"
    )
    return fleet.rows(query, values)
