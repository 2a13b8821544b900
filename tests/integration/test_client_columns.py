"""Columns: Arrow tables, pandas frames and anything with Arrow's interface go in, Arrow record batches come out."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pandas
import pyarrow as pa
import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingConsumer, BlockingProducer
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.producer.partitioner import partition_of_key
from ottla.model.ids import TopicPartition
from ottla.serdes import SerializationError
from ottla.serdes.protocol import Deserializer, Header, Serializer

ROWS = 5_000
KEYS = [b"key-%d" % (number % 97) for number in range(ROWS)]
VALUES = [None if number % 50 == 0 else b"value %d" % number for number in range(ROWS)]


@pytest.fixture
def cluster_config(client_bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": client_bootstrap, "auto.offset.reset": "earliest"}


@pytest.fixture
def topic(cluster_config: dict[str, Any]) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"

    async def create() -> None:
        async with AdminClient({"bootstrap.servers": cluster_config["bootstrap.servers"]}) as admin:
            await admin.topics.create([NewTopic(name=name, partitions=3, replication_factor=1)])

    asyncio.run(create())
    return name


def producing(cluster_config: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster_config["bootstrap.servers"], **config}


async def read(consumer: Consumer, topic: str, count: int, **options: Any) -> pa.Table:
    await consumer.assign(await consumer.partitions(topic))
    batches: list[pa.RecordBatch] = []
    async with asyncio.timeout(30):
        while sum(batch.num_rows for batch in batches) < count:
            batches += await consumer.batches(1_000, **options)
    return pa.Table.from_batches(batches)


class Frame:
    """A frame with Arrow's C interface, as Polars and other libraries have."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


MAKERS: list[Callable[[pa.Table], Any]] = [
    lambda table: table,
    lambda table: table.combine_chunks().to_batches()[0],
    lambda table: table.to_pandas(),
    Frame,
]


@pytest.mark.parametrize("make", MAKERS, ids=["table", "batch", "pandas", "stream"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_table_goes_in_and_comes_out(
    cluster_config: dict[str, Any], topic: str, make: Callable[[pa.Table], Any], codec: str
) -> None:
    table = pa.table({"key": pa.array(KEYS, pa.binary()), "value": pa.array(VALUES, pa.binary())})

    async def scenario() -> pa.Table:
        async with Producer(producing(cluster_config, **{"compression.type": codec})) as producer:
            await producer.send(topic, b"first", b"key-0")
            written = await (await producer.send_table(topic, make(table)))
            assert sum(batch.records for batch in written) == ROWS
        async with Consumer(cluster_config) as consumer:
            return await read(consumer, topic, ROWS + 1)

    rows = asyncio.run(scenario()).sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
    assert len(rows) == ROWS + 1
    for number in range(3):
        mine = [(row["key"], row["value"]) for row in rows if row["partition"] == number]
        expected = [(key, value) for key, value in zip(KEYS, VALUES, strict=True) if partition_of_key(key, 3) == number]
        if partition_of_key(b"key-0", 3) == number:
            # Rows follow the records that were sent before.
            expected.insert(0, (b"key-0", b"first"))
        assert mine == expected
    assert {row["topic"] for row in rows} == {topic}
    assert [row["offset"] for row in rows if row["partition"] == 1] == list(
        range(sum(row["partition"] == 1 for row in rows))
    )


def test_all_columns(cluster_config: dict[str, Any], topic: str) -> None:
    headers = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], []]
    table = pa.table(
        {
            "value": ["text", "more"],
            "partition": pa.array([2, 1], pa.int32()),
            "timestamp": pa.array([1_700_000_000_000_000, 1_700_000_000_001_000], pa.timestamp("us", "UTC")),
            "headers": pa.array(
                headers, pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
            ),
        }
    )

    async def scenario() -> list[dict[str, Any]]:
        async with Producer(producing(cluster_config)) as producer:
            await (await producer.send_table(topic, table))
        async with Consumer(cluster_config) as consumer:
            consumed = await read(consumer, topic, 2)
        rows: list[dict[str, Any]] = consumed.sort_by("partition").to_pylist()
        return rows

    second, first = asyncio.run(scenario())
    assert (first["value"], first["partition"], first["headers"]) == (b"text", 2, headers[0])
    assert (second["key"], second["value"], second["headers"]) == (None, b"more", [])
    assert first["timestamp"].timestamp() == 1_700_000_000


