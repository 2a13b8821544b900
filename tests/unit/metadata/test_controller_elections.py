"""Elections without a failure, and the eligibility of replicas (KIP-183, KIP-460, KIP-966)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata.controller import elections
from ottla.metadata.controller.elections import decide_balance_leaders, decide_unclean_elections
from ottla.metadata.controller.features import UpgradeType
from ottla.metadata.controller.partition_change import PartitionChange
from ottla.metadata.controller.partitions import Located, change_of
from ottla.metadata.controller.sweeps import CHANGES_PER_DECISION
from ottla.metadata.controller.upkeep import LeaderUpkeep
from ottla.metadata.image import ResourceType
from ottla.metadata.versions import loses_metadata
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopicConfig
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.virtual_world import VirtualWorld
from tests.unit.metadata.harness import ControllerHarness, done, registration
from tests.unit.metadata.test_controller_reassignments import report_isr

SET, DELETE = 0, 1
ELR = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness()
    for broker_id in (1, 2, 3):
        harness.add_broker(broker_id)
    return harness


def create(harness: ControllerHarness, name: str, replicas: list[int], **configs: str) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    assert harness.create(name, -1, -1, assignments=[assignment], configs=settings).error_code == ErrorCode.NONE


def partition(harness: ControllerHarness, name: str = "t") -> Any:
    return harness.image.topics.by_name[name].partitions[0]


def configure(harness: ControllerHarness, kind: int, name: str, key: str, value: str | None) -> ErrorCode:
    config = AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return ErrorCode(done(harness.controller.ask(request)).responses[0].error_code)


def elect(harness: ControllerHarness, kind: int, *partitions: tuple[str, int]) -> dict[str, int]:
    named = [TopicPartitions(topic=name, partitions=[index]) for name, index in partitions] if partitions else None
    answer = done(harness.controller.ask(ElectLeadersRequest(election_type=kind, topic_partitions=named)))
    return {
        f"{topic.topic}-{result.partition_id}": result.error_code
        for topic in answer.replica_election_results
        for result in topic.partition_result
    }


def crash(harness: ControllerHarness, broker_id: int, *, incarnation: int) -> None:
    """The broker comes back without having stopped in good order."""
    harness.virtual.clock.ms += 60_000
    while done(harness.controller.fence_silent_brokers()):
        pass
    for other in harness.image.brokers:
        if other != broker_id:
            harness.beat(other)
    done(harness.controller.ask(registration(broker_id, incarnation=incarnation)))


def test_leadership_goes_back_to_preferred_replicas_in_sync(harness: ControllerHarness) -> None:
    create(harness, "t", [1, 2])
    create(harness, "u", [2, 1])
    harness.beat(1, want_fence=True)
    assert (partition(harness).leader, done(harness.controller.submit(decide_balance_leaders))) == (2, False)
    harness.beat(1)
    # It is alive again, but not in sync yet.
    done(harness.controller.submit(decide_balance_leaders))
    assert partition(harness).leader == 2
    report_isr(harness, [2, 1])
    before = partition(harness, "u")
    assert not done(harness.controller.submit(decide_balance_leaders))
    assert partition(harness).leader == 1
    assert partition(harness, "u") is before


def test_a_look_makes_a_bounded_number_of_changes(harness: ControllerHarness) -> None:
    count = CHANGES_PER_DECISION + 200
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(count)]
    assert harness.create("many", -1, -1, assignments=assignments).error_code == ErrorCode.NONE
    harness.beat(1, want_fence=True)
    harness.add_broker(4)
    moved = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="many",
                partitions=[ReassignablePartition(partition_index=index, replicas=[4, 1]) for index in range(count)],
            )
        ]
    )
    done(harness.controller.ask(moved))
    assert configure(harness, ResourceType.TOPIC, "many", "unclean.leader.election.enable", "true") == ErrorCode.NONE
    led = sum(1 for partition in harness.image.topics.by_name["many"].partitions.values() if partition.leader == 4)
    assert led == CHANGES_PER_DECISION
    assert not done(harness.controller.submit(decide_unclean_elections))
    assert all(partition.leader == 4 for partition in harness.image.topics.by_name["many"].partitions.values())


def test_partitions_that_are_alike_share_one_decision(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions whose preferred replica is down are examined by every look, and there may be thousands."""
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2]) for index in range(50)]
    assert harness.create("many", -1, -1, assignments=assignments).error_code == ErrorCode.NONE
    harness.beat(1, want_fence=True)
    examined: list[int] = []

    def counted(located: Located, *arguments: Any) -> PartitionChange:
        examined.append(located.partition_id)
        return change_of(located, *arguments)

    monkeypatch.setattr(elections, "change_of", counted)
    assert not done(harness.controller.submit(decide_balance_leaders))
    assert len(examined) == 1
    assert {partition.leader for partition in harness.image.topics.by_name["many"].partitions.values()} == {2}


