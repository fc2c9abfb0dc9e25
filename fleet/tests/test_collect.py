"""collect over a real sshd in each of three namespaces, and what it does with hosts that fail."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import collect, hosts
from tcpwhy_fleet.cli import main
from tcpwhy_fleet.manifest import UnfitError

from . import lab
from .recordings import Made

SSHD = Path("/usr/sbin/sshd")
CONFIG = """
Port 2222
HostKey {at}/host_key
AuthorizedKeysFile {at}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
"""
CLIENT = """
Host h*
  Port 2222
  User root
  IdentityFile {at}/key
  UserKnownHostsFile {at}/known
  StrictHostKeyChecking accept-new
"""
# The tcpwhy of a host records its own namespace: all of them share one kernel.
WRAPPED = """#!/bin/sh
case $1 in
record) shift; exec {tcpwhy} record --netns "$(cat {at}/netns.$(hostname))" "$@" ;;
*) exec {tcpwhy} "$@" ;;
esac
"""


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def reachable(tmp_path: Path) -> Iterator[tuple[lab.Lab, str, Path]]:
    """Three hosts with sshd; how to call ssh from the router, and the tcpwhy of hosts."""
    if why := lab.why_not():
        pytest.fail(why)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "host_key")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    (tmp_path / "sshd_config").write_text(CONFIG.format(at=tmp_path))
    names = "".join(f"Host h{i}\n  HostName 198.18.{i}.2\n" for i in range(1, 10))
    (tmp_path / "ssh_config").write_text(names + CLIENT.format(at=tmp_path))
    wrapped = tmp_path / "tcpwhy"
    wrapped.write_text(WRAPPED.format(at=tmp_path, tcpwhy=lab.TCPWHY))
    wrapped.chmod(0o755)
    made = not Path("/run/sshd").exists()
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    servers = []
    with lab.planted() as planted:
        try:
            for host in ("h1", "h2", "h3"):
                (tmp_path / f"netns.{host}").write_text(planted.netns[host])
                within = [
                    "nsenter",
                    f"--net=/run/netns/{planted.netns[host]}",
                    str(SSHD),
                    "-D",
                    "-f",
                    str(tmp_path / "sshd_config"),
                ]
                renamed = ["unshare", "--uts", "sh", "-c", 'hostname "$1"; shift; exec "$@"', "sh", host, *within]
                servers.append(subprocess.Popen(renamed, stderr=subprocess.DEVNULL))
            ssh = f"nsenter --net=/run/netns/{planted.netns['r']} ssh -F {tmp_path / 'ssh_config'}"
            _wait_for(ssh, ["h1", "h2", "h3"])
            yield planted, ssh, wrapped
        finally:
            for server in servers:
                server.terminate()
                server.wait()
            if made:
                Path("/run/sshd").rmdir()


def _wait_for(ssh: str, names: list[str]) -> None:
    for name in names:
        for _ in range(100):
            if subprocess.run([*ssh.split(), name, "true"], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        else:
            raise TimeoutError(name)


@pytest.mark.ssh
def test_the_same_seconds_on_many_hosts(
    reachable: tuple[lab.Lab, str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    planted, ssh, tcpwhy = reachable
    file, out = tmp_path / "hosts.txt", tmp_path / "out"
    # h3's tcpwhy knows no such namespace, and nobody is h9.
    (tmp_path / "netns.h3").write_text("nowhere")
    file.write_text("# the hosts\nh1 rack=r1 role=web\nh2 rack=r2\nh3\nh9\n")
    load = planted.client("h1", "h2", "--keep", "--request", "5000", name="mesh", seconds=20)
    try:
        arguments = [
            "collect",
            "--hosts",
            str(file),
            "-o",
            str(out),
            "--for",
            "2s",
            "--ssh",
            ssh,
            "--tcpwhy",
            str(tcpwhy),
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
    assert sorted(path.name for path in out.glob("*.tcpw")) == ["h1.tcpw", "h2.tcpw"]
    with tcpwhy_fleet.open(out) as fleet:
        assert not fleet.store.left_out
        rows = fleet.rows("SELECT host, rack, role, started_at_ns, seconds FROM recordings ORDER BY host")
        assert [(r["host"], r["rack"], r["role"]) for r in rows] == [("h1", "r1", "web"), ("h2", "r2", None)]
        # Agreed on: the recorders take different times to attach, and no more.
        assert abs(rows[0]["started_at_ns"] - rows[1]["started_at_ns"]) < 3e9
        assert fleet.rows("SELECT COUNT(*) AS n FROM pairs")[0]["n"] >= 1


@pytest.mark.ssh
def test_no_host_at_all_is_an_error(reachable: tuple[lab.Lab, str, Path], tmp_path: Path) -> None:
    _, ssh, _ = reachable
    (tmp_path / "hosts.txt").write_text("h9\n")
    arguments = ["collect", "--hosts", str(tmp_path / "hosts.txt"), "-o", str(tmp_path / "out"), "--ssh", ssh]
    assert main(arguments) == 1


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
        ("-oProxyCommand=evil\n", "is no host"),
        ("web1 rack\n", "is no label"),
        ("web1\nweb1\n", "twice"),
    ],
)
def test_a_file_of_hosts_that_is_wrong(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text(text)
    with pytest.raises(UnfitError, match=why):
        hosts.read(tmp_path / "hosts.txt")


@pytest.mark.parametrize("text", ["30", "0s", "s", "-1s", "1d"])
def test_a_length_of_time_that_is_none(text: str) -> None:
    with pytest.raises(UnfitError, match="no length of time"):
        collect.seconds(text)