def test_batches_begin_at_the_position_and_are_deserialized(cluster_config: dict[str, Any], topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def scenario() -> pa.Table:
        values = [json.dumps({"n": number}) for number in range(20)]
        async with Producer(producing(cluster_config)) as producer:
            frame = pandas.DataFrame({"value": values, "partition": [0] * 20})
            await (await producer.send_table(topic, frame))
        async with Consumer({**cluster_config, "value.deserializer": "json"}) as consumer:
            await consumer.assign([partition])
            consumer.seek(partition, 15)
            table = pa.Table.from_batches(await consumer.batches(5_000, headers=False))
            assert consumer.position(partition) == 20
        return table

    table = asyncio.run(scenario())
    assert table.column("value").to_pylist() == [{"n": number} for number in range(15, 20)]
    assert table.column("offset").to_pylist() == list(range(15, 20))
    assert "headers" not in table.column_names


def test_a_table_of_other_columns_is_refused_with_a_sentence(cluster_config: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        async with Producer(producing(cluster_config)) as producer:
            with pytest.raises(ClientError, match="'name' is none of them"):
                await producer.send_table(topic, pa.table({"value": ["x"], "name": ["y"]}))
            with pytest.raises(ClientError, match="value is missing"):
                await producer.send_table(topic, pa.table({"key": ["x"]}))
            with pytest.raises(ClientError, match="list is no Arrow table"):
                await producer.send_table(topic, [1, 2])

    asyncio.run(scenario())


def test_columns_without_a_loop(cluster_config: dict[str, Any], topic: str) -> None:
    with BlockingProducer(producing(cluster_config)) as producer:
        (written, *_) = producer.send_table(topic, pa.table({"value": ["a", "b"], "partition": [1, 1]}))
        assert (written.partition, written.base_offset, written.records) == (1, 0, 2)
    with BlockingConsumer(cluster_config) as consumer:
        consumer.assign([TopicPartition(topic, 1)])
        (batch,) = consumer.batches(5_000)
        assert batch.column("value").to_pylist() == [b"a", b"b"]


class FromHeader(Deserializer[str]):
    """What a schema in a header would say: the unit of a number."""

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> str | None:
        return None if data is None else f"{bytes(data).decode()} {dict(headers or ())['unit']!r}"


class WithHeader(Serializer[int]):
    def serialize(self, topic: str, value: int | None, headers: list[Header] | None = None) -> bytes | None:
        assert headers is not None
        headers.append(("unit", b"mm"))
        return None if value is None else b"%d" % value


def test_serializers_and_deserializers_of_tables_have_the_headers(cluster_config: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        async with Producer(producing(cluster_config, **{"value.serializer": WithHeader()})) as producer:
            headers = [[{"key": "own", "value": b"1"}], None, []]
            rows = pa.table({"value": [7, None, 9], "partition": [0, 0, 0], "headers": headers})
            await (await producer.send_table(topic, rows))
        for wants_headers in (True, False):
            async with Consumer({**cluster_config, "value.deserializer": FromHeader()}) as consumer:
                await consumer.assign([TopicPartition(topic, 0)])
                (batch,) = await consumer.batches(5_000, headers=wants_headers)
                assert batch.column("value").to_pylist() == ["7 b'mm'", None, "9 b'mm'"]
                assert ("headers" in batch.schema.names) == wants_headers

    asyncio.run(scenario())


def test_a_record_that_cannot_be_read_stops_batches_until_a_seek(cluster_config: dict[str, Any], topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def scenario() -> None:
        async with Producer(producing(cluster_config)) as producer:
            for values in (["1", "2"], ["3", "{", "5"], ["6"]):
                await (await producer.send_table(topic, pa.table({"value": values, "partition": [0] * len(values)})))
        async with Consumer({**cluster_config, "value.deserializer": "json"}) as consumer:
            await consumer.assign([partition])
            numbers: list[Any] = []
            while len(numbers) < 3:
                numbers += pa.Table.from_batches(await consumer.batches(5_000)).column("value").to_pylist()
            assert numbers == [1, 2, 3]
            assert consumer.position(partition) == 3
            for _ in range(2):
                with pytest.raises(SerializationError, match=f"{topic}-0 at offset 3"):
                    await consumer.batches(5_000)
            assert consumer.position(partition) == 3
            consumer.seek(partition, 4)
            numbers = []
            while len(numbers) < 2:
                numbers += pa.Table.from_batches(await consumer.batches(5_000)).column("value").to_pylist()
            assert numbers == [5, 6]

    asyncio.run(scenario())


def test_a_table_larger_than_the_buffer_is_sent_in_portions(cluster_config: dict[str, Any], topic: str) -> None:
    values = [b"%07d" % number * 100 for number in range(10_000)]

    async def scenario() -> int:
        async with Producer(producing(cluster_config, **{"buffer.memory": 1_000_000, "linger.ms": 0})) as producer:
            peak = 0
            delivery = asyncio.ensure_future(producer.send_table(topic, pa.table({"value": values})))
            while not delivery.done():
                metrics = producer.metrics()
                peak = max(peak, int(metrics["buffer-total-bytes"] - metrics["buffer-available-bytes"]))
                await asyncio.sleep(0)
            assert sum(batch.records for batch in await delivery.result()) == len(values)
            return peak

    # At most one batch more than the buffer's size.
    assert asyncio.run(scenario()) < 2_000_000
