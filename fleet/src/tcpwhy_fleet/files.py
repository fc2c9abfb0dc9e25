"""Files that anybody may have made: opened through no link, waiting for nothing, read to a bound; and our own.

Everything below a directory that the user names is reached through that directory, held open, name by name: nobody
can put a link in between. What is made is made anew, for its owner alone, and renamed to its place when it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from .unfit import ForNowError, UnfitError

DIR_MODE, FILE_MODE = 0o700, 0o600
CHUNK = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# What tells a file from every other, and from itself before it was changed: nobody chooses its last part.
Identity = tuple[int, int, int, int]


class Dir:
    """A directory that is open."""

    def __init__(self, handle: int, path: Path) -> None:
        self.handle, self.path = handle, path

    @classmethod
    def given(cls, path: Path) -> Dir:
        """One that the user names: that may be a link."""
        return cls(os.open(path, _DIR), path)

    @classmethod
    def within(cls, path: Path) -> Dir:
        """One in a directory that the user names."""
        with cls.given(path.parent) as parent:
            return parent.sub(path.name)

    def sub(self, name: str) -> Dir:
        """A directory in it."""
        try:
            return Dir(os.open(name, _DIR | os.O_NOFOLLOW, dir_fd=self.handle), self.path / name)
        except OSError as e:
            if e.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UnfitError(f"{name} is not a directory") from None
            raise

    def made(self, name: str) -> Dir:
        """A directory in it, which is made where there is none."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, DIR_MODE, dir_fd=self.handle)
        return self.sub(name)

    @contextlib.contextmanager
    def below(self, names: tuple[str, ...], *, make: bool = False) -> Iterator[Dir]:
        """A directory some levels down."""
        with contextlib.ExitStack() as stack:
            at = self
            for name in names:
                at = stack.enter_context(at.made(name) if make else at.sub(name))
            yield at

    def names(self) -> list[str]:
        """What is in it, in order."""
        return sorted(os.listdir(self.handle))  # noqa: PTH208

    def about(self, name: str) -> os.stat_result | None:
        """What something in it is; none where there is nothing."""
        try:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def has(self, name: str) -> bool:
        """Whether something is called so."""
        return self.about(name) is not None

    def open(self, name: str) -> IO[bytes]:
        """A regular file in it."""
        # Looked at before it is opened, as opening a device can do things; and after, as it may have been exchanged.
        _regular(name, os.stat(name, dir_fd=self.handle, follow_symlinks=False))
        try:
            handle = os.open(name, _FILE, dir_fd=self.handle)
        except OSError as e:
            if e.errno == errno.ELOOP:
                raise UnfitError(f"{name} is not a regular file: a link") from None
            raise
        try:
            _regular(name, os.fstat(handle))
        except UnfitError:
            os.close(handle)
            raise
        return os.fdopen(handle, "rb")

    def read(self, name: str, most: int) -> bytes:
        """A regular file in it, of no more than so many bytes."""
        with self.open(name) as file:
            text = file.read(most + 1)
        if len(text) > most:
            raise UnfitError(f"{name} is larger than the {most:,} bytes that it may have")
        return text

    def new(self, name: str) -> IO[bytes]:
        """A file where there is none."""
        return os.fdopen(os.open(name, _NEW, FILE_MODE, dir_fd=self.handle), "wb")

    @contextlib.contextmanager
    def replaced(self, name: str, *, whatever: bool = False) -> Iterator[IO[bytes]]:
        """A file to be written, which takes its place when it is whole; without that, what was there stays. In a
        directory of ours alone it takes the place of whatever is there."""
        beside = f".{name}.new"
        self.remove(beside)
        file = self.new(beside)
        try:
            with file:
                yield file
            try:
                os.rename(beside, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)
            except IsADirectoryError:
                if not whatever:
                    raise
                self.remove(name)
                os.rename(beside, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)
        except BaseException:
            self.remove(beside)
            raise

    def write(self, name: str, text: bytes, *, whatever: bool = False) -> None:
        """Makes or replaces a file."""
        with self.replaced(name, whatever=whatever) as file:
            file.write(text)

    def remove(self, name: str) -> None:
        """Removes whatever is called so, and follows nothing."""
        about = self.about(name)
        if about is None:
            return
        if stat.S_ISDIR(about.st_mode):
            shutil.rmtree(name, dir_fd=self.handle)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.handle)

    def close(self) -> None:
        """Closes it; a second time does nothing."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _regular(name: str, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        kind = KINDS.get(stat.S_IFMT(about.st_mode), "something else")
        raise UnfitError(f"{name} is not a regular file: {kind}")


def identity(about: os.stat_result) -> Identity:
    """What tells this file from every other."""
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def read_given(path: Path, most: int) -> bytes:
    """A file that the user names, who may give a pipe or a link; of no more than so many bytes."""
    with path.open("rb") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise UnfitError(f"{path}: larger than the {most:,} bytes that it may have")
    return text


def make_dir(path: Path) -> Path:
    """Makes a directory, and those above it that are missing, each for its owner alone."""
    try:
        path.mkdir(DIR_MODE)
    except FileNotFoundError:
        make_dir(path.parent)
        make_dir(path)
    except FileExistsError:
        if not path.is_dir():
            raise
    return path


def free_bytes(at: int | Path) -> int:
    """What is free on the disk of a directory or a file."""
    disk = os.statvfs(at)
    return disk.f_bavail * disk.f_frsize


class NoRoomError(ForNowError):
    """There is no more room than so many bytes."""

    def __init__(self, why: str, room: int) -> None:
        super().__init__(why)
        self.room = room


def room_at(at: int | Path) -> int:
    """What may be written on a disk: half of what is free."""
    return free_bytes(at) // 2


class Room:
    """What may still be written on a disk; whoever else writes meanwhile, a quarter of what was free stays so."""

    def __init__(self, at: int | Path, most: int, writers: int = 1) -> None:
        self._at, self._most, self.room, self.writers = at, most, room_at(at), writers
        self._taken, self._lock = 0, threading.Lock()

    def take(self, size: int, left: int = 0) -> None:
        """Takes room for so many bytes, from any thread; so many more must be left."""
        with self._lock:
            taken = self._taken + size
            if taken > self._most:
                raise UnfitError(f"larger than the {self._most >> 20:,} MB that it may have")
            if taken + left > self.room:
                share = "its share of " if left else ""
                raise NoRoomError(f"larger than {share}the {self.room >> 20:,} MB that there is room for", self.room)
            self._taken = taken
        self.look()

    def give(self, size: int) -> None:
        """Gives back what was taken, from any thread."""
        with self._lock:
            self._taken -= size

    def look(self) -> None:
        """Whether somebody has filled the disk meanwhile."""
        if (free := free_bytes(self._at)) < self.room // 2:
            raise NoRoomError(f"the disk is nearly full, {free >> 20:,} MB are free", self.room)


class Share:
    """What one of several writers takes of a room: no more than then is left for the others, so that one that sends
    without end takes none of them along. What it took is given back where it fails."""

    def __init__(self, room: Room) -> None:
        self._room, self._held = room, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed:
            self._room.give(self._held)

    def take(self, size: int) -> None:
        """Takes room for so many bytes."""
        self._room.take(size, left=self._held + size if self._room.writers > 1 else 0)
        self._held += size
