"""Whose recordings these are: copies count once, and what a recording says of itself takes nothing from another.

Of a recording that `collect` made the host is the address that it was collected from. Of others there is nothing but
what they say; where two say that they are the same seconds of one host and differ, nobody here can tell which is right:
both are asked, each as a host of its own, and it is said.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import IO

from .catalog import Entry
from .files import CHUNK, Dir, Identity, identity
from .manifest import Manifest, plain
from .text import joined, shown
from .unfit import UnfitError
from .unpack import SEGMENT, TABLE

# Two recordings of a host that share so much of the shorter one say that they are the same seconds.
SAME = 0.5
MOST_NAMED = 5
# What explain adds is not what was recorded.
EXPLAINED = frozenset({"answer", "episode", "finding"})
LIVE = "live"
Files = dict[tuple[str, str], Identity]
# Whether a recording is a copy of another is known by this, until one of the two changes.
Known = Callable[[str], bool | None]
Note = Callable[[str, bool], None]


def once(fit: list[Entry], left_out: dict[Path, str], known: Known, note: Note) -> list[Entry]:
    """Without copies; what is not there twice byte for byte stays, whatever it says of itself."""
    kept: list[Entry] = []
    # Of two, the one whose origin is known stays, that which is whole, the longer one.
    fit.sort(key=lambda e: (e.origin is None, not e.manifest.complete, not e.whole, -_length(e.manifest), str(e.given)))
    same: dict[str, list[Entry]] = {}
    files: dict[Path, Files] = {}

    def files_of(entry: Entry) -> Files:
        return files.setdefault(entry.given, _files(entry))

    for entry in fit:
        twins = same.setdefault(entry.manifest.rec(), [])
        for twin in twins:
            # Nothing is taken from an address that another one is known to have sent, too.
            if entry.origin in (None, twin.origin) and _is_copy(entry, twin, files_of, known, note):
                left_out[entry.given] = f"a copy of {twin.given.name}"
                break
        else:
            twins.append(entry)
            kept.append(entry)
    taken: set[str] = set()
    for entry in kept:
        entry.rec = entry.manifest.rec(entry.origin)
        if entry.rec in taken:
            entry.rec += f"-{hashlib.sha256(os.fsencode(entry.given.name)).hexdigest()[:6]}"
        taken.add(entry.rec)
    return kept


def name_hosts(entries: list[Entry]) -> list[str]:
    """Gives each recording its host, and what may not be of it another name; gives what there is to say of that."""
    said = []
    by_name: dict[str, list[Entry]] = {}
    for entry in entries:
        entry.host = plain(entry.origin or entry.manifest.host)
        by_name.setdefault(entry.host, []).append(entry)
    for name, of_name in by_name.items():
        boots, sure = _by_boot(of_name), _by_boot(e for e in of_name if e.origin)
        if _at_once(boots):
            said.append(f"{len(boots)} hosts are called {name}: they are told apart by their boot ids")
            for entry in of_name:
                # The address gives it the name, if it gives it to no other boot.
                if not entry.origin or _at_once(sure):
                    entry.host = f"{name}.{plain(entry.manifest.boot_id)[:8]}"
        for clash in filter(None, map(_overlapping, boots.values())):
            of_origin = [entry for entry in clash if entry.origin]
            for entry in clash:
                if of_origin != [entry]:
                    entry.host = f"{name}.{entry.rec.rpartition('-')[2][:8]}"
            said.append(
                f"{_names(clash)} claim the same seconds of {name}, and differ: all are asked, as hosts of their own,"
                f" {_hosts(clash)}"
            )
    # Of several addresses, and so by several names: one of them lies, or it is one host.
    by_claim: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        by_claim.setdefault((entry.manifest.host, entry.manifest.boot_id), []).append(entry)
    for (name, _), of_claim in by_claim.items():
        clash = _overlapping(of_claim)
        if len({entry.origin for entry in clash if entry.origin}) > 1:
            said.append(
                f"{_names(clash)} claim to be {shown(name)} in the same seconds: one host with several addresses, or"
                f" one that is not what it claims; all are asked, as {_hosts(clash)}"
            )
    return said


def _by_boot(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    boots: dict[str, list[Entry]] = {}
    for entry in entries:
        boots.setdefault(entry.manifest.boot_id, []).append(entry)
    return boots


def _names(entries: Iterable[Entry]) -> str:
    said = sorted(shown(e.given.name) + (f" (from {shown(e.origin)})" if e.origin else "") for e in entries)
    return joined(said, MOST_NAMED)


def _hosts(entries: Iterable[Entry]) -> str:
    return joined(sorted({shown(e.host) for e in entries}), MOST_NAMED)


def _length(of: Manifest) -> int:
    return of.end_ns - of.start_ns


def _share(one: Manifest, other: Manifest) -> float:
    both = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    least = min(_length(one), _length(other))
    return both / least if least > 0 else float(both >= 0)


def _overlapping(entries: list[Entry]) -> list[Entry]:
    """Those that claim seconds which another one claims as well."""
    found: set[int] = set()
    going: list[Entry] = []
    for entry in sorted((e for e in entries if e.manifest.producer == LIVE), key=lambda e: e.manifest.start_ns):
        going = [e for e in going if e.manifest.end_ns >= entry.manifest.start_ns]
        for other in going:
            if _share(other.manifest, entry.manifest) > SAME:
                found |= {id(other), id(entry)}
                break
        going.append(entry)
    return [entry for entry in entries if id(entry) in found]


def _at_once(boots: dict[str, list[Entry]]) -> bool:
    """Whether recordings of different boots overlap: then they are of different hosts."""
    spans = sorted((e.manifest.started_at_ns, e.manifest.ended_at_ns, b) for b, of in boots.items() for e in of)
    return any(a[1] > b[0] and a[2] != b[2] for a, b in pairwise(spans))


def _is_copy(entry: Entry, twin: Entry, files_of: Callable[[Entry], Files], known: Known, note: Note) -> bool:
    """Whether all that it has is in the other one, byte for byte."""
    if entry.manifest != twin.manifest:
        return False
    try:
        return _has_all(entry, twin, files_of, known, note)
    except (UnfitError, OSError):
        # What is wrong with it is said when it is read.
        return False


def _has_all(entry: Entry, twin: Entry, files_of: Callable[[Entry], Files], known: Known, note: Note) -> bool:
    mine, others = files_of(entry), files_of(twin)
    if any(name not in others or others[name][1] != about[1] for name, about in mine.items()):
        return False
    about = repr((str(entry.given), str(twin.given), sorted(mine.items()), sorted(others.items())))
    key = hashlib.sha256(about.encode("utf-8", "surrogateescape")).hexdigest()
    is_copy = known(key)
    if is_copy is None:
        is_copy = all(_is_same(entry, twin, table, name) for table, name in mine)
        note(key, is_copy)
    return is_copy


def _files(entry: Entry) -> Files:
    """What was recorded: the segments, and what tells each from what it may become."""
    found: Files = {}
    with Dir.within(entry.path) as recording:
        for table in recording.names():
            if not TABLE.fullmatch(table) or table in EXPLAINED:
                continue
            with recording.sub(table) as segments:
                for name in segments.names():
                    about = segments.about(name)
                    if SEGMENT.fullmatch(name) and about is not None:
                        found[table, name] = identity(about)
    return found


def _is_same(one: Entry, other: Entry, table: str, name: str) -> bool:
    with _opened(one, table, name) as first, _opened(other, table, name) as second:
        while chunk := first.read(CHUNK):
            if second.read(CHUNK) != chunk:
                return False
        return not second.read(1)


def _opened(entry: Entry, table: str, name: str) -> IO[bytes]:
    with Dir.within(entry.path) as recording, recording.sub(table) as segments:
        return segments.open(name)
