"""Small batches of a partition become one batch at the target."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource
from ottla.client.consumer.decode import ConsumedBatch
from ottla.mirror.copying import merging
from ottla.mirror.copying.batches import records_to_copy
from ottla.mirror.copying.merging import SmallBatches
from ottla.mirror.copying.pairs import Pair
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch, write_header
from ottla.records.compression import Codec, decompress
from ottla.records.header import HEADER_SIZE, read_header
from ottla.records.record import Record, decode_records
from ottla.records.validate import ProduceSettings, validate_produce

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
PAIRS = {place: Pair(place, TopicPartition("a.t", place.partition), "") for place in (ONE, OTHER)}


def batch(place: TopicPartition, first: int, count: int = 1, *, codec: Codec = Codec.NONE, size: int = 10) -> Any:
    records = [
        Record(offset=offset, timestamp=1_000 + offset, key=b"k%d" % offset, value=b"v" * size)
        for offset in range(first, first + count)
    ]
    built = build_batch(records, base_offset=first, codec=codec)
    return ConsumedBatch(place, read_header(memoryview(built), 0), memoryview(built))


def marker(place: TopicPartition, offset: int) -> ConsumedBatch:
    return batch(place, offset)._replace(view=memoryview(b""))  # type: ignore[no-any-return]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | KafkaError]:
    """The target's max.message.bytes by topic."""
    limits_by_topic: dict[str, int | KafkaError] = {"a.t": 1_000_000}

    class Answering:
        def __init__(self, _: object) -> None:
            pass

        async def describe(self, resources: list[ConfigResource], *, keys: list[str]) -> dict[ConfigResource, Any]:
            assert keys == ["max.message.bytes"]
            return {resource: self._answer(limits_by_topic[resource.name]) for resource in resources}

        def _answer(self, limit: int | KafkaError) -> Any:
            if isinstance(limit, KafkaError):
                return limit
            return [ConfigEntry("max.message.bytes", str(limit), ConfigSource.DEFAULT_CONFIG, False, False, (), None)]

    monkeypatch.setattr(merging, "Configs", Answering)
    return limits_by_topic


def joined(batches: list[ConsumedBatch]) -> list[list[int]]:
    """The first offsets of the batches of each group."""
    groups = asyncio.run(SmallBatches(None).joined(batches, PAIRS))  # type: ignore[arg-type]
    assert [member for group in groups for member in group] == batches, "nothing is lost, and the order is kept"
    return [[member.header.base_offset for member in group] for group in groups]


@pytest.mark.usefixtures("limits")
def test_neighbours_of_a_partition_join() -> None:
    assert joined([]) == []
    assert joined([batch(ONE, 0), batch(ONE, 1), batch(OTHER, 7), batch(OTHER, 8)]) == [[0, 1], [7, 8]]


@pytest.mark.usefixtures("limits")
def test_large_batches_stay_alone() -> None:
    assert joined([batch(ONE, 0), batch(ONE, 1, size=3_000), batch(ONE, 2), batch(ONE, 3)]) == [[0], [1], [2, 3]]


@pytest.mark.usefixtures("limits")
def test_a_group_has_an_end() -> None:
    groups = joined([batch(ONE, offset, size=1_500) for offset in range(30)])
    assert len(groups) > 1
    assert all(len(group) * 1_500 < 16 * 1024 for group in groups)


@pytest.mark.usefixtures("limits")
def test_codecs_are_kept_apart_and_markers_join_all() -> None:
    batches = [batch(ONE, 0, codec=Codec.ZSTD), marker(ONE, 1), batch(ONE, 2, codec=Codec.ZSTD), batch(ONE, 3)]
    assert joined(batches) == [[0, 1, 2], [3]]
    assert joined([marker(ONE, 0), batch(ONE, 1), batch(ONE, 2)]) == [[0, 1, 2]]


def test_a_joined_batch_is_not_larger_than_the_topic_allows(limits: dict[str, int | KafkaError]) -> None:
    small = [batch(ONE, offset, size=100) for offset in range(4)]
    limits["a.t"] = 4 * len(small[0].view)
    assert joined(small) == [[0, 1], [2, 3]]
    limits["a.t"] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert joined(small) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_joined_records_keep_everything(codec: Codec) -> None:
    # Offset 4 is a gap, and offset 0 was copied before.
    batches = [batch(ONE, 0, 2, codec=codec), batch(ONE, 2, 2, codec=codec), batch(ONE, 5, codec=codec)]
    copied = records_to_copy(batches, from_offset=1, cut_cycle=None)
    assert copied is not None
    assert copied.ranges == [(1, 3), (5, 1)]
    assert (copied.records.base_timestamp, copied.records.max_timestamp) == (1_001, 1_005)
    assert copied.records.codec is codec
    payload = copied.records.payload
    plain = payload if codec is Codec.NONE else bytes(decompress(codec, memoryview(payload), limit=10_000))
    records = list(decode_records(memoryview(plain), 4, base_offset=0, base_timestamp=1_001))
    assert [(bytes(record.key or b""), record.timestamp) for record in records] == [
        (b"k%d" % offset, 1_000 + offset) for offset in (1, 2, 3, 5)
    ]
    # A broker accepts it. Validation for a compacted topic decodes every record.
    joined_batch = bytearray(HEADER_SIZE) + payload
    write_header(
        joined_batch,
        base_offset=0,
        last_offset_delta=copied.records.record_count - 1,
        record_count=copied.records.record_count,
        attributes=int(copied.records.codec),
        base_timestamp=copied.records.base_timestamp,
        max_timestamp=copied.records.max_timestamp,
    )
    validated = validate_produce(memoryview(joined_batch), settings=ProduceSettings(is_compacted=True), now_ms=2_000)
    assert (validated.record_count, validated.max_timestamp) == (4, 1_005)
