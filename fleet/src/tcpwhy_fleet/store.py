"""The store: tables of many recordings as Parquet by day and host, filled as questions need them.

STORE/TABLE/day=2026-11-26/host=web1/REC.parquet    rows of one recording, times in wall time
STORE/recording/all.parquet                         what recordings there are; label, source, left_out likewise

It is ours alone (see place.py). What is believed of it beside that are files whose inode and times a signed note tells:
what came into it with a copy, an archive or a synchronisation is removed and made anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from . import manifest, workers
from .catalog import (
    COLLECTED,
    LABELS,
    Entry,
    Said,
    Say,
    labels_in,
    of_texts,
    origins_in,
    rows_of,
)
from .files import Dir, identity, room_at
from .identity import name_hosts, once
from .manifest import plain, storable
from .place import place
from .schema import CATALOG, tables
from .unfit import VERSION, UnfitError, as_bug

T = TypeVar("T")
State = dict[str, Any]
# A file of each table that has its columns and no rows.
NO_ROWS = "day=none/host=none/none.parquet"
UNPACKED, STATE, LOCK, COPIES, EMPTY = ".unpacked", ".state", ".lock", ".copies", ".empty"
# More room than the last time by so much is worth another try.
MORE_ROOM = 1.25
MOST_SAID = 10
PACKED, DIRECTORY = ".tcpw", ".tcpwhy"


class Store:
    """Recordings of a directory, and the store beside them."""

    def __init__(self, source: Path, at: Path | None = None, say: Say = lambda _: None) -> None:
        if not source.is_dir():
            raise UnfitError(f"{source}: no directory of recordings")
        self.source = source
        self._given = Dir.given(source)
        self._place = place(source, at, say)
        self._root, self._seal = self._place.root, self._place.seal
        self.at = self._root.path
        self.left_out: dict[Path, str] = {}
        self.entries: dict[str, Entry] = {}
        # Those that are fit as far as their manifests tell.
        self._judged: set[str] = set()
        # What recordings claim that cannot all be true.
        self.conflicts: list[str] = []
        with self._locked():
            self._look()
            self._write_catalog()
        for line in self.conflicts[:MOST_SAID]:
            say(line)
        if (more := len(self.conflicts) - MOST_SAID) > 0:
            say(f"and {more:,} more such claims")

    def close(self) -> None:
        """Lets go of it; one that was made for this run goes."""
        self._given.close()
        self._root.close()
        if self._place.scratch:
            self._place.scratch.cleanup()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process fills a store at a time."""
        about = self._root.about(LOCK)
        if about and not stat.S_ISREG(about.st_mode):
            self._root.remove(LOCK)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(LOCK, flags, 0o600, dir_fd=self._root.handle)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _look(self) -> None:
        """Judges everything in the directory that may be a recording."""
        names = [name for name in self._given.names() if name.endswith((PACKED, DIRECTORY)) and name[0] != "."]
        labels: Said = self._beside(LABELS, labels_in)
        origins: dict[str, str] = self._beside(COLLECTED, origins_in)
        unpacked = self._unpack([name for name in names if name.endswith(PACKED)])
        fit: list[Entry] = []
        for name in names:
            given = self.source / name
            if given in self.left_out:
                continue
            path, whole = unpacked.get(name, (given, True))
            try:
                with Dir.within(path) as directory:
                    read = manifest.read(directory)
            except UnfitError as e:
                self.left_out[given] = str(e)
                continue
            except OSError as e:
                self.left_out[given] = f"cannot be read: {e.strerror}"
                continue
            except Exception as e:
                # Whatever it is, it is about this one.
                self.left_out[given] = as_bug(e)
                continue
            entry = Entry(path, read, given, whole, origins.get(name))
            claimed, known = of_texts(read.labels), labels.get(name, {})
            # What the user says of the host is better than what it says of itself.
            entry.labels = claimed | known if entry.origin else known | claimed
            fit.append(entry)
        kept = self._once(fit)
        self.conflicts = name_hosts(kept)
        self._judged = {entry.rec for entry in kept}
        self.entries = {entry.rec: entry for entry in sorted(kept, key=lambda e: e.rec)}

    def _beside(self, name: str, read: Callable[[Dir], dict[str, T]]) -> dict[str, T]:
        """What a file beside the recordings says; what is wrong with it costs that file."""
        try:
            return read(self._given)
        except UnfitError as e:
            self.left_out[self.source / name] = str(e)
            return {}

    def _once(self, fit: list[Entry]) -> list[Entry]:
        """Without copies; what was held against each other is so once."""
        noted, of_now = self._seal.read(self._root, COPIES) or {}, dict[str, bool]()

        def known(key: str) -> bool | None:
            if key in noted:
                of_now[key] = noted[key]
            return noted.get(key)

        kept = once(fit, self.left_out, known, of_now.__setitem__)
        if of_now != noted:
            self._seal.write(self._root, COPIES, of_now)
        return kept

    def _unpack(self, packed: list[str]) -> dict[str, tuple[Path, bool]]:
        found: dict[str, tuple[Path, bool]] = {}
        jobs: list[workers.Job] = []
        notes: dict[str, str] = {}
        at = self._fresh(UNPACKED)
        for name in packed:
            given = self.source / name
            about = self._given.about(name)
            if about is None or not stat.S_ISREG(about.st_mode):
                self.left_out[given] = "no regular file"
                continue
            of_name = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
            to = f"{plain(name)}-{of_name}-{about.st_mtime_ns:x}-{about.st_size:x}"
            notes[to] = f"{to}.json"
            noted = self._seal.read(at, notes[to])
            if noted and noted["by"] == VERSION and "unfit" in noted and not self._has_more_room(noted):
                self.left_out[given] = noted["unfit"]
            elif noted and "whole" in noted and at.has(to):
                found[name] = (at.path / to, bool(noted["whole"]))
            else:
                at.remove(to)
                at.made(to).close()
                jobs.append({"do": "unpack", "from": str(given), "to": str(at.path / to)})
        for name in at.names():
            # Of a file that has gone or changed since.
            if name not in notes and name.removesuffix(".json") not in notes:
                at.remove(name)

        def done_with(job: workers.Job, answer: workers.Answer) -> None:
            given, to = Path(job["from"]), Path(job["to"])
            if "unfit" in answer:
                self.left_out[given] = answer["unfit"]
                at.remove(to.name)
            else:
                found[given.name] = (to, answer["whole"])
            if not answer.get("for_now"):
                # The next question does not wait for it again.
                self._seal.write(at, notes[to.name], answer | {"by": VERSION})

        workers.run(jobs, done_with)
        at.close()
        return found

    def _has_more_room(self, noted: dict[str, Any]) -> bool:
        """Whether what had no room may have some now."""
        return "room" in noted and room_at(self._root.handle) > noted["room"] * MORE_ROOM

    def ensure(self, names: Iterable[str]) -> None:
        """Puts tables into the store that a question needs and that are not there yet."""
        wanted = [name for name in names if name in tables()]
        with self._locked():
            states = {rec: self._state(entry) for rec, entry in self.entries.items()}
            empty = self._seal.read(self._root, EMPTY) or {}
            for name in wanted:
                self._keep_ours(name, states, empty)
            jobs = [job for e in list(self.entries.values()) if (job := self._job(e, states[e.rec], wanted))]
            workers.run(jobs, lambda job, answer: self._stored(job, answer, states[job["rec"]]))
            self._keep_schemas(wanted, empty)
            self._write_catalog()

    def _job(self, entry: Entry, state: State, wanted: list[str]) -> workers.Job | None:
        versions = _versions(entry, wanted)
        for name in wanted:
            version, why, by = state["unfit"].get(name, (None, None, None))
            if (version, by) == (versions[name], VERSION):
                self._leave_out(entry.rec, why)
                return None
        missing = [name for name in wanted if state["tables"].get(name) != versions[name]]
        if not missing:
            return None
        return {
            "do": "put",
            "recording": str(entry.path),
            "tables": missing,
            "store": str(self.at),
            "day": entry.manifest.day,
            "host": entry.host,
            "rec": entry.rec,
            "clock_offset_ns": entry.manifest.clock_offset_ns,
            "versions": versions,
        }

    def _state(self, entry: Entry) -> State:
        """What is in the store of a recording: of each table the version, and the file that it was put into."""
        with self._fresh(STATE) as at:
            said = self._seal.read(at, f"{entry.rec}.json")
        if said and (said["host"], said["day"]) == (entry.host, entry.manifest.day):
            return said
        # One that came to be told apart from another of its name is put there anew.
        return {"host": entry.host, "day": entry.manifest.day, "tables": {}, "files": {}, "unfit": {}}

    def _keep(self, rec: str, state: State) -> None:
        with self._fresh(STATE) as at:
            self._seal.write(at, f"{rec}.json", state)

    def _stored(self, job: workers.Job, answer: workers.Answer, state: State) -> None:
        rec, versions = job["rec"], job["versions"]
        if "unfit" in answer:
            if not answer.get("for_now"):
                # The next question does not wait for it again.
                failed = [answer["table"]] if "table" in answer else job["tables"]
                state["unfit"] |= {name: [versions[name], answer["unfit"], VERSION] for name in failed}
                self._keep(rec, state)
            self._leave_out(rec, answer["unfit"])
            return
        for name, stored in answer["files"].items():
            state["tables"][name], state["files"][name] = versions[name], stored
            state["unfit"].pop(name, None)
        self._keep(rec, state)

    def _leave_out(self, rec: str, why: str) -> None:
        self.left_out[self.entries.pop(rec).given] = why

    def _keep_ours(self, name: str, states: dict[str, State], empty: dict[str, Any]) -> None:
        """Removes from a table every file that we did not put there, or not as it is now; and notes what is missing."""
        files = {_place_of(state, rec): state["files"].get(name) for rec, state in states.items()}
        files[NO_ROWS] = empty.get(name)
        with self._fresh(name) as table:
            there = _keep_only(table, {place: file for place, file in files.items() if file})
        if NO_ROWS not in there:
            empty.pop(name, None)
        for rec, state in states.items():
            if state["files"].get(name) and _place_of(state, rec) not in there:
                del state["tables"][name], state["files"][name]

    def _fresh(self, name: str) -> Dir:
        """A directory of the store; what is in its place and is none goes."""
        try:
            return self._root.made(name)
        except UnfitError:
            self._root.remove(name)
            return self._root.made(name)

    def _keep_schemas(self, wanted: list[str], empty: dict[str, Any]) -> None:
        """A file of each table without rows, so that every engine finds its columns."""
        *above, file = NO_ROWS.split("/")
        missing = [name for name in wanted if name not in empty]
        for name in missing:
            with self._root.below((name, *above), make=True) as at:
                with at.replaced(file, whatever=True) as out:
                    pq.write_table(tables()[name].stored().empty_table(), out)
                about = at.about(file)
            empty[name] = identity(about) if about else None
        if missing:
            self._seal.write(self._root, EMPTY, empty)

    def _write_catalog(self) -> None:
        # What was put there by a recording that has gone since, or is left out, is not asked.
        with self._fresh(STATE) as at:
            for name in at.names():
                rec = name.removesuffix(".json")
                if rec not in self.entries:
                    self._remove_tables(rec, self._seal.read(at, name))
                if rec not in self._judged:
                    at.remove(name)
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in CATALOG}
        for entry in self.entries.values():
            rows_of(entry, rows)
        for path, because in sorted(self.left_out.items()):
            rows["left_out"].append({"path": storable(path.name), "because": storable(because)})
        for name, schema in CATALOG.items():
            with self._fresh(name) as table, table.replaced("all.parquet", whatever=True) as out:
                pq.write_table(pa.Table.from_pylist(rows[name], schema=schema), out)

    def _remove_tables(self, rec: str, state: State | None) -> None:
        if not state or not state["files"]:
            return
        for name in state["files"]:
            place = name, *_place_of(state, rec).split("/")[:-1]
            with contextlib.suppress(FileNotFoundError, UnfitError), self._root.below(place) as at:
                at.remove(f"{rec}.parquet")
        self._keep(rec, state | {"tables": {}, "files": {}})


