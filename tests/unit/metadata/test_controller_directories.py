"""Where replicas lie: what brokers with several directories tell the controller (KIP-858)."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from tests.unit.metadata.harness import ControllerHarness, done

FIRST, SECOND, UNKNOWN = (Uuid(bytes((8, number)) + bytes(14)) for number in (1, 2, 3))


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness()
    harness.add_broker(1, log_dirs=[FIRST, SECOND])
    assert harness.create("t", 2).error_code == ErrorCode.NONE
    return harness


def request(
    harness: ControllerHarness, directory: Uuid, *partitions: int, **fields: int
) -> AssignReplicasToDirsRequest:
    topic = RequestTopicData(
        topic_id=harness.image.topics.by_name["t"].topic_id,
        partitions=[RequestPartitionData(partition_index=index) for index in partitions],
    )
    return AssignReplicasToDirsRequest(
        broker_id=fields.get("broker_id", 1),
        broker_epoch=fields.get("broker_epoch", harness.image.brokers[1].broker_epoch),
        directories=[RequestDirectoryData(id=directory, topics=[topic])],
    )


def assign(harness: ControllerHarness, directory: Uuid, *partitions: int) -> list[int]:
    response = done(harness.controller.assign_replicas_to_dirs(request(harness, directory, *partitions)))
    return [partition.error_code for partition in response.directories[0].topics[0].partitions]


def directories(harness: ControllerHarness) -> list[Uuid]:
    return [harness.image.topics.by_name["t"].partitions[index].directory(1) for index in (0, 1)]


def test_a_directory_is_remembered_and_fails_with_its_replicas(harness: ControllerHarness) -> None:
    assert directories(harness) == [Uuid.ZERO, Uuid.ZERO]
    assert assign(harness, FIRST, 0) == assign(harness, SECOND, 1) == [ErrorCode.NONE]
    assert directories(harness) == [FIRST, SECOND]
    harness.beat(1, offline_log_dirs=[SECOND])
    assert [harness.image.topics.by_name["t"].partitions[index].leader for index in (0, 1)] == [1, -1]


def test_a_directory_that_fails_before_the_fence_is_lifted_leads_nothing(harness: ControllerHarness) -> None:
    assign(harness, FIRST, 0)
    assign(harness, SECOND, 1)
    previous = harness.image.brokers[1].broker_epoch
    harness.virtual.clock.ms += 10_000
    assert done(harness.controller.fence_silent_brokers()) == [1]
    harness.add_broker(1, incarnation=2, unfence=False, log_dirs=[FIRST, SECOND], previous_broker_epoch=previous)
    # It failed after the registration had named it, so the first heartbeat tells.
    harness.beat(1, offline_log_dirs=[SECOND])
    assert not harness.beat(1, offline_log_dirs=[SECOND]).is_fenced
    assert [harness.image.topics.by_name["t"].partitions[index].leader for index in (0, 1)] == [1, -1]


def test_what_is_known_is_not_written_again(harness: ControllerHarness) -> None:
    assign(harness, FIRST, 0, 1)
    offset = harness.image.offset
    assert assign(harness, FIRST, 0, 1) == [ErrorCode.NONE, ErrorCode.NONE]
    assert harness.image.offset == offset


def test_a_directory_that_has_failed_meanwhile_leads_nothing(harness: ControllerHarness) -> None:
    harness.beat(1, offline_log_dirs=[SECOND])
    assert assign(harness, SECOND, 1) == [ErrorCode.NONE]
    partition = harness.image.topics.by_name["t"].partitions[1]
    assert (partition.leader, partition.directory(1)) == (-1, SECOND)


def test_strangers_are_refused(harness: ControllerHarness) -> None:
    harness.add_broker(2)
    assert assign(harness, FIRST, 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    stale = harness.controller.assign_replicas_to_dirs(request(harness, FIRST, 0, broker_epoch=99))
    assert isinstance(stale.error, KafkaError)
    assert stale.error.code is ErrorCode.STALE_BROKER_EPOCH
    epoch = harness.image.brokers[2].broker_epoch
    other = done(
        harness.controller.assign_replicas_to_dirs(request(harness, UNKNOWN, 0, broker_id=2, broker_epoch=epoch))
    )
    assert other.directories[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    wanted = request(harness, FIRST, 0)
    wanted.directories[0].topics[0].topic_id = UNKNOWN
    unknown = done(harness.controller.assign_replicas_to_dirs(wanted))
    assert unknown.directories[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert directories(harness) == [Uuid.ZERO, Uuid.ZERO]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_broker_that_comes_back_without_a_directory_leads_nothing_in_it(
    harness: ControllerHarness, *, is_clean: bool
) -> None:
    assign(harness, FIRST, 0)
    assign(harness, SECOND, 1)

    def leaders_after_start(incarnation: int, log_dirs: list[Uuid]) -> list[int]:
        # A clean shutdown writes the epoch down (KIP-966).
        previous = harness.image.brokers[1].broker_epoch if is_clean else -1
        harness.controller.liveness.forget(1)
        harness.add_broker(1, incarnation=incarnation, log_dirs=log_dirs, previous_broker_epoch=previous)
        return [harness.image.topics.by_name["t"].partitions[index].leader for index in (0, 1)]

    assert leaders_after_start(2, [FIRST]) == [1, -1]
    assert leaders_after_start(3, [FIRST]) == [1, -1]
    assert leaders_after_start(4, [FIRST, SECOND]) == [1, 1]
