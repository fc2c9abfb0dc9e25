"""Files that a verb writes: made beside the target and renamed over it, so that nobody's link is followed, no FIFO is
waited for, and a full disk leaves what was there before."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from . import ending
from .files import KINDS
from .unfit import UnfitError


class Target:
    """Where output goes: looked at before the work begins, written when it is done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # What the user has opened for us, and /dev/null: nothing can be renamed over it.
        self._is_open = str(path) in ("-", "/dev/stdout", "/dev/stderr", "/dev/null") or bool(
            re.fullmatch(r"/dev/fd/[0-9]+", str(path))
        )
        self._mode = None if self._is_open else self._look()

    def _look(self) -> int | None:
        """The mode of a file of ours that is replaced: who made it private wants the next one so, too."""
        try:
            # Not followed: a link is replaced, wherever it points to.
            about = self.path.lstat()
        except FileNotFoundError:
            if not self.path.parent.is_dir():
                raise UnfitError(f"{self.path.parent}: there is no such directory") from None
            return None
        if stat.S_ISDIR(about.st_mode) or self.path.is_dir():
            raise UnfitError(f"{self.path}: is a directory; name a file to write")
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
            kind = KINDS.get(stat.S_IFMT(about.st_mode), "something else")
            raise UnfitError(f"{self.path}: is {kind}; name a file, or - for standard output")
        ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
        return stat.S_IMODE(about.st_mode) & 0o777 if ours else None

    @contextlib.contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The file to be written: all of it, or nothing, and what was there before stays."""
        if self._is_open:
            with self._stream() as out:
                yield out
            return
        beside = self.path.parent / f".{self.path.name[:40]}.{secrets.token_hex(4)}.new"
        try:
            with ending.held():
                handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
                ending.goes(beside)
            with os.fdopen(handle, "wb") as out:
                if self._mode is not None:
                    os.fchmod(handle, self._mode)
                yield out
            beside.replace(self.path)
        except OSError as e:
            raise UnfitError(f"writing {self.path}: {e.strerror or e}; what was there is as it was") from None
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()
            ending.gone(beside)

    @contextlib.contextmanager
    def _stream(self) -> Iterator[IO[bytes]]:
        stream = {"-": sys.stdout, "/dev/stdout": sys.stdout, "/dev/stderr": sys.stderr}.get(str(self.path))
        if stream:
            stream.flush()
            yield stream.buffer
            stream.flush()
        else:
            with self.path.open("wb") as out:
                yield out
