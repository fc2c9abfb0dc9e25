"""What the verbs print of the small fleet: each fault once, clocks with their interval, answers in every form."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet, ends, findings, report
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.views import views

from . import small_fleet
from .recordings import Made, S

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
QUERY = "SELECT host, kernel FROM hosts ORDER BY host"


def test_a_fault_that_both_ends_tell_is_one(fleet: Fleet) -> None:
    found = findings.merged(fleet)
    assert [(f.cause, len(f.places), f.lost_s) for f in found] == [
        ("accept-queue-overflow", 1, 5.5),
        ("cpu-contention", 1, None),
    ]
    place = found[0].places[0]
    assert (place.host, place.told_by, place.seen_at_both, place.title) == ("db", 2, True, "full")
    said = "\n".join(findings.lines(found))
    assert "1. accept-queue-overflow: 5.5 s lost, high confidence" in said
    assert "told by both ends (2 hosts), counted once" in said
    assert "2. cpu-contention: cost unknown, " in said


def test_what_others_see_from_outside_is_told_by_the_name_that_the_host_gives(tmp_path: Path) -> None:
    said = {"layer": "network", "confidence": "low", "counted": "connections", "affected": 3, "of": 9, "role": "client"}
    for n in range(3):
        client = Made(f"client{n}")
        client.row("finding", 1, finding=1, cause="middlebox-strips-options", listener="10.0.0.9:80", lost_ns=S, **said)
        client.write(tmp_path)
    server = Made("server")
    server.row("listener", 0.1, sock=1, family=4, local_addr="10.0.0.9", local_port=80, backlog=5)
    server.row("finding", 1, finding=1, cause="syn-cookie-options-lost", listener="0.0.0.0:80", **said)
    server.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        found = findings.merged(fleet)
    assert [(f.cause, f.lost_s) for f in found] == [("syn-cookie-options-lost", 3.0)]
    assert found[0].places[0].from_outside == {"middlebox-strips-options": 3}


def test_forty_hosts_are_forty_places_of_one(tmp_path: Path) -> None:
    said = {"layer": "this-host", "confidence": "high", "counted": "waits", "role": "listener", "title": "waits"}
    for n in range(40):
        made = Made(f"h{n:02}")
        made.row("finding", 1, finding=1, cause="cpu-contention", resource="CPU 1", lost_ns=S * (n + 1), **said)
        made.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        found = findings.merged(fleet)
    assert [(f.cause, len(f.places), f.lost_s) for f in found] == [("cpu-contention", 40, 820.0)]
    assert "at 40 places on 40 hosts" in "\n".join(findings.lines(found))


def test_ends_tell_clocks_and_losses(fleet: Fleet) -> None:
    said = "\n".join(ends.lines(ends.read(fleet)))
    assert "both ends of 6 connections are known: 4 by initial sequence numbers, 2 by addresses, ports and time" in said
    assert "2 translated on the way" in said
    assert "db is 90.0 s ± 2 ms ahead of edge, web1 and web2" in said
    assert "web1 → db, at web1: 2.9% retransmitted (6 of 206 segments); 2 to 6 lost after they had left" in said
    assert "web1 itself dropped 2 packets; db itself dropped 1 packet before TCP had them" in said
    # What windows held back is TCP's and not the program's.
    assert "TOTAL  CLIENT  WIRE  SERVER  HELD BACK  REPAIR  RECORDED" in said
    assert " 60.0       5  12.0    43.0          4       5         1  web1 → db 10.0.0.9:5432" in said


def test_clocks_that_are_right_within_the_interval(fleet: Fleet) -> None:
    """The database's is 90 s ahead, all others are right: each interval holds the truth."""
    truth = {"db": 90 * S}
    rows = fleet.rows("SELECT * FROM clock_offsets")
    assert len(rows) == 3
    for row in rows:
        apart = truth.get(row["host_b"], 0) - truth.get(row["host_a"], 0)
        assert row["least_ns"] <= apart <= row["most_ns"], row
        assert row["consistent"]


