"""What is written and printed: files that were there stay until the new one is whole, and nobody's names act."""

from __future__ import annotations

import csv
import io
import os
import pty
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import commands, ending
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.target import Target
from tcpwhy_fleet.unfit import UnfitError

from .recordings import Made

pytestmark = pytest.mark.usefixtures("in_time")
COMMAND = [sys.executable, "-m", "tcpwhy_fleet.cli"]
# What a terminal obeys, and what a spreadsheet does.
ACTS, FORMULA = "\x1b]0;owned\x07\x1b[31m", '=HYPERLINK("http://evil")'
QUERY = "SELECT name, kernel FROM recordings"


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """A recording of a host that wants something."""
    at = tmp_path / "m"
    at.mkdir()
    made = Made(f"web{ACTS}")
    made.manifest["host"]["kernel"] = FORMULA
    made.write(at, "web")
    return at


def report(at: Path, out: Path) -> list[str]:
    return ["report", str(at), "-o", str(out)]


def sql(at: Path, out: Path, form: str = "csv") -> list[str]:
    return ["sql", str(at), QUERY, "--format", form, "-o", str(out)]


VERBS = [report, sql, lambda at, out: sql(at, out, "parquet"), lambda at, out: sql(at, out, "table")]


@pytest.mark.parametrize("verb", VERBS)
def test_a_link_is_replaced_and_its_target_is_not_touched(
    verb: Callable[[Path, Path], list[str]], at: Path, tmp_path: Path
) -> None:
    victim, link = tmp_path / "victim", tmp_path / "out"
    victim.write_text("precious")
    link.symlink_to(victim)
    assert main(verb(at, link)) == 0
    assert victim.read_text() == "precious"
    assert not link.is_symlink()
    assert link.stat().st_size > 10
    assert {path.name for path in tmp_path.iterdir()} == {"m", "out", "victim"}


@pytest.mark.parametrize("verb", VERBS)
def test_only_files_are_written(
    verb: Callable[[Path, Path], list[str]], at: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, why in (("fifo", "is a FIFO"), ("m", "is a directory"), ("no/out", "there is no such directory")):
        assert main(verb(at, tmp_path / path)) == 1
        (said,) = capsys.readouterr().err.splitlines()
        assert why in said
    assert main(verb(at, Path("/dev/full"))) == 1
    assert "is a device" in capsys.readouterr().err
    # Before anything was asked.
    assert [path.name for path in at.iterdir()] == ["web.tcpwhy"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_full_disk_keeps_the_older_file(form: str, tmp_path: Path) -> None:
    at, out = tmp_path / "m", tmp_path / "out"
    at.mkdir()
    Made("web").write(at)
    with tcpwhy_fleet.open(at):
        pass
    out.write_text("older")
    out.chmod(0o640)

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    query = "SELECT range AS n, md5(range::VARCHAR) AS text FROM range(100000)"
    command = [*COMMAND, "sql", str(at), query, "--format", form, "-o", str(out)]
    done = subprocess.run(command, preexec_fn=bound, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"tcpwhy-fleet: writing {out}: ")
    assert "File too large" in said
    assert out.read_text() == "older"
    assert {path.name for path in tmp_path.iterdir()} == {"m", "out"}
    assert subprocess.run(command, check=False).returncode == 0
    # Who made it private wants the next one so, too.
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


def test_what_fails_leaves_nothing_beside(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for failure in (OSError(28, "No space left on device"), ValueError("no"), ending.Ended(15)):
        with pytest.raises((UnfitError, ValueError, ending.Ended)), Target(out).opened() as file:
            file.write(b"half")
            raise failure
    assert list(tmp_path.iterdir()) == []


def test_what_is_open_already_is_written_to(at: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(sql(at, Path("-"))) == 0
    assert capfdbinary.readouterr().out.startswith(b"name,kernel\n")
    assert main(sql(at, Path("/dev/null"))) == 0
    read, write = os.pipe()
    assert main(sql(at, Path(f"/dev/fd/{write}"))) == 0
    os.close(write)
    assert os.read(read, 100).startswith(b"name,kernel\n")
    os.close(read)


def test_a_csv_has_no_formula(at: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "plain", "a=b"]
    query = ", ".join(f"'{text}' AS c{n}" for n, text in enumerate(texts))
    assert main(["sql", str(at), f"SELECT {query}, -1 AS n, -0.5 AS f", "--format", "csv", "-o", str(out)]) == 0
    (_, row) = csv.reader(io.StringIO(out.read_bytes().decode(), newline=""))
    assert row == [f"'{text}" for text in texts[:6]] + ["plain", "a=b", "-1", "-0.5"]
    # What programs read has texts as they are.
    assert main(["sql", str(at), f"SELECT {query}", "--format", "json", "-o", str(out)]) == 0
    assert '"=1+1"' in out.read_text()


def on_terminal(arguments: list[str]) -> bytes:
    """What a terminal is sent."""
    main_end, terminal = pty.openpty()
    process = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
    os.close(terminal)
    said = b""
    try:
        while chunk := os.read(main_end, 4096):
            said += chunk
    except OSError:
        # As Linux says that the other end is closed.
        pass
    process.wait()
    os.close(main_end)
    return said


@pytest.mark.parametrize("form", ["csv", "table", "json"])
def test_a_terminal_gets_no_escapes(form: str, at: Path, tmp_path: Path) -> None:
    said = on_terminal(["sql", str(at), QUERY, "--format", form])
    assert b"owned" in said
    assert not set(said) & set(range(32)) - set(b"\r\n")
    # And a pipe gets what there is.
    out = tmp_path / "out"
    assert main(sql(at, out)) == 0
    assert ACTS in out.read_text()


@pytest.mark.parametrize(
    "verb", ["findings", "ends", "blame", "report", "explain", "collect", "fetch", "sql", "nowhere", "argument"]
)
def test_no_path_acts(verb: str, tmp_path: Path) -> None:
    at = tmp_path / f"m{ACTS}"
    at.mkdir()
    made = Made(f"web{ACTS}", boot_id=ACTS)
    made.write(at, f"one{ACTS}")
    other = Made(f"web{ACTS}", boot_id=ACTS, seconds=9)
    other.write(at, f"two{ACTS}")
    (at / f"bad{ACTS}.tcpw").write_text("no recording")
    (at / f"worse{ACTS}.tcpwhy").mkdir()
    arguments = {
        "report": ["report", str(at), "-o", f"{at}/report.html"],
        "explain": ["explain", str(at), "--tcpwhy", f"sh -c 'printf \"{ACTS}\" >&2; exit 1'"],
        "collect": ["collect", "--hosts", f"{at}/none", "-o", str(at)],
        "fetch": ["collect", "--from", str(at), "-o", f"{at}/out", "--no-explain"],
        "sql": ["sql", str(at), f'SELECT * FROM "{ACTS}"'],
        "nowhere": ["findings", f"{at}/none"],
        "argument": ["findings", str(at), f"--{ACTS}"],
    }.get(verb, [verb, str(at)])
    said = on_terminal(arguments)
    assert b"owned" in said
    assert not set(said) & set(range(32)) - set(b"\r\n"), said


def test_what_is_said_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    commands.say("web1\nFAILED nothing\x1b[2J")
    assert capsys.readouterr().err == "web1\\u000aFAILED nothing\\u001b[2J\n"


def test_a_full_standard_output_is_an_error(at: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*COMMAND, "sql", str(at), QUERY, "--format", "csv"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["tcpwhy-fleet: [Errno 28] No space left on device"]
