"""The store: tables of many recordings as Parquet by day and host, filled as questions need them.

STORE/TABLE/day=2026-11-26/host=web1/REC.parquet    rows of one recording, times in wall time
STORE/recording/all.parquet                         what recordings there are; label, source, left_out likewise
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from . import manifest, workers
from .catalog import Entry, Say, labels_of, name_hosts, of_texts, once, rows_of, shown_name
from .manifest import plain
from .schema import CATALOG, tables
from .unfit import UnfitError

FORMAT = 1
MARK = "tcpwhy-fleet.json"
INSIDE = ".tcpwhy-fleet"
LABELS = "labels.json"
# A file of each table that has its columns and no rows.
NO_ROWS = "day=none/host=none/none.parquet"


class Store:
    """Recordings of a directory, and the store beside them."""

    def __init__(self, source: Path, at: Path | None = None, say: Say = lambda _: None) -> None:
        if not source.is_dir():
            raise UnfitError(f"{source}: no directory of recordings")
        self.source, self._say = source, say
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.at = at or self._beside()
        self.at.mkdir(parents=True, exist_ok=True)
        self._mark()
        self.left_out: dict[Path, str] = {}
        self.entries: dict[str, Entry] = {}
        with self._locked():
            self._look()
            self._write_catalog()

    def _beside(self) -> Path:
        if os.access(self.source, os.W_OK):
            return self.source / INSIDE
        self._scratch = tempfile.TemporaryDirectory(prefix="tcpwhy-fleet-")
        return Path(self._scratch.name)

    def _mark(self) -> None:
        mark = self.at / MARK
        if not mark.exists():
            mark.write_text(json.dumps({"format": FORMAT}))
        elif json.loads(mark.read_text()).get("format") != FORMAT:
            raise UnfitError(f"{self.at}: a store of another version; remove it, and it is made anew")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process fills a store at a time."""
        with (self.at / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _look(self) -> None:
        """Judges everything in the directory that may be a recording."""
        given = sorted(p for p in self.source.iterdir() if not p.name.startswith("."))
        labels = labels_of(self.source / LABELS)
        packed = [p for p in given if p.suffix == ".tcpw"]
        unpacked = self._unpack(packed)
        fit: list[Entry] = []
        for path in given:
            if path.suffix not in (".tcpwhy", ".tcpw") or path in self.left_out:
                continue
            directory, whole = unpacked.get(path, (path, True))
            try:
                if directory.is_symlink() or not directory.is_dir():
                    raise UnfitError("no recording: neither a directory nor a .tcpw file")
                read = manifest.read(directory)
            except UnfitError as e:
                self.left_out[path] = str(e)
                continue
            entry = Entry(directory, read, plain(read.host), whole, given=path)
            entry.labels = labels.get(path.name, {}) | of_texts(read.labels)
            fit.append(entry)
        kept = once(fit, self.left_out)
        name_hosts(kept, self._say)
        self.entries = {entry.rec: entry for entry in sorted(kept, key=lambda e: e.rec)}

    def _unpack(self, packed: list[Path]) -> dict[Path, tuple[Path, bool]]:
        found: dict[Path, tuple[Path, bool]] = {}
        jobs = []
        for path in packed:
            if path.is_symlink() or not path.is_file():
                self.left_out[path] = "no regular file"
                continue
            about = path.stat()
            to = self.at / ".unpacked" / f"{plain(path.name)}-{about.st_mtime_ns:x}-{about.st_size:x}"
            done = to.with_suffix(".json")
            if done.exists():
                found[path] = (to, bool(json.loads(done.read_text())["whole"]))
                continue
            shutil.rmtree(to, ignore_errors=True)
            to.mkdir(parents=True, mode=0o700)
            jobs.append({"do": "unpack", "from": str(path), "to": str(to)})

        def done_with(job: dict[str, Any], answer: dict[str, Any]) -> None:
            path, to = Path(job["from"]), Path(job["to"])
            if "unfit" in answer:
                self.left_out[path] = answer["unfit"]
                shutil.rmtree(to, ignore_errors=True)
                return
            to.with_suffix(".json").write_text(json.dumps(answer))
            found[path] = (to, answer["whole"])

        workers.run(jobs, done_with)
        return found

    def ensure(self, names: Iterable[str]) -> None:
        """Puts tables into the store that a question needs and that are not there yet."""
        wanted = [name for name in names if name in tables()]
        with self._locked():
            jobs = [job for e in self.entries.values() if (job := self._job(e, wanted))]
            workers.run(jobs, self._stored)
            for name in wanted:
                self._schema_file(name)
            self._write_catalog()

    def _job(self, entry: Entry, wanted: list[str]) -> dict[str, Any] | None:
        done = self._done(entry)
        missing = [name for name in wanted if done.get(name) != _version(entry.path / name)]
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
        }

    def _state(self, rec: str) -> Path:
        return self.at / ".state" / f"{rec}.json"

    def _done(self, entry: Entry) -> dict[str, str]:
        try:
            said: dict[str, Any] = json.loads(self._state(entry.rec).read_text())
        except FileNotFoundError:
            return {}
        if said["host"] != entry.host:
            # It came to be told apart from another of its name.
            self._remove(entry.rec)
            return {}
        done: dict[str, str] = said["tables"]
        return done

    def _stored(self, job: dict[str, Any], answer: dict[str, Any]) -> None:
        rec = job["rec"]
        if "unfit" in answer:
            entry = self.entries.pop(rec)
            self.left_out[entry.given] = answer["unfit"]
            self._remove(rec)
            return
        entry = self.entries[rec]
        done = self._done(entry)
        done |= {name: _version(entry.path / name) for name in answer["rows"]}
        state = self._state(rec)
        state.parent.mkdir(exist_ok=True)
        state.write_text(json.dumps({"host": entry.host, "tables": done}))

    def _remove(self, rec: str) -> None:
        for file in self.at.glob(f"*/day=*/host=*/{rec}.parquet"):
            file.unlink()
        self._state(rec).unlink(missing_ok=True)

    def _schema_file(self, name: str) -> None:
        """A table of no rows, so that every engine finds its columns."""
        path = self.at / name / NO_ROWS
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(tables()[name].stored().empty_table(), path)

    def _write_catalog(self) -> None:
        # What was put there by a recording that has gone since is not asked.
        for state in (self.at / ".state").glob("*.json"):
            if state.stem not in self.entries:
                self._remove(state.stem)
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in CATALOG}
        for entry in self.entries.values():
            rows_of(entry, rows)
        for path, because in sorted(self.left_out.items()):
            rows["left_out"].append({"path": shown_name(path), "because": because})
        for name, schema in CATALOG.items():
            path = self.at / name / "all.parquet"
            path.parent.mkdir(exist_ok=True)
            made = path.with_suffix(".new")
            pq.write_table(pa.Table.from_pylist(rows[name], schema=schema), made)
            made.replace(path)


def _version(table: Path) -> str:
    """Changes whenever the table of a recording does."""
    try:
        files = [f for f in os.scandir(table) if f.name.endswith(".parquet")]
    except (FileNotFoundError, NotADirectoryError):
        return "none"
    about = [f.stat(follow_symlinks=False) for f in files]
    return f"{len(about)}-{sum(a.st_size for a in about)}-{max((a.st_mtime_ns for a in about), default=0)}"
