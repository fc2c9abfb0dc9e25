"""A fleet opened: its views as relations, its questions as methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from .catalog import Say
from .engine import DuckDB, Engine, Value, engine_of
from .schema import CATALOG, tables
from .store import Store
from .text import shown
from .views import views


class Fleet:
    """Recordings of many hosts; `fleet.pairs()` and every other view or table is a method."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store, self.engine = store, engine

    def sql(self, query: str, values: Sequence[Value] = ()) -> pa.Table:
        """Answers a query over tables and views; `?` stand for the values."""
        return self.engine.query(query, values)

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[dict[str, Any]]:
        """The same as dictionaries."""
        found: list[dict[str, Any]] = self.sql(query, values).to_pylist()
        return found

    def relation(self, name: str) -> duckdb.DuckDBPyRelation | pa.Table:
        """A view or a table: of DuckDB a relation (`.df()`, `.pl()`, `.filter(…)`), of Spark a table of Arrow."""
        if name not in views() and name not in tables() and name not in CATALOG:
            raise AttributeError(f"no view or table is called {name}")
        query = f'SELECT * FROM "{name}"'  # noqa: S608
        return self.engine.relation(query) if isinstance(self.engine, DuckDB) else self.engine.query(query)

    def __getattr__(self, name: str) -> Any:
        if name in views() or name in tables() or name in CATALOG:
            return lambda: self.relation(name)
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *views(), *tables(), *CATALOG]

    def left_out_lines(self) -> list[str]:
        """What was left out, and why."""
        return [f"{shown(path.name)}: {shown(why)}" for path, why in sorted(self.store.left_out.items())]

    def close(self) -> None:
        """Ends the engine, and lets go of the store."""
        self.engine.close()
        self.store.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_fleet(
    path: str | Path,
    *,
    engine: str = "duckdb",
    store: str | Path | None = None,
    memory: str | None = None,
    say: Say = lambda _: None,
) -> Fleet:
    """Opens a directory of recordings."""
    opened = Store(Path(path), Path(store) if store else None, say)
    try:
        return Fleet(opened, engine_of(engine, opened, memory))
    except BaseException:
        opened.close()
        raise
