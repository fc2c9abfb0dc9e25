"""Puts tables of one recording into the store: the work of a process of its own, which a hostile file may end.

Reads jobs from standard input, one JSON object per line, and answers each with one.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

# Before pyarrow is loaded: its own allocators reserve more than the bound below lets them.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

import pyarrow as pa
import pyarrow.parquet as pq

from . import manifest
from .columns import batch_of
from .files import Dir, Identity, NoRoomError, identity
from .schema import Table, tables
from .unfit import ForNowError, UnfitError, as_bug
from .unpack import SEGMENT, unpack

MEMORY = 3 << 30
GROUP_ROWS = 128 << 10
BATCH_ROWS = 64 << 10
# As the recorder's own bounds: beyond, a file was made to hurt.
MOST_SEGMENTS = 100_000
ROWS_FREE = 1 << 18
ROWS_PER_BYTE = 2
PR_SET_PDEATHSIG = 1


def segments(recording: Dir, table: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The sealed segments of a table, in order; nothing is opened through a link."""
    try:
        directory = recording.sub(table)
    except FileNotFoundError:
        return
    with directory:
        names = [name for name in directory.names() if SEGMENT.fullmatch(name)]
        if len(names) > MOST_SEGMENTS:
            raise UnfitError(f"{table}: more than {MOST_SEGMENTS} segments")
        for name in names:
            try:
                file = directory.open(name)
            except UnfitError as e:
                raise UnfitError(f"{table}/{e}") from None
            except FileNotFoundError:
                raise UnfitError(f"{table}/{name} has gone meanwhile") from None
            with file:
                yield f"{table}/{name}", file


def batches(file: IO[bytes], what: str) -> Iterator[pa.RecordBatch]:
    """The rows of a segment."""
    size = os.fstat(file.fileno()).st_size
    try:
        parquet = pq.ParquetFile(file)
        rows = parquet.metadata.num_rows
        if rows > ROWS_FREE + size * ROWS_PER_BYTE:
            raise UnfitError(f"{what} claims {rows} rows in {size} bytes")
        left = rows
        for batch in parquet.iter_batches(BATCH_ROWS):
            left -= batch.num_rows
            if left < 0:
                raise UnfitError(f"{what} has more rows than it says")
            yield batch
    except (pa.ArrowException, OSError, ValueError, MemoryError, RecursionError) as e:
        raise UnfitError(f"{what} is damaged: {str(e)[:100]}") from None


def put(table: Table, recording: Dir, store: Dir, job: dict[str, Any]) -> Identity | None:
    """Writes a table of a recording into the store, where it has rows; gives what tells the file from every other."""
    names = table.name, f"day={job['day']}", f"host={job['host']}"
    name = f"{job['rec']}.parquet"
    rows = stored_batches(table, recording, job["rec"], job["clock_offset_ns"])
    first = next(rows, None)
    if first is None:
        with contextlib.suppress(FileNotFoundError), store.below(names) as to:
            to.remove(name)
        return None
    with store.below(names, make=True) as to:
        with (
            to.replaced(name, whatever=True) as file,
            pq.ParquetWriter(file, first.schema, compression="zstd") as writer,
        ):
            writer.write_batch(first, GROUP_ROWS)
            for batch in rows:
                writer.write_batch(batch, GROUP_ROWS)
        about = to.about(name)
    return identity(about) if about else None


def stored_batches(table: Table, recording: Dir, rec: str, clock_offset_ns: int) -> Iterator[pa.RecordBatch]:
    """The rows of a table as the store has them."""
    for what, file in segments(recording, table.name):
        for batch in batches(file, what):
            yield batch_of(table, batch, rec, clock_offset_ns)


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Does one job."""
    if job["do"] == "unpack":
        given, to = Path(job["from"]), Path(job["to"])
        with Dir.given(given.parent) as at, at.open(given.name) as source:
            whole = unpack(source, to)
        with Dir.within(to) as made:
            manifest.read(made)
        return {"whole": whole}
    files = {}
    with Dir.within(Path(job["recording"])) as recording, Dir.given(Path(job["store"])) as store:
        for name in job["tables"]:
            try:
                files[name] = put(tables()[name], recording, store, job)
            except UnfitError as e:
                return unfit(e) | {"table": name}
    return {"files": files}


def unfit(e: Exception) -> dict[str, Any]:
    """An answer that says why there is none."""
    if isinstance(e, NoRoomError):
        return {"unfit": str(e), "room": e.room}
    return {"unfit": str(e), "for_now": isinstance(e, ForNowError)}


def answer_to(line: str) -> dict[str, Any]:
    """Does a job as it comes; whatever goes wrong is about its file."""
    try:
        return work(json.loads(line))
    except UnfitError as e:
        return unfit(e)
    except OSError as e:
        return {"unfit": f"cannot be read: {str(e)[:200]}", "for_now": True}
    except MemoryError as e:
        return {"unfit": f"cannot be read: {str(e)[:200]}"}
    except Exception as e:
        return {"unfit": as_bug(e), "for_now": True}


def end_with(parent: int) -> None:
    """Ends with who started us, whatever a file keeps us at."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    """Answers until standard input ends."""
    end_with(int(sys.argv[1]))
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        print(json.dumps(answer_to(line)), flush=True)


if __name__ == "__main__":
    main()
