"""Delivery guarantees and their limits, and topics that are created, grow and are deleted, as librdkafka sees them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

import ottla.testing
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.cluster_calls import ask, broker_ids, partitions_of, wait_until
from tests.integration.cluster_calls import create_topic as create_with
from tests.integration.group_members import ConfluentMember, closing, create_topic, drive, fill, unique

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "8",
    "log.segment.delete.delay.ms": "0",
    # A dead leader is replaced soon; frozen followers stay in sync meanwhile.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "60000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=1, settings=SETTINGS) as running:
        for node in running.nodes:
            wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "every node knows all three")
        yield running


@pytest.fixture(scope="module")
def bootstrap(cluster: ottla.testing.Cluster) -> str:
    return cluster.bootstrap


def send(bootstrap: str, topic: str, *values: bytes, partition: int = 0, **settings: Any) -> list[int | None]:
    """Sends the values and returns the offsets of their acknowledgements."""
    offsets: list[int | None] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0, **settings})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    return offsets


def stored(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values of all records up to the high watermark."""
    settings = {"group.id": "none", "enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    values: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.1):
                error = message.error()
                if error is None:
                    values.append(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return values
    finally:
        consumer.close()
    raise AssertionError(f"no end of {topic}-{partition} after {len(values)} records")


class TestPromises:
    def test_a_record_acknowledged_by_the_leader_alone_dies_with_it_unseen(
        self, cluster: ottla.testing.Cluster
    ) -> None:
        topic, leader, followers = unique("alone"), 3, [2, 1]
        create_with(cluster.node(1), topic, assignments={0: [leader, *followers]})
        send(cluster.bootstrap, topic, b"safe", acks="all")
        assert stored(cluster.bootstrap, topic) == [b"safe"]
        address = cluster.node(leader).address
        frozen = [cluster.node(follower).pid for follower in followers]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            # Meanwhile only the leader answers requests: acks=1 does not wait for followers. The first record may be in
            # fetch responses to the followers that are already on their way.
            assert send(address, topic, b"perhaps", acks="1") == [1]
            assert send(address, topic, b"lost", acks="1") == [2]
            # Consumers do not see records that could still be lost.
            assert stored(address, topic) == [b"safe"]
        finally:
            # The leader dies before the followers can fetch the records.
            cluster.node(leader).kill()
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        addresses = ",".join(cluster.node(follower).address for follower in followers)
        wait_until(
            lambda: partitions_of(cluster.node(1), topic)[0].leader_id in followers, "one of the followers leads"
        )
        left = stored(addresses, topic)
        assert left in ([b"safe"], [b"safe", b"perhaps"])
        cluster.node(leader).start()
        assert send(cluster.bootstrap, topic, b"next", acks="all") == [len(left)]
        assert stored(cluster.bootstrap, topic) == [*left, b"next"]

    def test_at_least_once_and_at_most_once_are_a_matter_of_when_to_commit(self, bootstrap: str) -> None:
        topic = create_topic(bootstrap, 1)
        fill(bootstrap, topic, [3])

        def crash_after_first(group: str, *, commits_first: bool) -> None:
            """A member that crashes between the two steps (commit and work) of the first record."""
            member = ConfluentMember(bootstrap, "crashing", group)
            with closing(member):
                member.subscribe(topic)
                drive([member], lambda: bool(member.records), "a record is there")
                if commits_first:
                    offsets = [TopicPartition(topic, 0, 1)]
                    member.consumer.commit(offsets=offsets, asynchronous=False)

        def next_member(group: str, count: int) -> list[int]:
            member = ConfluentMember(bootstrap, "next", group).subscribe(topic)
            with closing(member):
                drive([member], lambda: len(member.records) == count, f"{count} records are read")
                return [offset for _, _, offset in member.records]

        at_least, at_most = unique("at-least-once"), unique("at-most-once")
        crash_after_first(at_least, commits_first=False)
        assert next_member(at_least, 3) == [0, 1, 2]
        crash_after_first(at_most, commits_first=True)
        assert next_member(at_most, 2) == [1, 2]

    def test_a_restarted_idempotent_producer_has_another_id(self, bootstrap: str) -> None:
        topic = create_topic(bootstrap, 1)
        settings: dict[str, Any] = {"enable.idempotence": True, "acks": "all"}
        assert send(bootstrap, topic, b"a", b"b", **settings) == [0, 1]
        # The new producer does not know the records of the previous run, so a repeated record is stored twice.
        assert send(bootstrap, topic, b"b", b"c", **settings) == [2, 3]
        assert stored(bootstrap, topic) == [b"a", b"b", b"b", b"c"]

    def test_a_single_writer_that_looks_at_the_last_record_repeats_nothing(self, bootstrap: str) -> None:
        topic = create_topic(bootstrap, 1)
        work = [b"%d" % number for number in range(6)]
        send(bootstrap, topic, *work[:4])
        last = stored(bootstrap, topic)[-1]
        assert last is not None
        send(bootstrap, topic, *work[work.index(last) + 1 :])
        assert stored(bootstrap, topic) == work

    def test_readers_drop_repetitions_by_an_id_in_the_record(self, bootstrap: str) -> None:
        topic = create_topic(bootstrap, 1)
        send(bootstrap, topic, b"id-1", b"id-2", b"id-2", b"id-3", b"id-1")
        assert list(dict.fromkeys(stored(bootstrap, topic))) == [b"id-1", b"id-2", b"id-3"]


class TestTopics:
    def test_partitions_are_added_while_records_stay_where_they_are(self, cluster: ottla.testing.Cluster) -> None:
        bootstrap = cluster.bootstrap
        topic = create_topic(bootstrap, 2)
        keys = [b"key %d" % number for number in range(40)]

        def produce_keyed() -> dict[bytes | None, int | None]:
            places: dict[bytes | None, int | None] = {}
            settings = {"bootstrap.servers": bootstrap, "topic.metadata.refresh.interval.ms": 100}
            producer = Producer({**settings, "partitioner": "murmur2_random"})
            for key in keys:
                producer.produce(
                    topic, b"v", key, on_delivery=lambda _, message: places.update({message.key(): message.partition()})
                )
            assert producer.flush(60) == 0
            return places

        before = produce_keyed()
        counts = [len(stored(bootstrap, topic, index)) for index in range(2)]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
        wait_until(lambda: all(len(partitions_of(node, topic)) == 4 for node in cluster.nodes), "there are four")
        assert [len(stored(bootstrap, topic, index)) for index in range(4)] == [*counts, 0, 0]
        after = produce_keyed()
        assert set(before.values()) == {0, 1}
        assert set(after.values()) == {0, 1, 2, 3}
        assert any(after[key] != before[key] for key in keys)
        with pytest.raises(KafkaException) as refused:
            admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
        assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS

    def test_a_deleted_topic_is_gone_from_list_and_disk(self, cluster: ottla.testing.Cluster) -> None:
        topic = create_topic(cluster.bootstrap, 3, replicas=3)
        fill(cluster.bootstrap, topic, [5] * 3)
        assert any(any(node.directory.glob(f"data/{topic}-*")) for node in cluster.nodes)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.delete_topics([topic])[topic].result(20)
        wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, "it is in no list")
        wait_until(
            lambda: not any(any(node.directory.glob(f"data/{topic}-*")) for node in cluster.nodes),
            "it is on no disk",
        )

    def test_where_topics_may_not_be_deleted_they_stay(self) -> None:
        with ottla.testing.cluster(settings={"delete.topic.enable": "false"}) as cluster:
            topic = create_topic(cluster.bootstrap, 1)
            send(cluster.bootstrap, topic, b"kept")
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            with pytest.raises(KafkaException) as refused:
                admin.delete_topics([topic])[topic].result(20)
            assert refused.value.args[0].code() == KafkaError.TOPIC_DELETION_DISABLED
            assert stored(cluster.bootstrap, topic) == [b"kept"]

    def test_producers_consumers_and_questions_create_topics(self, cluster: ottla.testing.Cluster) -> None:
        by_producer, by_consumer, by_question = (unique(f"made-by-{kind}") for kind in ("producer", "consumer", "all"))
        send(cluster.bootstrap, by_producer, b"first")
        settings = {"group.id": unique("g"), "allow.auto.create.topics": True}
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
        try:
            # librdkafka allows topic creation in metadata requests for assigned topics, but not for subscribed topics.
            consumer.assign([TopicPartition(by_consumer, 0)])
            consumer.poll(0.1)
            wait_until(lambda: bool(partitions_of(cluster.node(1), by_consumer)), "the consumer's topic is there")
        finally:
            consumer.close()
        ask(cluster.node(2), MetadataRequest(topics=[MetadataRequestTopic(name=by_question)]), 9)
        wait_until(lambda: bool(partitions_of(cluster.node(1), by_question)), "the topic asked for is there")
        for topic in (by_producer, by_consumer, by_question):
            partitions = partitions_of(cluster.node(1), topic)
            # The defaults of a test cluster.
            assert (len(partitions), len(partitions[0].replica_nodes)) == (1, 3)

    def test_the_number_of_replicas_changes_while_records_stay(self, cluster: ottla.testing.Cluster) -> None:
        topic = unique("replicated")
        create_with(cluster.node(1), topic, assignments={0: [1]})
        values = [b"%d" % number for number in range(100)]
        send(cluster.bootstrap, topic, *values)
        for replicas in ([1, 2, 3], [3, 2], [2]):
            reassign(cluster, topic, replicas)
            assert stored(cluster.bootstrap, topic) == values


def reassign(cluster: ottla.testing.Cluster, topic: str, replicas: Sequence[int]) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])])
    answer = ask(cluster.node(1), request, 1)
    assert not answer.error_code
    assert not answer.responses[0].partitions[0].error_code

    def is_done() -> bool:
        state = partitions_of(cluster.node(1), topic)[0]
        return state.replica_nodes == list(replicas) and sorted(state.isr_nodes) == sorted(replicas)

    wait_until(is_done, f"{topic} is on {replicas}")


