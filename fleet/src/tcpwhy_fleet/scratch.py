"""Directories for what is needed only while this process runs, and what killed processes left of them.

They are called as tcpwhy calls its own, `tcpwhy-PID-STARTED-RUN-fleet-…`, and it sweeps them, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

from . import ending
from .files import Dir

THING = "fleet"
_runs = itertools.count(1)


class Scratch:
    """A directory of this process alone; a signal removes it, and of a killed one the next run does."""

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        sweep(place)
        pid = os.getpid()
        owner = f"tcpwhy-{pid}-{_started(pid) or 0}-{next(_runs)}-{THING}-"
        with ending.held():
            self.path = Path(tempfile.mkdtemp(prefix=owner, dir=place))
            ending.goes(self.path)
        # A sign of life that other pid namespaces see, too.
        self._lock = Dir.given(self.path)
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def name(self) -> str:
        """Its path as text."""
        return str(self.path)

    def cleanup(self) -> None:
        """Removes it; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        ending.gone(self.path)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.cleanup()


def sweep(place: Path) -> list[Path]:
    """Removes what killed runs left: real directories of ours, of owners that run no more, held by nobody."""
    try:
        names = os.listdir(place)  # noqa: PTH208
    except OSError:
        return []
    return [place / name for name in names if _is_left(name) and _removed(place, name)]


def _is_left(name: str) -> bool:
    parts = name.split("-")
    if len(parts) != 6 or parts[0] != "tcpwhy" or parts[4] != THING:
        return False
    if not all(part.isascii() and part.isdecimal() for part in parts[1:4]):
        return False
    return _started(int(parts[1])) != int(parts[2])


def _removed(place: Path, name: str) -> bool:
    try:
        with Dir.given(place) as parent, parent.sub(name) as left:
            if os.fstat(left.handle).st_uid != os.geteuid():
                return False
            fcntl.flock(left.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            parent.remove(name)
    except Exception:
        # That it stays is no reason not to do what one came for.
        return False
    return True


def _started(pid: int) -> int | None:
    """When a process that still runs started, in clock ticks since boot; none of one that runs no more."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command, field 2, may hold spaces and parentheses; the last one ends it.
    fields = stat[stat.rindex(b")") + 1 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
