"""Our share consumer with Apache Kafka, which has share groups (KIP-932)."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.admin.share_groups import DescribedShareGroup, ShareOffset
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingShareConsumer
from ottla.client.errors import ClientError, WokenUp
from ottla.client.producer import Producer
from ottla.client.share import Acknowledge, ShareConsumer, SharedRecord
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.serdes import SerializationError
from tests.java.conftest import require_java
from tests.support.brokers import QuickKafka

# Long enough for any stall of the machine; tests of expiring locks shorten the lock of their group.
LOCK_MS = 30_000
SHORT_LOCK_MS = 2_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_java()
    settings = {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": str(LOCK_MS),
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.heartbeat.interval.ms": "200",
        "group.share.delivery.count.limit": "3",
        "group.share.min.delivery.count.limit": "2",
        "share.coordinator.state.topic.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
    }
    with QuickKafka(tmp_path_factory.mktemp("kafka"), settings) as broker:
        yield broker.bootstrap


@pytest.fixture
def where(kafka: str) -> dict[str, Any]:
    return {"bootstrap.servers": kafka, "metadata.max.age.ms": 500}


@pytest.fixture
def topic(where: dict[str, Any]) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    run(create(where, name))
    return name


async def create(where: dict[str, Any], topic: str) -> None:
    async with AdminClient(where) as admin:
        await admin.topics.create([NewTopic(name=topic, partitions=1, replication_factor=1)])
    await set_group(where, topic, "share.auto.offset.reset", "earliest")


async def set_group(where: dict[str, Any], topic: str, name: str, value: str) -> None:
    group = ConfigResource(ResourceType.GROUP, f"g-{topic}")
    async with AdminClient(where) as admin:
        assert await admin.configs.alter({group: [ConfigChange(name, value)]}) == {group: None}


async def fill(where: dict[str, Any], topic: str, *values: bytes) -> None:
    async with Producer(where) as producer:
        for value in values:
            await producer.send(topic, value)


def member(where: dict[str, Any], topic: str, **config: Any) -> dict[str, Any]:
    return {**where, "group.id": f"g-{topic}", **{name.replace("_", "."): value for name, value in config.items()}}


def explicit(where: dict[str, Any], topic: str, **config: Any) -> dict[str, Any]:
    return member(where, topic, share_acknowledgement_mode="explicit", **config)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


async def poll_records(consumer: ShareConsumer) -> list[SharedRecord]:
    while not (records := await consumer.poll(500)):
        pass
    return records


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_the_next_poll_accepts_and_closing_releases(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await fill(where, topic, *numbers(10))
        async with ShareConsumer(member(where, topic)) as consumer:
            await consumer.subscribe([topic])
            first = await poll_records(consumer)
            assert [record.value for record in first] == numbers(10)
            assert {record.delivery_count for record in first} == {1}
            assert consumer.acquisition_lock_timeout_ms == LOCK_MS
            assert await consumer.poll(700) == []
            await fill(where, topic, b"next")
            assert [record.value for record in await poll_records(consumer)] == [b"next"]
        # The first ten were accepted; the last one was released, because no poll followed it.
        async with ShareConsumer(member(where, topic)) as consumer:
            await consumer.subscribe([topic])
            (again,) = await poll_records(consumer)
            assert (again.value, again.delivery_count) == (b"next", 2)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
        async with ShareConsumer(member(where, topic)) as consumer:
            await consumer.subscribe([topic])
            await consumer.poll(300)
            await fill(where, topic, b"end")
            assert [record.value for record in await poll_records(consumer)] == [b"end"]

    run(scenario())


def test_every_kind_of_acknowledgement(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        acknowledged: list[tuple[TopicPartition, list[int], KafkaError | None]] = []
        await fill(where, topic, *numbers(4))
        async with ShareConsumer(explicit(where, topic)) as consumer:
            consumer.set_acknowledgement_callback(lambda *outcome: acknowledged.append(outcome))
            await consumer.subscribe([topic])
            records = await poll_records(consumer)
            with pytest.raises(ClientError, match="4 records of the last poll are not acknowledged"):
                await consumer.poll(0)
            consumer.acknowledge(records[0])
            consumer.acknowledge(records[1], Acknowledge.RELEASE)
            consumer.acknowledge_offset(topic, 0, 2, Acknowledge.REJECT)
            consumer.acknowledge(records[3], Acknowledge.REJECT)
            # The last acknowledgement counts.
            consumer.acknowledge(records[3], Acknowledge.ACCEPT)
            (again,) = await poll_records(consumer)
            assert (again.value, again.delivery_count) == (b"1", 2)
            assert acknowledged == [(TopicPartition(topic, 0), [0, 1, 2, 3], None)]
            with pytest.raises(ClientError, match="is not held by this consumer"):
                consumer.acknowledge(records[0])
            consumer.acknowledge(again, Acknowledge.RELEASE)
            consumer.commit_async()
            (last,) = await poll_records(consumer)
            assert last.delivery_count == 3
            consumer.acknowledge(last, Acknowledge.RELEASE)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            # It was delivered three times, which is the limit of the broker.
            assert await consumer.poll(700) == []

    run(scenario())


def test_an_expired_lock_gives_the_record_to_another_member(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await fill(where, topic, b"slow")
        await set_group(where, topic, "share.record.lock.duration.ms", str(SHORT_LOCK_MS))
        async with ShareConsumer(explicit(where, topic)) as slow, ShareConsumer(explicit(where, topic)) as other:
            await slow.subscribe([topic])
            (record,) = await poll_records(slow)
            await other.subscribe([topic])
            (again,) = await poll_records(other)
            assert (again.offset, again.delivery_count) == (record.offset, 2)
            slow.acknowledge(record)
            (error,) = (await slow.commit()).values()
            assert error is not None
            assert error.code == ErrorCode.INVALID_RECORD_STATE
            other.acknowledge(again)
            assert list((await other.commit()).values()) == [None]

    run(scenario())


def test_a_renewed_lock_keeps_the_record(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await set_group(where, topic, "share.record.lock.duration.ms", str(SHORT_LOCK_MS))
        async with ShareConsumer(explicit(where, topic)) as busy, ShareConsumer(explicit(where, topic)) as other:
            await busy.subscribe([topic])
            while not busy.assignment:
                await busy.poll(100)
            await fill(where, topic, b"long work", b"quick")
            record, quick = await poll_records(busy)
            busy.acknowledge(quick)
            await other.subscribe([topic])
            loop = asyncio.get_running_loop()
            begun = renewed = loop.time()
            while loop.time() - begun < 1.5 * SHORT_LOCK_MS / 1000:
                if loop.time() - renewed > 0.6 * SHORT_LOCK_MS / 1000:
                    pytest.skip("the machine is too slow to renew a lock in time")
                busy.acknowledge(record, Acknowledge.RENEW)
                # A poll renews, and returns the records that the application holds.
                assert await busy.poll(0) == [record]
                renewed = loop.time()
                assert await other.poll(100) == []
            busy.acknowledge(record)
            assert list((await busy.commit()).values()) == [None]
            assert await other.poll(300) == []

    run(scenario())


def test_iteration_accepts_what_is_behind_it(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await fill(where, topic, *numbers(6))
        async with ShareConsumer(member(where, topic)) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                if record.offset == 3:
                    break
        async with ShareConsumer(member(where, topic)) as consumer:
            await consumer.subscribe([topic])
            assert [record.offset for record in await poll_records(consumer)] == [3, 4, 5]

    run(scenario())


def test_a_record_limit(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await fill(where, topic, *numbers(10))
        config = member(where, topic, max_poll_records=4, share_acquire_mode="record_limit")
        async with ShareConsumer(config) as consumer:
            await consumer.subscribe([topic])
            polls = [len(await poll_records(consumer)) for _ in range(3)]
            assert polls == [4, 4, 2]
        await fill(where, topic, *numbers(10))
        # Whole batches are acquired, but a poll returns no more than the limit.
        async with ShareConsumer(member(where, topic, max_poll_records=4)) as consumer:
            await consumer.subscribe([topic])
            # The last two records of the former member were released, because no poll followed them.
            assert [len(await poll_records(consumer)) for _ in range(3)] == [4, 4, 4]

    run(scenario())


def test_records_that_cannot_be_read_are_released(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await fill(where, topic, b'{"a": 1}', b"no JSON", b'{"a": 2}')
        async with ShareConsumer(member(where, topic, value_deserializer="json")) as consumer:
            await consumer.subscribe([topic])
            assert [record.value for record in await poll_records(consumer)] == [{"a": 1}]
            with pytest.raises(SerializationError, match="offset 1"):
                await consumer.poll(500)
            assert [record.value for record in await poll_records(consumer)] == [{"a": 2}]
            # The bad record is delivered until the delivery limit.
            for _ in range(2):
                with pytest.raises(SerializationError, match="offset 1"):
                    await poll_records(consumer)
            assert await consumer.poll(700) == []

    run(scenario())


def test_aborted_records_and_markers_are_gaps(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        async with Producer({**where, "transactional.id": f"x-{topic}"}) as producer:
            await producer.init_transactions()
            for value, commits in ((b"aborted", False), (b"committed", True)):
                producer.begin_transaction()
                await producer.send(topic, value, partition=0)
                await (producer.commit_transaction() if commits else producer.abort_transaction())
        await set_group(where, topic, "share.isolation.level", "read_committed")
        async with ShareConsumer(member(where, topic)) as consumer:
            await consumer.subscribe([topic])
            assert [record.value for record in await poll_records(consumer)] == [b"committed"]
            await fill(where, topic, b"more")
            assert [record.value for record in await poll_records(consumer)] == [b"more"]

    run(scenario())


def test_members_share_partitions_and_change_topics(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        second_topic = f"{topic}-b"
        await create(where, second_topic)
        first, second = (ShareConsumer(member(where, topic, max_poll_records=1)) for _ in range(2))
        async with first, second:
            for consumer in (first, second):
                await consumer.subscribe([topic])
            while not (first.assignment and second.assignment):
                await asyncio.gather(first.poll(100), second.poll(100))
            for number in range(20):
                await fill(where, topic, b"%d" % number)
            seen: list[tuple[int, int]] = []
            while len(seen) < 20:
                for records in await asyncio.gather(first.poll(100), second.poll(100)):
                    seen += [(record.partition, record.offset) for record in records]
            assert len(set(seen)) == 20
            await first.subscribe([second_topic])
            while {partition.topic for partition in first.assignment} != {second_topic}:
                await first.poll(100)
            assert first.subscription == (second_topic,)

    run(scenario())


def test_a_broken_connection_begins_a_new_session(where: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await fill(where, topic, *numbers(3))
        async with ShareConsumer(explicit(where, topic)) as consumer:
            await consumer.subscribe([topic])
            records = await poll_records(consumer)
            connection = await consumer._cluster.node_connection(1, "share")
            connection.close("the test breaks it")
            for record in records:
                consumer.acknowledge(record)
            (error,) = (await consumer.commit()).values()
            assert error is not None
            # The broker has released the records.
            again = await poll_records(consumer)
            assert [record.delivery_count for record in again] == [2, 2, 2]
            for record in again:
                consumer.acknowledge(record)
            assert list((await consumer.commit()).values()) == [None]

    run(scenario())


def test_the_blocking_twin(where: dict[str, Any], topic: str) -> None:
    run(fill(where, topic, *numbers(3)))
    acknowledged: list[list[int]] = []
    with BlockingShareConsumer(explicit(where, topic)) as consumer:
        consumer.set_acknowledgement_callback(lambda _partition, offsets, _error: acknowledged.append(offsets))
        consumer.subscribe([topic])
        for record in consumer:
            consumer.acknowledge(record)
            if record.offset == 2:
                break
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert consumer.poll(50) == []
        assert acknowledged == [[0, 1, 2]]
        assert consumer.metrics()["acknowledgements-send-rate"] > 0
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        with pytest.raises(WokenUp):
            consumer.poll(30_000)
        timer.join()


def test_the_administration_of_a_share_group(where: dict[str, Any], topic: str) -> None:
    partition, group = TopicPartition(topic, 0), f"g-{topic}"

    async def scenario() -> None:
        await fill(where, topic, *numbers(5))
        async with AdminClient(where) as admin:
            async with ShareConsumer(member(where, topic)) as consumer:
                await consumer.subscribe([topic])
                assert len(await poll_records(consumer)) == 5
                assert await consumer.commit() == {partition: None}
                described = (await admin.share_groups.describe([group, "no such group"]))[group]
                assert isinstance(described, DescribedShareGroup)
                assert described.state == "Stable"
                assert [member.assignment for member in described.members] == [(partition,)]
                with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
                    await admin.share_groups.alter_offsets(group, {partition: 2})
            share_offset = (await admin.share_groups.offsets(group))[partition]
            assert isinstance(share_offset, ShareOffset)
            assert share_offset.lag == 0
            assert await admin.share_groups.alter_offsets(group, {partition: 3}) == {partition: None}
            async with ShareConsumer(member(where, topic)) as consumer:
                await consumer.subscribe([topic])
                assert [record.offset for record in await poll_records(consumer)] == [3, 4]
            assert await admin.share_groups.delete_offsets(group, [topic]) == {topic: None}
            assert await admin.groups.delete([group]) == {group: None}
            description = (await admin.share_groups.describe([group]))[group]
            assert isinstance(description, KafkaError)

    run(scenario())
