"""The diff tests: a query over the small fleet, and the rows that it must give, in `expected/NAME.csv`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa

from tcpwhy_fleet.views import views

EXPECTED = Path(__file__).with_name("expected")
# Questions that go over views, beside each view as it is.
QUERIES = {
    "question_cookies_by_backlog": "SELECT backlog, cookie, COUNT(*) AS n FROM connections GROUP BY backlog, cookie",
    "question_left_out": "SELECT * FROM left_out",
    "question_sources": "SELECT rec, source, verdict FROM source",
    "question_tables": "SELECT host, kind, state, COUNT(*) AS n FROM event GROUP BY host, kind, state",
}
CASES = [*views(), *QUERIES]


def query(case: str) -> str:
    """The query of a case."""
    return QUERIES.get(case) or f'SELECT * FROM "{case}"'


def text(rows: pa.Table) -> str:
    """Rows as text that any engine gives alike: in order, and numbers to six digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    values = [[_cell(v) for v in row.values()] for row in rows.to_pylist()]
    writer.writerows(sorted(values))
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value
    # Sums are decimals in one engine and integers in another.
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.6g}"
