"""Why something cannot be used."""

from __future__ import annotations

import traceback
from importlib import metadata
from pathlib import Path


def _version() -> str:
    try:
        return metadata.version("tcpwhy-fleet")
    except metadata.PackageNotFoundError:
        return "unknown"


# What a version cannot read a later one may.
VERSION = _version()


class UnfitError(Exception):
    """Why something is no recording, or nothing else, that can be used."""


class ForNowError(UnfitError):
    """The same where it is the machine's fault, and may be otherwise the next time: no room, no rights."""


def as_bug(e: BaseException) -> str:
    """A bug of ours that something brought out, on one line: it is not blamed on the recording, but costs it."""
    last = traceback.extract_tb(e.__traceback__)[-1:]
    where = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    return f"a bug of tcpwhy-fleet, please report it: {type(e).__name__}: {str(e)[:200]}{where}"
