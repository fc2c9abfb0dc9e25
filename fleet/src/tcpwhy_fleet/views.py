"""The views: SQL in files, each with what it says and its columns in its header."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import takewhile

import sqlglot
from sqlglot import exp

from .schema import CATALOG, tables

# The dialect that the files are written in; a test holds them to what others have as well.
DIALECT = "duckdb"
COLUMN = re.compile(r"-- (\w+) \| ([^|]+) \| (.+)")


@dataclass(frozen=True)
class View:
    """A view."""

    name: str
    says: str
    # Name, unit and meaning of each column, in order.
    columns: tuple[tuple[str, str, str], ...]
    sql: str
    # Computed once where others build on it.
    kept: bool
    # A row rests on one recording alone: of many they can be computed some at a time.
    by_recording: bool

    def needs(self) -> frozenset[str]:
        """The tables and views that it reads."""
        return reads(self.sql)


def reads(sql: str) -> frozenset[str]:
    """The tables and views that a query names."""
    found: set[str] = set()
    for statement in sqlglot.parse(sql, read=DIALECT):
        if statement is None:
            continue
        within = {cte.alias_or_name.lower() for cte in statement.find_all(exp.CTE)}
        named = {table.name.lower() for table in statement.find_all(exp.Table)}
        found |= named - within
    return frozenset(found)


@cache
def views() -> dict[str, View]:
    """All views by name."""
    found = {}
    for file in resources.files(__package__).joinpath("sql").iterdir():
        if file.name.endswith(".sql"):
            view = _view(file.name[: -len(".sql")], file.read_text(encoding="utf-8"))
            found[view.name] = view
    return dict(sorted(found.items()))


def _view(name: str, text: str) -> View:
    header = list(takewhile(lambda line: line.startswith("--"), text.splitlines()))
    columns = tuple(m.groups() for line in header if (m := COLUMN.fullmatch(line)))
    says = " ".join(line.removeprefix("--").strip() for line in header if not COLUMN.fullmatch(line))
    kept = "Kept:" in says
    by_recording = "Kept: by recording" in says
    return View(name, says.split("Kept:")[0].strip(), columns, text, kept, by_recording)  # type: ignore[arg-type]


def closure(names: frozenset[str]) -> tuple[list[str], set[str]]:
    """The views that a query needs, each after those that it reads, and the tables."""
    order: list[str] = []
    base: set[str] = set()

    def visit(name: str) -> None:
        if name in order:
            return
        if name in views():
            for other in sorted(views()[name].needs()):
                visit(other)
            order.append(name)
        elif name in tables() or name in CATALOG:
            base.add(name)

    for name in sorted(names):
        visit(name)
    return order, base


@cache
def in_dialect(sql: str, dialect: str) -> str:
    """A query in the dialect of an engine."""
    return str(sqlglot.transpile(sql, read=DIALECT, write=dialect, comments=False)[0])
