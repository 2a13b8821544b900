"""The check for expired offsets asks for the subscription to a topic once, however many partitions the topic has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.offsets.removal import decide_expiry
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath


def test_a_subscription_is_looked_up_once_for_a_topic(
    make_consumer: Callable[..., GroupPath], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_consumer(offsets_retention_minutes="1", offsets_retention_check_interval_ms="3600000")
    path.create_topic("many", 50)
    path.commit_offsets("g", {("many", index): 1 for index in range(50)})
    path.commit_offsets("g", {("t", 0): 1})
    ConsumerMember(path, "g", "a").join()
    asked: list[str] = []
    is_subscribed_to = ConsumerGroup.is_subscribed_to

    def counted(group: ConsumerGroup, topic: str) -> bool:
        asked.append(topic)
        return is_subscribed_to(group, topic)

    monkeypatch.setattr(ConsumerGroup, "is_subscribed_to", counted)
    decision = decide_expiry(path.shard("g"), "g", path.virtual.clock.ms + 120_000)
    assert sorted(asked) == ["many", "t"]
    assert {key.topic for key, _ in decision.records} == {"many"}
    assert len(decision.records) == 50
