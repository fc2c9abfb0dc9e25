"""Recordings from a directory or an object store that something else fills."""

from __future__ import annotations

import shutil
from pathlib import Path

import fsspec

from .catalog import Say
from .text import plural, shown
from .unfit import UnfitError


def fetch(url: str, to: Path, say: Say) -> int:
    """Copies recordings from a directory or an object store that something else fills."""
    to.mkdir(parents=True, exist_ok=True)
    try:
        fs, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as e:
        raise UnfitError(f"{url}: {e}") from None
    count = 0
    for about in sorted(fs.ls(root, detail=True), key=lambda a: str(a["name"])):
        name = str(about["name"]).rstrip("/").rpartition("/")[2]
        if name.startswith(".") or not name.endswith((".tcpw", ".tcpwhy")):
            continue
        target = to / name
        if target.exists():
            say(f"{shown(name)}: is there")
            continue
        made = to / f".{name}.part"
        if any(".." in str(found).split("/") for found in fs.find(str(about["name"]))):
            say(f"FAILED {shown(name)}: it has a name that leads out of it")
            continue
        try:
            fs.get(str(about["name"]), str(made), recursive=about["type"] == "directory")
            made.replace(target)
            count += 1
            say(f"{shown(name)}: fetched")
        except OSError as e:
            if made.is_file():
                made.unlink()
            shutil.rmtree(made, ignore_errors=True)
            say(f"FAILED {shown(name)}: {shown(e)}")
    say(f"fetched {plural(count, 'recording')} from {shown(url)}")
    return count
