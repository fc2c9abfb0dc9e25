"""collect over a real sshd in each of three namespaces, and what it does with hosts that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import collect, hosts
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.unfit import UnfitError

from . import lab, reach
from .reach import Reachable
from .recordings import Made


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reachable]:
    """Three hosts with sshd."""
    if why := lab.why_not():
        pytest.fail(why)
    with reach.reachable(tmp_path_factory.mktemp("reachable"), ["h1", "h2", "h3"]) as found:
        yield found


@pytest.mark.ssh
def test_the_same_seconds_on_many_hosts(
    reachable: Reachable, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "hosts.txt", tmp_path / "out"
    # h3's tcpwhy knows no such namespace, and nobody is h9.
    (reachable.at / "netns.h3").write_text("nowhere")
    file.write_text("# the hosts\nh1 rack=r1 role=web\nh2 rack=r2\nh3\nh9\n")
    load = reachable.lab.client("h1", "h2", "--keep", "--request", "5000", name="mesh", seconds=20)
    try:
        arguments = [
            "collect",
            "--hosts",
            str(file),
            "-o",
            str(out),
            "--for",
            "2s",
            "--at",
            "+2s",
            "--ssh",
            reachable.ssh,
            "--tcpwhy",
            str(reachable.tcpwhy),
        ]
        assert main([*arguments, "--no-explain"]) == 0
    finally:
        load.kill()
        load.wait()
    said = capfd.readouterr().err
    assert "3 hosts reached" in said
    assert "FAILED h9:" in said
    assert "FAILED h3:" in said
    assert "2 recordings of 4 hosts" in said
    assert "not recorded: h3 and h9" in said
    assert sorted(path.name for path in out.glob("*.tcpw")) == ["h1.tcpw", "h2.tcpw"]
    with tcpwhy_fleet.open(out) as fleet:
        assert not fleet.store.left_out
        rows = fleet.rows("SELECT host, rack, role, started_at_ns, seconds FROM recordings ORDER BY host")
        assert [(r["host"], r["rack"], r["role"]) for r in rows] == [("h1", "r1", "web"), ("h2", "r2", None)]
        # Agreed on: the recorders take different times to attach, and no more.
        assert abs(rows[0]["started_at_ns"] - rows[1]["started_at_ns"]) < 3e9
        assert fleet.rows("SELECT COUNT(*) AS n FROM pairs")[0]["n"] >= 1


@pytest.mark.ssh
def test_no_host_at_all_is_an_error(reachable: Reachable, tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("h9\n")
    arguments = ["collect", "--hosts", str(tmp_path / "hosts.txt"), "-o", str(tmp_path / "out"), "--ssh", reachable.ssh]
    assert main(arguments) == 1


def test_recordings_are_held_against_each_other_by_one_clock(tmp_path: Path) -> None:
    paths = [Made("web").write(tmp_path), Made("db", clock_s=180).write(tmp_path)]
    measured = dict(zip(paths, (0.0, 180.0), strict=True))
    assert collect.overlap(tmp_path, measured) == ["they begin within 0 ms; 10.0 s are in all of them"]
    (said,) = collect.overlap(tmp_path, dict.fromkeys(paths, 0.0))
    assert said.startswith("no second is in all of them")


def test_a_clock_is_off_where_ssh_can_tell() -> None:
    of = [collect.Reached(hosts.Host(name), *clock) for name, clock in (("a", (0.3, 0.4)), ("b", (-5.0, 0.1)))]
    assert collect.clocks(of) == ["b: its clock is 5 s ± 100 ms behind the one here"]
    assert [reached.ahead_s for reached in of] == [0.0, -5.0]


def test_fetches_what_something_else_has_filled(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    there, out = tmp_path / "there", tmp_path / "out"
    there.mkdir()
    made = Made("web")
    made.row("counter", 1.0, group="Tcp", name="InSegs", value=1)
    made.write(there)
    (there / "packed.tcpw").write_bytes(b"not one")
    (there / "notes.txt").write_text("")
    assert main(["collect", "--from", there.as_uri(), "-o", str(out), "--no-explain"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["packed.tcpw", "web.tcpwhy"]
    assert "fetched 2 recordings" in capfd.readouterr().err
    with tcpwhy_fleet.open(out) as fleet:
        assert [row["host"] for row in fleet.rows("SELECT host FROM hosts")] == ["web"]
    # A second time, what is there stays.
    assert main(["collect", "--from", str(there), "-o", str(out), "--no-explain"]) == 0
    assert "web.tcpwhy: is there" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no host"),
        ("-oProxyCommand=evil\n", "is not a valid host"),
        ("web1 rack\n", "is not a valid label"),
        ("web1\nweb1\n", "twice"),
    ],
)
def test_a_file_of_hosts_that_is_wrong(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text(text)
    with pytest.raises(UnfitError, match=why):
        hosts.read(tmp_path / "hosts.txt")


@pytest.mark.parametrize("text", ["30", "0s", "s", "-1s", "1d"])
def test_a_length_of_time_that_is_none(text: str) -> None:
    with pytest.raises(UnfitError, match="not a valid duration"):
        collect.seconds(text)
