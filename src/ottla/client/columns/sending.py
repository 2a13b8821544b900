"""Tables to record batches, for `Producer.send_table`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from ottla.client.producer.serializing import Serializing

__all__ = ["COLUMNS", "TableDelivery", "WrittenBatch", "portions", "record_batches", "serialized"]

PORTION_BYTES = 1024 * 1024
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COLUMNS = ("key", "value", "headers", "timestamp", "partition")


class WrittenBatch(NamedTuple):
    """Acknowledged records of a table: those with the offsets from `base_offset` on, which is -1 with acks=0."""

    partition: int
    base_offset: int
    records: int


class TableDelivery:
    """The rows of a table on their way: await it for the list of `WrittenBatch`, or for the first error."""

    def __init__(self, sent: Sequence[tuple[int, int, asyncio.Future[tuple[int, int]]]]) -> None:
        self._sent = sent

    def __len__(self) -> int:
        """The number of records."""
        return sum(records for _, records, _ in self._sent)

    @property
    def done(self) -> bool:
        return all(future.done() for _, _, future in self._sent)

    def __await__(self) -> Generator[object, None, list[WrittenBatch]]:
        return self._wait().__await__()

    async def _wait(self) -> list[WrittenBatch]:
        if self._sent:
            await asyncio.wait([future for _, _, future in self._sent])
        return [WrittenBatch(partition, future.result()[0], records) for partition, records, future in self._sent]


def record_batches(table: Any) -> list[pa.RecordBatch]:
    """The rows of an Arrow table or batch, or of a pandas or Polars frame. Raises ClientError."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif not isinstance(table, pa.Table):
        table = _arrow_table(table)
    unknown = [name for name in table.column_names if name not in COLUMNS]
    if unknown or "value" not in table.column_names:
        wrong = f"{unknown[0]!r} is none of them" if unknown else "value is missing"
        raise ClientError(
            f"A table has the columns value and, if wanted, key, headers, timestamp and partition; {wrong}. "
            "Make one column of the others, such as a JSON text."
        )
    return [batch for batch in table.to_batches() if batch.num_rows]


def portions(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in portions of about a megabyte, so that encoding neither blocks the loop nor needs much memory."""
    for batch in batches:
        row_bytes = max(batch.nbytes // batch.num_rows, 1)
        rows = max(PORTION_BYTES // row_bytes, 1)
        for first in range(0, batch.num_rows, rows):
            yield batch.slice(first, rows)


async def serialized(batch: pa.RecordBatch, topic: str, serializing: Serializing) -> pa.RecordBatch:
    """The rows with keys and values as serializers make them, and the headers that they have added."""
    names = batch.schema.names
    columns = {name: batch.column(name).to_pylist() for name in ("key", "value", "headers") if name in names}
    nulls = [None] * batch.num_rows
    rows = zip(columns.get("key", nulls), columns["value"], columns.get("headers", nulls), strict=True)
    keys, values, headers = [], [], []
    for key, value, row_headers in rows:
        pairs = [(header["key"], header["value"]) for header in row_headers or ()]
        new_key, new_value, new_headers = await serializing.convert(topic, key, value, pairs)
        keys.append(new_key)
        values.append(new_value)
        headers.append([{"key": name, "value": content} for name, content in new_headers])
    arrays = {name: batch.column(name) for name in names}
    if serializing.value is not None:
        arrays["value"] = pa.array(values, pa.binary())
    if serializing.key is not None:
        arrays["key"] = pa.array(keys, pa.binary())
    if any(headers):
        arrays["headers"] = pa.array(headers, HEADERS_TYPE)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _arrow_table(table: Any) -> pa.Table:
    if hasattr(table, "to_arrow"):
        return table.to_arrow()
    if type(table).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(table, preserve_index=False)
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise ClientError(f"{type(table).__name__} is no Arrow table or batch, and no pandas or Polars frame.")
