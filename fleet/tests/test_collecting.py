"""collect over an ssh that is made up: hosts, disks and signals that get in its way."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import collect, files, parts
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.files import Dir, NoRoomError, Room, Share
from tcpwhy_fleet.hosts import Host
from tcpwhy_fleet.unfit import UnfitError

from . import fake_ssh, lab
from .fake_ssh import FakeSsh
from .recordings import Made

pytestmark = pytest.mark.usefixtures("in_time")
COMMAND = [sys.executable, "-m", "tcpwhy_fleet.cli"]
# Whoever runs these tests may do so under nohup, or in the background.
MINDING = ["env", "--default-signal=HUP,INT", *COMMAND]
# A host of which something has come, and more is to come.
BEGUN = 'printf begun; touch "$at/begun.$host"'
SENDS_ON = f"{BEGUN}; exec sleep 60"


def made(host: str, **more: Any) -> Made:
    recording = Made(host, **more)
    recording.row("event", 1.0, kind="state", state="SYN_SENT", local_port=9, remote_port=80, sock=5)
    return recording


@pytest.fixture
def ssh(tmp_path: Path) -> FakeSsh:
    at = tmp_path / "ssh.d"
    at.mkdir()
    return FakeSsh(at)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def left_in(out: Path) -> set[str]:
    """What is there beside the store."""
    return {path.name for path in out.iterdir()} - {".tcpwhy-fleet"}


def modes(at: Path) -> set[tuple[str, int]]:
    """The modes of all that is below, by what it is."""
    found = [at, *at.rglob("*")]
    return {("dir" if path.is_dir() else "file", stat.S_IMODE(path.stat().st_mode)) for path in found}


def test_what_is_collected_is_its_owners_alone(ssh: FakeSsh, out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ssh.sends("web1", made("web1").packed(), labels="rack=r1")
    ssh.host("web2", "echo nothing here >&2; exit 3")
    former = os.umask(0o022)
    try:
        assert main(ssh.arguments(out)) == 0
        with tcpwhy_fleet.open(out) as fleet:
            assert fleet.rows("SELECT host, rack FROM recordings") == [{"host": "web1", "rack": "r1"}]
            assert fleet.rows("SELECT COUNT(*) AS n FROM event") == [{"n": 1}]
    finally:
        os.umask(former)
    said = capfd.readouterr().err
    assert "FAILED web2: nothing here" in said
    assert "1 recording of 2 hosts" in said
    assert "not recorded: web2" in said
    assert left_in(out) == {"web1.tcpw", "labels.json", "collected.json"}
    assert modes(out) == {("dir", 0o700), ("file", 0o600)}


def test_ssh_reads_nothing_of_ours(ssh: FakeSsh, out: Path) -> None:
    ssh.sends("web1", made("web1").packed())
    done = subprocess.run([*COMMAND, *ssh.arguments(out)], input=b"group2\ngroup3\n", check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (ssh.at / "stdin.web1").read_text() == ""


@pytest.mark.parametrize("clock", ["9" * 401, "0.5", "4102444801", "1e9", "-5", "nan", "inf", "", "soon"])
def test_a_clock_that_is_none_costs_its_host_alone(
    clock: str, ssh: FakeSsh, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ssh.sends("web1", made("web1").packed())
    ssh.sends("odd", made("odd").packed(), clock=f"{clock}\n")
    assert main(ssh.arguments(out)) == 0
    said = capfd.readouterr().err
    assert "FAILED odd: " in said
    assert "1 recording of 2 hosts" in said
    assert "not recorded: odd" in said
    assert "Traceback" not in said


def test_a_bug_about_a_host_costs_that_host(
    ssh: FakeSsh, out: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def clock(host: Host, _: bytes) -> float:
        if host.address == "odd":
            raise OverflowError("cannot convert float infinity to integer")
        return time.time()

    monkeypatch.setattr(collect, "_clock", clock)
    for name in ("web1", "odd"):
        ssh.sends(name, made(name).packed())
    assert main(ssh.arguments(out)) == 0
    said = capfd.readouterr().err
    assert "FAILED a bug of tcpwhy-fleet, please report it: OverflowError" in said
    assert "not recorded: odd" in said


def test_a_disk_without_room_is_said_before_anybody_records(
    ssh: FakeSsh, out: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh.host("web1", SENDS_ON)
    monkeypatch.setattr(collect, "free_bytes", lambda _: 1 << 20)
    assert main(ssh.arguments(out)) == 1
    said = capfd.readouterr().err
    assert f"{out}: 1 MB are free" in said
    assert "name another -o" in said
    assert not (ssh.at / "pids.web1").exists()


def test_a_disk_that_fills_ends_who_sends(
    ssh: FakeSsh, out: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh.host("big", "head -c 3000000 /dev/zero; exec sleep 60")
    ssh.sends("web1", made("web1").packed())
    monkeypatch.setattr(Room, "look", lambda _: None)
    monkeypatch.setattr(files, "room_at", lambda _: 2_000_000)
    began = time.monotonic()
    try:
        assert main(ssh.arguments(out)) == 0
        assert time.monotonic() - began < 30
        said = capfd.readouterr().err
        assert "FAILED big: larger than its share of the 1 MB that there is room for" in said
        assert "name another -o" in said
        assert not fake_ssh.runs(ssh.pids("big")[0])
    finally:
        fake_ssh.end(ssh.pids("big"))
    assert left_in(out) == {"web1.tcpw", "labels.json", "collected.json"}


def test_who_sends_without_end_leaves_room_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "room_at", lambda _: 1000)
    room = Room(tmp_path, 8 << 30, 2)
    with Share(room) as small, pytest.raises(NoRoomError, match="its share of"), Share(room) as endless:
        while True:
            endless.take(10)
            small.take(1)
    # It had taken 470 when 483 were left; they are free again.
    room.take(1000 - 47)
    with pytest.raises(NoRoomError, match="larger than the 0 MB"):
        room.take(1)


def test_who_else_fills_the_disk_is_noticed_while_copying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [8 << 20]
    monkeypatch.setattr(files, "free_bytes", lambda _: free[0])
    room = Room(tmp_path, 8 << 30)
    room.take(1 << 20)
    free[0] = 1 << 20
    with pytest.raises(UnfitError, match="the disk is nearly full, 1 MB are free"):
        room.take(1)


def test_a_write_that_fails_ends_who_sends(ssh: FakeSsh, out: Path) -> None:
    # As on a full disk: no file may be larger. What is asked of ssh beside is short.
    ssh.host("web1", "head -c 3000000 /dev/zero; exec sleep 60")

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    began = time.monotonic()
    command = [*COMMAND, *ssh.arguments(out)]
    done = subprocess.run(command, preexec_fn=bound, capture_output=True, text=True, check=False)
    try:
        assert time.monotonic() - began < 30
        assert done.returncode == 1
        assert f"FAILED web1: writing {out}/web1.tcpw: File too large; name another -o" in done.stderr
        assert "not recorded: web1" in done.stderr
        assert not fake_ssh.runs(ssh.pids("web1")[0])
    finally:
        fake_ssh.end(ssh.pids("web1"))
    assert left_in(out) == set()


@pytest.fixture
def collecting(ssh: FakeSsh, out: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begins to collect, until the hosts that there are record."""
    running: list[subprocess.Popen[str]] = []

    def begin(*hosts: str) -> subprocess.Popen[str]:
        command = [*MINDING, *ssh.arguments(out), "--for", "60s"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        running.append(process)
        ssh.pids(*hosts)
        lab.wait(lambda: all((ssh.at / f"begun.{host}").exists() for host in hosts), 30)
        assert all((out / f".{host}.tcpw.part").exists() for host in hosts)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()
    fake_ssh.end([int(path.read_text()) for path in ssh.at.glob("pids.*")])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_ssh_and_leaves_nothing(
    number: signal.Signals, ssh: FakeSsh, out: Path, collecting: Callable[..., subprocess.Popen[str]]
) -> None:
    ssh.host("web1", SENDS_ON)
    # One that ends with what it started, and one that does not want to.
    ssh.host("web2", f"{BEGUN}; sleep 60; exit 0")
    ssh.host("web3", f"trap '' TERM INT HUP; {BEGUN}; while :; do sleep 1; done")
    process = collecting("web1", "web2", "web3")
    began = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    # Two seconds, on a machine that has nothing else to do.
    assert time.monotonic() - began < 6
    assert process.returncode == 128 + number
    assert "Traceback" not in said
    assert left_in(out) == set()
    pids = ssh.pids("web1", "web2", "web3")
    lab.wait(lambda: not any(map(fake_ssh.runs, pids)), 5)


def test_under_nohup_it_goes_on(ssh: FakeSsh, out: Path) -> None:
    (ssh.at / "sent").write_bytes(made("web1").packed())
    ssh.host("web1", 'while [ ! -e "$at/go" ]; do sleep 0.05; done; cat "$at/sent"')
    process = subprocess.Popen(["nohup", *COMMAND, *ssh.arguments(out)], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        ssh.pids("web1")
        process.send_signal(signal.SIGHUP)
        (ssh.at / "go").touch()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()
    assert (out / "web1.tcpw").exists()


def test_what_a_killed_collection_left_goes_and_what_is_written_stays(
    ssh: FakeSsh, out: Path, collecting: Callable[..., subprocess.Popen[str]]
) -> None:
    ssh.host("web1", SENDS_ON)
    process = collecting("web1")
    # A second collection into the same directory meanwhile: it has a file of its own.
    ssh.hosts.write_text("")
    (ssh.at / "pids.web1").rename(ssh.at / "pids.first")
    ssh.sends("web1", made("web1").packed())
    assert main(ssh.arguments(out)) == 0
    assert left_in(out) == {".web1.tcpw.part", "web1-2.tcpw", "labels.json", "collected.json"}
    process.kill()
    process.communicate()
    assert main(ssh.arguments(out)) == 0
    assert left_in(out) == {"web1.tcpw", "web1-2.tcpw", "labels.json", "collected.json"}


def test_a_part_is_never_written_through_a_link(ssh: FakeSsh, out: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out.mkdir()
    for name in (".web1.tcpw.part", "labels.json", "collected.json", ".labels.json.new"):
        (out / name).symlink_to(victim)
    ssh.sends("web1", made("web1").packed())
    assert main(ssh.arguments(out)) == 0
    assert victim.read_text() == "precious"
    assert left_in(out) == {"web1.tcpw", "labels.json", "collected.json"}
    assert not any(path.is_symlink() for path in out.iterdir())


def test_a_name_goes_to_one_host_and_none_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "web.tcpw").touch()
    with Dir.given(tmp_path) as out, parts.Parts(out, [Host("web"), Host("db"), Host("a/b"), Host("a_b")]) as made_for:
        names = {"web": "web-2.tcpw", "db": "db.tcpw", "a/b": "a_b.tcpw", "a_b": "a_b-2.tcpw"}
        assert made_for.names == names
    assert {path.name for path in tmp_path.iterdir()} == {"web.tcpw"}


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("web1", "web1"),
        ("root@web1", "web1"),
        ("ssh://root@web1:2222", "web1"),
        ("ssh://web1/", "web1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_origin_is_the_host_of_what_ssh_takes(address: str, origin: str) -> None:
    assert Host(address).origin == origin


def test_the_host_is_the_address_whatever_a_recording_claims(
    ssh: FakeSsh, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = made("web1"), made("web1", seconds=11)
    # It claims another's name, boot and seconds, one more than that has, and another's rack.
    bad.row("event", 2.0, kind="state", state="SYN_SENT", local_port=10, remote_port=80, sock=6)
    bad.manifest["labels"] = ["rack=r1"]
    ssh.sends("admin@web1.example", good.packed(), labels="rack=r1")
    ssh.sends("web2.example", bad.packed(), labels="rack=r2")
    assert main(ssh.arguments(out)) == 0
    claim = (
        "admin_web1.example.tcpw (from web1.example) and web2.example.tcpw (from web2.example) claim to be web1 in the"
        " same seconds"
    )
    assert claim in capfd.readouterr().err
    assert json.loads((out / "collected.json").read_text()) == {
        "admin_web1.example.tcpw": "web1.example",
        "web2.example.tcpw": "web2.example",
    }
    with tcpwhy_fleet.open(out) as fleet:
        assert not fleet.store.left_out
        rows = fleet.rows(
            "SELECT r.host, r.name, r.rack, COUNT(*) AS n FROM recordings AS r JOIN event AS e ON e.rec = r.rec"
            " GROUP BY ALL ORDER BY 1"
        )
        assert [tuple(row.values()) for row in rows] == [
            ("web1.example", "web1", "r1", 1),
            ("web2.example", "web1", "r2", 2),
        ]
        assert fleet.rows("SELECT DISTINCT host FROM event ORDER BY 1") == [
            {"host": "web1.example"},
            {"host": "web2.example"},
        ]


def test_what_another_address_has_sent_byte_for_byte_displaces_nothing(ssh: FakeSsh, out: Path) -> None:
    sent = made("web1").packed()
    for name in ("web1.example", "a.example"):
        ssh.sends(name, sent)
    assert main(ssh.arguments(out)) == 0
    # A copy of no known origin counts once.
    shutil.copy(out / "web1.example.tcpw", out / "0.tcpw")
    with tcpwhy_fleet.open(out) as fleet:
        assert {path.name: why for path, why in fleet.store.left_out.items()} == {"0.tcpw": "a copy of a.example.tcpw"}
        hosts = fleet.rows("SELECT host, COUNT(*) AS n FROM event GROUP BY host ORDER BY host")
        assert hosts == [{"host": "a.example", "n": 1}, {"host": "web1.example", "n": 1}]


def test_what_was_fetched_has_no_origin(ssh: FakeSsh, out: Path, tmp_path: Path) -> None:
    ssh.sends("web1.example", made("web1").packed())
    assert main(ssh.arguments(out)) == 0
    (out / "web1.example.tcpw").unlink()
    there = tmp_path / "there"
    there.mkdir()
    (there / "web1.example.tcpw").write_bytes(made("somebody").packed())
    assert main(["collect", "--from", str(there), "-o", str(out), "--no-explain"]) == 0
    assert json.loads((out / "collected.json").read_text()) == {}
    with tcpwhy_fleet.open(out) as fleet:
        assert fleet.rows("SELECT host FROM hosts") == [{"host": "somebody"}]


def test_fetching_takes_the_files_of_recordings_and_follows_no_link(
    out: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    there, secret = tmp_path / "there", tmp_path / "secret"
    there.mkdir()
    secret.write_text("secret")
    made("web").write(there)
    (there / "web.tcpwhy" / "notes.txt").write_text("no part of it")
    away = made("away").write(there) / "event"
    (away / "000002.parquet").symlink_to(secret)
    os.mkfifo(there / "waits.tcpw")
    (there / "linked.tcpw").symlink_to(secret)
    (there / "endless.tcpw").symlink_to("/dev/zero")
    (there / "file.tcpwhy").write_text("no directory")
    (there / "empty.tcpwhy").mkdir()
    former = os.umask(0o022)
    try:
        assert main(["collect", "--from", str(there), "-o", str(out), "--no-explain"]) == 0
    finally:
        os.umask(former)
    said = capfd.readouterr().err
    for name in ("away.tcpwhy", "waits.tcpw", "linked.tcpw", "endless.tcpw", "empty.tcpwhy"):
        assert f"FAILED {name}: " in said
    assert left_in(out) == {"web.tcpwhy", "file.tcpwhy"}
    assert not (out / "web.tcpwhy" / "notes.txt").exists()
    assert modes(out) == {("dir", 0o700), ("file", 0o600)}
