"""How a client's metadata cache resolves contradictory responses."""

from __future__ import annotations

import pytest

from ottla.client.metadata import MetadataCache
from ottla.model.ids import Uuid
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

TOPIC_ID, OTHER_ID = Uuid(b"t" * 16), Uuid(b"u" * 16)


def answer(leader: int, epoch: int, topic_id: Uuid = TOPIC_ID) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition])])


def leader_after(*answers: MetadataResponse, all_topics: bool) -> tuple[int, int]:
    cache = MetadataCache()
    for response in answers:
        cache.update(response, all_topics=all_topics)
    return cache.leader_of("t", 0), cache.leader_epoch_of("t", 0)


@pytest.mark.parametrize("all_topics", [False, True])
def test_a_broker_that_is_behind_does_not_bring_an_old_leader_back(all_topics: bool) -> None:
    assert leader_after(answer(1, 4), answer(2, 5), answer(1, 4), all_topics=all_topics) == (2, 5)


def test_who_leads_in_the_same_epoch_is_believed() -> None:
    assert leader_after(answer(-1, 5), answer(2, 5), all_topics=False) == (2, 5)
    assert leader_after(answer(2, 5), answer(-1, 6), all_topics=False) == (-1, 6)


@pytest.mark.parametrize(("before", "after"), [(TOPIC_ID, OTHER_ID), (Uuid.ZERO, Uuid.ZERO)])
def test_a_topic_that_was_created_again_is_a_new_topic(before: Uuid, after: Uuid) -> None:
    """Without topic ids the client cannot detect the recreation."""
    assert leader_after(answer(1, 4, before), answer(2, 0, after), all_topics=False) == (2, 0)


def test_a_broker_that_knows_no_epochs_is_believed() -> None:
    assert leader_after(answer(1, 4), answer(2, -1), all_topics=False) == (2, -1)
