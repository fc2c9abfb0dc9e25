"""What is needed only while a question runs goes with it: at a signal at once, of what was killed with the next run."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tcpwhy_fleet.files import Dir
from tcpwhy_fleet.scratch import Scratch, sweep

from . import lab
from .recordings import Made

pytestmark = pytest.mark.usefixtures("in_time")
COMMAND = [sys.executable, "-m", "tcpwhy_fleet.cli"]
# Whoever runs these tests may do so under nohup, or in the background.
MINDING = ["env", "--default-signal=HUP,INT", *COMMAND]
QUERY = "SELECT name, kernel FROM recordings"


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """A recording."""
    at = tmp_path / "m"
    at.mkdir()
    Made("web").write(at)
    return at


def dead(thing: str) -> str:
    """The name of something whose process has ended."""
    # One more than the largest pid that Linux gives.
    return f"tcpwhy-4194304-1-1-{thing}"


def test_a_scratch_is_ours_alone_and_goes() -> None:
    made = Scratch()
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    # As tcpwhy calls its own: it sweeps them, too.
    _, pid, started, run, thing, _ = made.path.name.split("-")
    assert (int(pid), thing) == (os.getpid(), "fleet")
    assert int(started) > 0 < int(run)
    assert sweep(made.path.parent) == []
    made.cleanup()
    assert not made.path.exists()
    made.cleanup()


def test_what_the_dead_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left, held, other = (tmp_path / dead(thing) for thing in ("fleet-a1", "fleet-b2", "record-c3"))
    for path in (left, held, other, tmp_path / "tcpwhy-x-1-1-fleet-a", tmp_path / "tcpwhy-fleet-abc"):
        (path / "within").mkdir(parents=True)
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / dead("fleet-link")).symlink_to(target)
    (tmp_path / dead("fleet-file")).write_text("")
    # As another pid namespace sees it: nobody has the pid, but somebody holds the lock.
    with Dir.given(held) as holder:
        fcntl.flock(holder.handle, fcntl.LOCK_EX)
        before = {path.name for path in tmp_path.iterdir()}
        assert sweep(tmp_path) == [left]
        assert {path.name for path in tmp_path.iterdir()} == before - {left.name}
    assert sweep(tmp_path) == [held]
    assert sweep(tmp_path / "nowhere") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="makes files of others")
def test_what_somebody_else_left_stays(tmp_path: Path) -> None:
    left = tmp_path / dead("fleet-a1")
    left.mkdir()
    os.chown(left, 65534, 65534)
    assert sweep(tmp_path) == []


ASKING = "SELECT COUNT(*) FROM range(100000000000) AS a(x) WHERE hash(x) = 1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_question_that_is_ended_leaves_nothing(number: signal.Signals, at: Path, tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    env = os.environ | {"TMPDIR": str(place)}
    command = [*MINDING, "sql", str(at), ASKING]
    asking = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        lab.wait(lambda: any(place.glob("*/kept.duckdb")), 60)
        asking.send_signal(number)
        _, said = asking.communicate(timeout=30)
    finally:
        asking.kill()
        asking.wait()
    if number != signal.SIGKILL:
        assert asking.returncode == 128 + number
        assert said == ""
        assert list(place.iterdir()) == []
        return
    assert len(list(place.iterdir())) == 1
    # The next run finds it.
    done = subprocess.run([*COMMAND, "sql", str(at), QUERY], env=env, capture_output=True, check=False)
    assert done.returncode == 0
    assert list(place.iterdir()) == []
