"""Columns of a recording's segments as columns of the store."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from .manifest import EARLIEST, LATEST
from .schema import Column, Table
from .unfit import UnfitError

MOST_TEXT = 4 << 10
# Beyond, nothing is a count, a size or a length of time, but one of the kernel's "none", or what somebody made up: one
# such number would end every question over it, as sums and multiples of some have to stay within 64 bits.
MOST_NUMBER = 1 << 58


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
    if column.is_id:
        # Ids keep their bits.
        return (array.view(pa.int64()) if pa.types.is_uint64(kind) else array).cast(column.stored_type)
    if column.is_moment:
        return _moments(column, array, clock_offset_ns)
    return array.cast(column.stored_type) if pa.types.is_boolean(kind) else _numbers(column, array)


def _numbers(column: Column, array: pa.Array) -> pa.Array:
    """Numbers that can be counted with: one beyond is none, or where there has to be one, as much as there is."""
    limit: float = MOST_NUMBER
    if pa.types.is_floating(array.type):
        array, limit = array.cast(pa.float64()), float(MOST_NUMBER)
        if column.null is None and pc.any(pc.is_nan(array)).as_py():
            raise UnfitError(f"column {column.name} has a value that is not a number")
        array = _where(array, pc.invert(pc.is_nan(array)))
    elif not pa.types.is_uint64(array.type):
        array = array.cast(pa.int64())
    none = pa.scalar(None, array.type)
    most = pa.scalar(limit, array.type)
    array = pc.if_else(pc.less_equal(array, most), array, most if column.null is None else none)
    if not pa.types.is_uint64(array.type):
        least = pa.scalar(-limit, array.type)
        array = pc.if_else(pc.greater_equal(array, least), array, least if column.null is None else none)
    return array.cast(column.stored_type)


def _moments(column: Column, array: pa.Array, clock_offset_ns: int) -> pa.Array:
    """Moments in wall time, which a host whose clock is of this century has of this century."""
    array = pc.add_checked(array.cast(pa.int64()), pa.scalar(clock_offset_ns, pa.int64()))
    are = pc.and_(pc.greater_equal(array, EARLIEST), pc.less_equal(array, LATEST))
    if column.null is None and pc.all(are).as_py() is False:
        raise UnfitError(f"column {column.name} has a moment that is not of this century")
    return _where(array, are)


def _where(array: pa.Array, fits: pa.Array) -> pa.Array:
    """What fits of it; what does not is none."""
    return pc.if_else(fits, array, pa.scalar(None, array.type))


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
