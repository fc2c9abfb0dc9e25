"""What is damaged, foreign or hostile among many recordings is said and left out, and the rest answers."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet, ends, findings, manifest, report, store, workers
from tcpwhy_fleet.about import of_what
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.files import Dir
from tcpwhy_fleet.manifest import Manifest, parse, plain
from tcpwhy_fleet.schema import MOMENTS
from tcpwhy_fleet.text import shown
from tcpwhy_fleet.unfit import UnfitError
from tcpwhy_fleet.unpack import unpack
from tcpwhy_fleet.views import views

from . import fake_ssh, lab, small_fleet
from .recordings import MS, Made, write_segment

pytestmark = pytest.mark.usefixtures("in_time")


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
    assert left_out == {"one.tcpwhy": "a copy of copy.tcpwhy"}
    # Which of the two is right nobody here can tell: none takes the place of the other, and no host has them twice.
    (said,) = fleet.store.conflicts
    assert "copy.tcpwhy and other.tcpwhy claim the same seconds of web, and differ: all are asked" in said
    hosts = fleet.rows("SELECT host, COUNT(*) AS n FROM ends GROUP BY host ORDER BY host")
    assert [(row["host"].rpartition(".")[0], row["n"]) for row in hosts] == [("web", 1), ("web", 1)]
    assert all(row["host"] in said for row in hosts)
    fleet.close()


def test_one_that_claims_more_displaces_nothing(tmp_path: Path) -> None:
    good().write(tmp_path, "good")
    # All that it says of itself is the other's, and it is a second longer, whole, and first by name.
    longer = good()
    longer.manifest["end_ns"] += 1000 * MS
    longer.row("event", 2.0, kind="state", state="SYN_SENT", local_port=9, remote_port=81, sock=6)
    longer.write(tmp_path, "bad")
    # The same to the byte but for one segment.
    same = good()
    same.row("event", 1.0, kind="state", state="SYN_SENT", local_port=9, remote_port=81, sock=7)
    same.write(tmp_path, "another")
    fleet, left_out = opened(tmp_path)
    assert not left_out
    assert len(fleet.store.conflicts) == 1
    assert {row["sock"] for row in fleet.rows("SELECT sock FROM event")} == {5, 6, 7}
    assert fleet.rows("SELECT COUNT(DISTINCT host) AS n FROM hosts") == [{"n": 3}]
    fleet.close()
    # What was found of copies is kept, and does not hold for what changed since.
    segment = tmp_path / "another.tcpwhy" / "event" / "000001.parquet"
    segment.write_bytes((tmp_path / "good.tcpwhy" / "event" / "000001.parquet").read_bytes())
    fleet, left_out = opened(tmp_path)
    assert left_out == {"good.tcpwhy": "a copy of another.tcpwhy"}
    fleet.close()


def test_a_recording_as_one_file_is_a_copy_of_the_directory(tmp_path: Path) -> None:
    (good().write(tmp_path) / "answer").mkdir()
    write_segment(tmp_path / "web.tcpwhy" / "answer" / "000001.parquet", "answer", [])
    whole = good().packed()
    (tmp_path / "web.tcpw").write_bytes(whole)
    (tmp_path / "webb.tcpw").write_bytes(whole.rstrip(b"\0")[:-1])
    fleet, left_out = opened(tmp_path)
    assert left_out == {"web.tcpwhy": "a copy of web.tcpw", "webb.tcpw": "a copy of web.tcpw"}
    fleet.close()


def test_labels_of_the_file_of_hosts_win_where_collect_was_there(tmp_path: Path) -> None:
    for name in ("collected", "other"):
        made = Made(name)
        made.manifest["labels"] = ["rack=claimed", "zone=z1"]
        made.write(tmp_path)
    labels = {f"{name}.tcpwhy": {"rack": "known"} for name in ("collected", "other")}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    (tmp_path / "collected.json").write_text(json.dumps({"collected.tcpwhy": "web1.example"}))
    with tcpwhy_fleet.open(tmp_path) as fleet:
        rows = fleet.rows("SELECT host, rack, zone FROM hosts ORDER BY host")
    assert [tuple(row.values()) for row in rows] == [("other", "claimed", "z1"), ("web1.example", "known", "z1")]


def test_an_address_keeps_its_name(tmp_path: Path) -> None:
    Made("web", boot_id="aaaa1111").write(tmp_path, "collected")
    (tmp_path / "collected.json").write_text(json.dumps({"collected.tcpwhy": "web"}))
    # Others that claim to be it, in another boot and in the same.
    Made("web", boot_id="bbbb2222").write(tmp_path, "claims")
    Made("web", boot_id="aaaa1111", seconds=9).write(tmp_path, "claims-too")
    with tcpwhy_fleet.open(tmp_path) as fleet:
        rows = {row["path"]: row["host"] for row in fleet.rows("SELECT path, host FROM recordings")}
        assert len(fleet.store.conflicts) == 2
    assert rows["collected.tcpwhy"] == "web"
    assert rows["claims.tcpwhy"] == "web.bbbb2222"
    assert len(set(rows.values())) == 3


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


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    good().write(tmp_path)
    for name in (b"a\xff.tcpwhy", b"b\xff.tcpw", b"c\xff.tcpwhy"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_text("no recording")
    good("odd").write(tmp_path).rename(tmp_path / os.fsdecode(b"d\xff.tcpwhy"))
    fleet, left_out = opened(tmp_path)
    assert len(left_out) == 3
    rows = fleet.rows("SELECT path FROM recordings ORDER BY path")
    assert rows == [{"path": "d?.tcpwhy"}, {"path": "web.tcpwhy"}]
    assert len(fleet.rows("SELECT * FROM left_out")) == 3
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
        ([MANIFEST, link("recording.tcpwhy/event/000001.parquet")], "not a regular file"),
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


@pytest.mark.parametrize("name", ["__HIVE_DEFAULT_PARTITION__", "none", "None", "null", "NULL", "_x", ".", "..", "___"])
def test_a_name_that_means_nothing_to_an_engine_is_a_name(name: str, tmp_path: Path) -> None:
    good(name).write(tmp_path, "odd")
    good("web").write(tmp_path)
    fleet, left_out = opened(tmp_path)
    assert not left_out
    # It joins with itself, and no engine takes its file for one that is hidden.
    rows = fleet.rows("SELECT r.host, e.host AS of_event FROM recordings AS r JOIN event AS e ON e.host = r.host")
    assert len(rows) == 2
    assert all(row["host"] and row["of_event"] == row["host"] for row in rows)
    assert fleet.rows("SELECT COUNT(*) AS n FROM event") == [{"n": 2}]
    names = [path.name for path in fleet.store.at.glob("event/day=2026*/*/*.parquet")]
    assert len(names) == 2
    assert not [name for name in names if name[0] in "._"]
    fleet.close()


def extended(count: int, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A tar that begins with so many headers, each of which extends the next."""
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, 512
    return (member.tobuf(tarfile.GNU_FORMAT) + b"\0" * 512) * count


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_one_that_makes_its_reader_recurse_costs_itself(kind: bytes, tmp_path: Path) -> None:
    good().write(tmp_path)
    (tmp_path / "bad.tcpw").write_bytes(gzip.compress(extended(1500, kind)))
    fleet, left_out = opened(tmp_path)
    assert left_out == {"bad.tcpw": "more headers than it may have"}
    assert fleet.rows("SELECT COUNT(*) AS n FROM ends") == [{"n": 1}]
    fleet.close()


