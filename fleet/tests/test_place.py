"""The store is ours: where others may have made one, or put something into it, it is neither believed nor written."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import owned
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.files import Dir
from tcpwhy_fleet.unfit import UnfitError

from .recordings import Made

pytestmark = pytest.mark.usefixtures("in_time")
INSIDE = ".tcpwhy-fleet"
COUNT = "SELECT COUNT(*) AS n FROM event"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes files of others")


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """A directory with one recording of three events."""
    at = tmp_path / "m"
    at.mkdir()
    write(at)
    return at


def write(at: Path, host: str = "web", events: int = 3) -> Path:
    made = Made(host)
    for sock in range(events):
        made.row("event", 1.0, kind="state", state="SYN_SENT", local_port=9, remote_port=80, sock=sock + 1)
    return made.write(at)


def ask(at: Path, **more: Any) -> tuple[int, Path, list[str]]:
    """How many events there are, where the store is, and what was said."""
    said: list[str] = []
    with tcpwhy_fleet.open(at, say=said.append, **more) as fleet:
        return fleet.rows(COUNT)[0]["n"], fleet.store.at, said


def is_in_cache(store: Path, cache: Path) -> bool:
    return store.parent == cache / "tcpwhy-fleet"


def test_a_store_of_ours_is_within_and_nobody_elses_to_read(at: Path) -> None:
    former = os.umask(0)
    try:
        assert ask(at) == (3, at / INSIDE, [])
        assert ask(at) == (3, at / INSIDE, [])
    finally:
        os.umask(former)
    found = [at / INSIDE, *(at / INSIDE).rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600, 0o700}


def test_what_was_planted_before_us_is_neither_written_nor_believed(at: Path, cache: Path, tmp_path: Path) -> None:
    # As an archive brings it: all of it is ours, as we unpacked it.
    planted, victims = at / INSIDE, [tmp_path / name for name in ("bashrc", "authorized_keys", "third")]
    (planted / "recording").mkdir(parents=True)
    for victim in victims:
        victim.write_text("precious")
    (planted / "tcpwhy-fleet.json").write_text('{"format": 1}')
    (planted / ".lock").symlink_to(victims[0])
    (planted / "recording" / "all.new").symlink_to(victims[1])
    (planted / "recording" / ".all.parquet.new").symlink_to(victims[2])
    n, store, said = ask(at)
    assert n == 3
    assert is_in_cache(store, cache)
    assert [line for line in said if "it was not made here by you; the store is in" in line] == said != []
    assert [victim.read_text() for victim in victims] == ["precious"] * 3
    # And once more from there.
    assert ask(at)[:2] == (3, store)


def test_tables_of_a_store_that_came_with_a_copy_are_not_believed(at: Path, cache: Path, tmp_path: Path) -> None:
    assert ask(at)[0] == 3
    # Somebody changes what we have noted and made, and gives it back.
    copy = tmp_path / "copy"
    shutil.copytree(at, copy)
    (event,) = (copy / INSIDE).glob("event/day=2026*/*/*.parquet")
    forged = tmp_path / "forged"
    forged.mkdir()
    write(forged, "web", 9)
    assert ask(forged)[0] == 9
    (other,) = (forged / INSIDE).glob("event/day=2026*/*/*.parquet")
    shutil.copy(other, event)
    n, store, said = ask(copy)
    assert n == 3
    assert is_in_cache(store, cache)
    assert len(said) == 1


def test_what_is_put_into_our_store_is_removed(at: Path, tmp_path: Path) -> None:
    assert ask(at)[0] == 3
    forged = tmp_path / "forged"
    forged.mkdir()
    write(forged, "web", 9)
    assert ask(forged)[0] == 9
    # As rsync does, which writes into what is there: a table in the place of ours, another host's, and a link.
    (ours,) = (at / INSIDE).glob("event/day=2026*/*/*.parquet")
    (theirs,) = (forged / INSIDE).glob("event/day=2026*/*/*.parquet")
    shutil.copy2(theirs, ours)
    for state in (forged / INSIDE / ".state").iterdir():
        shutil.copy2(state, at / INSIDE / ".state")
    planted = ours.parent.with_name("host=planted")
    planted.mkdir()
    shutil.copy(theirs, planted / "planted.parquet")
    (ours.parent / "link.parquet").symlink_to(theirs)
    none = at / INSIDE / "event" / "day=none" / "host=none" / "none.parquet"
    shutil.copy(theirs, none)
    ours.parents[1].with_name("day=2026-11-27").symlink_to(theirs.parents[1])
    assert ask(at) == (3, at / INSIDE, [])
    assert not planted.exists()
    with tcpwhy_fleet.open(at) as fleet:
        assert fleet.rows("SELECT DISTINCT host FROM event") == [{"host": "web"}]
        assert fleet.rows(COUNT) == [{"n": 3}]


def test_a_table_that_is_a_link_is_made_anew(at: Path, tmp_path: Path) -> None:
    assert ask(at)[0] == 3
    away = tmp_path / "away"
    for name in ("event", "recording", ".state", ".unpacked"):
        (at / INSIDE / name).rename(away.with_name(name))
        (at / INSIDE / name).symlink_to(away.with_name(name))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert ask(at) == (3, at / INSIDE, [])
    assert {path: path.stat().st_mtime_ns for path in before if at not in path.parents} == {
        path: mtime for path, mtime in before.items() if at not in path.parents
    }


def test_a_store_that_is_a_link_is_not_followed(at: Path, cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (at / INSIDE).symlink_to(other)
    n, store, said = ask(at)
    assert (n, is_in_cache(store, cache)) == (3, True)
    assert "it is a link, or no directory" in said[0]
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_where_others_may_write_there_is_no_store_of_ours(mode: int, at: Path, cache: Path) -> None:
    at.chmod(mode)
    n, store, said = ask(at)
    assert (n, is_in_cache(store, cache)) == (3, True)
    assert f"others may write in {at}" in said[0]
    assert not (at / INSIDE).exists()


def test_where_everybody_renames_his_own_there_may_be_one(at: Path) -> None:
    at.chmod(0o1777)
    assert ask(at) == (3, at / INSIDE, [])


@needs_root
def test_in_a_directory_of_somebody_else_there_is_none(at: Path, cache: Path) -> None:
    os.chown(at, NOBODY, NOBODY)
    n, store, said = ask(at)
    assert (n, is_in_cache(store, cache)) == (3, True)
    assert f"{at} belongs to somebody else" in said[0]


@needs_root
def test_a_store_of_somebody_else_is_not_used(at: Path, cache: Path) -> None:
    (at / INSIDE).mkdir()
    os.chown(at / INSIDE, NOBODY, NOBODY)
    n, store, said = ask(at)
    assert (n, is_in_cache(store, cache)) == (3, True)
    assert "it belongs to somebody else" in said[0]


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "XDG_STATE_HOME"])
def test_without_a_home_it_is_made_for_the_run(
    variable: str, at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "open"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    monkeypatch.setenv(variable, str(place))
    # Nor is there a place for it within.
    at.chmod(0o777)
    n, store, said = ask(at)
    assert n == 3
    assert "made for this run alone: XDG_STATE_HOME and XDG_CACHE_HOME name" in said[0]
    assert not store.exists()
    assert not (at / INSIDE).exists()


def test_a_store_that_the_user_names_is_his_or_refused(at: Path, tmp_path: Path) -> None:
    new, full = tmp_path / "a" / "new", tmp_path / "full"
    assert ask(at, store=new) == (3, new, [])
    assert ask(at, store=new) == (3, new, [])
    full.mkdir()
    (full / "thesis.txt").write_text("precious")
    with pytest.raises(UnfitError, match="it was not made here by you; name another --store"):
        ask(at, store=full)
    assert [path.name for path in full.iterdir()] == ["thesis.txt"]


def test_a_note_counts_where_it_was_made_and_nowhere_else(tmp_path: Path) -> None:
    with Dir.given(tmp_path) as within:
        one, other = within.made("one"), within.made("other")
    seal = owned.Seal(b"k" * 32, one)
    seal.write(one, "a.json", {"x": 1})
    assert seal.read(one, "a.json") == {"x": 1}
    text = one.read("a.json", 1000)
    forged = [text, text.replace(b"1}", b"2}"), b'{"seal": "\\u00e9", "said": "{}"}', b"[" * 100_000, b'{"seal": 7}']
    for name, what in zip("bcdef", forged, strict=True):
        one.write(f"{name}.json", what)
    assert [seal.read(one, f"{name}.json") for name in "bcdefg"] == [None] * 6
    one.write("a.json", forged[1])
    assert seal.read(one, "a.json") is None
    # Another key, another store.
    assert owned.Seal(b"l" * 32, one).read(one, "a.json") is None
    other.write("a.json", text)
    assert owned.Seal(b"k" * 32, other).read(other, "a.json") is None


def test_the_key_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = owned.key()
    key = tmp_path / "state" / "tcpwhy-fleet" / "key"
    assert (stat.S_IMODE(key.stat().st_mode), key.stat().st_size) == (0o600, 32)
    assert first == owned.key() == key.read_bytes()
    key.chmod(0o644)
    assert owned.key() is None
    key.unlink()
    key.symlink_to(tmp_path / "other")
    assert owned.key() is None


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def directory(path: Path) -> None:
    path.mkdir()


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def surrogates(path: Path) -> None:
    path.write_text(json.dumps({"web.tcpwhy": {"rack": "\ud800", "role": {"a": [1]}, "zone": 7}}))


@pytest.mark.parametrize("make", [fifo, endless, directory, large, deep, surrogates])
@pytest.mark.parametrize("name", ["labels.json", "collected.json"])
def test_what_lies_beside_the_recordings_costs_nothing_but_itself(
    name: str, make: Callable[[Path], None], at: Path
) -> None:
    make(at / name)
    with tcpwhy_fleet.open(at) as fleet:
        assert fleet.rows(COUNT) == [{"n": 3}]
        assert fleet.rows("SELECT host, zone FROM hosts")[0]["host"] == "web"
        assert [path.name for path in fleet.store.left_out] == ([name] if make is not surrogates else [])


@pytest.mark.parametrize("make", [fifo, endless, directory, large])
def test_nothing_in_a_store_is_waited_for(make: Callable[[Path], None], at: Path, cache: Path) -> None:
    assert ask(at)[0] == 3
    (note,) = (at / INSIDE / ".state").iterdir()
    for path in (note, at / INSIDE / ".lock", at / INSIDE / ".copies"):
        path.unlink(missing_ok=True)
        make(path)
    assert ask(at) == (3, at / INSIDE, [])
    mark = at / INSIDE / "tcpwhy-fleet.json"
    mark.unlink()
    make(mark)
    n, store, _ = ask(at)
    assert (n, is_in_cache(store, cache)) == (3, True)


@pytest.mark.parametrize("make", [fifo, endless, directory, large])
def test_no_part_of_a_recording_is_waited_for(make: Callable[[Path], None], at: Path) -> None:
    for place in ("manifest.json", "event/000001.parquet", "event"):
        path = write(at, f"odd-{place.replace('/', '-')}") / place
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        make(path)
    make(at / "packed.tcpw")
    with tcpwhy_fleet.open(at) as fleet:
        n = fleet.rows(COUNT)[0]["n"]
        left_out = {path.name for path in fleet.store.left_out}
    # An empty directory in the place of a table is a table without rows.
    assert n == 3
    assert left_out >= {"odd-manifest.json.tcpwhy", "odd-event-000001.parquet.tcpwhy", "packed.tcpw"}


def test_hosts_may_come_from_a_pipe_and_not_without_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(tmp_path / "out")]
    assert main(["collect", "--hosts", "/dev/zero", *out]) == 1
    assert "larger than the" in capsys.readouterr().err
    read, write_end = os.pipe()
    os.write(write_end, b"web1 rack\n")
    os.close(write_end)
    assert main(["collect", "--hosts", f"/dev/fd/{read}", *out]) == 1
    assert "'rack' is not a valid label" in capsys.readouterr().err
    os.close(read)
