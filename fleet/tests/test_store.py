"""The store reads what a question needs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tcpwhy_fleet
from tcpwhy_fleet import engine
from tcpwhy_fleet.columns import address
from tcpwhy_fleet.engine import DuckDB

from . import small_fleet
from .cases import EXPECTED, query, text
from .recordings import START, Made, S


def test_only_the_tables_of_a_question_are_put_into_it(tmp_path: Path) -> None:
    small_fleet.make(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        at = fleet.store.at
        fleet.rows("SELECT * FROM hosts")
        assert not (at / "event").exists()
        fleet.rows("SELECT * FROM listeners")
        assert len(list(at.glob("listener/day=2026-11-26/host=*/*.parquet"))) == 4
        assert not (at / "event").exists()
        assert not (at / "socket").exists()


def test_a_question_about_a_host_opens_the_files_of_it(tmp_path: Path) -> None:
    small_fleet.make(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        assert isinstance(fleet.engine, DuckDB)
        fleet.engine.prepare("SELECT * FROM event")
        plan = fleet.engine.connection.execute("EXPLAIN SELECT kind FROM event WHERE host = 'db'").fetchall()[0][1]
        # Four hosts, and the file of no rows that tells the columns.
        assert "1/5" in plan
        columns = plan[plan.index("READ_PARQUET") if "READ_PARQUET" in plan else 0 :]
        assert "kind" in columns
        assert "local_addr" not in columns


def test_a_second_opening_reads_nothing_again(tmp_path: Path) -> None:
    small_fleet.make(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        fleet.rows("SELECT * FROM event")
        before = {path: path.stat().st_mtime_ns for path in fleet.store.at.glob("event/*/*/*.parquet")}
    with tcpwhy_fleet.open(tmp_path) as fleet:
        fleet.rows("SELECT * FROM event")
        assert {path: path.stat().st_mtime_ns for path in fleet.store.at.glob("event/*/*/*.parquet")} == before


def test_recordings_some_at_a_time_give_what_all_give(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BATCH_BYTES", 1)
    with tcpwhy_fleet.open(small, store=tmp_path) as fleet:
        for case in ("ends", "connections", "losses"):
            assert text(fleet.sql(query(case))) == (EXPECTED / f"{case}.csv").read_text()
        # Its tables are whole again.
        assert fleet.rows("SELECT COUNT(DISTINCT host) AS n FROM event") == [{"n": 4}]


def test_what_a_recording_says_is_kept_to_the_bit(tmp_path: Path) -> None:
    made = Made("web", clock_s=5)
    made.row("event", 2.5, sock=2**64 - 1, seq=2**32 - 1, local_addr="2001:db8::1", kind="état", connect_ns=1.5)
    made.row("socket", 3, sock=2**63, pacing_rate=2**64 - 1, max_pacing_rate=2**58, local_addr="10.0.0.1")
    made.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (event,), (socket,) = fleet.rows("SELECT * FROM event"), fleet.rows("SELECT * FROM socket")
        schema = pq.read_schema(next(fleet.store.at.glob("event/*/host=web/*.parquet")))
    assert (event["sock"], event["seq"], event["local_addr"], event["kind"]) == (-1, 2**32 - 1, "2001:db8::1", "état")
    assert event["at_ns"] == START + 5 * S + round(2.5 * S)
    assert event["connect_at_ns"] == event["at_ns"] - S
    assert event["established_at_ns"] is None
    # Ids keep their bits; a number that says "none", or is beyond all that is counted, is none.
    assert (socket["sock"], socket["pacing_rate"], socket["max_pacing_rate"]) == (-(2**63), None, 2**58)
    assert socket["local_addr"] == "10.0.0.1"
    assert schema.names[:2] == ["rec", "at_ns"]


def test_addresses() -> None:
    assert address(b"\0" * 10 + b"\xff\xff\x0a\0\0\1") == "10.0.0.1"
    assert address(b"\0" * 16) == "::"
