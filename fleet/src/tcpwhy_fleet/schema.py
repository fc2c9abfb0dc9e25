"""The tables of a recording, and how the store keeps their columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

import pyarrow as pa

# Moments, which the store keeps in wall time: clocks of different hosts share nothing else.
MOMENTS = {
    "time_ns": "at_ns",
    "connect_ns": "connect_at_ns",
    "established_ns": "established_at_ns",
    "began_ns": "began_at_ns",
    "ended_ns": "ended_at_ns",
}
NUMBERS: dict[str, pa.DataType] = {
    "u8": pa.int32(),
    "u16": pa.int32(),
    "i32": pa.int32(),
    "u32": pa.int64(),
    "u64": pa.int64(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
}


@dataclass(frozen=True)
class Column:
    """A column as its declaration has it."""

    name: str
    type: str
    unit: str
    says: str
    null: str | None

    @property
    def stored_name(self) -> str:
        """Its name in the store."""
        return MOMENTS.get(self.name, self.name)

    @property
    def stored_type(self) -> pa.DataType:
        """Its type in the store: signed numbers and text, which every engine has."""
        return NUMBERS.get(self.type, pa.string())

    @property
    def is_moment(self) -> bool:
        """Whether it is a point of CLOCK_MONOTONIC."""
        return self.name in MOMENTS

    @property
    def is_id(self) -> bool:
        """Whether all 64 bits of it matter: it is compared, not counted with."""
        return self.type == "u64" and self.unit == "id"


@dataclass(frozen=True)
class Table:
    """A table of a recording."""

    name: str
    says: str
    columns: tuple[Column, ...]

    def stored(self) -> pa.Schema:
        """Its schema in the store; `day` and `host` are in the path of each file."""
        fields = [pa.field(c.stored_name, c.stored_type) for c in self.columns]
        return pa.schema([pa.field("rec", pa.string()), *fields])


@cache
def tables() -> dict[str, Table]:
    """All tables, from `tables.json`, which is made from the declarations in Rust."""
    text = resources.files(__package__).joinpath("tables.json").read_text(encoding="utf-8")
    found = {}
    for table in json.loads(text):
        columns = tuple(Column(**column) for column in table["columns"])
        found[table["name"]] = Table(table["name"], table["says"], columns)
    return found


# What the store knows of recordings without reading their tables.
CATALOG: dict[str, pa.Schema] = {
    "recording": pa.schema(
        [
            ("rec", pa.string()),
            ("host", pa.string()),
            ("day", pa.string()),
            ("name", pa.string()),
            ("boot_id", pa.string()),
            ("kernel", pa.string()),
            ("machine", pa.string()),
            ("hz", pa.int64()),
            ("cpus", pa.int64()),
            ("producer", pa.string()),
            ("tcpwhy", pa.string()),
            ("started_at_ns", pa.int64()),
            ("ended_at_ns", pa.int64()),
            ("complete", pa.bool_()),
            ("explained", pa.bool_()),
            ("lost_records", pa.int64()),
            ("path", pa.string()),
        ]
    ),
    "label": pa.schema([("rec", pa.string()), ("key", pa.string()), ("value", pa.string())]),
    "source": pa.schema(
        [
            ("rec", pa.string()),
            ("source", pa.string()),
            ("verdict", pa.string()),
            ("because", pa.string()),
            ("lost", pa.int64()),
        ]
    ),
    "namespace": pa.schema([("rec", pa.string()), ("netns", pa.int64()), ("name", pa.string())]),
    "left_out": pa.schema([("path", pa.string()), ("because", pa.string())]),
}
