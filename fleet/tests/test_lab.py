"""End to end: eight hosts, each with its own recorder; one faulty uplink, one short backlog, one translation."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet, blame, ends, findings, report

from . import lab
from .reach import Collected

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def recorded(collected: Collected) -> Iterator[Fleet]:
    with tcpwhy_fleet.open(collected.at) as opened:
        yield opened


def test_collect_says_who_came_and_whose_clock_is_off(collected: Collected) -> None:
    said = collected.said
    assert "8 hosts reached" in said
    clocks = [line for line in said.splitlines() if "its clock is" in line]
    assert len(clocks) == 1, said
    assert re.match(r"h2: its clock is 180 s ± [0-9.]+ ms ahead of the one here", clocks[0]), said
    # By the clock here: how far starts lie apart is what recorders take to attach.
    begin = re.search(r"they begin within ([0-9.,]+ m?s); ([0-9.]+) s are in all of them", said)
    assert begin, said
    assert float(begin[2]) > 5, said
    assert "8 recordings of 8 hosts" in said
    assert "explained 8 recordings" in said


def test_every_host_is_there(recorded: Fleet) -> None:
    rows = recorded.rows("SELECT host, rack, role FROM hosts WHERE host IN ('h4', 'h5') ORDER BY host")
    assert [tuple(row.values()) for row in rows] == [("h4", "r1", "mesh"), ("h5", "r2", "pool")]
    assert not recorded.store.left_out
    assert [row["host"] for row in recorded.rows("SELECT host FROM hosts ORDER BY host")] == lab.HOSTS


def test_both_ends_of_nearly_every_connection(recorded: Fleet) -> None:
    found = ends.read(recorded)
    both = sum(m["connections"] for m in found.matched)
    assert both * 2 >= 0.95 * found.established
    # What h8 opens is translated on its way, and found all the same.
    rows = recorded.rows("SELECT DISTINCT c_host, matched_by FROM pairs WHERE translated")
    assert rows == [{"c_host": "h8", "matched_by": "isn"}]
    seven = recorded.rows("SELECT COUNT(DISTINCT s_host) AS n FROM pairs WHERE c_host = 'h8'")
    assert seven == [{"n": 7}]


def test_clocks_are_bounded_and_right(recorded: Fleet) -> None:
    rows = recorded.rows("SELECT * FROM clock_offsets")
    assert len(rows) == 28
    for row in rows:
        truth = 180 * 10**9 * ((row["host_b"] == "h2") - (row["host_a"] == "h2"))
        assert row["least_ns"] <= truth <= row["most_ns"], row
        # No wider than the round trips of this lab.
        assert row["most_ns"] - row["least_ns"] < 250e6, row


def test_what_is_lost_is_lost_on_h3s_paths(recorded: Fleet) -> None:
    rows = recorded.rows("SELECT host, remote_host, SUM(lost_least) AS least, SUM(lost_most) AS most FROM losses"
                         " GROUP BY host, remote_host")  # fmt: skip
    of_h3 = [row for row in rows if "h3" in (row["host"], row["remote_host"])]
    assert sum(row["most"] for row in of_h3) > 50
    assert sum(row["least"] for row in of_h3) > 0
    assert all(row["least"] <= row["most"] for row in rows)


def test_one_uplink_is_blamed_for_all_lossy_paths(recorded: Fleet) -> None:
    (answer,) = blame.ask(recorded, "lossy")
    assert answer.bad >= 12
    first = answer.separate[0].best
    assert (first.attribute, first.value) == ("host at an end", "h3")
    assert first.precision >= 0.8
    # Bursts overflow the queues to h5 and h6; no other path loses, however late acknowledgements come.
    assert [path for path in answer.left_paths if not path.endswith(("→ h5", "→ h6"))] == []


def test_slow_connections_are_those_of_syn_cookies_at_h5(recorded: Fleet) -> None:
    answer = next(a for a in blame.ask(recorded, "slow") if "of pool to" in a.says)
    said = "\n".join(blame.lines(answer))
    assert answer.separate, said
    one = answer.separate[0]
    names = {(s.attribute, s.value) for s in [one.best, *one.same, *one.also]}
    assert {("made from a SYN cookie", "yes"), ("SACK", "no"), ("window scaling", "no")} <= names, said
    assert ("backlog of the listener", "5") in names, said
    assert one.best.recall > 0.8, said


def test_the_fault_at_h5_is_told_once(recorded: Fleet) -> None:
    found = {f.cause: f for f in findings.merged(recorded)}
    assert [place.host for place in found["syn-cookie-options-lost"].places] == ["h5"]
    # Its clients, for whom it may as well be a box on the path, tell of the same.
    assert "middlebox-strips-options" not in found


def test_the_report_of_it(recorded: Fleet) -> None:
    page = report.page(recorded)
    assert "h3 at one end" in page
    assert "syn-cookie-options-lost" in page


def test_the_report_draws(recorded: Fleet, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("there is no chromium")
    path = tmp_path / "report.html"
    path.write_text(report.page(recorded))
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=1000", "--dump-dom", path.as_uri()]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    drawn = drawn.split("<script")[0]
    worst = drawn.split('id="worst">')[1].split("</tbody>")[0]
    # Loss on h3's paths, both ways; and both pictures have got their size and their scale.
    assert sum("h3" in row for row in worst.split("<tr>")) >= 8, worst
    assert drawn.count('style="width: ') == 2
    assert drawn.count("linear-gradient") == 2
