"""A query that appears as a consumer group, without Spark: commits, refusals, and delayed commits."""

from __future__ import annotations

import pytest

from ottla.client.blocking import BlockingConsumer
from ottla.client.consumer import ConsumerSettings
from ottla.model.ids import TopicPartition
from ottla.spark.groups import GroupHook, GroupInUseError
from ottla.spark.options import source_options
from ottla.spark.source.offsets import SourceOffset
from tests.support.spark_topics import Topics

pytestmark = pytest.mark.spark


def hook_of(topics: Topics, topic: str, group: str) -> GroupHook:
    properties = {"bootstrap.servers": topics.bootstrap, "subscribe": topic, "group.id": group}
    return GroupHook(source_options(properties, streaming=True))


def test_a_new_group_shows_how_far_a_query_is(topics: Topics) -> None:
    topic, group = topics.create(partitions=2), topics.name("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    hook = hook_of(topics, topic, group)
    assert hook.starting([first, second]) == {}
    hook.done(SourceOffset(offsets={first: 0, second: 4}))
    hook.done(SourceOffset(offsets={first: 2, second: 4}))
    hook.stop()
    offsets = topics.admin.call(lambda admin: admin.groups.offsets(group))
    assert {partition: committed.offset for partition, committed in offsets.items()} == {first: 2, second: 4}
    assert hook_of(topics, topic, group).starting([first, second]) == {first: 2, second: 4}
    described = topics.admin.call(lambda admin: admin.groups.describe([group]))[group]
    assert getattr(described, "state", described) == "Empty"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone(topics: Topics, protocol: str) -> None:
    topic, group = topics.create(), topics.name("group")
    topics.send(topic, [b"so that a poll returns at once"])
    settings = ConsumerSettings(
        group_id=group, group_protocol=protocol, auto_commit=False, auto_offset_reset="earliest"
    )
    with BlockingConsumer(topics.settings, settings) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(30_000)
        with pytest.raises(GroupInUseError, match=f"Group '{group}' has active members"):
            hook_of(topics, topic, group).done(SourceOffset(offsets={TopicPartition(topic, 0): 1}))
    assert topics.admin.call(lambda admin: admin.groups.offsets(group)) == {}
    hook_of(topics, topic, group).done(SourceOffset(offsets={TopicPartition(topic, 0): 1}))


def test_a_topic_that_is_gone_does_not_end_the_query(topics: Topics) -> None:
    topic, group = topics.create(), topics.name("group")
    hook = hook_of(topics, topic, group)
    hook.done(SourceOffset(offsets={TopicPartition(topic, 0): 3, TopicPartition(f"{topic}-gone", 0): 1}))
    offsets = topics.admin.call(lambda admin: admin.groups.offsets(group))
    assert list(offsets) == [TopicPartition(topic, 0)]
