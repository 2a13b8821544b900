"""The work for a request is proportional to its length, however many offsets the group has."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.offsets.table import CommittedOffset, OffsetsOfTopic
from ottla.model.errors import ErrorCode
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.group_path import GroupPath

PARTITIONS = 300


@pytest.fixture
def looked_up(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions whose offsets are looked up, in a group with an offset for every partition of `many`."""
    path.create_topic("many", PARTITIONS)
    path.commit_offsets("g", {("many", index): index for index in range(PARTITIONS)})
    partitions: list[int] = []
    at = OffsetsOfTopic.at

    def counted(offsets: OffsetsOfTopic, partition: int) -> CommittedOffset:
        partitions.append(partition)
        return at(offsets, partition)

    monkeypatch.setattr(OffsetsOfTopic, "at", counted)
    return partitions


@pytest.mark.parametrize("require_stable", [False, True])
def test_only_the_wanted_offsets_are_looked_up(path: GroupPath, looked_up: list[int], require_stable: bool) -> None:
    assert path.fetch_offsets("g", {"many": [3, 5]}, require_stable=require_stable) == {("many", 3): 3, ("many", 5): 5}
    assert looked_up == [3, 5]


def test_only_the_offsets_to_delete_are_looked_up(path: GroupPath, looked_up: list[int]) -> None:
    topic = OffsetDeleteRequestTopic(name="many", partitions=[OffsetDeleteRequestPartition(partition_index=7)])
    response = path.ask(OffsetDeleteRequest(group_id="g", topics=[topic]), 0)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert looked_up == [7]
    assert ("many", 7) not in path.fetch_offsets("g")
