"""Rows of an answer as a table, CSV, JSON lines or Parquet."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from .target import Target
from .text import number, shown

FORMATS = ("table", "csv", "json", "parquet")
WIDEST = 60
# What a cell is quoted for, and what it begins with that spreadsheets take for a formula.
QUOTED = '",\r\n'
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def tell(lines: Iterable[str]) -> None:
    """Prints lines for people; names that are in them act on no terminal."""
    for line in lines:
        print(shown(line))


def look(form: str, target: Target | None) -> None:
    """Refuses what cannot be written, before the work is done."""
    if form == "parquet" and target is None:
        raise ValueError("Parquet goes to a file: -o NAME")


def write(rows: pa.Table, form: str, target: Target | None) -> None:
    """Writes rows to a file, or to standard output."""
    look(form, target)
    if target is None:
        _text(rows, form, sys.stdout, acts=sys.stdout.isatty())
        return
    with target.opened() as out:
        if form == "parquet":
            pq.write_table(rows, out)
            return
        text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
        try:
            _text(rows, form, text, acts=out.isatty())
            text.flush()
        finally:
            # Who opened it closes it.
            with contextlib.suppress(ValueError, OSError):
                text.detach()


def _text(rows: pa.Table, form: str, out: TextIO, *, acts: bool) -> None:
    if form == "csv":
        out.write(_csv(rows.column_names, acts=acts))
        for batch in rows.to_batches(10_000):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                out.write(_csv(row, acts=acts))
    elif form == "json":
        for batch in rows.to_batches(10_000):
            for row in batch.to_pylist():
                out.write(json.dumps(row, default=str) + "\n")
    else:
        table(rows, out)


def _csv(row: Sequence[Any], *, acts: bool) -> str:
    """A line whose cells nothing obeys: no spreadsheet takes a host's text for a formula, no terminal its escapes."""
    cells = []
    for value in row:
        text = "" if value is None else shown(value) if acts else str(value)
        # Numbers are as they are: no host writes a formula with one.
        if isinstance(value, str) and text.startswith(FORMULA):
            text = f"'{text}"
        # Python's own csv leaves a carriage return bare, and what comes after it would begin a line.
        cells.append('"' + text.replace('"', '""') + '"' if any(c in text for c in QUOTED) else text)
    # A line of nothing would be none.
    return ",".join(cells) + "\n" if cells != [""] else '""\n'


def table(rows: pa.Table, out: TextIO) -> None:
    """A table for people; a value is cut where it would take the screen."""
    names = rows.column_names
    cells = [[_cell(value) for value in column.to_pylist()] for column in rows.columns]
    widths = [max(len(n), *map(len, c), 0) if c else len(n) for n, c in zip(names, cells, strict=True)]
    right = [
        pa.types.is_integer(f.type) or pa.types.is_floating(f.type) or pa.types.is_decimal(f.type) for f in rows.schema
    ]

    def line(values: list[str]) -> str:
        parts = [v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True)]
        return "  ".join(parts).rstrip() + "\n"

    out.write(line([shown(n).upper() for n in names]))
    for at in range(rows.num_rows):
        out.write(line([column[at] for column in cells]))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    text = shown(value)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
