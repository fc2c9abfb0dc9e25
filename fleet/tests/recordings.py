"""Small recordings, written as tcpwhy writes them: what the tests of the views are asked about."""

from __future__ import annotations

import io
import ipaddress
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tcpwhy_fleet.schema import Column, tables

S = 10**9
MS = 10**6
# Start of all of them, by the clock of a host that is right: 2026-11-26 10:00:00 UTC.
START = 1_795_687_200 * S
RAW = {
    "u8": pa.uint8(),
    "u16": pa.uint16(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
}


def raw_type(column: Column) -> pa.DataType:
    """The type of a column in a segment."""
    if column.type == "address":
        return pa.dictionary(pa.int32(), pa.binary())
    return RAW.get(column.type, pa.dictionary(pa.int32(), pa.string()))


def raw_address(text: str) -> bytes:
    """An address as a segment holds it."""
    ip = ipaddress.ip_address(text)
    return ip.packed if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + ip.packed


def default(column: Column) -> Any:
    """What a column holds of which a test says nothing."""
    if column.null is not None:
        return None
    if column.type == "address":
        return "0.0.0.0"
    return {"bool": False, "f64": 0.0}.get(column.type, 0 if column.type in RAW else "")


class Made:
    """A recording being made; times are seconds after its start."""

    def __init__(self, host: str, *, clock_s: float = 0.0, boot_id: str = "", seconds: float = 10.0) -> None:
        self.host, self.rows = host, dict[str, list[dict[str, Any]]]()
        # Each host has been up for another time.
        self.up_ns = (1000 + len(host) * 7) * S
        self.manifest: dict[str, Any] = {
            "format": 1,
            "tcpwhy": "0.6.0",
            "producer": "live",
            "complete": True,
            "host": {
                "name": host,
                "kernel": "6.12.1",
                "machine": "x86_64",
                "boot_id": boot_id or f"boot-of-{host}",
                "hz": 250,
                "cpus": 2,
            },
            "start_ns": self.up_ns,
            "end_ns": self.up_ns + round(seconds * S),
            "clock_offset_ns": START + round(clock_s * S) - self.up_ns,
            "command_line": ["tcpwhy", "record"],
            "namespaces": [{"inode": 1, "name": "host"}],
            "sources": [{"name": "state", "gives": "", "intent": "required", "verdict": {"is": "attached"}, "lost": 0}],
            "cost": {"user_ms": 0, "system_ms": 0, "max_rss_bytes": 0, "ring_bytes": 0},
        }

    def row(self, table: str, at: float, **values: Any) -> None:
        """Adds a row; columns of moments are seconds as well."""
        known = {c.name: c for c in tables()[table].columns}
        unknown = set(values) - set(known)
        assert not unknown, f"{table} has no {unknown}"
        row = {name: default(column) for name, column in known.items()}
        for name, value in {"time_ns": at, "netns": 1, **values}.items():
            if name in known:
                is_moment = known[name].is_moment and value is not None
                row[name] = self.up_ns + round(value * S) if is_moment else value
        self.rows.setdefault(table, []).append(row)

    def packed(self) -> bytes:
        """The same as one file, as `record -o -` sends it."""
        out = io.BytesIO()
        with tempfile.TemporaryDirectory() as directory:
            path = self.write(Path(directory))
            with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                tar.add(path, "recording.tcpwhy", recursive=False)
                tar.add(path / "manifest.json", "recording.tcpwhy/manifest.json")
                for segment in sorted(path.glob("*/*.parquet")):
                    tar.add(segment, f"recording.tcpwhy/{segment.parent.name}/{segment.name}")
        return out.getvalue()

    def write(self, directory: Path, name: str = "") -> Path:
        """Writes it."""
        path = directory / f"{name or self.host}.tcpwhy"
        path.mkdir()
        (path / "manifest.json").write_text(json.dumps(self.manifest))
        for table, rows in self.rows.items():
            write_segment(path / table / "000001.parquet", table, rows)
        return path


def write_segment(path: Path, table: str, rows: list[dict[str, Any]]) -> None:
    """Writes a segment."""
    path.parent.mkdir(exist_ok=True)
    fields, arrays = [], []
    for column in tables()[table].columns:
        kind = raw_type(column)
        values = [row[column.name] for row in rows]
        if column.type == "address":
            values = [None if v is None else raw_address(v) for v in values]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array(values, plain)
        arrays.append(array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array)
        fields.append(pa.field(column.name, kind, nullable=column.null is not None))
    pq.write_table(pa.table(arrays, schema=pa.schema(fields)), path)
