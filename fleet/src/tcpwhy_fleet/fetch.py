"""Recordings from a directory or an object store that something else fills: their files, and nothing else there."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from . import ending
from .catalog import Say
from .files import CHUNK, Dir, Room, make_dir
from .manifest import NAME as MANIFEST
from .parts import forget, lock, part, sweep
from .text import plural, shown
from .unfit import UnfitError, as_bug
from .unpack import MOST_BYTES, MOST_FILES, SEGMENT, TABLE

MOST_OF_ALL = 1 << 60
# A file of a recording, by the directories that lead to it, and what opens it.
Files = Iterator[tuple[tuple[str, ...], Callable[[], IO[bytes]]]]


def fetch(url: str, to: Path, say: Say) -> int:
    """Copies recordings from a directory or an object store that something else fills."""
    try:
        fs, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as e:
        raise UnfitError(f"{url}: {e}") from None
    count = 0
    with Dir.given(make_dir(to)) as out:
        sweep(out)
        room = Room(out.handle, MOST_OF_ALL)
        there = _Local(Path(root)) if isinstance(fs, LocalFileSystem) else _Remote(fs, str(root))
        for name in there.names():
            if name.startswith(".") or not name.endswith((".tcpw", ".tcpwhy")):
                continue
            if out.has(name):
                say(f"{shown(name)}: is there")
                continue
            try:
                _fetch(there, name, out, room)
                count += 1
                say(f"{shown(name)}: fetched")
            except (UnfitError, OSError) as e:
                say(f"FAILED {shown(name)}: {shown(e)}")
            except Exception as e:
                # What a library for some object store makes of an error is its own.
                say(f"FAILED {shown(name)}: {as_bug(e)}")
    say(f"fetched {plural(count, 'recording')} from {shown(url)}")
    return count


def _fetch(there: _Local | _Remote, name: str, out: Dir, of_all: Room) -> None:
    """Copies one under another name, which it gets when it is whole."""
    made, rooms = part(name), (of_all, Room(out.handle, MOST_BYTES))
    if out.has(made):
        raise UnfitError("somebody else is fetching it")
    ending.goes(out.path / made)
    try:
        with contextlib.ExitStack() as stack:
            for count, (place, opened) in enumerate(there.files(name)):
                if count >= MOST_FILES:
                    raise UnfitError(f"more than {MOST_FILES} files")
                if place and not count:
                    # One that is swept meanwhile would be half of one.
                    lock(stack.enter_context(out.made(made)).handle)
                _copy(opened, out, (made, *place), rooms)
            if not out.has(made):
                raise UnfitError("nothing of a recording is in it")
            if out.has(name):
                raise UnfitError("came from elsewhere meanwhile")
            # What is known of another one of that name is not known of this one.
            forget(out, name)
            os.rename(made, name, src_dir_fd=out.handle, dst_dir_fd=out.handle)
    except BaseException:
        out.remove(made)
        raise
    finally:
        ending.gone(out.path / made)


def _copy(opened: Callable[[], IO[bytes]], out: Dir, place: tuple[str, ...], rooms: tuple[Room, ...]) -> None:
    *above, name = place
    with out.below(tuple(above), make=True) as at, at.new(name) as to, opened() as source:
        lock(to.fileno())
        while chunk := source.read(CHUNK):
            for room in rooms:
                room.take(len(chunk))
            to.write(chunk)


def _is_of_recording(place: tuple[str, ...]) -> bool:
    if len(place) == 2:
        return bool(TABLE.fullmatch(place[0]) and SEGMENT.fullmatch(place[1]))
    return place == (MANIFEST,)


class _Local:
    """A directory of this machine: somebody else may have put links, and what is no file, into it."""

    def __init__(self, path: Path) -> None:
        self._at = Dir.given(path)

    def names(self) -> list[str]:
        """What is there."""
        return self._at.names()

    def files(self, name: str) -> Files:
        """The files of a recording."""
        about = self._at.about(name)
        if about is None or not stat.S_ISDIR(about.st_mode):
            yield (), lambda: self._at.open(name)
            return
        with self._at.sub(name) as recording:
            for above in recording.names():
                kind = recording.about(above)
                if above == MANIFEST:
                    yield (MANIFEST,), lambda: recording.open(MANIFEST)
                elif TABLE.fullmatch(above) and kind is not None and stat.S_ISDIR(kind.st_mode):
                    with recording.sub(above) as table:
                        for segment in table.names():
                            if SEGMENT.fullmatch(segment):
                                yield (above, segment), _opener(table, segment)


def _opener(at: Dir, name: str) -> Callable[[], IO[bytes]]:
    return lambda: at.open(name)


class _Remote:
    """What fsspec reads."""

    def __init__(self, fs: Any, root: str) -> None:
        self._fs = fs
        about = {_last(str(about["name"])): about for about in fs.ls(root, detail=True)}
        self._about: dict[str, dict[str, Any]] = {name: about[name] for name in sorted(about)}

    def names(self) -> list[str]:
        """What is there."""
        return list(self._about)

    def files(self, name: str) -> Files:
        """The files of a recording."""
        about = self._about[name]
        path = str(about["name"]).rstrip("/")
        if about["type"] != "directory":
            yield (), self._opener(path)
            return
        for found in sorted(map(str, self._fs.find(path))):
            place = PurePosixPath(found).parts[len(PurePosixPath(path).parts) :]
            if found.startswith(f"{path}/") and _is_of_recording(place):
                yield place, self._opener(found)

    def _opener(self, path: str) -> Callable[[], IO[bytes]]:
        return lambda: self._fs.open(path, "rb")


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
