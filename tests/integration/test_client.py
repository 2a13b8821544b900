"""`ottla.client` against a real cluster: record order, failures, groups and transactions."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.errors import ClientClosed, ClientError, ClusterUnreachable
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.sender import Sender
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.compression import Codec
from tests.support.brokers import QuickKafka

T = TypeVar("T")

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "transaction.state.log.replication.factor": "3",
}
ONE_BROKER = {"transaction.state.log.replication.factor": "1"}


# `BROKER=kafka` runs the same tests against one broker of Apache Kafka.
KAFKA = os.environ.get("BROKER") == "kafka"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if KAFKA:
        with QuickKafka(tmp_path_factory.mktemp("kafka"), {**SETTINGS, **ONE_BROKER}) as broker:
            yield broker.bootstrap
    else:
        with ottla.testing.cluster(nodes=3, settings=SETTINGS) as running:
            yield running.bootstrap


@pytest.fixture
def settings(bootstrap: str) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap), api_timeout_ms=30_000)


@pytest.fixture
def topic(settings: ClientSettings) -> str:
    """A new topic of three partitions with as many replicas as there are brokers."""
    name = f"t-{uuid.uuid4().hex[:8]}"

    async def create() -> None:
        async with AdminClient(settings) as admin:
            # Some records have very old timestamps: retention must not delete them.
            keep = {"retention.ms": "-1"}
            new_topic = NewTopic(name=name, partitions=3, replication_factor=1 if KAFKA else 3, configs=keep)
            result = (await admin.topics.create([new_topic]))[name]
            assert not isinstance(result, KafkaError), result

    run(create())
    return name


def run(work: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


async def read_all(settings: ClientSettings, topic: str, count: int, **options: Any) -> list[ConsumedRecord]:
    """All records of a topic, which must have exactly `count` records."""
    records: list[ConsumedRecord] = []
    async with Consumer(settings, ConsumerSettings(auto_offset_reset="earliest", **options)) as consumer:
        await consumer.assign(await consumer.partitions(topic))
        while len(records) < count:
            records += await consumer.poll(5_000)
        assert await consumer.poll(200) == []
    assert len(records) == count
    return records


async def poll_until_shared(first: Consumer, second: Consumer) -> None:
    """Polls until two members share three partitions, and both have at least one."""

    def shared() -> bool:
        return bool(first.assignment and second.assignment) and len(first.assignment) + len(second.assignment) == 3

    async def poll(consumer: Consumer) -> None:
        # Concurrently: a joining member waits until the other member has polled again.
        while not shared():
            await consumer.poll(100)

    await asyncio.gather(poll(first), poll(second))
    assert not set(first.assignment) & set(second.assignment)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_what_is_sent_is_read_in_order(settings: ClientSettings, topic: str, codec: Codec) -> None:
    async def scenario() -> None:
        async with Producer(settings, ProducerSettings(compression=codec, batch_size=2_000)) as producer:
            deliveries = [
                await producer.send(
                    topic,
                    None if number == 7 else b"v%d" % number,
                    b"k%d" % (number % 5),
                    headers=[("h", b"%d" % number), ("empty", None)] if number % 2 else (),
                    timestamp_ms=1_700_000_000_000 + number,
                )
                for number in range(300)
            ]
            places = [await delivery for delivery in deliveries]
        records = await read_all(settings, topic, 300)
        by_place = {(record.partition, record.offset): record for record in records}
        for number, place in enumerate(places):
            record = by_place[place.partition, place.offset]
            assert record.value == (None if number == 7 else b"v%d" % number)
            assert record.key == b"k%d" % (number % 5)
            assert record.timestamp == place.timestamp == 1_700_000_000_000 + number
            assert list(record.headers) == ([("h", b"%d" % number), ("empty", None)] if number % 2 else [])
        for partition in range(3):
            offsets = [record.offset for record in records if record.partition == partition]
            assert offsets == list(range(len(offsets)))

    run(scenario())


def test_nothing_overtakes_what_waits_for_the_first_metadata(settings: ClientSettings, topic: str) -> None:
    count = 500
    with BlockingProducer(settings) as producer:
        sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(count)]
        producer.flush()
        # A flush covers every record sent before it, including records that had to wait.
        with BlockingAdmin(settings) as admin:
            ends = admin.call(lambda client: client.offsets.numbers([TopicPartition(topic, 0)], LATEST))
        assert ends == {TopicPartition(topic, 0): count}
        assert [future.result().offset for future in sent] == list(range(count))


def test_the_first_batch_of_a_partition_goes_alone(
    settings: ClientSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader takes the first batch of a producer for its beginning: no other batch may arrive earlier."""
    under_way: list[int] = []
    post = Sender._post

    async def noted(sender: Sender, connection: Any, batches: list[ProducerBatch]) -> Any:
        under_way.extend(sender._batches.queues[batch.partition].in_flight for batch in batches)
        result = await post(sender, connection, batches)
        under_way.append(0)
        return result

    monkeypatch.setattr(Sender, "_post", noted)

    async def scenario() -> None:
        async with Producer(settings, ProducerSettings(batch_size=200)) as producer:
            deliveries = [await producer.send(topic, b"%d" % number * 20, partition=0) for number in range(100)]
            offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == list(range(100))

    run(scenario())
    assert under_way[:2] == [1, 0]
    assert max(under_way) > 1


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acknowledgements(settings: ClientSettings, topic: str, acks: int) -> None:
    async def scenario() -> None:
        async with Producer(settings) as producer:
            # For a moment a broker of Apache Kafka does not lead its new topic yet, and drops records sent with acks=0.
            await producer.send_and_wait(topic, b"w", b"k")
        async with Producer(settings, ProducerSettings(acks=acks, idempotent=acks == -1)) as producer:
            place = await producer.send_and_wait(topic, b"x", b"k")
            assert place.offset == (-1 if acks == 0 else 1)
        assert [record.value for record in await read_all(settings, topic, 2)] == [b"w", b"x"]

    run(scenario())