def test_what_python_writes_of_long_names_is_read(tmp_path: Path) -> None:
    members = [file("r.tcpwhy/manifest.json"), file(f"r.tcpwhy/{'n' * 300}")]
    for member, _ in members:
        member.pax_headers = {"mtime": "1.5", "comment": "é" * 200}
    assert unpack(packed(members), tmp_path) is True


def test_a_bug_costs_the_file_that_brought_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a worker, or we, fall over."""
    for name in ("web", "odd", "other"):
        good(name).write(tmp_path)

    def answer(self: workers.Worker, job: workers.Job, timeout: float) -> workers.Answer:
        if "odd" in job["recording"]:
            job = {key: value for key, value in job.items() if key != "day"}
        return asked(self, job, timeout)

    def read(directory: Dir) -> Manifest:
        if "other" in directory.path.name:
            raise RecursionError("maximum recursion depth exceeded")
        return really_read(directory)

    asked, really_read = workers.Worker.ask, manifest.read
    monkeypatch.setattr(workers.Worker, "ask", answer)
    monkeypatch.setattr(manifest, "read", read)
    fleet, left_out = opened(tmp_path)
    assert set(left_out) == {"odd.tcpwhy", "other.tcpwhy"}
    assert left_out["other.tcpwhy"].startswith(
        "a bug of tcpwhy-fleet, please report it: RecursionError: maximum recursion depth exceeded (test_bad_input.py:"
    )
    assert left_out["odd.tcpwhy"].startswith("a bug of tcpwhy-fleet, please report it: KeyError: 'day'")
    assert fleet.rows("SELECT host FROM event") == [{"host": "web"}]
    fleet.close()


def test_every_member_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The header alone claims it.
    large = tarfile.TarInfo("recording.tcpwhy/core.dump")
    large.size = 20 << 30
    (tmp_path / "claims.tcpw").write_bytes(packed([MANIFEST]).getvalue()[:1024] + large.tobuf())
    # As much as fits the disk, and no recording has.
    other = tarfile.TarInfo("recording.tcpwhy/core.dump")
    other.size = 300 << 20
    (tmp_path / "other.tcpw").write_bytes(packed([MANIFEST]).getvalue()[:1024] + other.tobuf())
    good().write(tmp_path)
    fleet, left_out = opened(tmp_path)
    assert "larger than the" in left_out["claims.tcpw"]
    assert left_out["other.tcpw"] == "more than 256 MB that are no recording's"
    fleet.close()
    # Directories, and what is passed over.
    monkeypatch.setattr("tcpwhy_fleet.unpack.MOST_FILES", 100)
    for name in ("d{}/", "r.tcpwhy/{}.txt"):
        with pytest.raises(UnfitError, match="more than 100 files"):
            unpack(packed([file(name.format(n), b"") for n in range(101)]), tmp_path / "web.tcpwhy")


@pytest.mark.parametrize(("by", "compress"), [("xz", lzma.compress), ("bzip2", bz2.compress)])
def test_what_tcpwhy_does_not_read_is_not_read(by: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "web.tcpw").write_bytes(compress(good().packed()))
    _, left_out = opened(tmp_path)
    assert left_out == {"web.tcpw": f"it is compressed by {by}; {by} -d makes one of it that is read"}


def test_what_was_unfit_is_not_tried_again_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(self: workers.Worker, job: workers.Job, timeout: float) -> workers.Answer:
        asked.append(Path(job.get("from") or job["recording"]).name)
        return really(self, job, timeout)

    really = workers.Worker.ask
    monkeypatch.setattr(workers.Worker, "ask", answer)
    (tmp_path / "bad.tcpw").write_text("no recording")
    cut = good("cut").write(tmp_path) / "event" / "000001.parquet"
    cut.write_bytes(cut.read_bytes()[:-40])
    good().write(tmp_path)
    _, first = opened(tmp_path)
    assert sorted(asked) == ["bad.tcpw", "cut.tcpwhy", "web.tcpwhy"]
    asked.clear()
    fleet, left_out = opened(tmp_path)
    assert left_out == first
    assert asked == []
    # What it has beside is asked by other questions, as before.
    fleet.close()
    with tcpwhy_fleet.open(tmp_path) as fleet:
        assert fleet.rows("SELECT COUNT(*) AS n FROM hosts") == [{"n": 2}]
    os.utime(tmp_path / "bad.tcpw", ns=(1, 1))
    os.utime(cut, ns=(1, 1))
    asked.clear()
    assert opened(tmp_path)[1] == first
    assert sorted(asked) == ["bad.tcpw", "cut.tcpwhy"]
    # A later version may know better.
    monkeypatch.setattr(store, "VERSION", "99")
    asked.clear()
    assert opened(tmp_path)[1] == first
    assert sorted(asked) == ["bad.tcpw", "cut.tcpwhy"]


def test_what_had_no_room_is_tried_again_when_there_is_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = {"unfit": "larger than the 1 MB that there is room for", "room": 1 << 20}
    answers: list[workers.Answer] = [noted]

    def answer(self: workers.Worker, job: workers.Job, timeout: float) -> workers.Answer:
        return answers.pop() if answers else really(self, job, timeout)

    really = workers.Worker.ask
    monkeypatch.setattr(workers.Worker, "ask", answer)
    (tmp_path / "web.tcpw").write_bytes(good().packed())
    monkeypatch.setattr(store, "room_at", lambda _: 1 << 20)
    assert opened(tmp_path)[1] == {"web.tcpw": noted["unfit"]}
    assert opened(tmp_path)[1] == {"web.tcpw": noted["unfit"]}
    monkeypatch.setattr(store, "room_at", lambda _: 4 << 20)
    assert opened(tmp_path)[1] == {}


def test_a_worker_that_is_late_or_killed(tmp_path: Path) -> None:
    """Only what may be its file's fault is remembered."""
    good().write(tmp_path)
    job = {"do": "unpack", "from": str(tmp_path / "web.tcpwhy"), "to": str(tmp_path)}
    late = workers.Worker()
    os.kill(late.process.pid, signal.SIGSTOP)
    answer = late.ask(job, 0.1)
    assert "not read within 0.1 s" in answer["unfit"]
    assert not answer.get("for_now")
    assert not late.is_alive
    for number, for_now in ((signal.SIGKILL, True), (signal.SIGSEGV, None)):
        ended = workers.Worker()
        os.kill(ended.process.pid, number)
        assert ended.ask(job, 10).get("for_now") is for_now


