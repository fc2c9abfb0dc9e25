"""Makes a store of many hosts and asks it: each question in a process of its own, with its time and its memory.

Each host opens connections to the hosts that follow it; both ends are sampled five times in ten minutes and have
their events. Hosts are made in SQL, so that 100 million rows take minutes, not hours.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tcpwhy_fleet.schema import CATALOG, Table, tables
from tcpwhy_fleet.views import closure, views

S = 10**9
START = 1_795_687_200 * S
MEMORY = "4GiB"
DISK = "12GiB"
QUESTIONS = {
    "one host's retransmissions": "SELECT COUNT(*) FROM event WHERE host = 'h7' AND kind = 'retransmit'",
    "retransmissions by host": "SELECT host, COUNT(*) FROM event WHERE kind = 'retransmit' GROUP BY host",
}


# Each view after those that it is made of.
ORDER = closure(frozenset(views()))[0]


def all_columns(view: str) -> str:
    """A query for which each column of a view has to be computed."""
    columns = ", ".join(f'MAX("{name}")' for name, _, _ in views()[view].columns)
    return f"SELECT COUNT(*), {columns} FROM {view}"  # noqa: S608


# Values of a column, of rows of both ends `e` of connection `i` of host `h`; what is not here is null, 0 or ''.
EVENT = {
    "rec": "'r' || h",
    # What an end sees of the other comes half a millisecond later.
    "at_ns": f"{START} + i * 600 * {S} // per + CASE WHEN closing THEN {S} ELSE 0 END + e * 500000",
    "connect_at_ns": f"CASE WHEN e = 0 AND NOT closing THEN {START} + i * 600 * {S} // per - 1000000 END",
    "comm": "CASE WHEN e = 0 AND NOT closing THEN 'app' END",
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
    **{
        k: EVENT[k]
        for k in ("rec", "netns", "sock", "family", "local_addr", "local_port", "remote_addr", "remote_port")
    },
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


def address(h: int) -> str:
    """The address of a host."""
    return f"10.{h // 65536}.{h // 256 % 256}.{h % 256}"


def select(table: Table, values: dict[str, str], rows: str) -> str:
    """A query that makes rows of a table."""
    columns = []
    for field in table.stored():
        kind = {"string": "VARCHAR", "int32": "INTEGER", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN"}
        columns.append(f'CAST({values.get(field.name, "NULL")} AS {kind[str(field.type)]}) AS "{field.name}"')
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
                CASE WHEN opener % 100 = 13 OR (opener + 1) % {hosts} % 100 = 13 THEN 20 WHEN i % 20 = 0 THEN 1 ELSE 0 END AS lost
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
    rows["recording"] = [
        {"rec": f"r{h}", "host": f"h{h}", "name": f"h{h}", "path": f"h{h}", **common} for h in range(hosts)
    ]
    for name, schema in CATALOG.items():
        (at / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows[name], schema=schema), at / name / "all.parquet")
    for h in range(hosts):
        for name, of_host in few(h, hosts).items():
            to = at / name / "day=2026-11-26" / f"host=h{h}" / f"r{h}.parquet"
            to.parent.mkdir(parents=True)
            made = [{"rec": f"r{h}", "at_ns": START, "netns": 1, **row} for row in of_host]
            pq.write_table(pa.Table.from_pylist(made, schema=tables()[name].stored()), to)
    for name, table in tables().items():
        to = at / name / "day=none" / "host=none" / "none.parquet"
        to.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.stored().empty_table(), to)


def few(h: int, hosts: int) -> dict[str, list[dict[str, object]]]:
    """The tables of which a host has few rows."""
    here, there = address(h), address((h + 1) % hosts)
    service = {"role": "server", "addr": here, "port": 7000}
    exchanges = []
    for i in range(5):
        # The connection of the key `i` that it opens, and the one that the host before it opened.
        began = START + i * S
        ends = [("client", i * 2, (here, 32768 + i), (there, 7000)), ("server", i * 2 + 1, (here, 7000), (address((h - 1) % hosts), 32768 + i))]  # fmt: skip
        exchanges += [
            {"at_ns": began + 9_000_000, "began_at_ns": began + 1_000_000, "role": role, "sock": sock, "family": 4, "open": False,
             "local_addr": local[0], "local_port": local[1], "remote_addr": remote[0], "remote_port": remote[1],
             "accept_ns": 0, "unread_ns": 0, "receive_ns": 0, "think_ns": 5_000_000, "await_ns": 2_000_000, "send_ns": 0,
             "repair_ns": 0, "unheard_ns": 0}
            for role, sock, local, remote in ends
        ]  # fmt: skip
    finding = {"finding": 1, "cause": "path-loss", "layer": "network", "title": "loses", "fix": "find it", "confidence": "high",
               "listener": "", "resource": f"path {here} → {there}", "affected": 5, "of": 9, "counted": "connections",
               "lost_ns": S * h, "says": "5 of 9"}  # fmt: skip
    return {
        "interface_address": [{"interface": "eth0", "addr": here}],
        "listener": [
            {"sock": 1, "local_addr": here, "local_port": 7000, "backlog": 128, "accept_queue": 0, "drops": 0}
        ],
        "setting": [{"name": f"net.ipv4.tcp_{n}", "value": "2" if h % 50 == n else "1"} for n in range(40)],
        "counter": [{"group": "TcpExt", "name": f"c{n}", "value": 10, "delta": n} for n in range(200)],
        "exchange": exchanges,
        "request": [
            service | {"exchanges": 10, "overlapped": 0, "think_ns": S, "at_ns": START + n * S} for n in range(60)
        ],
        "request_time": [
            service | {"what": "response", "at_least_ns": 0, "below_ns": 8 << n, "count": 9} for n in range(20)
        ],
        "finding": [finding] if h % 10 == 0 else [],
        "episode": [{"finding": 1, "ended_at_ns": START + S}] if h % 10 == 0 else [],
    }


class Made:
    """A store that is there: nothing is put into it."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def ensure(self, names: object) -> None:
        """All is there."""


