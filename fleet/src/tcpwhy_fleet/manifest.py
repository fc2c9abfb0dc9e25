"""`manifest.json` of a recording, read with mistrust: what it is of, and when."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .files import Dir
from .unfit import UnfitError

NAME = "manifest.json"
FORMAT = 1
MOST_BYTES = 8 << 20
MOST_ENTRIES = 1 << 16
MOST_TEXT = 1 << 10
MOST_LABELS = 1 << 10
# What means "no value" to an engine that reads partitions, or to us.
NO_NAMES = frozenset({"none", "null"})
# Wall times that a host may have: from 2000 to 2100, ns.
EARLIEST, LATEST = 946_684_800 * 10**9, 4_102_444_800 * 10**9


@dataclass(frozen=True)
class Source:
    """A source and what came of it."""

    name: str
    verdict: str
    because: str | None
    lost: int


@dataclass(frozen=True)
class Manifest:
    """What of a manifest a fleet needs."""

    tcpwhy: str
    producer: str
    complete: bool
    host: str
    kernel: str
    machine: str
    boot_id: str
    hz: int | None
    cpus: int
    start_ns: int
    end_ns: int
    clock_offset_ns: int
    labels: tuple[str, ...] = ()
    namespaces: tuple[tuple[int, str], ...] = ()
    sources: tuple[Source, ...] = ()
    about: str = field(default="", repr=False)

    @property
    def started_at_ns(self) -> int:
        """Start in wall time, ns since 1970."""
        return self.start_ns + self.clock_offset_ns

    @property
    def ended_at_ns(self) -> int:
        """End in wall time, ns since 1970."""
        return self.end_ns + self.clock_offset_ns

    @property
    def day(self) -> str:
        """The day of its start, UTC."""
        return datetime.fromtimestamp(self.started_at_ns // 10**9, UTC).strftime("%Y-%m-%d")

    def rec(self, origin: str | None = None) -> str:
        """Its id: the same for every copy of it; two that say the same and come from two addresses are two."""
        said = f"{self.host}\0{self.boot_id}\0{self.start_ns}\0{self.about}" + (f"\0{origin}" if origin else "")
        return f"{plain(origin or self.host)}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def plain(name: str) -> str:
    """A host's name as a part of paths: nothing that a file system or an engine reads something into."""
    kept = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:63].strip(".") or "unnamed"
    # Engines take some values of a partition for none, and files that begin so for none of theirs.
    if kept.startswith("_") or kept.lower() in NO_NAMES:
        return f"host-{kept}"[:63].rstrip(".")
    return kept


def read(directory: Dir) -> Manifest:
    """The manifest of the recording in a directory."""
    try:
        return parse(directory.read(NAME, MOST_BYTES))
    except FileNotFoundError:
        raise UnfitError("it has no manifest.json") from None
    except OSError as e:
        raise UnfitError(f"manifest.json: {e.strerror}") from None


def parse(text: bytes) -> Manifest:
    """A manifest from its text."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise UnfitError("manifest.json is damaged") from None
    if not isinstance(said, dict) or type(said.get("format")) is not int:
        raise UnfitError("manifest.json names no format: not a tcpwhy recording")
    if said["format"] > FORMAT:
        raise UnfitError(f"format {said['format']} is newer than {FORMAT}: needs a newer tcpwhy-fleet")
    try:
        manifest = _of(said)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise UnfitError(f"manifest.json is damaged: {str(e)[:100]}") from None
    if not 0 <= manifest.start_ns <= manifest.end_ns < 2**63:
        raise UnfitError("manifest.json is damaged: it ends before it starts")
    for moment in (manifest.started_at_ns, manifest.ended_at_ns):
        if not EARLIEST <= moment <= LATEST:
            raise UnfitError("its clock was not set: it is not of this century")
    return manifest


def _of(said: dict[str, Any]) -> Manifest:
    host = said["host"]
    sources, namespaces = said.get("sources", []), said.get("namespaces", [])
    if len(sources) > MOST_ENTRIES or len(namespaces) > MOST_ENTRIES:
        raise ValueError("lists longer than they can be")
    hz = host.get("hz")
    about = json.dumps([said.get("producer"), said.get("parameters"), said.get("command_line")], sort_keys=True)
    return Manifest(
        tcpwhy=_text(said["tcpwhy"]),
        producer=_text(said["producer"]),
        complete=said["complete"] is True,
        host=_text(host["name"]),
        kernel=_text(host["kernel"]),
        machine=_text(host["machine"]),
        boot_id=_text(host["boot_id"]),
        hz=None if hz is None else _whole(hz),
        cpus=_whole(host["cpus"]),
        start_ns=_whole(said["start_ns"]),
        end_ns=_whole(said["end_ns"]),
        clock_offset_ns=_whole(said["clock_offset_ns"]),
        labels=tuple(_text(label) for label in said.get("labels", [])[:MOST_LABELS]),
        namespaces=tuple((_whole(n["inode"]), _text(n["name"])) for n in namespaces),
        sources=tuple(_source(s) for s in sources),
        about=about,
    )


def _source(said: dict[str, Any]) -> Source:
    verdict = said["verdict"]
    because = verdict.get("because")
    return Source(
        name=_text(said["name"]),
        verdict=_text(verdict["is"]),
        because=None if because is None else _text(because),
        lost=_whole(said.get("lost", 0)),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is none")
    return storable(value)


def storable(text: str) -> str:
    """A text as Parquet holds it: not too long, and without lone surrogates."""
    return text[:MOST_TEXT].encode("utf-8", "replace").decode()


def _whole(value: object) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise TypeError("a number is none")
    return value