def test_batches_are_handed_out_unopened(settings: ClientSettings, topic: str) -> None:
    async def scenario() -> None:
        async with Producer(settings) as producer:
            for number in range(50):
                await producer.send(topic, b"%d" % number, partition=1)
        async with Consumer(settings, ConsumerSettings(auto_offset_reset="earliest")) as consumer:
            partition = TopicPartition(topic, 1)
            await consumer.assign([partition])
            batches = await consumer.raw_batches(5_000)
            while consumer.position(partition) < 50:
                batches += await consumer.raw_batches(5_000)
            values = [record.value for batch in batches for record in batch.records()]
            assert values == [b"%d" % number for number in range(50)]

    run(scenario())


def test_seeking_pausing_and_times(settings: ClientSettings, topic: str) -> None:
    async def scenario() -> None:
        async with Producer(settings) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_000 + number)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with Consumer(settings, ConsumerSettings(auto_offset_reset="earliest")) as consumer:
            await consumer.assign([first, second])
            assert len(await consumer.poll(5_000, max_records=3)) == 3
            assert consumer.position(first) == 3
            consumer.seek(first, 8)
            assert [record.offset for record in await consumer.poll(5_000)] == [8, 9]
            await consumer.seek_to(1_005, first)
            consumer.pause(first)
            assert await consumer.poll(100) == []
            consumer.resume(first)
            assert [record.offset for record in await consumer.poll(5_000)] == [5, 6, 7, 8, 9]
            assert consumer.lag(first) == 0
            offsets = await consumer.offsets_for_times({first: 1_003, second: 0})
            assert offsets[first] is not None
            assert (offsets[first].offset, offsets[second]) == (3, None)
            assert await consumer.beginning_offsets([first]) == {first: 0}
            assert await consumer.end_offsets([first, second]) == {first: 10, second: 0}

    run(scenario())


