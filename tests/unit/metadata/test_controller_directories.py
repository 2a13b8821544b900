"""The directories of replicas, as brokers with several directories report them to the controller (KIP-858)."""

from __future__ import annotations

import pytest

from ottla.metadata.bootstrap import write_bootstrap
from ottla.metadata.controller.directories import LOST
from ottla.metadata.controller.elections import decide_balance_leaders
from ottla.metadata.image import PartitionImage
from ottla.metadata.versions import DIRECTORIES_LEVEL, METADATA_VERSION, METADATA_VERSION_LATEST
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopicConfig
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld
from tests.unit.metadata.harness import DIRECTORY, ControllerHarness, done

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
    response = done(harness.controller.ask(request(harness, directory, *partitions)))
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
    # The directory failed after the registration had named it, so the first heartbeat reports it.
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


def test_the_only_in_sync_replica_cannot_be_reported_as_lost(harness: ControllerHarness) -> None:
    """Its other replicas have left the in-sync set while the report was under way."""
    assert assign(harness, FIRST, 0) == [ErrorCode.NONE]
    before = harness.image.topics.by_name["t"].partitions[0]
    assert assign(harness, LOST, 0) == [ErrorCode.NONE]
    assert harness.image.topics.by_name["t"].partitions[0] == before


def test_strangers_are_refused(harness: ControllerHarness) -> None:
    harness.add_broker(2)
    assert assign(harness, FIRST, 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    stale = harness.controller.ask(request(harness, FIRST, 0, broker_epoch=99))
    assert isinstance(stale.error, KafkaError)
    assert stale.error.code is ErrorCode.STALE_BROKER_EPOCH
    epoch = harness.image.brokers[2].broker_epoch
    other = done(harness.controller.ask(request(harness, UNKNOWN, 0, broker_id=2, broker_epoch=epoch)))
    assert other.directories[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    wanted = request(harness, FIRST, 0)
    wanted.directories[0].topics[0].topic_id = UNKNOWN
    unknown = done(harness.controller.ask(wanted))
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


def test_a_new_process_that_lacks_a_directory_does_not_lead_what_is_in_the_others_before_it_is_let_in() -> None:
    harness = ControllerHarness()
    harness.add_broker(1, log_dirs=[FIRST, SECOND])
    harness.add_broker(2)
    both = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2]) for index in (0, 1)]
    assert harness.create("t", -1, -1, assignments=both).error_code == ErrorCode.NONE
    assign(harness, FIRST, 0)
    assign(harness, SECOND, 1)
    previous = harness.image.brokers[1].broker_epoch
    harness.controller.liveness.forget(1)
    harness.add_broker(1, incarnation=2, unfence=False, log_dirs=[FIRST], previous_broker_epoch=previous)
    partitions = [harness.image.topics.by_name["t"].partitions[index] for index in (0, 1)]
    assert [(partition.leader, partition.isr) for partition in partitions] == [(2, (2,)), (2, (2,))]


def test_a_cluster_that_learns_of_directories_keeps_its_leaders() -> None:
    virtual = VirtualWorld(immediate_workers=True, files=MemoryFiles())
    virtual.files.make_directories(DIRECTORY)
    write_bootstrap(virtual.files, DIRECTORY, now_ms=0, levels={METADATA_VERSION: DIRECTORIES_LEVEL - 1})
    harness = ControllerHarness(virtual=virtual)
    harness.add_broker(1, log_dirs=[FIRST, SECOND])
    harness.create("t", 2)

    def leaders() -> list[int]:
        return [harness.image.topics.by_name["t"].partitions[index].leader for index in (0, 1)]

    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=METADATA_VERSION_LATEST, upgrade_type=1)
    assert not done(harness.controller.ask(UpdateFeaturesRequest(feature_updates=[update]))).error_code
    assert harness.image.brokers[1].directories == ()
    assert assign(harness, FIRST, 0) == assign(harness, SECOND, 1) == [ErrorCode.NONE]
    assert leaders() == [1, 1]
    # The same process registers again, with directories this time.
    harness.add_broker(1, log_dirs=[FIRST, SECOND])
    assert harness.image.brokers[1].directories == (FIRST, SECOND)
    assert leaders() == [1, 1]
    harness.beat(1, offline_log_dirs=[SECOND])
    assert leaders() == [1, -1]


