"""What is ours: directories that nobody else can exchange, the user's own, and the key that signs what we note."""

from __future__ import annotations

import grp
import hmac
import json
import os
import pwd
import stat
from pathlib import Path
from typing import Any

from .files import Dir, make_dir
from .unfit import UnfitError

NAME = "tcpwhy-fleet"
KEY, KEY_BYTES = "key", 32
MOST_NOTE = 4 << 20


def why_not_ours(about: os.stat_result) -> str | None:
    """Why a directory or a file is not ours alone to write."""
    if about.st_uid != os.geteuid():
        return "it belongs to somebody else"
    return "others may write in it" if _is_open(about) else None


def why_exchangeable(path: Path) -> str | None:
    """Why others could put something of theirs in the place of what is in a directory; a path without links."""
    for at in (path, *path.parents):
        about = at.lstat()
        if about.st_uid not in (0, os.geteuid()):
            return f"{at} belongs to somebody else"
        # Where the sticky bit is set, everybody renames his own.
        if _is_open(about) and not about.st_mode & stat.S_ISVTX:
            return f"others may write in {at}"
    return None


def _is_open(about: os.stat_result) -> bool:
    if about.st_mode & stat.S_IWOTH:
        return True
    return bool(about.st_mode & stat.S_IWGRP) and not _is_own_group(about.st_gid)


def _is_own_group(gid: int) -> bool:
    """Whether a group has nobody in it but its one user, who is called so: there 0775 is 0755."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and user.pw_name == group.gr_name and not set(group.gr_mem) - {user.pw_name}


def cache() -> Dir | None:
    """Where the user has what can be made again; none where that is not the user's alone."""
    return _home("XDG_CACHE_HOME", ".cache")


def key() -> bytes | None:
    """The key of this user, made at the first time; none where there is no place for it that is the user's alone."""
    # Not in the cache, which people empty.
    state = _home("XDG_STATE_HOME", ".local/state")
    if state is None:
        return None
    with state:
        return _key_in(state)


def _home(variable: str, default: str) -> Dir | None:
    named = os.environ.get(variable, "")
    try:
        place = Path(named) if Path(named).is_absolute() else Path.home() / default
        made = make_dir(place / NAME).resolve()
        if why_exchangeable(made):
            return None
        found = Dir.given(made)
    except (OSError, RuntimeError):
        return None
    return None if why_not_ours(os.fstat(found.handle)) else found


def _key_in(at: Dir) -> bytes | None:
    beside = f".{KEY}.{os.getpid()}"
    try:
        if not at.has(KEY):
            at.remove(beside)
            with at.new(beside) as file:
                file.write(os.urandom(KEY_BYTES))
            try:
                # Of two that make one the first stays.
                os.link(beside, KEY, src_dir_fd=at.handle, dst_dir_fd=at.handle)
            except OSError:
                # Not every file system has links.
                if not at.has(KEY):
                    os.rename(beside, KEY, src_dir_fd=at.handle, dst_dir_fd=at.handle)
            at.remove(beside)
        key = at.read(KEY, KEY_BYTES)
        about = at.about(KEY)
    except (OSError, UnfitError):
        return None
    alone = about is not None and about.st_uid == os.geteuid() and not about.st_mode & 0o077
    return key if alone and len(key) == KEY_BYTES else None


class Seal:
    """Signs what is noted in a store: what somebody else has put there is not taken for a note of ours."""

    def __init__(self, key: bytes, root: Dir) -> None:
        # Nor is what we noted in another store, or under another name.
        self._key, self._place = key, os.fstat(root.handle).st_ino

    def write(self, at: Dir, name: str, said: dict[str, Any]) -> None:
        """Notes something."""
        text = json.dumps(said, sort_keys=True)
        at.write(name, json.dumps({"seal": self._of(name, text), "said": text}).encode(), whatever=True)

    def read(self, at: Dir, name: str) -> dict[str, Any] | None:
        """What was noted; none of what is not there, or not of ours."""
        try:
            noted = json.loads(at.read(name, MOST_NOTE))
            text, seal = noted["said"], noted["seal"]
            if not hmac.compare_digest(self._of(name, text), seal):
                return None
            said: dict[str, Any] = json.loads(text)
        except (OSError, UnfitError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return said

    def _of(self, name: str, text: str) -> str:
        return hmac.digest(self._key, f"{self._place}\0{name}\0{text}".encode(), "sha256").hex()