class TestGroups:
    def test_groups_have_different_coordinators(self, cluster: ottla.testing.Cluster) -> None:
        groups = [f"group {number}" for number in range(20)]

        def coordinators() -> dict[str, int]:
            answers = ask(cluster.node(1), FindCoordinatorRequest(key_type=0, coordinator_keys=groups), 4).coordinators
            return {answer.key: answer.node_id for answer in answers if not answer.error_code}

        wait_until(lambda: len(coordinators()) == len(groups), "every group has a coordinator")
        node_ids = coordinators()
        assert len(set(node_ids.values())) > 1
        topic = create_topic(cluster.bootstrap, 1)
        fill(cluster.bootstrap, topic, [5])
        group_by_node = {node_id: group for group, node_id in node_ids.items()}
        for group in group_by_node.values():
            member = ConfluentMember(cluster.bootstrap, "member", group).subscribe(topic)
            with closing(member):
                drive([member], lambda member=member: len(member.records) == 5, "all is read")
                member.consumer.commit(asynchronous=False)
                assert member.committed((topic, 0)) == {(topic, 0): 5}

    def test_slow_work_keeps_its_place_and_standing_still_does_not(self, bootstrap: str) -> None:
        topic = create_topic(bootstrap, 1)
        fill(bootstrap, topic, [1])
        admin = AdminClient({"bootstrap.servers": bootstrap})
        group = unique("slow")
        settings: dict[str, Any] = {"session.timeout.ms": 2_000, "max.poll.interval.ms": 6_000}
        member = ConfluentMember(bootstrap, "slow", group, **settings).subscribe(topic)

        def members() -> int:
            return len(admin.describe_consumer_groups([group])[group].result(20).members)

        with closing(member):
            drive([member], lambda: bool(member.records), "the record is there")
            # The work takes longer than the session timeout: the client sends heartbeats in the background.
            begun = time.monotonic()
            while time.monotonic() < begun + 2.5:
                assert members() == 1
            member.poll()
            assert (member.errors, member.events("lost"), member.events("revoked")) == ([], [], [])
            # The work now takes longer than max.poll.interval.ms.
            wait_until(lambda: members() == 0, "it has lost its place")
            drive([member], lambda: bool(member.errors), "it is told")
            assert member.errors[0].code() == KafkaError._MAX_POLL_EXCEEDED

    def test_members_may_bring_an_assignor_of_their_own(self, bootstrap: str) -> None:
        topic, group = create_topic(bootstrap, 4), unique("custom")

        async def shares() -> list[set[int]]:
            consumers = [
                AIOKafkaConsumer(
                    topic,
                    bootstrap_servers=bootstrap,
                    group_id=group,
                    client_id=f"member-{number}",
                    partition_assignment_strategy=[FirstTakesAll],
                    heartbeat_interval_ms=100,
                )
                for number in range(2)
            ]
            await asyncio.gather(*(consumer.start() for consumer in consumers))
            try:
                async with asyncio.timeout(60):
                    while True:
                        await asyncio.gather(*(consumer.getmany(timeout_ms=50) for consumer in consumers))
                        assignments = [
                            {partition.partition for partition in consumer.assignment()} for consumer in consumers
                        ]
                        if assignments == [{0, 1, 2, 3}, set()]:
                            return assignments
            finally:
                for consumer in consumers:
                    await consumer.stop()

        assert asyncio.run(shares()) == [{0, 1, 2, 3}, set()]


class FirstTakesAll(AbstractPartitionAssignor):  # type: ignore[misc]
    """Assigns everything to the member with the lowest id; ids begin with the clients' names."""

    name = "first-takes-all"
    version = 0

    @classmethod
    def assign(cls, cluster: Any, members: dict[str, Any]) -> dict[str, Any]:
        first = min(members)
        return {
            member: ConsumerProtocolMemberAssignment(
                cls.version,
                [(topic, sorted(cluster.partitions_for_topic(topic))) for topic in metadata.subscription]
                if member == first
                else [],
                b"",
            )
            for member, metadata in members.items()
        }

    @classmethod
    def metadata(cls, topics: Any) -> Any:
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: Any) -> None:
        pass
