"""One HTML file of a fleet: hosts by loss and delay, the findings, what separates. It fetches nothing."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from typing import Any

from . import blame, ends, findings
from .about import of_what, unexplained
from .fleet import Fleet
from .text import shown

# Hosts of the matrix; of more, those with the most loss.
MOST_HOSTS = 400
PATHS = """
SELECT
    host, remote_host,
    SUM(segments_out) AS segments_out,
    SUM(retransmitted) AS retransmitted,
    MIN(min_rtt_us) AS min_rtt_us,
    AVG(rtt_us) AS rtt_us
FROM paths
WHERE remote_host IS NOT NULL
GROUP BY host, remote_host
"""


def page(fleet: Fleet) -> str:
    """The page."""
    template = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    data = json.dumps(matrix(fleet), separators=(",", ":"))
    # Nothing in it may end the element that holds it.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    title, _, lead = of_what(fleet).partition(", begun ")
    left_out = fleet.left_out_lines()
    parts = {
        "TITLE": html.escape(title),
        "LEAD": html.escape(f"begun {lead}"),
        "FINDINGS": _text([*unexplained(fleet), *findings.lines(findings.merged(fleet))]),
        "BLAME": _text([line for q in blame.QUESTIONS for a in blame.ask(fleet, q) for line in [*blame.lines(a), ""]]),
        "ENDS": _text(ends.lines(ends.read(fleet))),
        "LEFT_OUT": _text([*map(shown, fleet.store.conflicts), *left_out] or ["nothing"]),
        "DATA": data,
    }
    for name, part in parts.items():
        template = template.replace(f"<!--{name}-->", part)
    return template


def _text(lines: list[str]) -> str:
    return html.escape("\n".join(lines).rstrip())


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    """By which web2 comes before web10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"([0-9]+)", name)]


def matrix(fleet: Fleet) -> dict[str, Any]:
    """Hosts in order of zone, rack and name, and what is known of each path between them."""
    hosts = fleet.rows("SELECT host, rack, zone, role FROM hosts")
    cells = fleet.rows(PATHS)
    lost: dict[str, float] = {}
    for cell in cells:
        for host in (cell["host"], cell["remote_host"]):
            lost[host] = lost.get(host, 0.0) + float(cell["retransmitted"] or 0)
    worst = sorted(hosts, key=lambda h: (-lost.get(h["host"], 0.0), h["host"]))[:MOST_HOSTS]
    ordered = sorted(worst, key=lambda h: [_in_order(h[k] or "") for k in ("zone", "rack", "host")])
    places = {h["host"]: at for at, h in enumerate(ordered)}
    known = [c for c in cells if c["host"] in places and c["remote_host"] in places]
    return {
        "hosts": [[shown(h[k]) if h[k] is not None else "" for k in ("host", "rack", "zone", "role")] for h in ordered],
        "not_shown": len(hosts) - len(ordered),
        # From, to, segments sent, retransmitted, least and average round trip in µs.
        "cells": [
            [
                places[c["host"]],
                places[c["remote_host"]],
                int(c["segments_out"] or 0),
                int(c["retransmitted"] or 0),
                c["min_rtt_us"],
                None if c["rtt_us"] is None else round(float(c["rtt_us"])),
            ]
            for c in sorted(known, key=lambda c: (places[c["host"]], places[c["remote_host"]]))
        ],
    }
