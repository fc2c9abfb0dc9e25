"""An sshd at each host of the lab, and a tcpwhy there: what `collect` is tried with, and what it makes of all eight."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import lab

SSHD = Path("/usr/sbin/sshd")
SERVER = """
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
WRAPPED = """#!/bin/bash
set -o pipefail
host=$(hostname)
case $1 in
record)
    shift
    record() {{
        {tcpwhy} record --netns "$(cat {at}/netns.$host)" --ready-file {at}/ready.$host "$@"
    }}
    if [ -e {at}/clock.$host ]; then
        record "$@" | {python} {clock} "$(cat {at}/clock.$host)"
    else
        record "$@"
    fi ;;
*) exec {tcpwhy} "$@" ;;
esac
"""
# The clock of h2 is three minutes ahead.
CLOCKS_S = {"h2": 180.0}
LABELS = {
    host: f"rack=r{n // 4 + 1} role={'pool' if host in ('h5', 'h6') else 'mesh'}" for n, host in enumerate(lab.HOSTS)
}
# Recorders take seconds to attach where all hosts share two CPUs; the load begins when the last one has.
SECONDS = 20
DATE = """#!/bin/sh
exec /bin/date -d '{by_s:+g} seconds' "$@"
"""


@dataclass
class Reachable:
    """Hosts that ssh reaches from the router."""

    lab: lab.Lab
    # How ssh is called, and the tcpwhy of the hosts.
    ssh: str
    tcpwhy: Path
    at: Path

    def ready(self, hosts: Sequence[str]) -> None:
        """Waits until these are recorded."""
        lab.wait(lambda: all((self.at / f"ready.{host}").exists() for host in hosts), 60)


@contextmanager
def reachable(at: Path, hosts: Sequence[str], clocks_s: Mapping[str, float] | None = None) -> Iterator[Reachable]:
    """Makes the lab with an sshd at these hosts; clocks that are off are so for what ssh runs there and records."""
    for key in ("host_key", "key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at / key)
    (at / "sshd_config").write_text(SERVER.format(at=at))
    names = "".join(f"Host h{i}\n  HostName 198.18.{i}.2\n" for i in range(1, 10))
    (at / "ssh_config").write_text(names + CLIENT.format(at=at))
    wrapped = at / "tcpwhy"
    _script(wrapped, WRAPPED.format(at=at, tcpwhy=lab.TCPWHY, python=sys.executable, clock=lab.CLOCK))
    made = not Path("/run/sshd").exists()
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    servers = []
    with lab.planted() as planted:
        try:
            for host in hosts:
                (at / f"netns.{host}").write_text(planted.netns[host])
                options = []
                if by_s := (clocks_s or {}).get(host):
                    (at / f"clock.{host}").write_text(str(by_s))
                    (at / f"bin.{host}").mkdir()
                    _script(at / f"bin.{host}" / "date", DATE.format(by_s=by_s))
                    options = ["-o", f"SetEnv=PATH={at}/bin.{host}:/usr/sbin:/usr/bin:/sbin:/bin"]
                sshd = [str(SSHD), "-D", "-f", str(at / "sshd_config"), *options]
                within = ["nsenter", f"--net=/run/netns/{planted.netns[host]}", *sshd]
                renamed = ["unshare", "--uts", "sh", "-c", 'hostname "$1"; shift; exec "$@"', "sh", host, *within]
                servers.append(subprocess.Popen(renamed, stderr=subprocess.DEVNULL))
            ssh = f"nsenter --net=/run/netns/{planted.netns['r']} ssh -F {at / 'ssh_config'}"
            with ThreadPoolExecutor(len(hosts)) as threads:
                list(threads.map(lambda host: _wait_for(ssh, host), hosts))
            yield Reachable(planted, ssh, wrapped, at)
        finally:
            for server in servers:
                server.terminate()
                server.wait()
            if made:
                Path("/run/sshd").rmdir()


@dataclass
class Collected:
    """What `collect` made, and what it said."""

    at: Path
    said: str


def collect_all(at: Path) -> Collected:
    """Records all eight hosts over ssh, under load while they are recorded."""
    out, hosts = at / "out", at / "hosts.txt"
    hosts.write_text("".join(f"{host} {labels}\n" for host, labels in LABELS.items()))
    command = [sys.executable, "-m", "tcpwhy_fleet.cli", "collect", "--hosts", str(hosts), "-o", str(out)]
    command += ["--for", f"{SECONDS}s", "--at", "+3s", "--record=--with requests --ring-kib 8192"]
    # The tcpwhy that explains is that of this machine.
    env = os.environ | {"PATH": f"{lab.BUILT}:{os.environ['PATH']}"}
    clients: list[subprocess.Popen[bytes]] = []
    with reachable(at, lab.HOSTS, CLOCKS_S) as of:
        command += ["--ssh", of.ssh, "--tcpwhy", str(of.tcpwhy)]
        collecting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        try:
            of.ready(lab.HOSTS)
            clients = of.lab.load(SECONDS - 2)
            said, _ = collecting.communicate(timeout=120)
        finally:
            collecting.kill()
            collecting.wait()
            for client in clients:
                client.kill()
                client.wait()
    assert collecting.returncode == 0, said
    return Collected(out, said)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _wait_for(ssh: str, host: str) -> None:
    command = [*ssh.split(), host, "true"]
    lab.wait(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0, 20)