def test_a_worker_dies_with_who_started_it() -> None:
    code = "import os, sys; from tcpwhy_fleet.workers import Worker; w = Worker(); w.process.stdin.write('{}\\n');"
    code += "w.process.stdin.flush(); w.process.stdout.readline(); print(w.process.pid, flush=True); sys.stdin.read()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    # At work, and deaf to the end of its standard input.
    os.kill(pid, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    lab.wait(lambda: not fake_ssh.runs(pid), 10)


KEPT = {*MOMENTS, "netns", "sock", "finding", "family"}


def extreme(rows: pa.Table, shift: int) -> pa.Table:
    """Each number at one of its limits; what tells connections apart stays."""
    for at, field in enumerate(rows.schema):
        kind = field.type
        if not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
            continue
        if field.name.endswith(("_port", "_isn")) or field.name in KEPT:
            continue
        if pa.types.is_floating(kind):
            limits: list[float] = [float("-inf"), float("inf"), -1e308, 1e308]
        else:
            bits = kind.bit_width - pa.types.is_signed_integer(kind)
            limits = [2**bits - 1, 0, 2**63 - 1 if bits == 64 else 1, 2**62 if bits > 62 else 1]
        values = pa.array([limits[(n + at + shift) % 4] for n in range(rows.num_rows)], kind)
        rows = rows.set_column(at, field, values)
    return rows


def test_numbers_at_their_limits_end_no_question(tmp_path: Path) -> None:
    small_fleet.make(tmp_path)
    good_ones = [path for path in tmp_path.iterdir() if path.suffix == ".tcpwhy"]
    for shift in range(2):
        for path in good_ones:
            evil = tmp_path / f"evil{shift}-{path.name}"
            shutil.copytree(path, evil)
            said = json.loads((evil / "manifest.json").read_text())
            said["host"] |= {"name": f"evil{shift}-{said['host']['name']}", "cpus": -(2**63), "hz": 0}
            (evil / "manifest.json").write_text(json.dumps(said))
            for segment in evil.glob("*/*.parquet"):
                # As a host with many of them: sums are at their limits, too.
                rows = extreme(pa.concat_tables([pq.read_table(segment)] * 20), shift)
                pq.write_table(rows, segment)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        for view in views():
            fleet.sql(f'SELECT * FROM "{view}"')
        assert findings.lines(findings.merged(fleet))
        assert ends.lines(ends.read(fleet))
        assert report.page(fleet)
        # The others are there all the same.
        assert not fleet.store.left_out
        hosts = {row["host"] for row in fleet.rows("SELECT host FROM hosts")}
        assert hosts >= {path.stem for path in good_ones}
        assert len(hosts) == 3 * len(good_ones)


def test_what_is_no_number_is_none_where_there_may_be_none(tmp_path: Path) -> None:
    for name, value in (("web", 1.0), ("odd", float("nan"))):
        made = Made(name)
        made.row("resource", 1.0, resource="network", metric="tx_dropped", instance="eth0", value=value)
        made.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        assert fleet.rows("SELECT host, value FROM resource") == [{"host": "web", "value": 1.0}]
        assert list(fleet.store.left_out.values()) == ["column value has a value that is not a number"]


def test_a_moment_is_of_this_century_or_none(tmp_path: Path) -> None:
    made = good()
    made.row("event", 2.0, kind="state", connect_ns=-500.0, established_ns=3e9, sock=6)
    made.write(tmp_path)
    late = good("late")
    late.row("event", 3e9, kind="state", sock=7)
    late.write(tmp_path)
    fleet, left_out = opened(tmp_path)
    assert left_out == {"late.tcpwhy": "column time_ns has a moment that is not of this century"}
    rows = fleet.rows("SELECT connect_at_ns, established_at_ns FROM event WHERE sock = 6")
    # Of a connection that is older than the recording a moment is as good as any.
    assert rows[0]["connect_at_ns"] is not None
    assert rows[0]["established_at_ns"] is None
    fleet.close()
