"""`ends` against what was planted: where each direction loses, how far clocks are off, who is behind a translation.

`make test-fleet FLEET=case` prints the figures.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from statistics import median

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet

from . import clock, lab

pytestmark = pytest.mark.case
# Where what goes from one host to another is lost: h1's own queue, h2's link both ways, h3's firewall.
SENDER, PATH, RECEIVER, TRANSLATED = "h1", "h2", "h3", "h6"
CLOCKS_S = {"h2": 0.5, "h3": -0.5, "h4": 90.0, "h6": -90.0}


def load(of: lab.Lab, seconds: float) -> list[subprocess.Popen[bytes]]:
    """A mesh, and what overruns h1's queue."""
    push = ["--keep", "--concurrency", "4", "--active", "4", "--request", "30000"]
    pushed = [of.client(SENDER, to, *push, name="push", seconds=seconds) for to in ("h4", "h5")]
    # Of these hardly one is open when sockets are sampled.
    short = of.client(
        TRANSLATED, "h4", "--rate", "20", "--request", "500", "--response", "500", name="short", seconds=seconds
    )
    return [*of.mesh(seconds, "--response", "6000"), *pushed, short]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if why := lab.why_not():
        pytest.fail(why)
    at = tmp_path_factory.mktemp("truth")
    lab.record(at, 12.0, "truth.toml", load, "requests,packets")
    for host, by_s in CLOCKS_S.items():
        clock.shift(at / f"{host}.tcpwhy", by_s)
    with tcpwhy_fleet.open(at) as opened:
        yield opened


def planted(host: str, remote: str) -> set[str]:
    """What may be said of where packets of a direction are lost."""
    places = _dropped(host, remote) | ({"path"} if PATH in (host, remote) else set())
    # What a host drops of the other direction may be acknowledgements of this one.
    return places | ({"back"} if _dropped(remote, host) else set())


def _dropped(host: str, remote: str) -> set[str]:
    return ({"sender"} if host == SENDER else set()) | ({"receiver"} if remote == RECEIVER else set())


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}", end="")


def test_where_it_was_lost(recorded: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    rows = recorded.rows("SELECT * FROM losses WHERE lost_most > 0")
    # Where two places lose, either is right; the counts are of those where one does.
    one = [(row, where.copy().pop()) for row in rows if len(where := planted(row["host"], row["remote_host"])) == 1]
    right = Counter(where for row, where in one if row["lost_at"] == where)
    of = Counter(where for _, where in one)
    for place in of:
        say(capsys, f"lost at {place}: {right[place]} of {of[place]} directions of connections told right")
    none = [row for row in rows if not planted(row["host"], row["remote_host"]) and row["lost_least"]]
    say(capsys, f"nothing planted, and yet lost for sure: {len(none)}")
    assert set(of) == {"sender", "path", "receiver", "back"}
    for place in of:
        assert right[place] >= 0.9 * of[place], [row for row, where in one if where == place]


def test_losses_at_ends_are_counted(recorded: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """What the two kernels dropped lies within, or near, what is told to be lost."""
    for host, column in ((SENDER, "dropped_here"), (RECEIVER, "dropped_there")):
        side = "host" if column == "dropped_here" else "remote_host"
        query = (
            f"SELECT SUM({column}) AS dropped, SUM(lost_least) AS least, SUM(lost_most) AS most FROM losses"
            f" WHERE {side} = ? AND host <> ? AND remote_host <> ?"
        )
        (sums,) = recorded.rows(query, (host, PATH, PATH))
        say(capsys, f"{host}: {column} {sums['dropped']:.0f}, lost {sums['least']:.0f} to {sums['most']:.0f}")
        assert sums["dropped"] > 0


def test_clocks(recorded: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    errors: dict[float, list[float]] = {}
    within = []
    for row in recorded.rows("SELECT * FROM clock_offsets"):
        apart = CLOCKS_S.get(row["host_b"], 0.0) - CLOCKS_S.get(row["host_a"], 0.0)
        errors.setdefault(abs(apart), []).append(abs(row["offset_ns"] / 1e6 - apart * 1e3))
        within.append((row["most_ns"] - row["least_ns"]) / 2e6)
        assert row["least_ns"] <= apart * 1e9 <= row["most_ns"], row
        assert row["consistent"], row
    for apart, of in sorted(errors.items()):
        say(capsys, f"clocks {apart:g} s apart: off by {median(of):.2f} ms, {max(of):.2f} ms at most ({len(of)} pairs)")
    say(capsys, f"interval: ± {median(within):.1f} ms, ± {max(within):.1f} ms at most")
    assert len(within) == 15


def test_through_a_translation(recorded: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """With packets recorded, what was too short to be sampled as well."""
    query = (
        "SELECT congestion IS NOT NULL AS sampled, COUNT(*) AS n, COUNT(p.c_sock) AS found FROM ends AS e"
        " LEFT JOIN pairs AS p ON p.c_rec = e.rec AND p.c_netns = e.netns AND p.c_sock = e.sock"
        " AND p.c_port = e.local_port AND p.c_remote_port = e.remote_port AND p.translated"
        " WHERE e.host = ? AND e.role = 'client' AND e.outcome = 'established' GROUP BY congestion IS NOT NULL"
    )
    told = {row["sampled"]: row for row in recorded.rows(query, (TRANSLATED,))}
    for sampled, row in told.items():
        what = "sampled while they were open" if sampled else "too short to be sampled"
        say(capsys, f"through a translation, {what}: both ends of {row['found']} of {row['n']}")
    wrong = recorded.rows("SELECT COUNT(*) AS n FROM pairs WHERE translated AND c_host <> ?", (TRANSLATED,))[0]["n"]
    say(capsys, f"told to be translated and were not: {wrong}\n")
    assert all(row["found"] >= 0.95 * row["n"] for row in told.values())
    assert set(told) == {True, False}
    assert wrong == 0
