"""Fetched batches as Arrow record batches: the records of a partition that follow each other become one of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ottla.client.columns.decode import ArrowDecoder
from ottla.client.consumer.decode import ConsumedBatch
from ottla.client.consumer.deserializing import Deserializing
from ottla.model.ids import TopicPartition

__all__ = ["columns_of"]

# An Arrow batch is closed when it has this many bytes; its offsets are numbers of 32 bits.
_BYTES_MAX = 64 * 1024 * 1024
_END = (1 << 63) - 1


def columns_of(
    found: Sequence[tuple[ConsumedBatch, int]], deserializing: Deserializing, *, headers: bool
) -> list[pa.RecordBatch]:
    """Arrow batches of fetched batches and the positions before them, from which on their records count."""
    result: list[pa.RecordBatch] = []
    decoders: dict[TopicPartition, ArrowDecoder] = {}

    def finish(decoder: ArrowDecoder) -> None:
        if decoder.rows:
            result.append(decoder.finish())

    for batch, position in found:
        decoder = decoders.get(batch.partition)
        if decoder is None:
            topic, number = batch.partition
            decoder = decoders[batch.partition] = ArrowDecoder(topic, number, include_headers=headers)
        if batch.header.magic < 2:
            finish(decoder)
            result.append(decoder.legacy(batch.header, batch.view, position, _END))
            continue
        if decoder.size >= _BYTES_MAX:
            finish(decoder)
        decoder.add(batch.header, batch.view, position, _END)
    for decoder in decoders.values():
        finish(decoder)
    return [_deserialized(one, deserializing) for one in result] if deserializing else result


def _deserialized(batch: pa.RecordBatch, deserializing: Deserializing) -> pa.RecordBatch:
    for name, convert in (("key", deserializing.key), ("value", deserializing.value)):
        if convert is None:
            continue
        topic = batch.column("topic")[0].as_py() if batch.num_rows else ""
        index = batch.schema.get_field_index(name)
        objects = [convert.deserialize(topic, content) for content in batch.column(name).to_pylist()]
        batch = batch.set_column(index, name, pa.array(objects))
    return batch
