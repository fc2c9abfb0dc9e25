"""What there is to ask: how many hosts and seconds, who lost records, and what nobody has explained."""

from __future__ import annotations

from datetime import UTC, datetime

from .fleet import Fleet
from .text import joined, plural, shown

MOST_NAMED = 5


def of_what(fleet: Fleet) -> str:
    """How much there is to ask and of when, and who lost records of it."""
    (about,) = fleet.rows(
        "SELECT COUNT(*) AS recordings, COUNT(DISTINCT host) AS hosts, MAX(seconds) AS seconds,"
        " MIN(started_at_ns) AS first_ns, MAX(started_at_ns) AS last_ns FROM recordings"
    )
    if not about["hosts"]:
        raise ValueError("there is no recording to ask")
    said = (
        f"{plural(about['hosts'], 'host')}, {plural(about['recordings'], 'recording')}"
        f" of up to {about['seconds']:.1f} s, begun {_between(about['first_ns'], about['last_ns'])} UTC"
    )
    lossy = fleet.rows("SELECT host, lost_records AS n FROM hosts WHERE lost_records > 0 ORDER BY 2 DESC, 1")
    if lossy:
        names = joined([f"{shown(row['host'])} {int(row['n']):,}" for row in lossy], MOST_NAMED)
        said += f"; records lost while recording: {names}"
    cut = fleet.rows("SELECT path FROM recordings WHERE NOT complete ORDER BY path")
    if cut:
        names = joined([shown(row["path"]) for row in cut], MOST_NAMED)
        said += f"; cut short, and read as far as they go: {names}"
    return said


def _between(first_ns: int, last_ns: int) -> str:
    """A moment, or two of which the second has a day of its own only where that is another."""
    first, last = (datetime.fromtimestamp(ns // 10**9, UTC) for ns in (first_ns, last_ns))
    said = f"{first:%Y-%m-%d %H:%M:%S}"
    if first == last:
        return said
    return f"{said} to {last:{'%H:%M:%S' if first.date() == last.date() else '%Y-%m-%d %H:%M:%S'}}"


def unexplained(fleet: Fleet) -> list[str]:
    """Which recordings have no findings because nobody asked."""
    rows = fleet.rows("SELECT path FROM recordings WHERE NOT explained ORDER BY path")
    if not rows:
        return []
    names = joined([shown(row["path"]) for row in rows], MOST_NAMED)
    return [f"not explained yet: {names}; `tcpwhy-fleet explain {shown(fleet.store.source)}` does it"]
