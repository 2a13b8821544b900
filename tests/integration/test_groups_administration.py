"""A group as an administrator sees and changes it with confluent-kafka's admin client."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.testing
from tests.integration.group_members import ConfluentMember, closing, create_topic, drive, fill, unique

EACH = 50
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


def test_a_group_is_listed_described_moved_and_deleted() -> None:
    with ottla.testing.cluster(settings=SETTINGS) as cluster:
        check_administration(cluster.bootstrap)


def check_administration(bootstrap: str) -> None:
    topic, group = create_topic(bootstrap, 2), unique("group")
    fill(bootstrap, topic, [EACH, EACH])
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def states() -> dict[str, ConsumerGroupState]:
        return {listing.group_id: listing.state for listing in admin.list_consumer_groups().result(30).valid}

    member = ConfluentMember(bootstrap, "reader", group, **{"partition.assignment.strategy": "range"}).subscribe(topic)
    with closing(member):
        drive([member], lambda: len(member.records) == 2 * EACH, "everything is read")
        member.consumer.commit(asynchronous=False)
        assert states()[group] == ConsumerGroupState.STABLE
        described = admin.describe_consumer_groups([group])[group].result(30)
        (only,) = described.members
        assert (described.partition_assignor, only.client_id) == ("range", "reader")
        assert {
            (topic_partition.topic, topic_partition.partition) for topic_partition in only.assignment.topic_partitions
        } == {(topic, 0), (topic, 1)}
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(30)
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([moved])[group].result(30)
    query = ConsumerGroupTopicPartitions(group)
    topic_partitions = admin.list_consumer_group_offsets([query])[group].result(30).topic_partitions
    assert {committed.partition: committed.offset for committed in topic_partitions} == {0: 1, 1: EACH}
    admin.delete_consumer_groups([group])[group].result(30)
    assert group not in states()
