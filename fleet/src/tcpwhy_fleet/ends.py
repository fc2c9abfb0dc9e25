"""Both ends of every connection: which were found, how far clocks are apart, what was lost where, who was slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .fleet import Fleet
from .text import milliseconds, number, plural, shown

SHOWN = 20

PATH_LOSSES = """
SELECT
    host, remote_host,
    COUNT(*) AS connections,
    SUM(segments_out) AS segments_out,
    SUM(retransmitted) AS retransmitted,
    SUM(not_left) AS not_left,
    MAX(interface_drops) AS interface_drops,
    SUM(lost_least) AS lost_least,
    SUM(lost_most) AS lost_most,
    SUM(came_twice) AS came_twice
FROM losses
GROUP BY host, remote_host
ORDER BY lost_least DESC, retransmitted DESC, host, remote_host
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
        slow=fleet.rows(f"SELECT * FROM slow_requests ORDER BY total_ms DESC LIMIT {SHOWN}"),  # noqa: S608
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
    said += [_clock(row) for row in of.clocks[:SHOWN]] or ["no two hosts have a connection between them"]
    said += _more(of.clocks)
    said += ["", "LOSSES: what one end sent against what the other received"]
    said += [_loss(row) for row in of.losses[:SHOWN]] or ["nothing was retransmitted between recorded hosts"]
    said += _more(of.losses)
    said += ["", "SLOWEST REQUESTS of which both ends were recorded"]
    said += [_slow(row) for row in of.slow] or ["none: requests were not recorded at both ends (--with requests)"]
    return [*said, ""]


def _more(rows: list[dict[str, Any]]) -> list[str]:
    return [f"and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []


def _clock(row: dict[str, Any]) -> str:
    within = milliseconds((row["most_ns"] - row["least_ns"]) / 2)
    said = f"{shown(row['host_b'])} is {milliseconds(row['offset_ns'])} ± {within} ahead of {shown(row['host_a'])}"
    doubt = "" if row["consistent"] else "; the bounds contradict each other: a clock was set meanwhile"
    return f"{said} ({plural(row['connections'], 'connection')}, bounded by {row['bounded_by']}){doubt}"


def _loss(row: dict[str, Any]) -> str:
    sent, retransmitted = int(row["segments_out"]), int(row["retransmitted"])
    least, most = int(row["lost_least"]), int(row["lost_most"])
    left = int(row["not_left"])
    said = [f"{retransmitted:,} of {sent:,} segments retransmitted"]
    said.append(f"{least:,} to {most:,} lost on the way" if least != most else f"{least:,} lost on the way")
    if left:
        said.append(f"{plural(left, 'retransmission')} did not leave the host")
    if row["interface_drops"]:
        said.append(f"its interfaces dropped {int(row['interface_drops']):,} packets as they left")
    elif row["interface_drops"] is not None:
        said.append("its interfaces dropped none")
    if row["came_twice"]:
        said.append(f"at least {int(row['came_twice']):,} retransmitted though they had come")
    return f"{shown(row['host'])} → {shown(row['remote_host'])}: {'; '.join(said)}"


def _slow(row: dict[str, Any]) -> str:
    parts = f"client {number(row['client_ms'])}, wire {number(row['wire_ms'])}, server {number(row['server_ms'])} ms"
    repair = f" (repair {number(row['repair_ms'])} ms)" if row["repair_ms"] else ""
    where = (
        f"{shown(row['client_host'])} → {shown(row['server_host'])} {shown(row['server_addr'])}:{row['server_port']}"
    )
    return f"{where}: {number(row['total_ms'])} ms = {parts}{repair}"
