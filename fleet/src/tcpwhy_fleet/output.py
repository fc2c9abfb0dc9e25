"""Rows of an answer as a table, CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from .text import number, shown

FORMATS = ("table", "csv", "json", "parquet")
WIDEST = 60


def write(rows: pa.Table, form: str, out: Path | None) -> None:
    """Writes rows to a file, or to standard output."""
    if form == "parquet":
        if out is None:
            raise ValueError("Parquet goes to a file: -o NAME")
        pq.write_table(rows, out)
        return
    if out is None:
        _text(rows, form, sys.stdout)
        return
    with out.open("w", encoding="utf-8", newline="") as file:
        _text(rows, form, file)


def _text(rows: pa.Table, form: str, out: TextIO) -> None:
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows.column_names)
        for batch in rows.to_batches(10_000):
            writer.writerows(zip(*(c.to_pylist() for c in batch.columns), strict=True))
    elif form == "json":
        for batch in rows.to_batches(10_000):
            for row in batch.to_pylist():
                out.write(json.dumps(row, default=str) + "\n")
    else:
        table(rows, out)


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
