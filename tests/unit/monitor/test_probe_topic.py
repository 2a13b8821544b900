"""The topic of the probes: every broker leads a partition of it."""

from __future__ import annotations

from ottla.client.admin.topics import DescribedPartition, DescribedTopic
from ottla.model.ids import Uuid
from ottla.monitor.probe_topic import TopicPlan, plan_topic


def topic(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]]) -> DescribedTopic:
    return DescribedTopic(
        name="ottla-monitor",
        topic_id=Uuid(bytes(16)),
        is_internal=False,
        partitions=tuple(
            DescribedPartition(partition=number, leader=leader, leader_epoch=0, replicas=replicas, isr=isr)
            for number, (leader, replicas, isr) in enumerate(partitions)
        ),
    )


def test_a_new_topic_has_a_partition_for_each_broker() -> None:
    assert plan_topic([7], None) == TopicPlan(((7,),), ())
    assert plan_topic([3, 1, 2, 4], None) == TopicPlan(((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2)), ())


def test_a_broker_that_joined_gets_a_partition() -> None:
    whole = topic((1, (1, 2), (1, 2)), (2, (2, 1), (1, 2)))
    assert plan_topic([1, 2], whole) == TopicPlan((), ())
    # A partition with more replicas than the others would be refused.
    assert plan_topic([1, 2, 3], whole) == TopicPlan(((3, 1),), ())
    assert plan_topic([3], whole) == TopicPlan((), ())


def test_leadership_goes_back_to_a_broker_that_is_in_sync_again() -> None:
    moved = topic((2, (1, 2), (1, 2)), (2, (2, 1), (2, 1)))
    assert plan_topic([1, 2], moved) == TopicPlan((), (0,))
    behind = topic((2, (1, 2), (2,)), (2, (2, 1), (2,)))
    assert plan_topic([1, 2], behind) == TopicPlan((), ())


def test_replicas_of_a_probe_are_on_different_machines() -> None:
    hosts = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    plan = plan_topic([1, 2, 3, 4, 5, 6], None, hosts=hosts)
    assert {replicas[0] for replicas in plan.new_partitions} == set(hosts)
    assert all(len({hosts[broker_id] for broker_id in replicas}) == 3 for replicas in plan.new_partitions)
