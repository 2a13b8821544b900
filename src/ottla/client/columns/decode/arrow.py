"""The buffers of `Columns` as Arrow record batches with the columns of `schema`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.columns.decode.twin import Columns as PythonColumns
from ottla.client.columns.schema import HEADER_TYPE, arrow_schema
from ottla.records.errors import CorruptRecords
from ottla.records.header import BatchHeader
from ottla.records.iterate import DECOMPRESSED_BYTES_MAX, Batch, iterate_records, open_payload

__all__ = ["ArrowDecoder", "columns_type", "is_native"]

_CONSTANT_ROWS = 4096


def columns_type(decoder: str = "") -> type[Any]:
    """The compiled `Columns`, or the Python version if it is requested or the compiled one is missing."""
    if decoder != "python":
        try:
            from ottla.client.columns.decode._native import Columns  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            if decoder == "native":
                raise
        else:
            return Columns  # type: ignore[no-any-return, unused-ignore]
    return PythonColumns


def is_native() -> bool:
    """True if compiled code decodes records."""
    return columns_type() is not PythonColumns


class ArrowDecoder:
    """Turns record batches of one partition into Arrow batches. Call `finish` before `size` becomes too large."""

    def __init__(self, topic: str, partition: int, *, include_headers: bool = True, decoder: str = "") -> None:
        self._schema = arrow_schema(include_headers)
        self._include_headers = include_headers
        self._columns = columns_type(decoder)(include_headers)
        self._topic = topic
        self._partition = partition
        self._constants = _constants(topic, partition, _CONSTANT_ROWS)

    @property
    def rows(self) -> int:
        rows: int = self._columns.rows
        return rows

    @property
    def size(self) -> int:
        size: int = self._columns.size
        return size

    def add(self, header: BatchHeader, view: memoryview, first: int, end: int) -> None:
        """Adds the records of a batch of magic 2 with offsets from `first` up to, but not including, `end`."""
        payload = open_payload(view, header, limit=DECOMPRESSED_BYTES_MAX)
        try:
            self._columns.add(
                payload,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.uses_append_time,
                header.max_timestamp,
                first,
                end,
            )
        except ValueError as error:
            raise CorruptRecords(f"The batch at offset {header.base_offset} is damaged: {error}.") from None

    def legacy(self, header: BatchHeader, view: memoryview, first: int, end: int) -> pa.RecordBatch:
        """The messages of a legacy message set (magic 0 and 1) as an Arrow batch."""
        columns = PythonColumns(self._include_headers)
        for record in iterate_records(Batch(header, 0, view)):
            if first <= record.offset < end:
                columns.take(record.offset, record.timestamp, header.uses_append_time, record.key, record.value)
        return self._batch(columns.finish())

    def finish(self) -> pa.RecordBatch:
        """The records that were added since the last call."""
        return self._batch(self._columns.finish())

    def _batch(self, buffers: tuple[Any, ...]) -> pa.RecordBatch:
        rows, keys, values, offsets, timestamps, types, header_offsets, header_keys, header_values = buffers
        if rows > len(self._constants[0]):
            self._constants = _constants(self._topic, self._partition, 2 * rows)
        topics, partitions = self._constants
        from_buffers = pa.Array.from_buffers
        arrays = [
            _strings(pa.binary(), rows, keys),
            _strings(pa.binary(), rows, values),
            topics.slice(0, rows),
            partitions.slice(0, rows),
            from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets)], 0),
            from_buffers(self._schema.field("timestamp").type, rows, [None, pa.py_buffer(timestamps)], 0),
            from_buffers(pa.int32(), rows, [None, pa.py_buffer(types)], 0),
        ]
        if self._include_headers:
            arrays.append(_headers(rows, header_offsets, header_keys, header_values))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


@functools.lru_cache(maxsize=16)
def _constants(topic: str, partition: int, rows: int) -> tuple[pa.Array, pa.Array]:
    """The two constant columns, which batches slice."""
    name = topic.encode()
    offsets: Any = np.arange(0, (rows + 1) * len(name), len(name), dtype=np.int32)
    topics = pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(name * rows)], 0)
    # `pa.array` would import pandas, which takes longer than most reads.
    numbers: Any = np.full(rows, partition, np.int32)
    return topics, pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(numbers)], 0)


def _strings(kind: pa.DataType, rows: int, buffers: tuple[int, Any, Any, Any]) -> pa.Array:
    nulls, validity, offsets, data = buffers
    if not rows:
        return pa.nulls(0, kind)
    bits = pa.py_buffer(validity) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def _headers(rows: int, offsets: Any, keys: tuple[int, Any, Any, Any], values: tuple[int, Any, Any, Any]) -> pa.Array:
    if not rows:
        return pa.nulls(0, HEADER_TYPE)
    count = int(np.frombuffer(offsets, np.int32)[rows])
    element = HEADER_TYPE.value_type
    children = [_strings(pa.string(), count, keys), _strings(pa.binary(), count, values)]
    structs = pa.StructArray.from_arrays(children, fields=list(element))
    return pa.Array.from_buffers(HEADER_TYPE, rows, [None, pa.py_buffer(offsets)], 0, 0, [structs])