def test_an_offset_that_is_gone_is_reset_or_refused(settings: ClientSettings, topic: str) -> None:
    async def scenario() -> None:
        async with Producer(settings) as producer:
            for number in range(5):
                await producer.send(topic, b"%d" % number, partition=0)
        partition = TopicPartition(topic, 0)
        async with Consumer(settings, ConsumerSettings(auto_offset_reset="earliest")) as consumer:
            await consumer.assign([partition])
            consumer.seek(partition, 77)
            assert [record.offset for record in await consumer.poll(5_000)] == [0, 1, 2, 3, 4]
        async with Consumer(settings, ConsumerSettings(auto_offset_reset="none")) as consumer:
            await consumer.assign([partition])
            consumer.seek(partition, 77)
            with pytest.raises(KafkaError) as raised:
                await consumer.poll(5_000)
            assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario())


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_group_shares_commits_and_goes_on(settings: ClientSettings, topic: str, protocol: str) -> None:
    group = f"g-{topic}"
    options = {
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
    }

    async def scenario() -> None:
        async with Producer(settings) as producer:
            for number in range(30):
                await producer.send(topic, b"%d" % number, partition=number % 3)
        values: list[bytes | None] = []
        async with Consumer(settings, ConsumerSettings(**options)) as first:
            await first.subscribe([topic])
            while len(values) < 30:
                values += [record.value for record in await first.poll(5_000)]
            assert len(first.assignment) == 3
            async with Consumer(settings, ConsumerSettings(**options)) as second:
                await second.subscribe([topic])
                await poll_until_shared(first, second)
            while len(first.assignment) < 3:
                await first.poll(100)
        assert sorted(values, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(30)]
        async with AdminClient(settings) as admin:
            assert sum(offset.offset for offset in (await admin.groups.offsets(group)).values()) == 30
        async with Consumer(settings, ConsumerSettings(**options)) as third:
            await third.subscribe([topic])
            assert await third.poll(1_000) == []

    run(scenario())


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_member_that_does_not_poll_steps_aside(settings: ClientSettings, topic: str, protocol: str) -> None:
    options = {"group_id": f"g-{topic}", "group_protocol": protocol, "heartbeat_interval_ms": 100}

    async def scenario() -> None:
        sleepy = ConsumerSettings(max_poll_interval_ms=1_000, **options)
        async with Consumer(settings, sleepy) as first, Consumer(settings, ConsumerSettings(**options)) as second:
            await first.subscribe([topic])
            while len(first.assignment) < 3:
                await first.poll(100)
            await second.subscribe([topic])
            while len(second.assignment) < 3:
                await second.poll(100)
            await poll_until_shared(first, second)

    run(scenario())


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_seen_whole_or_not_at_all(settings: ClientSettings, topic: str, commit: bool) -> None:
    group = f"g-{topic}"

    async def scenario() -> None:
        producing = ProducerSettings(transactional_id=f"tx-{topic}", linger_ms=0)
        async with Producer(settings, producing) as producer:
            await producer.init_transactions()
            with pytest.raises(ClientError):
                await producer.send(topic, b"too early")
            for turn in range(2):
                producer.begin_transaction()
                for partition in range(3):
                    await (await producer.send(topic, b"%d" % turn, partition=partition))
                await producer.send_offsets(group, {TopicPartition(topic, 0): turn + 1})
                if commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        assert len(await read_all(settings, topic, 6, read_committed=False)) == 6
        committed = await read_all(settings, topic, 6 if commit else 0, read_committed=True)
        assert len(committed) == (6 if commit else 0)
        async with AdminClient(settings) as admin:
            offsets = await admin.groups.offsets(group, stable=True)
            assert {topic_partition: stored.offset for topic_partition, stored in offsets.items()} == (
                {TopicPartition(topic, 0): 2} if commit else {}
            )

    run(scenario())


def test_a_second_producer_fences_the_first(settings: ClientSettings, topic: str) -> None:
    async def scenario() -> None:
        producing = ProducerSettings(transactional_id=f"tx-{topic}", linger_ms=0)
        async with Producer(settings, producing) as first, Producer(settings, producing) as second:
            await first.init_transactions()
            first.begin_transaction()
            await (await first.send(topic, b"1", partition=0))
            await second.init_transactions()
            with pytest.raises(KafkaError) as raised:
                await first.commit_transaction()
            assert raised.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
            second.begin_transaction()
            await (await second.send(topic, b"2", partition=0))
            await second.commit_transaction()
        assert [record.value for record in await read_all(settings, topic, 1, read_committed=True)] == [b"2"]

    run(scenario())


def test_what_cannot_be_is_an_error_with_a_sentence(settings: ClientSettings, topic: str) -> None:
    async def scenario() -> None:
        async with Producer(settings) as producer:
            with pytest.raises(KafkaError) as raised:
                await producer.send(topic, b"x", partition=9)
            assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(KafkaError) as raised:
                await producer.send(topic, bytes(2_000_000))
            assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE
        nowhere = ClientSettings(bootstrap_servers=parse_bootstrap("127.0.0.1:1"), bootstrap_timeout_ms=0)
        async with AdminClient(nowhere) as admin:
            with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1"):
                await admin.topics.names()

    run(scenario())


def test_one_address_that_answers_is_enough(settings: ClientSettings, topic: str) -> None:
    async def scenario() -> None:
        dead = parse_bootstrap("127.0.0.1:1,127.0.0.1:2")
        partly_dead_settings = replace(settings, bootstrap_servers=(*dead, *settings.bootstrap_servers[:1]))
        async with Producer(partly_dead_settings) as producer:
            deliveries = [await producer.send(topic, b"x", partition=number) for number in range(3)]
            assert [(await delivery).offset for delivery in deliveries] == [0, 0, 0]
        await read_all(partly_dead_settings, topic, 3)

    run(scenario())