def two_brokers(**configs: str) -> ControllerHarness:
    """The topic `t` with one partition on the brokers 1, in its second directory, and 2."""
    harness = ControllerHarness()
    harness.add_broker(1, log_dirs=[FIRST, SECOND])
    harness.add_broker(2)
    created = harness.create(
        "t",
        -1,
        -1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])],
        configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
    )
    assert created.error_code == ErrorCode.NONE
    assert assign(harness, SECOND, 0) == [ErrorCode.NONE]
    return harness


def stop(harness: ControllerHarness, broker_id: int) -> int:
    """An orderly end; the epoch that is left behind."""
    while not harness.beat(broker_id, want_shut_down=True).should_shut_down:
        for other in harness.image.brokers.values():
            if other.active:
                harness.beat(other.broker_id)
    return int(harness.image.brokers[broker_id].broker_epoch)


def test_a_replica_that_was_created_again_elsewhere_is_not_eligible() -> None:
    harness = two_brokers(min_insync_replicas="2")

    def state() -> tuple[int, tuple[int, ...]]:
        partition = harness.image.topics.by_name["t"].partitions[0]
        return partition.leader, partition.elr

    first_epoch, second_epoch = stop(harness, 1), stop(harness, 2)
    assert state() == (-1, (1, 2))
    # The second directory is not among log.dirs any more.
    harness.add_broker(1, incarnation=2, log_dirs=[FIRST], previous_broker_epoch=first_epoch)
    assert state() == (-1, (2,))
    assert assign(harness, FIRST, 0) == [ErrorCode.NONE]
    assert not done(harness.controller.submit(decide_balance_leaders))
    assert state() == (-1, (2,))
    harness.add_broker(2, incarnation=2, previous_broker_epoch=second_epoch)
    assert state()[0] == 2


def test_an_empty_disk_in_place_of_the_last_leaders_does_not_lead() -> None:
    harness = two_brokers()
    stop(harness, 2)
    harness.beat(1, offline_log_dirs=[SECOND])
    partition = harness.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), (1,))
    harness.controller.liveness.forget(1)
    harness.add_broker(1, incarnation=2, log_dirs=[FIRST, UNKNOWN])
    assert assign(harness, UNKNOWN, 0) == [ErrorCode.NONE]
    done(harness.controller.submit(decide_balance_leaders))
    partition = harness.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.last_known_elr) == (-1, ())


def test_an_empty_disk_of_the_last_in_sync_replica_does_not_lead_without_eligible_leaders_either() -> None:
    harness = two_brokers()
    disable = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2)
    assert not done(harness.controller.ask(UpdateFeaturesRequest(feature_updates=[disable]))).error_code
    second_epoch = stop(harness, 2)
    harness.controller.liveness.forget(1)
    harness.add_broker(1, incarnation=2, log_dirs=[FIRST, UNKNOWN])
    assert assign(harness, UNKNOWN, 0) == [ErrorCode.NONE]
    # The search for partitions without a leader finds this one, too.
    harness.add_broker(2, incarnation=2, previous_broker_epoch=second_epoch)
    partition = harness.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (-1, ())
    # An administrator decides whether to continue with the remaining records.
    wanted = TopicPartitions(topic="t", partitions=[0])
    done(harness.controller.ask(ElectLeadersRequest(election_type=1, topic_partitions=[wanted])))
    partition = harness.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (1, (1,))


def test_the_only_replica_begins_again_on_an_empty_disk(harness: ControllerHarness) -> None:
    assign(harness, FIRST, 0)
    assign(harness, SECOND, 1)
    harness.beat(1, offline_log_dirs=[SECOND])
    harness.controller.liveness.forget(1)
    harness.add_broker(1, incarnation=2, log_dirs=[FIRST, UNKNOWN])
    assert [harness.image.topics.by_name["t"].partitions[index].leader for index in (0, 1)] == [1, -1]
    assert assign(harness, UNKNOWN, 1) == [ErrorCode.NONE]
    assert [harness.image.topics.by_name["t"].partitions[index].leader for index in (0, 1)] == [1, 1]


def test_a_directory_from_before_they_had_ids_is_not_a_lost_one() -> None:
    # Apache Kafka writes this id for replicas that existed before KIP-858.
    migrating = Uuid(bytes(15) + b"\x02")
    partition = PartitionImage((1, 2), (1, 2), 1, 0, 0, directories=(migrating, SECOND))
    assert (partition.directory(1), partition.directory(2)) == (Uuid.ZERO, SECOND)
