"""Makes a store of many hosts and asks it: each question in a process of its own, with its time and its memory.

Each host opens connections to the hosts that follow it; both ends are sampled five times in ten minutes and have
their events. Hosts are made in SQL, so that 100 million rows take minutes, not hours.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tcpwhy_fleet.schema import CATALOG, Table, tables

S = 10**9
START = 1_795_687_200 * S
MEMORY = "4GiB"
QUESTIONS = {
    "one host's retransmissions": "SELECT COUNT(*) FROM event WHERE host = 'h7' AND kind = 'retransmit'",
    "retransmissions by host": "SELECT host, COUNT(*) FROM event WHERE kind = 'retransmit' GROUP BY host",
    "findings (faults)": "SELECT COUNT(*) FROM faults",
    "ends": "SELECT COUNT(*) FROM ends",
    "paths": "SELECT COUNT(*), SUM(retransmitted) FROM paths",
    "pairs": "SELECT COUNT(*) FROM pairs",
    "connections": "SELECT COUNT(*) FROM connections",
}
# Values of a column, of rows of both ends `e` of connection `i` of host `h`; what is not here is null, 0 or ''.
EVENT = {
    "rec": "'r' || h",
    "at_ns": f"{START} + i * 600 * {S} // per + CASE WHEN closing THEN {S} ELSE 0 END",
    "kind": "'state'",
    "netns": "1",
    "sock": "i * 2 + e",
    "family": "4",
    "local_addr": "CASE e WHEN 0 THEN a ELSE b END",
    "local_port": "CASE e WHEN 0 THEN 32768 + i % 28000 ELSE 7000 END",
    "remote_addr": "CASE e WHEN 0 THEN b ELSE a END",
    "remote_port": "CASE e WHEN 0 THEN 7000 ELSE 32768 + i % 28000 END",
    "state": "CASE WHEN closing THEN 'CLOSE' ELSE 'ESTABLISHED' END",
    "old_state": "CASE WHEN closing THEN CASE e WHEN 0 THEN 'FIN_WAIT2' ELSE 'LAST_ACK' END"
    " ELSE CASE e WHEN 0 THEN 'SYN_SENT' ELSE 'SYN_RECV' END END",
    "sack": "CASE WHEN NOT closing THEN TRUE END",
    "retransmits": "CASE WHEN closing THEN lost ELSE 0 END",
}
SOCKET = {
    **{k: EVENT[k] for k in ("rec", "netns", "sock", "family", "local_addr", "local_port", "remote_addr", "remote_port")},
    "at_ns": f"{START} + i * 600 * {S} // per + step * {S} // 5",
    "state": "'ESTABLISHED'",
    "congestion": "'cubic'",
    "rtt_us": "500 + i % 100",
    "min_rtt_us": "400",
    "snd_mss": "1448",
    "data_segs_out": "200 * (step + 1)",
    "data_segs_in": "200 * (step + 1)",
    "total_retrans": "lost * step // 4",
    "bytes_acked": "200000 * (step + 1)",
    "busy_us": "1000 * (step + 1)",
    "cwnd": "10",
    "unacked": "10",
    "snd_isn": "CASE e WHEN 0 THEN key % 4294967295 ELSE (key * 7) % 4294967295 END",
    "rcv_isn": "CASE e WHEN 0 THEN (key * 7) % 4294967295 ELSE (key % 4294967295 + 1) % 4294967296 END",
}


def select(table: Table, values: dict[str, str], rows: str) -> str:
    """A query that makes rows of a table."""
    columns = []
    for field in table.stored():
        kind = {"string": "VARCHAR", "int32": "INTEGER", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN"}
        columns.append(f"CAST({values.get(field.name, 'NULL')} AS {kind[str(field.type)]}) AS \"{field.name}\"")
    return f"SELECT {', '.join(columns)} FROM ({rows})"


def make(at: Path, hosts: int, per: int) -> None:
    """Writes the store; `per` connections that each host opens."""
    connection = duckdb.connect()
    addr = "'10.' || {0} // 65536 || '.' || ({0} // 256) % 256 || '.' || {0} % 256"
    for h in range(hosts):
        # Its own ends of what it opens, and those of what the host before it opens.
        ends = f"""
            SELECT {h} AS h, i, e, {per} AS per, CASE e WHEN 0 THEN {h} ELSE {(h - 1) % hosts} END AS opener,
                opener * {per} + i AS key, {addr.format("opener")} AS a, {addr.format(f"((opener + 1) % {hosts})")} AS b,
                -- One host in a hundred has a faulty uplink.
                CASE WHEN opener % 100 = 13 OR (opener + 1) % {hosts} % 100 = 13 THEN 20 ELSE i % 2 END AS lost
            FROM range({per}) AS r(i), range(2) AS s(e)"""  # noqa: S608
        rows = {
            "event": select(tables()["event"], EVENT, f"SELECT *, c = 1 AS closing FROM ({ends}), range(2) AS t(c)"),
            "socket": select(tables()["socket"], SOCKET, f"SELECT * FROM ({ends}), range(5) AS t(step)"),
        }
        for name, query in rows.items():
            to = at / name / "day=2026-11-26" / f"host=h{h}" / f"r{h}.parquet"
            to.parent.mkdir(parents=True)
            connection.execute(f"COPY ({query}) TO '{to}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 131072)")
    catalog(at, hosts)


def catalog(at: Path, hosts: int) -> None:
    """What the store knows of recordings, and the tables that hosts have few rows of."""
    rows = {name: [] for name in CATALOG}
    common = {"day": "2026-11-26", "kernel": "6.12", "machine": "x86_64", "hz": 250, "cpus": 8, "producer": "live",
              "tcpwhy": "0.6.0", "started_at_ns": START, "ended_at_ns": START + 600 * S, "complete": True,
              "explained": True, "lost_records": 0}  # fmt: skip
    rows["recording"] = [{"rec": f"r{h}", "host": f"h{h}", "name": f"h{h}", "path": f"h{h}", **common} for h in range(hosts)]
    for name, schema in CATALOG.items():
        (at / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows[name], schema=schema), at / name / "all.parquet")
    for name, table in tables().items():
        to = at / name / "day=none" / "host=none" / "none.parquet"
        to.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.stored().empty_table(), to)


def ask(at: str, question: str) -> None:
    """Asks one question and prints what it took."""
    from tcpwhy_fleet.engine import DuckDB

    class Made:
        """A store that is there: nothing is put into it."""

        def __init__(self) -> None:
            self.at = Path(at)

        def ensure(self, names: object) -> None:
            """All is there."""

    engine = DuckDB(Made(), MEMORY)  # type: ignore[arg-type]
    began = time.monotonic()
    rows = engine.query(QUESTIONS[question]).num_rows
    took = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"s": took, "mb": peak, "rows": rows}))
    engine.close()


def main() -> None:
    """Makes it, asks it, prints what it took."""
    if len(sys.argv) == 4 and sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3])
        return
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    per = int(sys.argv[2]) if len(sys.argv) > 2 else 7_200
    at = Path(tempfile.mkdtemp(prefix="bench-fleet-"))
    try:
        began = time.monotonic()
        make(at, hosts, per)
        made = time.monotonic() - began
        rows = {n: sum(pq.read_metadata(f).num_rows for f in (at / n).rglob("*.parquet")) for n in ("event", "socket")}
        size = sum(f.stat().st_size for f in at.rglob("*.parquet"))
        total, connections = sum(rows.values()), hosts * per
        print(f"bench/fleet: {hosts:,} hosts, {connections:,} connections with both ends, {total:,} rows")
        print(f"  store                       {size / 1e6:,.0f} MB, {size / connections:.0f} bytes a connection; made in {made:.0f} s")
        for question in QUESTIONS:
            done = subprocess.run([sys.executable, __file__, "ask", str(at), question], capture_output=True, text=True)
            if done.returncode:
                print(f"  {question:27} FAILED: {done.stderr.strip()[-200:]}")
                continue
            said = json.loads(done.stdout.splitlines()[-1])
            each = said["s"] / connections * 1e6
            print(f"  {question:27} {said['s']:7.1f} s, {said['mb']:6,.0f} MB   ({each:.1f} s per million connections)", flush=True)
    finally:
        shutil.rmtree(at)


if __name__ == "__main__":
    main()
