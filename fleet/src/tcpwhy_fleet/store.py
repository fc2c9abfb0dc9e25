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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from . import manifest, workers
from .manifest import Manifest, UnfitError, plain
from .schema import CATALOG, tables

FORMAT = 1
MARK = "tcpwhy-fleet.json"
INSIDE = ".tcpwhy-fleet"
LABELS = "labels.json"
# Two recordings of a host that share so much of the shorter one are one collection made twice.
SAME = 0.5
Say = Callable[[str], None]


@dataclass
class Entry:
    """A recording in the store."""

    path: Path
    manifest: Manifest
    host: str
    whole: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    # What it is given by: the file that the user has, which may be packed.
    given: Path = Path()

    @property
    def rec(self) -> str:
        return self.manifest.rec

    @property
    def explained(self) -> bool:
        """Whether explain has written what it found."""
        return any((self.path / "answer").glob("*.parquet"))


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
        labels = _labels(self.source / LABELS)
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
            entry.labels = labels.get(path.name, {}) | _of_texts(read.labels)
            fit.append(entry)
        self._name_hosts(self._once(fit))

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

    def _once(self, fit: list[Entry]) -> list[Entry]:
        """Without what is there twice: copies, and the same seconds of a host collected twice."""
        kept: list[Entry] = []
        # Of two, the one that is whole and the longer one stays.
        fit.sort(key=lambda e: (not e.manifest.complete, e.manifest.start_ns - e.manifest.end_ns, str(e.given)))
        by_boot: dict[tuple[str, str, str], list[Entry]] = {}
        for entry in fit:
            of = entry.manifest
            same = by_boot.setdefault((of.host, of.boot_id, of.producer), [])
            twin = next((e for e in same if e.rec == entry.rec), None)
            again = next((e for e in same if _share(e.manifest, of) > SAME), None)
            if twin:
                self.left_out[entry.given] = f"a copy of {twin.given.name}"
            elif again and of.producer == "live":
                self.left_out[entry.given] = f"the same seconds of {of.host} as {again.given.name}"
            else:
                same.append(entry)
                kept.append(entry)
        return kept

    def _name_hosts(self, entries: list[Entry]) -> None:
        """Hosts of one name that were up at the same time are told apart by their boot ids."""
        by_name: dict[str, dict[str, list[Entry]]] = {}
        for entry in entries:
            by_name.setdefault(entry.host, {}).setdefault(entry.manifest.boot_id, []).append(entry)
        for name, boots in by_name.items():
            if _at_once(boots):
                self._say(f"{len(boots)} hosts are called {name}: they are told apart by their boot ids")
                for boot_id, of_boot in boots.items():
                    for entry in of_boot:
                        entry.host = f"{name}.{plain(boot_id)[:8]}"
        for entry in sorted(entries, key=lambda e: e.rec):
            self.entries[entry.rec] = entry

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
        path = self.at / name / "day=none" / "host=none" / "none.parquet"
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
            _catalog(entry, rows)
        for path, because in sorted(self.left_out.items()):
            rows["left_out"].append({"path": _shown(path), "because": because})
        for name, schema in CATALOG.items():
            path = self.at / name / "all.parquet"
            path.parent.mkdir(exist_ok=True)
            made = path.with_suffix(".new")
            pq.write_table(pa.Table.from_pylist(rows[name], schema=schema), made)
            made.replace(path)


def _catalog(entry: Entry, rows: dict[str, list[dict[str, Any]]]) -> None:
    of, rec = entry.manifest, entry.rec
    rows["recording"].append(
        {
            "rec": rec,
            "host": entry.host,
            "day": of.day,
            "name": of.host,
            "boot_id": of.boot_id,
            "kernel": of.kernel,
            "machine": of.machine,
            "hz": of.hz,
            "cpus": of.cpus,
            "producer": of.producer,
            "tcpwhy": of.tcpwhy,
            "started_at_ns": of.started_at_ns,
            "ended_at_ns": of.ended_at_ns,
            "complete": of.complete and entry.whole,
            "explained": entry.explained,
            "lost_records": min(sum(max(s.lost, 0) for s in of.sources), 2**63 - 1),
            "path": _shown(entry.given),
        }
    )
    rows["label"] += [{"rec": rec, "key": k, "value": v} for k, v in sorted(entry.labels.items())]
    rows["namespace"] += [{"rec": rec, "netns": inode, "name": name} for inode, name in of.namespaces]
    rows["source"] += [
        {"rec": rec, "source": s.name, "verdict": s.verdict, "because": s.because, "lost": s.lost} for s in of.sources
    ]


def _version(table: Path) -> str:
    """Changes whenever the table of a recording does."""
    try:
        files = [f for f in os.scandir(table) if f.name.endswith(".parquet")]
    except (FileNotFoundError, NotADirectoryError):
        return "none"
    about = [f.stat(follow_symlinks=False) for f in files]
    return f"{len(about)}-{sum(a.st_size for a in about)}-{max((a.st_mtime_ns for a in about), default=0)}"


def _shown(path: Path) -> str:
    return path.name.encode("utf-8", "replace").decode()


def _share(one: Manifest, other: Manifest) -> float:
    both = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    least = min(one.end_ns - one.start_ns, other.end_ns - other.start_ns)
    return both / least if least > 0 else float(both >= 0)


def _at_once(boots: dict[str, list[Entry]]) -> bool:
    """Whether recordings of different boots overlap: then they are of different hosts."""
    spans = sorted((e.manifest.started_at_ns, e.manifest.ended_at_ns, b) for b, of in boots.items() for e in of)
    return any(a[1] > b[0] and a[2] != b[2] for a, b in pairwise(spans))


def _labels(path: Path) -> dict[str, dict[str, str]]:
    """What `collect` knows of the recordings from the file of hosts."""
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as e:
        raise UnfitError(f"{path}: {e}") from None
    if not isinstance(said, dict):
        raise UnfitError(f"{path}: not labels by recording")
    return {str(k): {str(a): str(b) for a, b in v.items()} for k, v in said.items() if isinstance(v, dict)}


def _of_texts(labels: Iterable[str]) -> dict[str, str]:
    """Labels of the recorder: `rack=r1`, or a plain word."""
    pairs = [label.partition("=") for label in labels]
    return {key if eq else "label": value if eq else key for key, eq, value in pairs}