def test_the_timers_look_and_look_again_at_once_while_there_is_more() -> None:
    virtual = VirtualWorld(immediate_workers=True)
    looks: list[str] = []
    written: list[int] = []

    class Controller:
        def submit(self, decide: Any) -> Deferred[bool]:
            if decide is decide_balance_leaders:
                looks.append("balance")
                return Deferred.resolved(len(looks) == 1)
            if decide is decide_unclean_elections:
                looks.append("unclean")
                return Deferred.failed(KafkaError(ErrorCode.NOT_CONTROLLER))
            written.append(virtual.scheduler.now_ms())
            return Deferred.resolved(False)

    properties = {"leader.imbalance.check.interval.seconds": "10", "unclean.leader.election.interval.ms": "15000"}
    properties["metadata.max.idle.interval.ms"] = "0"
    upkeep = LeaderUpkeep(world=virtual.world, controller=Controller(), config=BrokerConfig.embedded(properties))
    upkeep.start()
    virtual.scheduler.advance(9_000)
    assert looks == []
    virtual.scheduler.advance(2_000)
    assert looks == ["balance", "balance"]
    virtual.scheduler.advance(5_000)
    assert looks == ["balance", "balance", "unclean"]
    upkeep.stop()
    virtual.scheduler.advance(100_000)
    assert len(looks) == 3
    upkeep.start()
    virtual.scheduler.advance(31_000)
    assert looks[3:] == ["balance", "unclean", "balance", "unclean", "balance"]
    upkeep.stop()
    still = LeaderUpkeep(
        world=virtual.world,
        controller=Controller(),
        config=BrokerConfig.embedded({**properties, "auto.leader.rebalance.enable": "false"}),
    )
    looks.clear()
    still.start()
    virtual.scheduler.advance(31_000)
    assert looks == ["unclean", "unclean"]
    still.stop()
    assert written == []


def test_an_empty_record_is_written_as_often_as_configured(harness: ControllerHarness) -> None:
    virtual = VirtualWorld(immediate_workers=True)
    before = harness.image
    upkeep = LeaderUpkeep(world=virtual.world, controller=harness.controller, config=BrokerConfig.embedded({}))
    upkeep.start()
    virtual.scheduler.advance(2_100)
    upkeep.stop()
    virtual.scheduler.advance(10_000)
    assert harness.image.offset == before.offset + 4
    assert harness.image.brokers is before.brokers
    assert harness.image.topics is before.topics


