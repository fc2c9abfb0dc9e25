"""Hosts in namespaces, each with a recorder and a host name of its own: what end-to-end tests are about."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT = Path(os.environ.get("TCPWHY_BUILT", ROOT / "target" / "debug"))
TCPWHY = str(BUILT / "tcpwhy")
WORKLOAD = str(BUILT / "lab-workload")
CLOCK = Path(__file__).with_name("clock.py")
HOSTS = [f"h{i}" for i in range(1, 9)]


def why_not(*more: str) -> str | None:
    """Why there is no lab here, or none with these programs."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [name for name in ("tcpwhy", "lab-hold", "lab-workload", *more) if not (BUILT / name).exists()]
    return f"not built: {', '.join(missing)}" if missing else None


class Lab:
    """The namespaces, by host."""

    def __init__(self, netns: dict[str, str], plan: Path) -> None:
        self.netns = netns
        # The lab numbers links, and on each the two ends.
        links = tomllib.loads(plan.read_text())["links"]
        self.addr = {
            node: f"198.18.{n}.{end}" for n, of in enumerate(links, 1) for end, node in enumerate(of["between"], 1)
        }

    def client(self, host: str, to: str, *options: str, name: str, seconds: float) -> subprocess.Popen[bytes]:
        """Load from one host to another."""
        command = [WORKLOAD, "client", "--netns", self.netns[host], "--name", name]
        command += ["--connect", f"{self.addr[to]}:7000", "--seconds", str(seconds), *options]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def mesh(self, seconds: float, *options: str) -> list[subprocess.Popen[bytes]]:
        """Two kept connections from each host to each other one."""
        mesh = ["--keep", "--concurrency", "2", "--active", "1", "--request", "6000", *options]
        hosts = [host for host in self.netns if host != "r"]
        return [self.client(a, b, *mesh, name="mesh", seconds=seconds) for a in hosts for b in hosts if a != b]

    def load(self, seconds: float) -> list[subprocess.Popen[bytes]]:
        """A mesh over kept connections, and bursts to the host with the short backlog."""
        burst = ["--keep", "--concurrency", "20", "--rate", "500", "--active", "4", "--request", "3000000"]
        running = self.mesh(seconds, "--response", "200")
        running += [self.client(a, "h5", *burst, name="pool", seconds=seconds) for a in ("h1", "h2")]
        # The same load to a host with a decent backlog, so that there is something to differ from.
        running += [self.client(a, "h6", *burst, name="pool", seconds=seconds) for a in ("h1", "h2")]
        return running

    def recorder(self, host: str, into: Path, ready: Path, seconds: float, parts: str) -> subprocess.Popen[bytes]:
        """A recorder that calls itself as its host, and sees no other namespace."""
        record = [TCPWHY, "record", "-o", str(into), "--netns", self.netns[host], "--for", f"{seconds}s"]
        record += ["--ready-file", str(ready), "--with", parts, "--ring-kib", "8192"]
        renamed = ["unshare", "--uts", "sh", "-c", 'hostname "$1"; shift; exec "$@"', "sh", host, *record]
        return subprocess.Popen(renamed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


Load = Callable[[Lab, float], list[subprocess.Popen[bytes]]]


@contextmanager
def planted(plan: str = "lab.toml") -> Iterator[Lab]:
    """Makes the namespaces and their servers; they go with it."""
    path = Path(__file__).with_name(plan)
    hold = subprocess.Popen(
        [str(BUILT / "lab-hold"), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert hold.stdout and hold.stderr
    try:
        netns = {}
        for line in hold.stdout:
            if found := re.fullmatch(r"netns (.*-(h\d|r))\n", line):
                netns[found[2]] = found[1]
            if line == "held\n":
                break
        else:
            raise RuntimeError(f"the lab was not planted: {hold.stderr.read()}")
        yield Lab(netns, path)
    finally:
        hold.send_signal(signal.SIGTERM)
        hold.wait(30)


def record(
    directory: Path, seconds: float = 10.0, plan: str = "lab.toml", load: Load = Lab.load, parts: str = "requests"
) -> None:
    """Records all hosts at once, under load."""
    with planted(plan) as lab:
        hosts = [host for host in lab.netns if host != "r"]
        ready = {host: directory / f"{host}.ready" for host in hosts}
        recorders = [lab.recorder(h, directory / f"{h}.tcpwhy", ready[h], seconds, parts) for h in hosts]
        clients: list[subprocess.Popen[bytes]] = []
        try:
            wait(lambda: all(path.exists() for path in ready.values()), 30)
            clients = load(lab, seconds - 2)
            for recorder in recorders:
                assert recorder.wait(seconds + 60) == 0
        finally:
            for process in [*clients, *recorders]:
                process.kill()
                process.wait()
            for path in ready.values():
                path.unlink(missing_ok=True)


def wait(until: Callable[[], bool], seconds: float) -> None:
    """Waits until something holds."""
    ends = time.monotonic() + seconds
    while not until():
        if time.monotonic() > ends:
            raise TimeoutError
        time.sleep(0.05)


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    Path(sys.argv[1]).mkdir()
    record(Path(sys.argv[1]))
