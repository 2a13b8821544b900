"""The consumer as applications use it: iteration, listeners, commits, wakeups, assignors, retries, parallel work."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin, BlockingConsumer
from ottla.client.consumer import (
    ConsumedRecord,
    Consumer,
    ConsumerInterceptor,
    MemberSubscription,
    RebalanceListener,
)
from ottla.client.consumer.assignors import Assignment, Racks
from ottla.client.errors import ClientError, WokenUp
from ottla.client.parallel import Order, ParallelConsumer
from ottla.client.producer import Producer
from ottla.client.retries import RetryingConsumer, RetryTopics
from ottla.model.ids import TopicPartition
from ottla.serdes import SerializationError

PROTOCOLS = ["classic", "consumer"]


@pytest.fixture
def cluster_config(client_bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": client_bootstrap, "metadata.max.age.ms": 500}


@pytest.fixture
def topic(cluster_config: dict[str, Any]) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    run(create(cluster_config, name))
    return name


async def create(cluster_config: dict[str, Any], *names: str, partitions: int = 3) -> None:
    async with AdminClient(cluster_config) as admin:
        await admin.topics.create([NewTopic(name=name, partitions=partitions, replication_factor=1) for name in names])


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


async def fill(cluster_config: dict[str, Any], topic: str, count: int, *, keys: int = 7) -> None:
    async with Producer(cluster_config) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, b"%d" % (number % keys))


def member(cluster_config: dict[str, Any], topic: str, **config: Any) -> dict[str, Any]:
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    return {**cluster_config, "group.id": f"g-{topic}", "auto.offset.reset": "earliest", **dotted}


async def poll_until(consumer: Consumer, holds: Callable[[], bool]) -> None:
    while not holds():
        await consumer.poll(50)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_iteration_commits_what_was_handed_out(cluster_config: dict[str, Any], topic: str, protocol: str) -> None:
    async def scenario() -> None:
        await fill(cluster_config, topic, 30)
        positions = []
        async with Consumer(member(cluster_config, topic, group_protocol=protocol)) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                positions.append((record.partition, record.offset))
                if len(positions) == 11:
                    break
            # Fetched records that were not returned to the application are not committed.
            assert sum(consumer.position(partition) for partition in consumer.assignment) == 11
        async with Consumer(member(cluster_config, topic, group_protocol=protocol)) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                positions.append((record.partition, record.offset))
                if len(positions) == 30:
                    break
        assert len(set(positions)) == 30

    run(scenario())


class Story(RebalanceListener):
    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    async def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("assigned", len(partitions)))

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("revoked", len(partitions)))

    async def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("lost", len(partitions)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_listener_hears_of_revoked_assigned_and_lost_partitions(
    cluster_config: dict[str, Any], topic: str, protocol: str
) -> None:
    async def scenario() -> None:
        story = Story()
        config = member(cluster_config, topic, group_protocol=protocol, max_poll_interval_ms=700)
        if protocol == "classic":
            config |= {"heartbeat.interval.ms": 100}
        async with Consumer(config) as consumer:
            await consumer.subscribe([topic], listener=story)
            await poll_until(consumer, lambda: len(consumer.assignment) == 3)
            # The application does not poll for longer than max.poll.interval.ms.
            await asyncio.sleep(1.5)
            await poll_until(consumer, lambda: story.events[-1] == ("assigned", 3) and len(story.events) > 2)
            assert ("lost", 3) in story.events
        assert story.events[-1] == ("revoked", 3)

    run(scenario())


def test_commits_in_the_background_with_metadata(cluster_config: dict[str, Any], topic: str) -> None:
    partition = TopicPartition(topic, 0)
    outcomes: list[tuple[Mapping[TopicPartition, CommittedOffset], Exception | None]] = []

    async def scenario() -> None:
        async with Consumer(member(cluster_config, topic)) as consumer:
            await consumer.assign([partition])
            consumer.commit_async(
                {partition: CommittedOffset(5, -1, "first")}, lambda *outcome: outcomes.append(outcome)
            )
            consumer.commit_async(
                {partition: CommittedOffset(6, -1, "second")}, lambda *outcome: outcomes.append(outcome)
            )
            # An awaited commit follows those in the background.
            await consumer.commit({partition: CommittedOffset(7, -1, "third")})
            assert len(outcomes) == 2
            committed = (await consumer.committed([partition]))[partition]
            assert (committed.offset, committed.metadata) == (7, "third")

    run(scenario())
    assert [error for _, error in outcomes] == [None, None]
    assert sorted(offsets[partition].metadata or "" for offsets, _ in outcomes) == ["first", "second"]


def test_a_wakeup_ends_a_poll(cluster_config: dict[str, Any], topic: str) -> None:
    with BlockingConsumer(cluster_config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.poll(10)
        thread = threading.Timer(0.2, consumer.wakeup)
        thread.start()
        with pytest.raises(WokenUp):
            consumer.poll(30_000)
        thread.join()
        # The next poll is not interrupted; a wakeup before a poll is not lost.
        assert consumer.poll(10) == []
        consumer.wakeup()
        with pytest.raises(WokenUp):
            consumer.poll(30_000)


def test_seek_pause_and_position(cluster_config: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        await fill(cluster_config, topic, 40, keys=1)
        async with Consumer({**cluster_config, "auto.offset.reset": "earliest"}) as consumer:
            parts = await consumer.partitions(topic)
            await consumer.assign(parts)
            record = await anext(consumer)
            partition = TopicPartition(record.topic, record.partition)
            assert consumer.position(partition) == 1
            consumer.seek(partition, 30)
            assert (await anext(consumer)).offset == 30
            assert consumer.position(partition) == 31
            await consumer.seek_to_beginning(partition)
            assert (await anext(consumer)).offset == 0
            consumer.pause(partition)
            assert consumer.paused == [partition]
            await consumer.seek_to_end(partition)
            assert await consumer.poll(50) == []
            consumer.resume(partition)
            assert consumer.position(partition) == 40
            with pytest.raises(ClientError, match="negative"):
                consumer.seek(partition, -1)

    run(scenario())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_compiled_pattern_is_matched_by_the_client(cluster_config: dict[str, Any], topic: str, protocol: str) -> None:
    async def scenario() -> None:
        await create(cluster_config, f"{topic}-a", f"{topic}-b")
        config = member(cluster_config, topic, group_protocol=protocol)
        async with Consumer(config | ({"heartbeat.interval.ms": 100} if protocol == "classic" else {})) as consumer:
            await consumer.subscribe(pattern=re.compile(rf"{topic}-(?=[a-z])."))
            await poll_until(consumer, lambda: len(consumer.assignment) == 6)
            await create(cluster_config, f"{topic}-c")
            await poll_until(consumer, lambda: len(consumer.assignment) == 9)
            assert {partition.topic for partition in consumer.assignment} == {f"{topic}-{letter}" for letter in "abc"}

    run(scenario())


class Youngest:
    """An assignor of the application: one member gets everything."""

    name = "youngest"

    def subscription_data(self, topics: list[str]) -> bytes:
        return b"age 7"

    def assign(self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int], racks: Racks) -> Assignment:
        assert all(member.user_data == b"age 7" for member in members.values())
        everything = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        return {max(members): everything}


@pytest.mark.parametrize("assignor", ["sticky", "roundrobin", Youngest()])
def test_assignors(cluster_config: dict[str, Any], topic: str, assignor: Any) -> None:
    async def scenario() -> None:
        config = member(cluster_config, topic) | {
            "partition.assignment.strategy": assignor,
            "heartbeat.interval.ms": 50,
        }
        async with Consumer(config) as first, Consumer(config) as second:
            await first.subscribe([topic])
            await poll_until(first, lambda: len(first.assignment) == 3)
            await second.subscribe([topic])
            expected = [0, 3] if isinstance(assignor, Youngest) else [1, 2]

            def settled() -> bool:
                sizes = sorted([len(first.assignment), len(second.assignment)])
                return sizes == expected and second.member is not None and second.member.generation > 0

            while not settled():
                await asyncio.gather(first.poll(50), second.poll(50))
            assert len({*first.assignment, *second.assignment}) == 3

    run(scenario())


def test_deserializers_and_an_error_with_its_place(cluster_config: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        config = {**cluster_config, "key.serializer": "string", "value.serializer": "json"}
        async with Producer(config) as producer:
            for number in range(3):
                await producer.send(topic, {"n": number}, "k")
            metadata = await producer.send_and_wait(topic, {"n": 3}, "k")
        with pytest.raises(SerializationError, match=topic):
            async with Producer({**cluster_config, "value.serializer": "long"}) as producer:
                await producer.send(topic, "no number")
        topic_partition = TopicPartition(topic, metadata.partition)
        async with Producer(cluster_config) as producer:
            await producer.send_and_wait(topic, b"{not json", b"k", partition=topic_partition.partition)
            await producer.send_and_wait(topic, b'{"n": 5}', b"k", partition=topic_partition.partition)
        java = "org.apache.kafka.common.serialization.StringDeserializer"
        reading = {
            **cluster_config,
            "auto.offset.reset": "earliest",
            "key.deserializer": java,
            "value.deserializer": "json",
        }
        async with Consumer(reading) as consumer:
            await consumer.assign([topic_partition])
            records = await consumer.poll(5_000)
            while len(records) < 4:
                records += await consumer.poll(5_000)
            assert [(record.key, record.value["n"]) for record in records] == [("k", number) for number in range(4)]
            for _ in range(2):
                # The position stays before the record until the application decides.
                with pytest.raises(SerializationError, match=rf"{topic}-{topic_partition.partition} at offset 4"):
                    await consumer.poll(5_000)
            consumer.seek(topic_partition, 5)
            assert [record.value for record in await consumer.poll(5_000)] == [{"n": 5}]

    run(scenario())


class Counting(ConsumerInterceptor):
    def __init__(self) -> None:
        self.committed: list[int] = []

    def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        return [record for record in records if record.value != b"3"]

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.committed += [commit.offset for commit in offsets.values()]
        raise RuntimeError("broken on purpose")


def test_interceptors_see_records_and_commits(cluster_config: dict[str, Any], topic: str) -> None:
    counting = Counting()

    async def scenario() -> None:
        await fill(cluster_config, topic, 10, keys=1)
        async with Consumer(member(cluster_config, topic) | {"interceptor.classes": [counting]}) as consumer:
            await consumer.assign(await consumer.partitions(topic))
            records: list[ConsumedRecord] = []
            while len(records) < 9:
                records += await consumer.poll()
            assert b"3" not in [record.value for record in records]
            await consumer.commit()

    run(scenario())
    assert max(counting.committed) == 10


def test_listeners_of_a_blocking_consumer_may_use_it(cluster_config: dict[str, Any], topic: str) -> None:
    run(fill(cluster_config, topic, 20))
    with BlockingConsumer(member(cluster_config, topic) | {"enable.auto.commit": False}) as consumer:

        def on_assigned(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, max(consumer.end_offsets([partition])[partition] - 1, 0))

        revoked = []

        def on_revoked(partitions: list[TopicPartition]) -> None:
            consumer.commit()
            revoked.extend(partitions)

        consumer.subscribe([topic], on_assigned=on_assigned, on_revoked=on_revoked)
        partitions_seen: set[int] = set()
        for record in consumer:
            partitions_seen.add(record.partition)
            if len(partitions_seen) == len(consumer.assignment):
                break
        errors: list[Exception] = []

        def trespass() -> None:
            try:
                consumer.poll(0)
            except ClientError as error:
                errors.append(error)

        owner = consumer._user
        consumer._user = -1
        trespass()
        consumer._user = owner
        assert "Another thread" in str(errors[0])
    assert sorted(revoked) == [TopicPartition(topic, number) for number in range(3)]
    with BlockingAdmin(cluster_config) as admin:
        committed = admin.groups.offsets(f"g-{topic}", [TopicPartition(topic, number) for number in range(3)])
        assert sum(commit.offset for commit in committed.values()) == 20


def test_failed_records_are_retried_and_end_in_the_dead_letters(cluster_config: dict[str, Any], topic: str) -> None:
    topics = RetryTopics(source=topic, group="g", delays_ms=(50, 100))
    tried: dict[bytes, list[float]] = defaultdict(list)

    async def handle(record: ConsumedRecord) -> None:
        tried[record.value].append(time.monotonic())
        if record.value == b"never" or (record.value == b"second" and len(tried[record.value]) < 2):
            raise ValueError("not now")

    async def scenario() -> None:
        await create(cluster_config, *topics.all, partitions=1)
        config = member(cluster_config, topic) | {"enable.auto.commit": False}
        async with Producer(cluster_config) as producer, Consumer(config) as consumer:
            # The producer's own header claims many attempts; the consumer ignores it.
            lie: list[tuple[str, bytes | None]] = [("ottla.retry.attempts", b"99"), ("mine", b"1")]
            for value in (b"never", b"second", b"good"):
                await producer.send(topic, value, b"k", headers=lie)
            # A retry record with a future timestamp is not delayed longer than other records.
            future = int(time.time() * 1000) + 1_800_000
            await producer.send(topics.retries[0], b"early", timestamp_ms=future)
            retrying = RetryingConsumer(consumer, producer, topics, handle)
            await retrying.subscribe()
            while [len(tried[value]) for value in (b"never", b"second", b"good", b"early")] != [3, 2, 1, 1]:
                await retrying.run_once(50)
            async with Consumer({**cluster_config, "auto.offset.reset": "earliest"}) as dead:
                await dead.assign([TopicPartition(topics.dead_letters, 0)])
                record = await anext(dead)
        headers = dict(record.headers)
        assert (record.value, record.key, headers["mine"]) == (b"never", b"k", b"1")
        assert headers["ottla.retry.attempts"] == b"3"
        assert headers["ottla.retry.error"] == b"ValueError: not now"
        assert (headers["ottla.retry.from"] or b"").startswith(topics.retries[1].encode())
        first, again, last = tried[b"never"]
        assert again - first > 0.04
        assert last - again > 0.09

    run(scenario())


@pytest.mark.parametrize("order", [Order.KEY, Order.PARTITION])
def test_parallel_work_keeps_the_order_of_keys_and_commits_what_is_done(
    cluster_config: dict[str, Any], topic: str, order: Order
) -> None:
    running: set[Any] = set()
    at_once = 0
    values_by_key: dict[bytes, list[int]] = defaultdict(list)
    allowed = {"all": False}

    async def handle(record: ConsumedRecord) -> None:
        nonlocal at_once
        lane = record.key if order is Order.KEY else record.partition
        assert lane not in running
        running.add(lane)
        at_once = max(at_once, len(running))
        await asyncio.sleep(0.001)
        running.discard(lane)
        if record.value == b"77" and not allowed["all"]:
            raise ValueError("the 77th fails")
        values_by_key[record.key].append(int(record.value))

    async def until_done(parallel: ParallelConsumer) -> None:
        while sum(len(set(values)) for values in values_by_key.values()) < 200:
            await asyncio.sleep(0.01)
        parallel.stop()

    async def scenario() -> None:
        await fill(cluster_config, topic, 200, keys=10)
        config = member(cluster_config, topic) | {"enable.auto.commit": False}
        async with Consumer(config) as consumer:
            parallel = ParallelConsumer(consumer, handle, workers=8, order=order, pending_max=50)
            await parallel.subscribe(topic)
            with pytest.raises(ValueError, match="the 77th fails"):
                await parallel.run()
        assert 77 not in values_by_key[b"7"]
        running.clear()
        allowed["all"] = True
        async with Consumer(config) as consumer:
            parallel = ParallelConsumer(consumer, handle, workers=8, order=order)
            await parallel.subscribe(topic)
            await asyncio.gather(parallel.run(), until_done(parallel))
            committed = await consumer.committed(await consumer.partitions(topic))
            assert sum(commit.offset for commit in committed.values()) == 200
        assert at_once > 1
        for key, values in values_by_key.items():
            # Records after the failed record may come twice, but stay in order.
            ends = [index for index in range(1, len(values)) if values[index] <= values[index - 1]]
            assert len(ends) <= 1, (key, values)
            assert set(values) == {number for number in range(200) if number % 10 == int(key)}

    run(scenario())


def test_a_parallel_consumer_needs_commits_of_its_own(cluster_config: dict[str, Any]) -> None:
    async def handle(_: ConsumedRecord) -> None:
        return

    async def scenario() -> None:
        async with Consumer(cluster_config) as consumer:
            with pytest.raises(ClientError, match=r"enable\.auto\.commit"):
                ParallelConsumer(consumer, handle)

    run(scenario())


def test_an_administrator_removes_members(cluster_config: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        config = member(
            cluster_config, topic, group_protocol="classic", group_instance_id="one", heartbeat_interval_ms=100
        )
        admin_config = {"bootstrap.servers": cluster_config["bootstrap.servers"]}
        async with AdminClient(admin_config) as admin, Consumer(config) as consumer:
            story = Story()
            await consumer.subscribe([topic], listener=story)
            await poll_until(consumer, lambda: len(consumer.assignment) == 3)
            removed = await admin.groups.remove_members(f"g-{topic}", ["one", "nobody"])
            assert removed["one"] is None
            assert removed["nobody"] is not None
            await poll_until(consumer, lambda: ("lost", 3) in story.events)
            await poll_until(consumer, lambda: len(consumer.assignment) == 3)
            assert len(await admin.groups.remove_members(f"g-{topic}")) == 1

    run(scenario())
