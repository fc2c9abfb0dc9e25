"""Recordings on their way into a directory: parts, locked by who writes them, and notes of where they come from."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO, Any, Self

from . import ending
from .catalog import COLLECTED, LABELS, Say, labels_in, origins_in
from .files import Dir
from .hosts import Host
from .manifest import plain
from .text import shown
from .unfit import UnfitError

PART = ".part"
PATIENCE_S = 2.0


class Parts:
    """A file for each host that is being written."""

    def __init__(self, out: Dir, hosts: Iterable[Host]) -> None:
        self.out = out
        # The file of each address.
        self.names: dict[str, str] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._lock = threading.Lock()
        try:
            for host in sorted(hosts, key=lambda h: h.address):
                self._begin(host.address)
        except BaseException:
            self.close()
            raise

    def _begin(self, address: str) -> None:
        """A name for a host, also where two differ by what a file's name cannot hold; one that is there stays."""
        n = 1
        while address not in self.names:
            name = f"{plain(address)}{f'-{n}' if n > 1 else ''}.tcpw"
            n += 1
            try:
                with ending.held():
                    file = self.out.new(part(name))
                    ending.goes(self.out.path / part(name))
            except FileExistsError:
                continue
            lock(file.fileno())
            self._files[name] = file
            # Looked at last: who had the part before us has renamed it by now.
            if self.out.has(name):
                self.drop(name)
            else:
                self.names[address] = name

    def file(self, name: str) -> IO[bytes]:
        """The file to write."""
        return self._files[name]

    def keep(self, of: Host, say: Say) -> None:
        """It is whole: where it comes from is noted, and it gets its name."""
        name = self.names[of.address]
        file = self._files[name]
        file.flush()
        try:
            with self._lock:
                # Before it is there: without an origin it is asked by what it claims of itself.
                _note(self.out, COLLECTED, origins_in, {name: of.origin})
                _note(self.out, LABELS, labels_in, {name: of.labels})
        except OSError as e:
            say(f"{shown(of.address)}: its address and its labels are not noted: {shown(e)}")
        os.rename(part(name), name, src_dir_fd=self.out.handle, dst_dir_fd=self.out.handle)
        ending.gone(self.out.path / part(name))
        del self._files[name]
        file.close()

    def drop(self, name: str) -> None:
        """It came to nothing."""
        if file := self._files.pop(name, None):
            self.out.remove(part(name))
            ending.gone(self.out.path / part(name))
            with contextlib.suppress(OSError):
                file.close()

    def close(self) -> None:
        """Drops what was not kept."""
        for name in list(self._files):
            self.drop(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def part(name: str) -> str:
    """What a recording is called while it comes."""
    return f".{name}{PART}"


def lock(handle: int) -> bool:
    """Locks what is open, or says that somebody else has."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Not every file system knows locks.
        return True
    return True


def sweep(out: Dir) -> None:
    """Removes parts of ours that killed collections left: nobody has locked them."""
    for name in out.names():
        if not (name.startswith(".") and name.endswith((f".tcpw{PART}", f".tcpwhy{PART}"))):
            continue
        about = out.about(name)
        if about is None or about.st_uid != os.geteuid():
            continue
        # That one stays is no reason not to do what one came for.
        with contextlib.suppress(OSError, UnfitError):
            if stat.S_ISREG(about.st_mode):
                with out.open(name) as file:
                    left = lock(file.fileno())
            elif stat.S_ISDIR(about.st_mode):
                with out.sub(name) as directory:
                    left = lock(directory.handle)
            else:
                left = True
            if left:
                out.remove(name)


def forget(out: Dir, name: str) -> None:
    """Of this recording nothing is known: it comes from elsewhere, whatever had its name."""
    for file, read in ((COLLECTED, origins_in), (LABELS, labels_in)):
        if out.has(file):
            _note(out, file, read, {name: None})


def _note(out: Dir, file: str, read: Callable[[Dir], dict[str, Any]], more: dict[str, Any]) -> None:
    """Adds to a file beside the recordings; two may collect into one directory."""
    # Whoever may read a directory may lock it, for as long as he likes.
    until = time.monotonic() + PATIENCE_S
    while not lock(out.handle) and time.monotonic() < until:
        time.sleep(0.05)
    try:
        try:
            known = read(out)
        except UnfitError:
            # Nothing of it could be used.
            known = {}
        said = {name: value for name, value in (known | more).items() if value is not None}
        out.write(file, json.dumps(said, indent=1, sort_keys=True).encode())
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(out.handle, fcntl.LOCK_UN)
