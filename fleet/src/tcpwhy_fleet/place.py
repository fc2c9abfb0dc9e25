"""Where the store of a directory of recordings is: within it where that is ours alone, else in the user's cache."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from .catalog import Say
from .files import Dir, make_dir
from .owned import Seal, cache, key, why_exchangeable, why_not_ours
from .scratch import Scratch
from .text import shown
from .unfit import UnfitError

FORMAT = 2
MARK = "tcpwhy-fleet.json"
INSIDE = ".tcpwhy-fleet"
KEEP = "XDG_STATE_HOME and XDG_CACHE_HOME name directories of yours where it could stay"
STATE = "the key that signs a store (XDG_STATE_HOME, ~/.local/state)"


@dataclass
class Place:
    """A store that is ours, and what signs the notes in it."""

    root: Dir
    seal: Seal
    scratch: Scratch | None = None


def place(source: Path, at: Path | None, say: Say) -> Place:
    """The place that the user names, or the one that is found."""
    signs, real = key(), source.resolve()
    if at is not None:
        why, found = _named(at, signs)
        if found is None:
            raise UnfitError(f"{at}: {why}; name another --store, which may be one that is not there yet")
        return found
    why, found = _inside(real, signs)
    if found:
        return found
    if signs and (home := cache()):
        found = _cached(home, real, signs)
        where = f"in {found.root.path}"
    else:
        # A key for this run alone.
        scratch = Scratch()
        root = Dir.given(scratch.path)
        found = Place(root, Seal(os.urandom(32), root), scratch)
        _mark(found, real)
        where = f"made for this run alone: {KEEP}"
    say(f"{shown(source / INSIDE)}: {why}; the store is {where}")
    return found


def _inside(real: Path, signs: bytes | None) -> tuple[str, Place | None]:
    """The store within the directory, or why it is not to be there."""
    if signs is None:
        return f"there is no place of yours for {STATE}", None
    if why := why_exchangeable(real):
        return why, None
    if not os.access(real, os.W_OK):
        return "the directory is not yours to write", None
    with Dir.given(real) as within:
        return _of_ours(within, INSIDE, real, signs)


def _named(at: Path, signs: bytes | None) -> tuple[str, Place | None]:
    if signs is None:
        return f"there is no place of yours for {STATE}", None
    # What leads to it may be links, as the user named it.
    at = at.resolve()
    make_dir(at.parent)
    if why := why_exchangeable(at.parent):
        return why, None
    with Dir.given(at.parent) as within:
        return _of_ours(within, at.name, at, signs)


def _cached(home: Dir, real: Path, signs: bytes) -> Place:
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    _, found = _of_ours(home, name, real, signs)
    if found is None:
        # The cache is ours, and what is in it can be made again.
        home.remove(name)
        why, found = _of_ours(home, name, real, signs)
        if found is None:
            raise UnfitError(f"{home.path / name}: {why}")
    return found


def _of_ours(within: Dir, name: str, real: Path, signs: bytes) -> tuple[str, Place | None]:
    """The store of that name if we made it, or made just now; else why it is none of ours."""
    if not within.has(name):
        _make(within, name, real, signs)
    try:
        root = within.sub(name)
    except UnfitError:
        return "it is a link, or no directory", None
    except OSError as e:
        return f"it cannot be opened: {e.strerror}", None
    if why := why_not_ours(os.fstat(root.handle)):
        return why, None
    found = Place(root, Seal(signs, root))
    if not root.names():
        _mark(found, real)
    mark = found.seal.read(root, MARK)
    if mark is None:
        return "it was not made here by you", None
    if mark.get("format") != FORMAT:
        raise UnfitError(f"{root.path}: a store of another version; remove it, and it is made anew")
    return "", found


def _make(within: Dir, name: str, real: Path, signs: bytes) -> None:
    """Makes a store with its mark at once: of two that make it neither sees half of one."""
    beside = f".{name.removeprefix('.')}.{os.getpid()}.new"
    within.remove(beside)
    with within.made(beside) as root:
        _mark(Place(root, Seal(signs, root)), real)
    try:
        os.rename(beside, name, src_dir_fd=within.handle, dst_dir_fd=within.handle)
    except OSError:
        within.remove(beside)
        if not within.has(name):
            raise


def _mark(found: Place, real: Path) -> None:
    found.seal.write(found.root, MARK, {"format": FORMAT, "of": str(real).encode("utf-8", "replace").decode()})