def test_nothing_is_lost_or_doubled_when_a_leader_dies() -> None:
    """Uses its own cluster, because it kills a node."""
    quick = {**SETTINGS, "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "200"}
    with ottla.testing.cluster(nodes=3, settings=quick) as own:
        there = ClientSettings(bootstrap_servers=parse_bootstrap(own.bootstrap))

        async def scenario() -> None:
            async with AdminClient(there) as admin:
                await admin.topics.create(
                    [NewTopic(name="t", partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})]
                )
            async with Producer(there, ProducerSettings(linger_ms=1)) as producer:
                deliveries = []
                for number in range(400):
                    deliveries.append(await producer.send("t", b"%d" % number, partition=number % 3))
                    if number == 200:
                        own.node(3).kill()
                    await asyncio.sleep(0.001)
                await asyncio.gather(*[awaited(delivery) for delivery in deliveries])
            records = await read_all(there, "t", 400)
            for partition in range(3):
                values = [int(record.value or b"") for record in records if record.partition == partition]
                assert values == [number for number in range(400) if number % 3 == partition]

        run(scenario())


def test_closing_waits_for_calls_under_way_and_no_longer_than_told(settings: ClientSettings, topic: str) -> None:
    async def scenario() -> None:
        admin = AdminClient(settings)
        call = asyncio.ensure_future(admin.topics.describe([topic]))
        await asyncio.sleep(0)
        await admin.close()
        assert list(await call) == [topic]
        with pytest.raises(ClientClosed):
            await admin.topics.names()
        # The kernel accepts these connections, and no process ever reads from them.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            other = AdminClient(ClientSettings(bootstrap_servers=parse_bootstrap(f"127.0.0.1:{port}")))
            call = asyncio.ensure_future(other.topics.describe([topic]))
            await asyncio.sleep(0)
            await other.close(timeout_ms=10)
            with pytest.raises(ClientClosed):
                await call

    run(scenario())


async def awaited(delivery: Any) -> Any:
    return await delivery


def test_code_without_a_loop(settings: ClientSettings, topic: str) -> None:
    with BlockingProducer(settings) as producer:
        futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(5)]
        assert [future.result().offset for future in futures] == [0, 1, 2, 3, 4]
    with BlockingConsumer(settings, ConsumerSettings(group_id=f"g-{topic}", auto_offset_reset="earliest")) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        values: list[bytes | None] = []
        while len(values) < 5:
            values += [record.value for record in consumer.poll(5_000)]
        consumer.commit()
        assert consumer.committed([partition])[partition].offset == 5
        assert values == [b"0", b"1", b"2", b"3", b"4"]
    with BlockingAdmin(settings) as admin:
        assert topic in admin.call(lambda client: client.topics.names())
        numbers = admin.call(lambda client: client.offsets.numbers([partition], LATEST))
        assert numbers == {partition: 5}
        assert admin.call(lambda client: client.offsets.numbers([partition], EARLIEST)) == {partition: 0}


def test_offsets_of_many_groups_are_asked_for_together(settings: ClientSettings, topic: str) -> None:
    group_ids = [f"many-{topic}-{number}" for number in range(6)]

    async def scenario() -> None:
        async with AdminClient(settings) as admin:
            for number, group_id in enumerate(group_ids):
                await admin.groups.alter_offsets(group_id, {TopicPartition(topic, number % 3): number})
            listed = {
                group.group_id: group.coordinator for group in await admin.groups.find() if group.group_id in group_ids
            }
            assert {
                group_id: await admin.connections.coordinator(admin.connections.GROUP, group_id) for group_id in listed
            } == listed
            wanted = {
                group_id: {TopicPartition(topic, number % 3): number} for number, group_id in enumerate(group_ids)
            }
            # The given coordinator may also be another node, a missing node, or unknown.
            for wrong in (0, 1, 9, -1):
                offsets_by_group = await admin.groups.offsets_at(
                    {group_id: wrong or node_id for group_id, node_id in listed.items()}
                )
                assert {
                    group_id: {partition: committed.offset for partition, committed in offsets.items()}
                    for group_id, offsets in offsets_by_group.items()
                    if not isinstance(offsets, KafkaError)
                } == wanted

    run(scenario())
