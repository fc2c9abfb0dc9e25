"""Puts tables of one recording into the store: the work of a process of its own, which a hostile file may end.

Reads jobs from standard input, one JSON object per line, and answers each with one.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

# Before pyarrow is loaded: its own allocators reserve more than the bound below lets them.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

import pyarrow as pa
import pyarrow.parquet as pq

from . import manifest
from .columns import batch_of
from .schema import Table, tables
from .unfit import UnfitError
from .unpack import SEGMENT, unpack

MEMORY = 3 << 30
GROUP_ROWS = 128 << 10
BATCH_ROWS = 64 << 10
# As the recorder's own bounds: beyond, a file was made to hurt.
MOST_SEGMENTS = 100_000
ROWS_FREE = 1 << 18
ROWS_PER_BYTE = 2


def segments(recording: Path, table: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The sealed segments of a table, in order; nothing is opened through a link."""
    directory = recording / table
    if not directory.exists() and not directory.is_symlink():
        return
    if directory.is_symlink() or not directory.is_dir():
        raise UnfitError(f"{table} is no directory")
    names = sorted(n for n in os.listdir(directory) if SEGMENT.fullmatch(n))  # noqa: PTH208
    if len(names) > MOST_SEGMENTS:
        raise UnfitError(f"{table}: more than {MOST_SEGMENTS} segments")
    for name in names:
        try:
            handle = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as e:
            raise UnfitError(f"{table}/{name}: {e.strerror}") from None
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UnfitError(f"{table}/{name} is no regular file")
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
    except (pa.ArrowException, OSError, ValueError, MemoryError) as e:
        raise UnfitError(f"{what} is damaged: {str(e)[:100]}") from None


def put(table: Table, recording: Path, to: Path, rec: str, clock_offset_ns: int) -> int:
    """Writes a table of a recording into the store; gives its rows."""
    made, writer, rows = to.with_suffix(".new"), None, 0
    try:
        for what, file in segments(recording, table.name):
            for batch in batches(file, what):
                stored = batch_of(table, batch, rec, clock_offset_ns)
                rows += stored.num_rows
                if writer is None:
                    to.parent.mkdir(parents=True, exist_ok=True)
                    writer = pq.ParquetWriter(made, stored.schema, compression="zstd")
                writer.write_batch(stored, GROUP_ROWS)
    except BaseException:
        if writer is not None:
            writer.close()
            made.unlink(missing_ok=True)
        raise
    if writer is not None:
        writer.close()
        made.replace(to)
    return rows


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Does one job."""
    if job["do"] == "unpack":
        with Path(job["from"]).open("rb") as source:
            whole = unpack(source, Path(job["to"]))
        manifest.read(Path(job["to"]))
        return {"whole": whole}
    rows = {}
    for name in job["tables"]:
        to = Path(job["store"], name, f"day={job['day']}", f"host={job['host']}", f"{job['rec']}.parquet")
        rows[name] = put(tables()[name], Path(job["recording"]), to, job["rec"], job["clock_offset_ns"])
    return {"rows": rows}


def main() -> None:
    """Answers until standard input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        try:
            answer = work(json.loads(line))
        except UnfitError as e:
            answer = {"unfit": str(e)}
        except (OSError, MemoryError) as e:
            answer = {"unfit": f"cannot be read: {str(e)[:200]}"}
        except Exception:
            # A bug of ours is not blamed on the recording.
            answer = {"bug": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