def test_a_reset_bounds_no_clock(tmp_path: Path) -> None:
    """The server resets what the client has half closed: the client is closed after it, by clocks that are right."""
    client, server = Made("client"), Made("server")
    ends_ = ("10.0.0.1", 40000), ("10.0.0.2", 80)
    small_fleet.connected(client, 1.0, 1, *ends_, took=0.002)
    small_fleet.accepted(server, 1.003, 2, ends_[1], ends_[0])
    tuple_ = {"local_addr": "10.0.0.1", "local_port": 40000, "remote_addr": "10.0.0.2", "remote_port": 80}
    client.row("event", 2.5, kind="state", state="CLOSE", old_state="FIN_WAIT1", sock=1, error="ECONNRESET", **tuple_)
    other = {"local_addr": "10.0.0.2", "local_port": 80, "remote_addr": "10.0.0.1", "remote_port": 40000}
    server.row("event", 2.0, kind="state", state="CLOSE", old_state="CLOSE_WAIT", sock=2, **other)
    for made in (client, server):
        made.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (row,) = fleet.rows("SELECT * FROM clock_offsets")
    assert row["least_ns"] <= 0 <= row["most_ns"]
    assert (row["bounded_by"], row["consistent"]) == ("round trip", True)


def test_an_ack_of_a_handshake_that_was_lost_bounds_no_clock(tmp_path: Path) -> None:
    """The server is established by the first data, 700 ms later: connections the other way tell that it is no clock."""
    one, other = Made("one"), Made("two")
    small_fleet.connected(one, 1.0, 1, ("10.0.0.1", 40000), ("10.0.0.2", 80), took=0.02)
    small_fleet.accepted(other, 1.73, 2, ("10.0.0.2", 80), ("10.0.0.1", 40000))
    small_fleet.connected(other, 2.0, 3, ("10.0.0.2", 40001), ("10.0.0.1", 80), took=0.02)
    small_fleet.accepted(one, 2.03, 4, ("10.0.0.1", 80), ("10.0.0.2", 40001))
    for made in (one, other):
        made.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (row,) = fleet.rows("SELECT * FROM clock_offsets")
    assert (row["least_ns"], row["most_ns"]) == (-10_000_000, 710_000_000)
    assert (row["bounded_by"], row["consistent"]) == ("both directions", True)


