"""An ssh that runs nothing: it says what hosts would say, and notes who was asked."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from . import lab

# `ssh OPTIONS -- HOST REMOTE`, as collect calls it.
SCRIPT = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
at={at} host=$2 remote=$3
case $remote in
echo*)
    echo; read -r go
    if [ -e "$at/clock.$host" ]; then cat "$at/clock.$host"; else date +%s.%N; fi ;;
*)
    echo $$ >"$at/new.$host"; mv "$at/new.$host" "$at/pids.$host"
    cat >"$at/stdin.$host"
    . "$at/record.$host" ;;
esac
"""


class FakeSsh:
    """Hosts by what they do when they are to record: a piece of shell, of which `$at` is this directory."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self.script = at / "ssh"
        self.script.write_text(SCRIPT.format(at=at))
        self.script.chmod(0o755)
        self.hosts = at / "hosts.txt"
        self.hosts.write_text("")

    def host(self, name: str, record: str = "exit 1", *, clock: str = "", labels: str = "") -> None:
        """Adds one."""
        (self.at / f"record.{name}").write_text(record)
        if clock:
            (self.at / f"clock.{name}").write_text(clock)
        with self.hosts.open("a") as hosts:
            hosts.write(f"{name} {labels}\n")

    def sends(self, name: str, recording: bytes, *, clock: str = "", labels: str = "") -> None:
        """Adds one that sends a recording."""
        (self.at / f"sent.{name}").write_bytes(recording)
        self.host(name, f'cat "$at/sent.{name}"', clock=clock, labels=labels)

    def arguments(self, out: Path, *more: str) -> list[str]:
        """Of the command."""
        collect = ["collect", "--hosts", str(self.hosts), "-o", str(out), "--for", "1s", "--at", "+1ms", "--no-explain"]
        return [*collect, "--ssh", str(self.script), *more]

    def pids(self, *hosts: str) -> list[int]:
        """Of those that record, once all do."""
        files = [self.at / f"pids.{host}" for host in hosts]
        lab.wait(lambda: all(file.exists() for file in files), 30)
        return [int(file.read_text()) for file in files]


def runs(pid: int) -> bool:
    """Whether a process that is no zombie has it."""
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def end(pids: list[int]) -> None:
    """Ends what a test that failed left."""
    for pid in pids:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)
