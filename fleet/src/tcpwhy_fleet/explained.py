"""Has `tcpwhy explain --write` put what it finds into recordings that nobody has explained yet."""

from __future__ import annotations

import contextlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import ending
from .catalog import Entry, Say
from .store import Store
from .text import shown

TIMEOUT_S = 900


def explain(
    at: Path, tcpwhy: list[str], *, again: bool, say: Say, store: Path | None = None, quiet: bool = False
) -> int:
    """Explains them, on all CPUs; gives how many."""
    with contextlib.closing(Store(at, store, (lambda _: None) if quiet else say)) as opened:
        entries = [e for e in opened.entries.values() if again or not e.explained]
        if not entries:
            return 0
        # Whether there is such a command is told once, not of every recording.
        _run([*tcpwhy, "--version"])
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            futures = [threads.submit(_one, tcpwhy, entry, say) for entry in entries]
            try:
                return sum(future.result() for future in futures)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise


def _one(tcpwhy: list[str], entry: Entry, say: Say) -> bool:
    command = [*tcpwhy, "explain", str(entry.path.absolute()), "--write", "--json"]
    try:
        code, words = _run(command)
    except subprocess.TimeoutExpired:
        say(f"{shown(entry.given.name)}: not explained within {TIMEOUT_S} s")
        return False
    if code:
        say(f"{shown(entry.given.name)}: not explained: {shown(words)}")
    return code == 0


def _run(command: list[str]) -> tuple[int, str]:
    """Runs a program; gives how it ended, and the last that it said."""
    # What it writes into a recording is nobody else's.
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "umask": 0o077}
    with ending.child(command, **options) as process:
        _, said = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, said.decode("utf-8", "replace").strip()[-200:]
