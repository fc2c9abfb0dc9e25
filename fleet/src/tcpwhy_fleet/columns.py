"""Columns of a recording's segments as columns of the store."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from .schema import Column, Table
from .unfit import UnfitError

MOST_TEXT = 4 << 10


def batch_of(table: Table, batch: pa.RecordBatch, rec: str, clock_offset_ns: int) -> pa.RecordBatch:
    """Rows of a segment as rows of the store."""
    rows = batch.num_rows
    arrays = [pa.array([rec], pa.string()).take(pa.array([0] * rows, pa.int8()))]
    schema = table.stored()
    for column in table.columns:
        at = batch.schema.get_field_index(column.name)
        if at < 0 and column.null is None:
            raise UnfitError(f"{table.name}: column {column.name} is missing")
        if at < 0:
            arrays.append(pa.nulls(rows, column.stored_type))
            continue
        try:
            arrays.append(_stored(column, batch.column(at), clock_offset_ns))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
            raise UnfitError(f"{table.name}: column {column.name}: {str(e)[:100]}") from None
    return pa.record_batch(arrays, schema=schema)


def _stored(column: Column, array: pa.Array, clock_offset_ns: int) -> pa.Array:
    if column.type == "address":
        return _addresses(array)
    if column.stored_type == pa.string():
        return _texts(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise UnfitError(f"column {column.name} is {str(kind)[:40]}, not {column.type}")
    if column.type == "u64" and pa.types.is_uint64(array.type):
        # Ids keep their bits; a number that no signed one holds is one of the kernel's "none".
        array = array.view(pa.int64()) if column.is_id else _signed(array)
    array = array.cast(column.stored_type)
    return pc.add_checked(array, pa.scalar(clock_offset_ns, pa.int64())) if column.is_moment else array


def _signed(array: pa.Array) -> pa.Array:
    fits = pc.less(array, pa.scalar(2**63, pa.uint64()))
    return pc.if_else(fits, array, pa.scalar(None, pa.uint64()))


def _decoded(array: pa.Array, decode: object, kind: pa.DataType) -> pa.Array:
    """Each distinct value decoded once."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values = array.dictionary.cast(kind).to_pylist()
    words = pa.array([None if v is None else decode(v) for v in values], pa.string())  # type: ignore[operator]
    return words.take(array.indices)


def _texts(array: pa.Array) -> pa.Array:
    return _decoded(array, lambda text: text[:MOST_TEXT], pa.string())


def _addresses(array: pa.Array) -> pa.Array:
    return _decoded(array, address, pa.binary())


@lru_cache(maxsize=1 << 16)
def address(raw: bytes) -> str:
    """An address as people write it."""
    if len(raw) != 16:
        raise UnfitError("an address that is none")
    six = ipaddress.IPv6Address(raw)
    return str(six.ipv4_mapped or six)
