"""Has `tcpwhy explain --write` put what it finds into recordings that nobody has explained yet."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .catalog import Entry, Say
from .store import Store
from .text import shown

TIMEOUT_S = 900


def explain(at: Path, tcpwhy: list[str], *, again: bool, say: Say, store: Path | None = None) -> int:
    """Explains them, on all CPUs; gives how many."""
    entries = [e for e in Store(at, store).entries.values() if again or not e.explained]
    if entries:
        # Whether there is such a command is told once, not of every recording.
        subprocess.run([*tcpwhy, "--version"], capture_output=True, check=False)

    def one(entry: Entry) -> bool:
        command = [*tcpwhy, "explain", str(entry.path.absolute()), "--write", "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            say(f"{shown(entry.given.name)}: not explained within {TIMEOUT_S} s")
            return False
        if done.returncode:
            say(f"{shown(entry.given.name)}: not explained: {shown(done.stderr.strip()[-200:])}")
        return done.returncode == 0

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        return sum(threads.map(one, entries))
