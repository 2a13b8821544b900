"""Fetched batches as Arrow record batches: consecutive batches of a partition become one Arrow batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ottla.client.columns.decode import ArrowDecoder
from ottla.client.consumer.decode import ConsumedBatch
from ottla.client.consumer.deserializing import Deserializing
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords
from ottla.serdes.protocol import SerializationError

__all__ = ["columns_of", "readable_columns"]

# An Arrow batch is closed when it has this many bytes; its offsets are numbers of 32 bits.
_BYTES_MAX = 64 * 1024 * 1024
_END = (1 << 63) - 1


def readable_columns(
    fetched: Sequence[tuple[ConsumedBatch, int]], deserializing: Deserializing, *, headers: bool
) -> tuple[list[pa.RecordBatch], int, int]:
    """The Arrow batches before the first record that cannot be read. Raises its error if there are none.

    Also returns the number of fetched batches before the one with that record, and the offset up to which its records
    are part of the result.
    """
    try:
        return columns_of(fetched, deserializing, headers=headers), len(fetched), -1
    except Exception:  # noqa: BLE001 (looked for below)
        pass
    result: list[pa.RecordBatch] = []
    for count, (batch, position) in enumerate(fetched):
        try:
            result += columns_of([(batch, position)], deserializing, headers=headers)
        except SerializationError as error:
            if error.offset is not None and error.offset > position:
                result += columns_of([(batch, position)], deserializing, headers=headers, end=error.offset)
                if any(arrow_batch.num_rows for arrow_batch in result):
                    return result, count, error.offset
            if result:
                return result, count, -1
            raise
        except Exception as error:
            if result:
                return result, count, -1
            if isinstance(error, CorruptRecords) and str(batch.partition) not in str(error):
                raise CorruptRecords(f"{batch.partition}: {error.message}") from error
            raise
    return result, len(fetched), -1


def columns_of(
    fetched: Sequence[tuple[ConsumedBatch, int]], deserializing: Deserializing, *, headers: bool, end: int = _END
) -> list[pa.RecordBatch]:
    """Arrow batches of fetched batches. Records before the position that is paired with a batch are left out.

    Records from the offset `end` on are left out, too.
    """
    result: list[pa.RecordBatch] = []
    decoders: dict[TopicPartition, ArrowDecoder] = {}

    def finish(decoder: ArrowDecoder) -> None:
        if decoder.rows:
            result.append(decoder.finish())

    for batch, position in fetched:
        decoder = decoders.get(batch.partition)
        if decoder is None:
            topic, number = batch.partition
            decoder = decoders[batch.partition] = ArrowDecoder(
                topic, number, include_headers=headers or bool(deserializing)
            )
        if batch.header.magic < 2:
            finish(decoder)
            result.append(decoder.legacy(batch.header, batch.view, position, end))
            continue
        if decoder.size >= _BYTES_MAX:
            finish(decoder)
        decoder.add(batch.header, batch.view, position, end)
    for decoder in decoders.values():
        finish(decoder)
    return (
        [_deserialized(arrow_batch, deserializing, headers=headers) for arrow_batch in result]
        if deserializing
        else result
    )


def _deserialized(batch: pa.RecordBatch, deserializing: Deserializing, *, headers: bool) -> pa.RecordBatch:
    topic = batch.column("topic")[0].as_py() if batch.num_rows else ""
    # A schema may be named in the headers.
    pairs = [[(header["key"], header["value"]) for header in row or ()] for row in batch.column("headers").to_pylist()]
    for name, convert in (("key", deserializing.key), ("value", deserializing.value)):
        if convert is None:
            continue
        index = batch.schema.get_field_index(name)
        objects = []
        for row, content in enumerate(batch.column(name).to_pylist()):
            try:
                objects.append(convert.deserialize(topic, content, pairs[row]))
            except SerializationError as error:
                partition, offset = batch.column("partition")[row].as_py(), batch.column("offset")[row].as_py()
                raise error.at(topic=topic, partition=partition, offset=offset) from error.__cause__
        batch = batch.set_column(index, name, pa.array(objects))
    return batch if headers else batch.drop_columns(["headers"])
