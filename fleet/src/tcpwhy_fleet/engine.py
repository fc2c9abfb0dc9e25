"""What answers SQL: DuckDB inside, or Spark outside; both read the same store and the same views."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from .schema import CATALOG
from .scratch import Scratch
from .store import NO_ROWS, Store
from .views import View, closure, in_dialect, reads, views

Value = str | int | float | bool | None
# Parquet of events and samples that is aggregated at a time: some five million rows.
BATCH_BYTES = 48 << 20


class Engine(Protocol):
    """An engine over one store."""

    def query(self, sql: str, values: Sequence[Value] = ()) -> pa.Table:
        """Answers a query; `?` stand for the values."""

    def keep(self, name: str, sql: str, values: Sequence[Value] = ()) -> None:
        """Computes a query once, as a table of this name that later ones read."""

    def close(self) -> None:
        """Ends it."""


class _Prepared:
    """Makes what a query names before it is asked."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._made: set[str] = set()

    def prepare(self, sql: str) -> None:
        order, base = closure(reads(sql) - self._made)
        new = sorted(base - self._made)
        if new:
            self.store.ensure(new)
        for name in new:
            self._base(name)
            self._made.add(name)
        for name in order:
            if name not in self._made:
                self._view(name)
                self._made.add(name)

    def _base(self, name: str) -> None:
        raise NotImplementedError

    def _view(self, name: str) -> None:
        raise NotImplementedError


class DuckDB(_Prepared):
    """DuckDB in this process; what is kept is in a file, so that memory stays bounded."""

    def __init__(self, store: Store, memory: str | None = None) -> None:
        super().__init__(store)
        self._scratch = Scratch()
        at = self._scratch.path
        config: dict[str, Any] = {"temp_directory": str(at / "spill"), "memory_limit": memory or _half_of_memory()}
        # What nobody allowed is not fetched: no extension is installed on its own.
        config |= {"autoinstall_known_extensions": "false", "preserve_insertion_order": "false"}
        self.connection = duckdb.connect(str(at / "kept.duckdb"), config=config)

    def query(self, sql: str, values: Sequence[Value] = ()) -> pa.Table:
        return self.relation(sql, values).to_arrow_table()

    def relation(self, sql: str, values: Sequence[Value] = ()) -> duckdb.DuckDBPyRelation:
        """The same, computed when its rows are asked for."""
        self.prepare(sql)
        return self.connection.sql(sql, params=list(values) or None)

    def keep(self, name: str, sql: str, values: Sequence[Value] = ()) -> None:
        self.prepare(sql)
        self.connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS {sql}', list(values) or None)
        self._made.add(name)

    def _base(self, name: str, recordings: Sequence[Path] | None = None) -> None:
        """A table of the store as a view: all of it, or these files of it."""
        at = self.store.at / name
        if any(sign in str(at) for sign in "*?["):
            raise ValueError(f"{at}: DuckDB takes *, ? and [ in a path for patterns; name another --store")
        if name in CATALOG:
            source = _quoted(at / "all.parquet")
        else:
            files = [at / "*/*/*.parquet"] if recordings is None else [*recordings, at / NO_ROWS]
            list_of = ", ".join(_quoted(file) for file in files)
            source = f"[{list_of}], hive_partitioning = true, hive_types_autocast = false"
        query = f"SELECT * FROM read_parquet({source})"  # noqa: S608
        self.connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {query}')

    def _view(self, name: str) -> None:
        view = views()[name]
        if view.by_recording:
            self._by_recording(view)
            return
        kind = "TABLE" if view.kept else "VIEW"
        self.connection.execute(f'CREATE OR REPLACE {kind} "{name}" AS {view.sql}')

    def _by_recording(self, view: View) -> None:
        """Computes a view for some recordings at a time: what has to be in memory at once stays bounded."""
        # What views it reads say follows the tables below them.
        names = sorted(name for name in closure(view.needs())[1] if name not in CATALOG)
        self.connection.execute(f'DROP TABLE IF EXISTS "{view.name}"')
        into = f'CREATE TABLE "{view.name}" AS'
        try:
            for files in self._batches(names):
                for name in names:
                    self._base(name, files[name])
                self.connection.execute(f"{into} {view.sql}")
                into = f'INSERT INTO "{view.name}"'
        finally:
            for name in names:
                self._base(name)

    def _batches(self, names: list[str]) -> Iterator[dict[str, list[Path]]]:
        """The files of tables, recording by recording, some bytes at a time; at least one batch."""
        of: dict[str, dict[str, list[Path]]] = {}
        for name in names:
            for file in sorted((self.store.at / name).glob("day=*/host=*/*.parquet")):
                if file != self.store.at / name / NO_ROWS:
                    of.setdefault(file.stem, {}).setdefault(name, []).append(file)
        batch: dict[str, list[Path]] = {name: [] for name in names}
        size = 0
        for rec in sorted(of):
            more = sum(file.stat().st_size for files in of[rec].values() for file in files)
            if size and size + more > BATCH_BYTES:
                yield batch
                batch, size = {name: [] for name in names}, 0
            for name, files in of[rec].items():
                batch[name] += files
            size += more
        yield batch

    def close(self) -> None:
        self.connection.close()
        self._scratch.cleanup()