def _place_of(state: State, rec: str) -> str:
    """Where the rows of a recording are in each table."""
    return f"day={state['day']}/host={state['host']}/{rec}.parquet"


def _keep_only(table: Dir, ours: dict[str, list[int]]) -> set[str]:
    """Removes all but these files, if they are still what they were; gives those that stay."""
    above_ours = {place.rpartition("/")[0] for place in ours}
    above_ours |= {place.partition("/")[0] for place in ours}
    stay: set[str] = set()

    def look(at: Dir, above: str) -> None:
        for name in at.names():
            place, about = f"{above}{name}", at.about(name)
            if about is None:
                continue
            if stat.S_ISDIR(about.st_mode) and place in above_ours:
                with at.sub(name) as below:
                    look(below, f"{place}/")
            elif stat.S_ISREG(about.st_mode) and ours.get(place) == list(identity(about)):
                stay.add(place)
            else:
                at.remove(name)

    look(table, "")
    return stay


def _versions(entry: Entry, names: list[str]) -> dict[str, str]:
    """Of each table of a recording what changes whenever it does."""
    try:
        with Dir.within(entry.path) as recording:
            return {name: _version(recording, name) for name in names}
    except (OSError, UnfitError):
        # Why it cannot be read is said by who reads it.
        return dict.fromkeys(names, "none")


def _version(recording: Dir, table: str) -> str:
    try:
        with recording.sub(table) as segments:
            files = [segments.about(name) for name in segments.names() if name.endswith(".parquet")]
    except (FileNotFoundError, UnfitError):
        return "none"
    about = [a for a in files if a]
    return f"{len(about)}-{sum(a.st_size for a in about)}-{max((a.st_mtime_ns for a in about), default=0)}"