@pytest.mark.parametrize("form", ["csv", "json", "table", "parquet"])
def test_sql_in_every_form(form: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "answer"
    arguments = ["sql", str(small), QUERY, "--format", form]
    if form == "parquet":
        assert main([*arguments, "-o", str(file)]) == 0
        names = pq.read_table(file).column("host").to_pylist()
    else:
        assert main(arguments) == 0
        out = capsys.readouterr().out
        if form == "csv":
            names = [row["host"] for row in csv.DictReader(io.StringIO(out))]
        elif form == "json":
            names = [json.loads(line)["host"] for line in out.splitlines()]
        else:
            names = [line.split()[0] for line in out.splitlines()[1:]]
    assert names == ["db", "edge", "web1", "web2"]


def test_a_wrong_query_is_an_error_in_one_piece(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", str(small), "SELECT nothing FROM hosts"]) == 1
    assert "nothing" in capsys.readouterr().err


def test_verbs_print_json(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb, kinds in (
        ("findings", {"finding"}),
        ("blame", {"blame"}),
        ("ends", {"matched", "clocks", "losses", "slow"}),
    ):
        assert main([verb, str(small), "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {line["type"] for line in lines} == kinds


def test_what_nobody_has_explained_is_said(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", str(small)]) == 0
    assert "not explained yet: edge.tcpwhy and web2.tcpwhy" in capsys.readouterr().out


def test_views_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["views"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in views())
    assert main(["views", "pairs"]) == 0
    assert "matched_by" in capsys.readouterr().out
    assert main(["views", "socket"]) == 0
    assert "snd_isn" in capsys.readouterr().out


def test_python_gives_relations(fleet: Fleet) -> None:
    pairs = fleet.pairs()
    assert isinstance(pairs.df(), pd.DataFrame)
    assert len(pairs.filter("translated").fetchall()) == 2
    assert fleet.sql("SELECT COUNT(*) AS n FROM hosts WHERE host = ?", ["db"]).to_pylist() == [{"n": 1}]
    assert "pairs" in dir(fleet)
    with pytest.raises(AttributeError):
        _ = fleet.nothing


def test_the_notebook_runs(small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Cell by cell, each with what those before it left; the last line of a cell is what a notebook shows."""
    monkeypatch.setenv("FLEET", str(small))
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    known: dict[str, Any] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body[-1]
        if isinstance(last, ast.Expr):
            del tree.body[-1]
        exec(compile(tree, cell["id"], "exec"), known)  # noqa: S102
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), known))  # noqa: S307
    known["fleet"].close()
    frames = [value for value in shown if isinstance(value, pd.DataFrame)]
    hosts, between, matrix, backlogs = frames
    assert sorted(hosts["host"]) == ["db", "edge", "web1", "web2"]
    assert between["connections"].sum() == 6
    assert matrix.loc["web1", "db"] > 0
    assert 5 in set(backlogs["backlog"].dropna())
    said = capsys.readouterr().out
    assert "1. accept-queue-overflow: 5.5 s lost" in said
    assert "LOSSY PATHS:" in said


def test_the_report_is_one_file_that_obeys_nobody(tmp_path: Path) -> None:
    for n, name in enumerate(["<script>alert(1)</script>", "web"]):
        made = Made(name)
        made.manifest["labels"] = ["rack=</script><script>alert(2)</script>"]
        to = ("10.0.0.1", 80), ("10.0.0.2", 80)
        local, remote = to if n == 0 else to[::-1]
        made.row("socket", 1, sock=5, state="ESTABLISHED", congestion="bbr", local_addr=local[0], local_port=80,
                 remote_addr=remote[0], remote_port=80, data_segs_out=500, total_retrans=9, rtt_us=100)  # fmt: skip
        made.row("finding", 1, finding=1, cause="<b>", title="<img src=x>", listener="10.0.0.1:80", role="listener")
        made.write(tmp_path, f"r{n}")
    (tmp_path / "<i>.tcpw").write_text("no")
    with tcpwhy_fleet.open(tmp_path) as fleet:
        page = report.page(fleet)
    assert page.count("<script") == 2
    assert all(tag not in page for tag in ("<img", "<i>", "<b>", "alert(1)</script>", "alert(2)</script>"))
    assert "http://" not in page
    assert "https://" not in page
    data = page.split('id="data">')[1].split("</script>")[0]
    assert len(json.loads(data)["cells"]) == 2


def test_explaining_without_tcpwhy_says_so(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(small), "--tcpwhy", "/nonexistent/tcpwhy"]) == 0
    assert "there is no /nonexistent/tcpwhy on this machine" in capsys.readouterr().err


def test_explaining_that_fails_says_of_what(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(small), "--tcpwhy", "sh -c 'echo broken >&2; exit 1'"]) == 0
    said = capsys.readouterr().err
    assert "edge.tcpwhy: not explained: broken" in said
    assert "explained 0 recordings" in said


def test_causes_that_are_told_from_outside_are_causes() -> None:
    book = Path(__file__).parents[2] / "docs" / "causes.md"
    known = set(re.findall(r"^## C[0-9]+ `([a-z-]+)`", book.read_text(encoding="utf-8"), re.MULTILINE))
    named = set(findings.FROM_OUTSIDE).union(*findings.FROM_OUTSIDE.values())
    assert len(known) > 30
    assert named <= known, named - known