class Spark(_Prepared):
    """Spark: `spark://HOST:PORT` or `local[N]` of a master, `sc://HOST:PORT` of Spark Connect."""

    def __init__(self, store: Store, master: str) -> None:
        super().__init__(store)
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise RuntimeError("Spark is not installed: pip install 'tcpwhy-fleet[spark]'") from None
        builder = SparkSession.builder.appName("tcpwhy-fleet")
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
        settings = {
            # A host may be called 007.
            "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            # Views have many columns made by CASE: what may be concluded of each takes the planner minutes.
            "spark.sql.constraintPropagation.enabled": "false",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            # Sizes are of what is compressed; what is broadcast has to fit the driver as it is.
            "spark.sql.autoBroadcastJoinThreshold": "2m",
        }
        if master.startswith("local"):
            # As many as one machine has CPUs for, not as a cluster has.
            settings["spark.sql.shuffle.partitions"] = "4"
            settings["spark.driver.host"] = "127.0.0.1"
            settings["spark.driver.memory"] = "2g"
            # What fits one machine is asked sooner than its queries are compiled.
            settings["spark.sql.codegen.wholeStage"] = "false"
            settings["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
        if master.startswith("sc://"):
            # The rest is the server's own.
            settings = {key: value for key, value in settings.items() if key.startswith("spark.sql.")}
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()

    def query(self, sql: str, values: Sequence[Value] = ()) -> pa.Table:
        return self.frame(sql, values).toArrow()

    def keep(self, name: str, sql: str, values: Sequence[Value] = ()) -> None:
        _computed(self.frame(sql, values)).createOrReplaceTempView(name)
        self._made.add(name)

    def frame(self, sql: str, values: Sequence[Value] = ()) -> Any:
        """The same as a frame of Spark, computed when its rows are asked for."""
        self.prepare(sql)
        return self.session.sql(in_dialect(sql, "spark"), args=list(values) or None)

    def _base(self, name: str) -> None:
        self.session.read.parquet(str(self.store.at / name)).createOrReplaceTempView(name)

    def _view(self, name: str) -> None:
        frame = self.session.sql(in_dialect(views()[name].sql, "spark"))
        if views()[name].kept:
            frame = _computed(frame)
        frame.createOrReplaceTempView(name)

    def close(self) -> None:
        self.session.stop()


def _computed(frame: Any) -> Any:
    """A frame of Spark computed once, without the plan behind it: plans that hold plans outgrow the driver."""
    # Spark Connect has it since 4.0.
    return frame.localCheckpoint() if hasattr(frame, "localCheckpoint") else frame.cache()


def _quoted(path: Path) -> str:
    text = str(path).replace("'", "''")
    return f"'{text}'"


def _half_of_memory() -> str:
    """Half of what the machine has: what does not fit goes to disk."""
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 2 >> 20}MiB"


def engine_of(name: str, store: Store, memory: str | None = None) -> Engine:
    """The engine that the user names."""
    if name == "duckdb":
        return DuckDB(store, memory)
    if name.startswith(("spark://", "sc://", "local")):
        return Spark(store, name)
    raise ValueError(f"{name}: an engine is duckdb, spark://HOST:PORT or sc://HOST:PORT")