def test_elections_on_demand_are_answered_partition_by_partition(harness: ControllerHarness) -> None:
    create(harness, "t", [1, 2])
    create(harness, "u", [2, 1])
    harness.beat(1, want_fence=True)
    assert elect(harness, 0, ("t", 0), ("u", 0), ("t", 7), ("none", 0)) == {
        "t-0": ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "u-0": ErrorCode.ELECTION_NOT_NEEDED,
        "t-7": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "none-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    # A request for all partitions omits those that need no election.
    assert elect(harness, 0) == {"t-0": ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elect(harness, 1, ("t", 0)) == {"t-0": ErrorCode.ELECTION_NOT_NEEDED}


@pytest.mark.parametrize("scope", ["topic", "cluster"])
def test_allowing_unclean_elections_elects_at_once(harness: ControllerHarness, scope: str) -> None:
    create(harness, "t", [1, 2], min_insync_replicas="1")
    create(harness, "clean", [1, 2], unclean_leader_election_enable="false")
    report_isr(harness, [1])
    harness.beat(1, want_fence=True)
    assert (partition(harness).leader, partition(harness).isr) == (-1, ())
    assert partition(harness).last_known_elr == (1,)
    resource = (ResourceType.TOPIC, "t") if scope == "topic" else (ResourceType.BROKER, "")
    assert configure(harness, *resource, "unclean.leader.election.enable", "true") == ErrorCode.NONE
    now = partition(harness)
    assert (now.leader, now.isr, now.leader_recovery_state, now.last_known_elr) == (2, (2,), 1, ())


def test_eligible_replicas_lead_before_unclean_ones(harness: ControllerHarness) -> None:
    create(harness, "t", [1, 2, 3], min_insync_replicas="2")
    for broker_id in (1, 2, 3):
        harness.beat(broker_id, want_fence=True)
    now = partition(harness)
    assert (now.leader, now.isr, now.elr) == (-1, (), (2, 3))
    # Replica 1 left while enough replicas were in sync, so it may lack records.
    harness.beat(1)
    assert partition(harness).leader == -1
    harness.beat(3)
    now = partition(harness)
    assert (now.leader, now.isr, now.elr, now.leader_recovery_state) == (3, (3,), (2,), 0)


def test_another_min_insync_replicas_clears_who_was_eligible(harness: ControllerHarness) -> None:
    for name in ("t", "u"):
        create(harness, name, [1, 2, 3], min_insync_replicas="2")
    create(harness, "v", [1, 2, 3])
    assert configure(harness, ResourceType.BROKER, "", MIN_ISR, "2") == ErrorCode.NONE
    for broker_id in (1, 2):
        harness.beat(broker_id, want_fence=True)
    assert [partition(harness, name).elr for name in "tuv"] == [(2,)] * 3
    epoch = partition(harness).partition_epoch
    assert configure(harness, ResourceType.TOPIC, "t", MIN_ISR, "3") == ErrorCode.NONE
    assert [partition(harness, name).elr for name in "tuv"] == [(), (2,), (2,)]
    assert partition(harness).partition_epoch == epoch + 1
    assert configure(harness, ResourceType.BROKER, "", MIN_ISR, "3") == ErrorCode.NONE
    assert [partition(harness, name).elr for name in "tuv"] == [()] * 3


def test_with_eligible_leaders_all_brokers_share_one_min_insync_replicas(harness: ControllerHarness) -> None:
    assert configure(harness, ResourceType.BROKER, "1", MIN_ISR, "2") == ErrorCode.INVALID_CONFIG
    assert configure(harness, ResourceType.BROKER, "", MIN_ISR, None) == ErrorCode.INVALID_CONFIG
    assert update(harness, (ELR, 0, UpgradeType.SAFE_DOWNGRADE)).error_code == ErrorCode.NONE
    assert configure(harness, ResourceType.BROKER, "1", MIN_ISR, "2") == ErrorCode.NONE
    assert configure(harness, ResourceType.BROKER, "", MIN_ISR, None) == ErrorCode.NONE
    assert update(harness, (ELR, 1, UpgradeType.UPGRADE)).error_code == ErrorCode.NONE
    configs = harness.image.configs
    assert configs.of_all_brokers()[MIN_ISR] == "1"
    assert MIN_ISR not in configs.of_broker(1)


def test_without_the_feature_the_last_in_sync_replica_stays_in_sync(harness: ControllerHarness) -> None:
    create(harness, "t", [1, 2], min_insync_replicas="2")
    harness.beat(2, want_fence=True)
    assert partition(harness).elr == (2,)
    assert update(harness, (ELR, 0, UpgradeType.SAFE_DOWNGRADE)).error_code == ErrorCode.NONE
    harness.beat(1, want_fence=True)
    now = partition(harness)
    assert (now.leader, now.isr, now.elr) == (-1, (1,), ())
    harness.beat(2)
    assert partition(harness).leader == -1
    harness.beat(1)
    assert partition(harness).leader == 1


def test_a_broker_that_crashed_is_not_eligible(harness: ControllerHarness) -> None:
    create(harness, "t", [1, 2], min_insync_replicas="2")
    harness.beat(2, want_fence=True)
    assert partition(harness).elr == (2,)
    crash(harness, 2, incarnation=2)
    assert partition(harness).elr in ((), (1,))
    assert 2 not in partition(harness).isr


def test_a_removed_broker_stays_removed_and_leads_nothing(harness: ControllerHarness) -> None:
    create(harness, "t", [1, 2])
    done(harness.controller.ask(UnregisterBrokerRequest(broker_id=1)))
    harness.reopen()
    assert sorted(harness.image.brokers) == [2, 3]
    now = partition(harness)
    assert (now.leader, now.isr, now.replicas) == (2, (2,), (1, 2))
    with pytest.raises(KafkaError) as refused:
        done(harness.controller.ask(UnregisterBrokerRequest(broker_id=1)))
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def update(harness: ControllerHarness, *updates: tuple[str, int, int], validate_only: bool = False) -> Any:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        ],
        validate_only=validate_only,
    )
    return done(harness.controller.ask(request))


def test_updates_of_features_go_together_or_not_at_all(harness: ControllerHarness) -> None:
    before = harness.image
    down = ("transaction.version", 0, UpgradeType.SAFE_DOWNGRADE)
    assert update(harness, down, validate_only=True).error_code == ErrorCode.NONE
    assert update(harness, down, ("none", 1, 1)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(harness, down, down).error_code == ErrorCode.INVALID_REQUEST
    assert harness.image is before
    assert update(harness, down, ("group.version", 0, UpgradeType.UNSAFE_DOWNGRADE)).error_code == ErrorCode.NONE
    assert {"transaction.version", "group.version"}.isdisjoint(harness.image.features.finalized)


@pytest.mark.parametrize(
    ("present", "wanted", "is_lost"),
    [(29, 24, False), (30, 29, True), (23, 22, True), (22, 18, False), (22, 17, False), (18, 16, True), (10, 9, False)],
)
def test_a_metadata_version_goes_down_where_nothing_is_lost(present: int, wanted: int, is_lost: bool) -> None:
    assert loses_metadata(present=present, wanted=wanted) is is_lost
