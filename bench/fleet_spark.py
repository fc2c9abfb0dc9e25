"""Asks views of a made-up store on Spark and in DuckDB, and holds the rows of the one against those of the other."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyspark
from fleet import Made, make
from tcpwhy_fleet.engine import DuckDB, Spark
from tcpwhy_fleet.views import views

HOSTS = 100
HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextlib.contextmanager
def started(engine: str, scratch: Path) -> Iterator[str]:
    """The master to ask; what is started for it ends with it."""
    running: list[subprocess.Popen[bytes]] = []
    env = os.environ | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}

    def start(*command: str) -> None:
        log = (scratch / f"{len(running)}.log").open("wb")
        running.append(
            subprocess.Popen([str(HOME / "bin" / command[0]), *command[1:]], env=env, stdout=log, stderr=log)
        )

    try:
        if engine == "standalone":
            port = free_port()
            start("spark-class", MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
            wait_for(port)
            for n in range(2):
                at = str(scratch / f"worker{n}")
                start("spark-class", WORKER, "--cores", "1", "--memory", "1536m", "--webui-port", "0", "--work-dir", at,
                      f"spark://127.0.0.1:{port}")  # fmt: skip
            yield f"spark://127.0.0.1:{port}"
        elif engine == "connect":
            port = free_port()
            start("spark-submit", "--class", CONNECT, "--master", "local[2]", "--driver-memory", "3g",
                  "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false",
                  "--conf", "spark.connect.grpc.binding.address=127.0.0.1", "spark-internal")  # fmt: skip
            wait_for(port)
            yield f"sc://127.0.0.1:{port}"
        else:
            yield engine
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


def differ(one: str, other: str, view: str) -> int:
    """Rows that one has and the other has not, numbers to nine digits."""
    db = duckdb.connect()
    kinds = {name: kind for name, kind, *_ in db.sql(f"DESCRIBE SELECT * FROM '{one}'").fetchall()}
    cells = []
    for name, _, _ in views()[view].columns:
        text = kinds[name] in ("VARCHAR", "BOOLEAN")
        cells.append(f'CAST("{name}" AS VARCHAR)' if text else f"printf('%.9g', CAST(\"{name}\" AS DOUBLE))")
    rows = ", ".join(cells)
    left, right = f"SELECT {rows} FROM '{one}'", f"SELECT {rows} FROM '{other}'"
    query = f"SELECT COUNT(*) FROM (({left} EXCEPT ALL {right}) UNION ALL ({right} EXCEPT ALL {left}))"
    return int(db.sql(query).fetchall()[0][0])


def main() -> None:
    """Makes the store, asks both, prints."""
    parser = argparse.ArgumentParser(prog="bench/fleet-spark", description="Views on Spark, held against DuckDB.")
    parser.add_argument(
        "engine", nargs="?", default="local-cluster[2,1,1536]", help="or standalone, connect, spark://…"
    )
    parser.add_argument("views", nargs="*", default=["ends", "pairs", "losses"])
    parser.add_argument("--connections", type=int, default=3_600, help="that each of 100 hosts opens")
    args = parser.parse_args()
    engine, names, per = args.engine, args.views, args.connections
    scratch = Path(tempfile.mkdtemp(prefix="bench-fleet-spark-"))
    try:
        at = scratch / "store"
        make(at, HOSTS, per)
        print(f"bench/fleet-spark: {engine}, {HOSTS} hosts, {HOSTS * per * 14:,} rows of events and samples")
        with started(engine, scratch) as master:
            began = time.monotonic()
            spark = Spark(Made(at), master)  # type: ignore[arg-type]
            print(f"  started in {time.monotonic() - began:.1f} s: Spark {spark.session.version}", flush=True)
            for view in names:
                here, there = f"{scratch}/{view}.parquet", f"{scratch}/{view}"
                took = []
                began = time.monotonic()
                spark.frame(f"SELECT * FROM {view}").write.parquet(there)
                took.append(time.monotonic() - began)
                began = time.monotonic()
                duck = DuckDB(Made(at), "4GiB")  # type: ignore[arg-type]
                duck.relation(f"SELECT * FROM {view}").write_parquet(here)
                took.append(time.monotonic() - began)
                rows = duckdb.sql(f"SELECT COUNT(*) FROM '{here}'").fetchall()[0][0]
                wrong = differ(here, f"{there}/*.parquet", view)
                print(
                    f"  {view:12} {rows:>9,} rows, {wrong} differ; Spark {took[0]:.1f} s, DuckDB {took[1]:.1f} s",
                    flush=True,
                )
                duck.close()
            spark.close()
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