def ask(at: str, questions: list[str]) -> None:
    """Asks questions of one process, which keeps what it computed, and prints what each took."""
    from tcpwhy_fleet.engine import DuckDB

    engine = DuckDB(Made(Path(at)), MEMORY)  # type: ignore[arg-type]
    engine.connection.execute(f"SET max_temp_directory_size = '{DISK}'")
    # What is kept and what does not fit is in files, the most of which is told.
    scratch, most = Path(engine._scratch.name), [0]

    def watch() -> None:
        while True:
            with contextlib.suppress(OSError):
                most[0] = max(most[0], sum(f.stat().st_size for f in scratch.rglob("*")))
            time.sleep(0.2)

    threading.Thread(target=watch, daemon=True).start()
    for question in questions:
        # The kernel counts the peak from here on.
        Path("/proc/self/clear_refs").write_text("5")
        most[0] = 0
        began = time.monotonic()
        answer = engine.query(QUESTIONS.get(question) or all_columns(question)).to_pylist()
        took = time.monotonic() - began
        rows = next(iter(answer[0].values())) if question not in QUESTIONS else len(answer)
        status = Path("/proc/self/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1e3
        print(
            f"  {question:27} {took:7.1f} s, {peak:6,.0f} MB, {most[0] / 1e6:6,.0f} MB on disk, {rows:,} rows",
            flush=True,
        )
    engine.close()


def main() -> None:
    """Makes it, asks it, prints what it took."""
    if len(sys.argv) == 4 and sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3].split(","))
        return
    parser = argparse.ArgumentParser(prog="bench/fleet", description="What questions over many hosts take.")
    parser.add_argument("hosts", type=int, nargs="?", default=1000)
    parser.add_argument("connections", type=int, nargs="?", default=700, help="that each host opens")
    parser.add_argument("--store", type=Path, help="keep it there; one that is there is asked as it is")
    parser.add_argument("--together", action="store_true", help="in one process, which keeps what it computed")
    parser.add_argument("--ask", action="append", metavar="VIEW", help="these alone (default: all views)")
    args = parser.parse_args()
    at = args.store or Path(tempfile.mkdtemp(prefix="bench-fleet-"))
    try:
        bench(at, args.hosts, args.connections, args.ask or [*QUESTIONS, *ORDER], args.together)
    finally:
        if not args.store:
            shutil.rmtree(at)


def bench(at: Path, hosts: int, per: int, questions: list[str], together: bool) -> None:
    """Makes it where it is not there yet, and asks."""
    began = time.monotonic()
    if not (at / "recording").exists():
        make(at, hosts, per)
    made = time.monotonic() - began
    rows = {n: sum(pq.read_metadata(f).num_rows for f in (at / n).rglob("*.parquet")) for n in ("event", "socket")}
    size = sum(f.stat().st_size for f in at.rglob("*.parquet"))
    total, connections = sum(rows.values()), hosts * per
    print(
        f"bench/fleet: {hosts:,} hosts, {connections:,} connections with both ends, {total:,} rows, {MEMORY} for DuckDB",
        flush=True,
    )
    print(
        f"  store {size / 1e6:,.0f} MB, {size / connections:.0f} bytes a connection; made in {made:.0f} s", flush=True
    )
    for of in [questions] if together else [[question] for question in questions]:
        done = subprocess.run(
            [sys.executable, __file__, "ask", str(at), ",".join(of)], stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            print(f"  FAILED: {done.stderr.strip()[-300:]}", flush=True)


if __name__ == "__main__":
    main()
