"""What is damaged, foreign or hostile among many recordings is said and left out, and the rest answers."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet
from tcpwhy_fleet.about import of_what
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.manifest import parse, plain
from tcpwhy_fleet.text import shown
from tcpwhy_fleet.unfit import UnfitError
from tcpwhy_fleet.unpack import unpack

from .recordings import MS, Made


def good(host: str = "web") -> Made:
    made = Made(host)
    made.row("event", 1.0, kind="state", state="SYN_SENT", local_port=9, remote_port=80, local_addr="10.1.1.1", sock=5)
    return made


def opened(at: Path) -> tuple[Fleet, dict[str, str]]:
    """The fleet with its events asked for, and what was left out, by name."""
    fleet = tcpwhy_fleet.open(at)
    fleet.rows("SELECT COUNT(*) AS n FROM ends")
    return fleet, {path.name: why for path, why in fleet.store.left_out.items()}


def test_the_good_ones_answer_and_the_others_are_said(tmp_path: Path) -> None:
    good().write(tmp_path)
    (tmp_path / "empty.tcpwhy").mkdir()
    (tmp_path / "text.tcpw").write_text("no recording")
    (tmp_path / "none.tcpw").write_bytes(b"")
    (tmp_path / "link.tcpwhy").symlink_to(tmp_path / "web.tcpwhy")
    newer = good("newer").write(tmp_path)
    said = json.loads((newer / "manifest.json").read_text())
    (newer / "manifest.json").write_text(json.dumps(said | {"format": 2}))
    cut = good("cut").write(tmp_path) / "event" / "000001.parquet"
    cut.write_bytes(cut.read_bytes()[:-40])
    garbage = good("garbage").write(tmp_path) / "event" / "000001.parquet"
    whole = bytearray(garbage.read_bytes())
    whole[40:400] = b"\xaa" * 360
    garbage.write_bytes(bytes(whole))
    fifo = good("fifo").write(tmp_path) / "event" / "000002.parquet"
    os.mkfifo(fifo)
    away = good("away").write(tmp_path) / "event"
    (away / "000002.parquet").symlink_to("/etc/passwd")
    other = good("other").write(tmp_path) / "event" / "000001.parquet"
    pq.write_table(pa.table({"time_ns": ["text"]}), other)
    fleet, left_out = opened(tmp_path)
    names = {"empty", "link", "newer", "cut", "garbage", "fifo", "away", "other"}
    assert set(left_out) == {f"{name}.tcpwhy" for name in names} | {"text.tcpw", "none.tcpw"}
    assert "newer" in left_out["newer.tcpwhy"]
    assert "damaged" in left_out["cut.tcpwhy"]
    assert "time_ns" in left_out["other.tcpwhy"]
    assert [row["host"] for row in fleet.rows("SELECT host FROM hosts")] == ["web"]
    assert len(fleet.rows("SELECT * FROM left_out")) == len(left_out)
    fleet.close()


def test_a_bomb_ends_its_reader_and_nobody_else(tmp_path: Path) -> None:
    good().write(tmp_path)
    bomb = good("bomb").write(tmp_path) / "event" / "000001.parquet"
    # Few bytes that say they are very many rows.
    rows = pa.table({"time_ns": pa.nulls(1, pa.uint64()).take(pa.array([0] * 3_000_000, pa.int32()))})
    pq.write_table(rows, bomb, compression="zstd")
    fleet, left_out = opened(tmp_path)
    assert "claims 3000000 rows" in left_out["bomb.tcpwhy"]
    assert fleet.rows("SELECT COUNT(*) AS n FROM ends")[0]["n"] == 1
    fleet.close()


def test_a_host_without_a_connection_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good().write(tmp_path)
    Made("idle").write(tmp_path)
    for verb in ("findings", "ends", "blame"):
        assert main([verb, str(tmp_path)]) == 0
        assert capsys.readouterr().out.startswith("2 hosts, 2 recordings of up to 10.0 s")
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 0
    assert main(["sql", str(tmp_path), "SELECT host FROM hosts ORDER BY host", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "host\nidle\nweb\n"


def test_a_directory_of_none_is_an_empty_fleet(tmp_path: Path) -> None:
    fleet, left_out = opened(tmp_path)
    assert (fleet.rows("SELECT * FROM findings"), left_out) == ([], {})
    fleet.close()
    with pytest.raises(UnfitError, match="no directory"):
        tcpwhy_fleet.open(tmp_path / "nowhere")


def test_two_hosts_of_one_name_are_told_apart(tmp_path: Path) -> None:
    Made("web", boot_id="aaaa1111").write(tmp_path, "first")
    Made("web", boot_id="bbbb2222").write(tmp_path, "second")
    fleet, left_out = opened(tmp_path)
    assert [row["host"] for row in fleet.rows("SELECT host FROM hosts ORDER BY host")] == [
        "web.aaaa1111",
        "web.bbbb2222",
    ]
    assert not left_out
    fleet.close()


def test_a_host_that_was_rebooted_is_one(tmp_path: Path) -> None:
    Made("web", boot_id="aaaa1111").write(tmp_path, "before")
    Made("web", boot_id="bbbb2222", clock_s=3600).write(tmp_path, "after")
    fleet, _ = opened(tmp_path)
    assert fleet.rows("SELECT host, recordings FROM hosts") == [{"host": "web", "recordings": 2}]
    fleet.close()


def test_the_same_seconds_of_a_host_count_once(tmp_path: Path) -> None:
    good().write(tmp_path, "one")
    good().write(tmp_path, "copy")
    again = good()
    # Somebody else recorded the host at the same time.
    again.manifest |= {"start_ns": again.up_ns + 1000 * MS, "command_line": ["tcpwhy", "record", "-o", "-"]}
    again.write(tmp_path, "other")
    fleet, left_out = opened(tmp_path)
    assert left_out == {"one.tcpwhy": "a copy of copy.tcpwhy", "other.tcpwhy": "the same seconds of web as copy.tcpwhy"}
    assert fleet.rows("SELECT COUNT(*) AS n FROM ends")[0]["n"] == 1
    fleet.close()


def test_what_changes_or_goes_is_asked_as_it_is(tmp_path: Path) -> None:
    path = good().write(tmp_path)
    fleet, _ = opened(tmp_path)
    fleet.close()
    other = Made("web")
    for port in (1, 2):
        other.row("event", 1, kind="state", state="SYN_SENT", local_port=port, remote_port=80, sock=port)
    (path / "event" / "000001.parquet").unlink()
    (other.write(tmp_path, "moved") / "event" / "000001.parquet").rename(path / "event" / "000001.parquet")
    (tmp_path / "moved.tcpwhy").rename(tmp_path / "gone")
    fleet, _ = opened(tmp_path)
    assert fleet.rows("SELECT COUNT(*) AS n FROM ends")[0]["n"] == 2
    fleet.close()
    path.rename(tmp_path / "gone2")
    fleet, _ = opened(tmp_path)
    assert fleet.rows("SELECT COUNT(*) AS n FROM event")[0]["n"] == 0
    fleet.close()


def test_names_from_hosts_go_nowhere(tmp_path: Path) -> None:
    for n, name in enumerate(["../../../etc", "a'; DROP TABLE event; --", "x=y/day=z", "\x1b[2Jred", "<script>"]):
        made = good(name)
        made.manifest["labels"] = [f"rack={name}"]
        made.write(tmp_path, f"r{n}")
    fleet, left_out = opened(tmp_path)
    assert not left_out
    assert len(fleet.rows("SELECT * FROM ends")) == 5
    assert all(set(row["host"]) <= set(plain(row["host"])) for row in fleet.rows("SELECT host FROM hosts"))
    assert {path.name for path in tmp_path.iterdir()} == {".tcpwhy-fleet", *(f"r{n}.tcpwhy" for n in range(5))}
    fleet.close()


def packed(members: list[tuple[tarfile.TarInfo, bytes]]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    made.seek(0)
    return made


def file(name: str, content: bytes = b"{}") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def link(name: str) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member, b""


MANIFEST = file("recording.tcpwhy/manifest.json")


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([MANIFEST, file("recording.tcpwhy/../../out")], "leads out"),
        ([MANIFEST, file("/etc/out")], "leads out"),
        ([MANIFEST, link("recording.tcpwhy/event/000001.parquet")], "no regular file"),
        ([MANIFEST, MANIFEST], "twice"),
        ([file("recording.tcpwhy/event/000001.parquet")], "no manifest"),
    ],
)
def test_a_packed_one_makes_nothing_elsewhere(
    members: list[tuple[tarfile.TarInfo, bytes]], why: str, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    to.mkdir()
    with pytest.raises(UnfitError, match=why):
        unpack(packed(members), to)
    assert {path.name for path in tmp_path.iterdir()} == {"to"}


def test_a_packed_one_is_read_as_far_as_it_came(tmp_path: Path) -> None:
    path = good().write(tmp_path)
    manifest = (path / "manifest.json").read_bytes()
    segment = (path / "event" / "000001.parquet").read_bytes()
    segments = [file(f"r.tcpwhy/event/00000{n}.parquet", segment) for n in (1, 2)]
    whole = packed([file("r.tcpwhy/manifest.json", manifest), *segments]).getvalue()
    at = tmp_path / "many"
    at.mkdir()
    (at / "whole.tcpw").write_bytes(whole)
    cut = manifest.replace(b'"web"', b'"cut"')
    packed_cut = packed([file("r.tcpwhy/manifest.json", cut), *segments]).getvalue()
    # Into the manifest, and into the middle of the last file.
    (at / "short.tcpw").write_bytes(whole[:700])
    (at / "cut.tcpw").write_bytes(packed_cut[: len(packed_cut) - 10240 - len(segment) // 2])
    # Between two files, and into the header of one.
    for name, n in (("between", 0), ("header", 100)):
        manifest_of = manifest.replace(b'"web"', f'"{name}"'.encode())
        one = packed([file("r.tcpwhy/manifest.json", manifest_of), *segments[:1]]).getvalue().rstrip(b"\0")
        end = -(-len(one) // 512) * 512
        two = packed([file("r.tcpwhy/manifest.json", manifest_of), *segments]).getvalue()
        (at / f"{name}.tcpw").write_bytes(two[: end + n])
    fleet, left_out = opened(at)
    assert left_out == {"short.tcpw": "cut short before its manifest.json"}
    assert "; cut short, and read as far as they go: between.tcpw, cut.tcpw and header.tcpw" in of_what(fleet)
    rows = fleet.rows("SELECT r.name, r.complete, COUNT(*) AS n FROM event AS e JOIN recordings AS r ON r.rec = e.rec"
                      " GROUP BY r.name, r.complete ORDER BY r.name")  # fmt: skip
    cut_ones = [{"name": name, "complete": False, "n": 1} for name in ("between", "cut", "header")]
    assert rows == [*cut_ones, {"name": "web", "complete": True, "n": 2}]
    fleet.close()


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b"[" * 100_000, b'{"format": 1}', b'{"format": true}'])
def test_a_manifest_that_is_none(said: bytes) -> None:
    with pytest.raises(UnfitError):
        parse(said)


@pytest.mark.parametrize(
    "change", [{"end_ns": 0}, {"clock_offset_ns": 0}, {"start_ns": "0"}, {"clock_offset_ns": 2**70}, {"sources": 7}]
)
def test_a_manifest_that_lies(change: dict[str, object]) -> None:
    with pytest.raises(UnfitError):
        parse(json.dumps(good().manifest | change).encode())


def test_a_terminal_is_not_told_what_to_do() -> None:
    assert shown("a\x1b[31m\u202eb\nc") == "a\\u001b[31m\\u202eb\\u000ac"
    assert shown("Zürich → 東京") == "Zürich → 東京"
