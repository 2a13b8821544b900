"""Arrow arrays as buffers for an encoder, without a copy if the type matches."""

from __future__ import annotations

import pyarrow
from pyarrow import types

from ottla.client.columns.encode.python import BytesColumn, HeadersColumn, NumbersColumn

__all__ = ["bytes_column", "headers_column", "partition_column", "timestamp_column"]


def bytes_column(array: pyarrow.Array) -> BytesColumn | None:
    """A column of bytes or text; None if every row is null."""
    kind = array.type
    if types.is_null(kind):
        return None
    large = types.is_large_binary(kind) or types.is_large_string(kind)
    if not large and not types.is_binary(kind) and not types.is_string(kind):
        array = array.cast(pyarrow.binary())
    validity, offsets, data = array.buffers()
    return (validity, offsets, data, array.offset, large)


def timestamp_column(array: pyarrow.Array) -> NumbersColumn | None:
    """Microseconds since 1970."""
    if types.is_null(array.type):
        return None
    if array.type.unit != "us":
        # pandas has nanoseconds, and records have milliseconds. A safe cast refuses to lose the difference.
        array = array.cast(pyarrow.timestamp("us", array.type.tz), safe=array.type.unit != "ns")
    validity, data = array.buffers()
    return (validity, data, array.offset)


def partition_column(array: pyarrow.Array) -> NumbersColumn | None:
    if types.is_null(array.type):
        return None
    if array.type != pyarrow.int32():
        array = array.cast(pyarrow.int32())
    validity, data = array.buffers()
    return (validity, data, array.offset)


def headers_column(array: pyarrow.Array) -> HeadersColumn | None:
    """Lists of structs with `key` and `value`."""
    if types.is_null(array.type):
        return None
    large = types.is_large_list(array.type)
    validity, offsets = array.buffers()[:2]
    # The fields of a null struct are null; `flatten` applies that, and the offset of the struct.
    keys, values = array.values.flatten()
    if array.values.type.get_field_index("value") == 0:
        # The caller decides the order of the fields: in a pandas frame it is that of the keys of a dictionary.
        keys, values = values, keys
    key_column = bytes_column(keys) or _null_column(len(keys))
    value_column = bytes_column(values) or _null_column(len(values))
    return ((validity, offsets, array.offset), large, key_column, value_column)


def _null_column(rows: int) -> BytesColumn:
    """A column of nulls."""
    array = pyarrow.nulls(rows, pyarrow.binary())
    validity, offsets, data = array.buffers()
    return (validity, offsets, data, 0, False)
