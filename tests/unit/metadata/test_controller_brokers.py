"""Brokers come, go, and take leadership with them."""

from __future__ import annotations

import pytest

from ottla.metadata.controller.decision import Decision
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_records import image_records
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from ottla.wire.messages.create_topics import CreatableReplicaAssignment
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.metadata_records import PartitionChangeRecord
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.metadata.harness import ControllerHarness, done, registration


@pytest.fixture
def harness() -> ControllerHarness:
    """Three brokers and the topic `t`, whose one partition prefers them in the order 1, 2, 3."""
    harness = ControllerHarness()
    for broker_id in (1, 2, 3):
        harness.add_broker(broker_id)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])
    assert harness.create("t", -1, -1, assignments=[assignment]).error_code == ErrorCode.NONE
    return harness


def partition(harness: ControllerHarness, topic: str = "t"):  # type: ignore[no-untyped-def]
    return harness.image.topics.by_name[topic].partitions[0]


def code_of(deferred: Deferred[object]) -> ErrorCode:
    assert isinstance(deferred.error, KafkaError)
    return deferred.error.code


def alter(
    harness: ControllerHarness, broker_id: int, isr: list[int], *, epochs: dict[int, int] | None = None, **fields: int
) -> ResponsePartitionData:
    present = partition(harness)
    member_epochs = epochs or dict.fromkeys(isr, fields.get("epoch", -1))
    wanted = RequestPartitionData(
        partition_index=0,
        leader_epoch=fields.get("leader_epoch", present.leader_epoch),
        partition_epoch=fields.get("partition_epoch", present.partition_epoch),
        new_isr_with_epochs=[BrokerState(broker_id=member, broker_epoch=member_epochs[member]) for member in isr],
        leader_recovery_state=fields.get("recovery", 0),
    )
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=harness.image.brokers[broker_id].broker_epoch,
        topics=[RequestTopicData(topic_id=harness.image.topics.by_name["t"].topic_id, partitions=[wanted])],
    )
    return done(harness.controller.ask(request)).topics[0].partitions[0]


def test_a_broker_starts_fenced_and_is_unfenced_when_it_has_caught_up() -> None:
    harness = ControllerHarness()
    epoch = harness.add_broker(1, unfence=False)
    assert harness.image.brokers[1].fenced
    behind = harness.beat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    ready = harness.beat(1, want_fence=True)
    assert (ready.is_fenced, ready.is_caught_up) == (True, True)
    assert not harness.beat(1).is_fenced
    assert not harness.image.brokers[1].fenced


def test_the_epoch_is_the_offset_of_the_registration_and_grows() -> None:
    harness = ControllerHarness()
    first = harness.add_broker(1)
    harness.virtual.clock.ms += 60_000
    assert harness.add_broker(1, incarnation=2) > first


def test_registering_again_in_the_same_process_keeps_the_epoch(harness: ControllerHarness) -> None:
    epoch = harness.image.brokers[1].broker_epoch
    assert done(harness.controller.ask(registration(1))).broker_epoch == epoch
    assert not harness.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (registration(4, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (registration(1, incarnation=2), ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (registration(4, log_dirs=[]), ErrorCode.INVALID_REGISTRATION),
        (registration(4, log_dirs=[Uuid.ONE]), ErrorCode.INVALID_REGISTRATION),
        (registration(4, log_dirs=[Uuid(bytes((7, 1)) + bytes(14))]), ErrorCode.INVALID_REGISTRATION),
        (registration(4, log_dirs=[Uuid(b"0123456789abcdef")] * 2), ErrorCode.INVALID_REGISTRATION),
        (
            registration(
                4, features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=25)]
            ),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (registration(4, is_migrating_zk_broker=True), ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_a_registration_that_cannot_be_is_refused(
    harness: ControllerHarness, request_: BrokerRegistrationRequest, code: ErrorCode
) -> None:
    assert code_of(harness.controller.ask(request_)) == code  # type: ignore[arg-type]


def test_a_heartbeat_of_a_former_epoch_is_refused(harness: ControllerHarness) -> None:
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=0, current_metadata_offset=10)
    assert code_of(harness.controller.ask(request)) == ErrorCode.STALE_BROKER_EPOCH  # type: ignore[arg-type]


def test_a_silent_broker_is_fenced_and_the_next_replica_leads(harness: ControllerHarness) -> None:
    assert partition(harness).leader == 1
    harness.virtual.clock.ms += 8000
    harness.beat(2)
    harness.beat(3)
    harness.virtual.clock.ms += 2000
    assert done(harness.controller.fence_silent_brokers()) == [1]
    assert done(harness.controller.fence_silent_brokers()) == []
    assert harness.image.brokers[1].fenced
    after = partition(harness)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (2, (2, 3), 1, 1)
    # Still registered and among the replicas, and back as a follower.
    assert after.replicas == (1, 2, 3)
    assert not harness.beat(1).is_fenced
    assert partition(harness).leader == 2


def test_the_next_look_is_due_when_the_first_session_runs_out(harness: ControllerHarness) -> None:
    harness.virtual.clock.ms += 8000
    assert harness.controller.next_session_end_ms() == 1000
    harness.beat(2)
    harness.beat(3)
    assert harness.controller.next_session_end_ms() == 1000
    harness.virtual.clock.ms += 2000
    assert harness.controller.next_session_end_ms() == 0
    assert done(harness.controller.fence_silent_brokers()) == [1]
    # The fenced broker has no session.
    assert harness.controller.next_session_end_ms() == 7000


def test_a_broker_whose_connection_was_closed_has_half_a_session_to_come_back(harness: ControllerHarness) -> None:
    liveness = harness.controller.liveness
    now_ms = harness.virtual.clock.ms
    for broker_id in (1, 2, 3):
        liveness.heard(broker_id, now_ms=now_ms, connection_id=f"c-{broker_id}")
    harness.controller.broker_connection_closed(1, "c-1")
    # Broker 2 had reconnected before.
    harness.controller.broker_connection_closed(2, "c-old")
    harness.controller.broker_connection_closed(3, "c-3")
    assert harness.controller.next_session_end_ms() == 4500
    harness.virtual.clock.ms += 4499
    assert done(harness.controller.fence_silent_brokers()) == []
    liveness.heard(3, now_ms=harness.virtual.clock.ms, connection_id="c-4")
    harness.virtual.clock.ms += 1
    assert done(harness.controller.fence_silent_brokers()) == [1]
    assert done(harness.controller.fence_silent_brokers()) == []


def test_a_closed_connection_never_makes_a_session_longer(harness: ControllerHarness) -> None:
    harness.controller.liveness.heard(1, now_ms=harness.virtual.clock.ms, connection_id="c-1")
    harness.virtual.clock.ms += 8000
    harness.beat(2)
    harness.beat(3)
    harness.controller.broker_connection_closed(1, "c-1")
    assert harness.controller.next_session_end_ms() == 1000


def test_a_controller_that_was_held_up_does_not_blame_the_brokers(harness: ControllerHarness) -> None:
    harness.virtual.clock.ms += 20_000
    assert done(harness.controller.fence_silent_brokers(held_up_ms=15_000)) == []
    harness.virtual.clock.ms += 5_000
    assert done(harness.controller.fence_silent_brokers()) == [1]


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_sessions_do_not_follow_a_clock_that_is_set(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch, jump_ms: int
) -> None:
    clock = harness.virtual.clock
    monkeypatch.setattr(clock, "now_ms", lambda: clock.ms + jump_ms)
    assert done(harness.controller.fence_silent_brokers()) == []
    clock.ms += 8000
    harness.beat(2)
    harness.beat(3)
    clock.ms += 2000
    assert done(harness.controller.fence_silent_brokers()) == [1]
    assert done(harness.controller.fence_silent_brokers()) == []


def test_controlled_shutdown_moves_leaders_and_waits_for_the_others(harness: ControllerHarness) -> None:
    leaving = harness.beat(1, want_shut_down=True)
    assert (leaving.is_fenced, leaving.should_shut_down) == (False, False)
    assert harness.image.brokers[1].in_controlled_shutdown
    assert (partition(harness).leader, partition(harness).isr) == (2, (2, 3))
    # The other brokers have not replayed that yet.
    assert not harness.beat(1, want_shut_down=True).should_shut_down
    harness.beat(2)
    harness.beat(3)
    assert harness.beat(1, want_shut_down=True).should_shut_down
    assert harness.image.brokers[1].fenced


def test_the_only_replica_that_shuts_down_stays_eligible_and_leads_again_when_it_is_back() -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    harness.create("t")
    harness.beat(1, want_shut_down=True)
    assert harness.beat(1, want_shut_down=True).should_shut_down
    offline = partition(harness)
    assert (offline.leader, offline.isr, offline.elr, offline.last_known_elr) == (-1, (), (1,), (1,))
    copy = MetadataDelta(MetadataImage(cluster_id=harness.image.cluster_id))
    for record in image_records(harness.image):
        copy.replay(record)
    image = harness.image
    assert copy.apply(offset=0, epoch=0, timestamp_ms=0) == image._replace(offset=0, epoch=0, timestamp_ms=0)
    epoch = harness.image.brokers[1].broker_epoch
    harness.virtual.clock.ms += 60_000
    harness.add_broker(1, incarnation=2, previous_broker_epoch=epoch)
    back = partition(harness)
    assert (back.leader, back.isr, back.elr, back.last_known_elr) == (1, (1,), (), ())
    assert back.leader_recovery_state == 0
    assert back.leader_epoch == 2


def test_the_only_replica_that_crashed_comes_back_as_the_last_known_leader_and_has_to_recover() -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    harness.create("t")
    harness.virtual.clock.ms += 60_000
    harness.add_broker(1, incarnation=2)
    back = partition(harness)
    assert (back.leader, back.isr, back.elr, back.leader_recovery_state) == (1, (1,), (), 1)
    answer = alter(harness, 1, [1], recovery=0)
    assert (answer.error_code, answer.leader_recovery_state) == (ErrorCode.NONE, 0)
    assert partition(harness).leader_recovery_state == 0


def test_a_new_process_leads_nothing_of_its_former_self_before_its_fence_is_lifted(harness: ControllerHarness) -> None:
    harness.create("alone", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])])
    before = partition(harness, "alone").leader_epoch
    # The broker stopped cleanly without announcing it. Its session is over, and no check has run since.
    epoch = harness.image.brokers[1].broker_epoch
    harness.controller.liveness.forget(1)
    harness.add_broker(1, incarnation=2, unfence=False, previous_broker_epoch=epoch)
    assert (partition(harness).leader, partition(harness).isr) == (2, (2, 3))
    assert (partition(harness, "alone").leader, partition(harness, "alone").elr) == (-1, (1,))
    assert not harness.beat(1).is_fenced
    assert (partition(harness).leader, partition(harness).isr) == (2, (2, 3))
    assert (partition(harness, "alone").leader, partition(harness, "alone").leader_epoch) == (1, before + 2)


def test_the_leader_shrinks_and_expands_the_in_sync_set(harness: ControllerHarness) -> None:
    shrunk = alter(harness, 1, [1, 2])
    assert (shrunk.error_code, shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == (0, [1, 2], 0, 1)
    assert partition(harness).isr == (1, 2)
    assert alter(harness, 1, [1, 2, 3]).error_code == ErrorCode.NONE
    assert partition(harness).isr == (1, 2, 3)


def test_an_alteration_that_changes_nothing_writes_nothing(harness: ControllerHarness) -> None:
    offset = harness.image.offset
    assert alter(harness, 1, [1, 2, 3]).error_code == ErrorCode.NONE
    assert harness.image.offset == offset


@pytest.mark.parametrize(
    ("broker_id", "isr", "fields", "code"),
    [
        (1, [1], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        (1, [1], {"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        (1, [1], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (1, [1], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (2, [2], {}, ErrorCode.INVALID_REQUEST),
        (1, [2], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 9], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 1], {}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"epoch": 12345}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_what_is_wrong_with_an_alteration_is_said(
    harness: ControllerHarness, broker_id: int, isr: list[int], fields: dict[str, int], code: ErrorCode
) -> None:
    assert alter(harness, broker_id, isr, **fields).error_code == code
    assert partition(harness).isr == (1, 2, 3)


def test_a_fenced_broker_cannot_come_back_in_sync(harness: ControllerHarness) -> None:
    harness.beat(3, want_fence=True)
    assert partition(harness).isr == (1, 2)
    assert alter(harness, 1, [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_former_incarnation_of_a_broker_cannot_come_back_in_sync(harness: ControllerHarness) -> None:
    """KIP-903: the request was sent before the broker restarted, and its new process may have lost records."""
    former = harness.image.brokers[3].broker_epoch
    assert harness.beat(3, want_shut_down=True).should_shut_down
    present = harness.add_broker(3, incarnation=2)
    assert former < present
    assert partition(harness).isr == (1, 2)
    members = {broker_id: harness.image.brokers[broker_id].broker_epoch for broker_id in (1, 2)}
    assert alter(harness, 1, [1, 2, 3], epochs={**members, 3: former}).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert partition(harness).isr == (1, 2)
    assert alter(harness, 1, [1, 2, 3], epochs={**members, 3: present}).error_code == ErrorCode.NONE


def test_a_broker_in_controlled_shutdown_cannot_come_back_in_sync(harness: ControllerHarness) -> None:
    """The broker ends soon, and would then be in sync without the newest records."""
    harness.beat(1, want_shut_down=True)
    broker = harness.image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (False, True)
    assert alter(harness, 2, [2, 3, 1]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert partition(harness).isr == (2, 3)


def test_the_preferred_leader_is_elected_on_demand(harness: ControllerHarness) -> None:
    harness.beat(1, want_fence=True)
    harness.beat(1)
    assert partition(harness).leader == 2
    request = ElectLeadersRequest(election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=[0, 9])])
    results = done(harness.controller.ask(request)).replica_election_results[0].partition_result
    assert [result.error_code for result in results] == [
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    alter(harness, 2, [1, 2, 3])
    results = done(harness.controller.ask(request)).replica_election_results[0].partition_result
    assert results[0].error_code == ErrorCode.NONE
    assert partition(harness).leader == 1
    results = done(harness.controller.ask(request)).replica_election_results[0].partition_result
    assert results[0].error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_takes_any_live_replica(harness: ControllerHarness) -> None:
    alter(harness, 1, [1])
    harness.beat(1, want_fence=True)
    assert partition(harness).leader == -1
    request = ElectLeadersRequest(election_type=1, topic_partitions=None)
    results = done(harness.controller.ask(request)).replica_election_results
    assert [(result.topic, result.partition_result[0].error_code) for result in results] == [("t", ErrorCode.NONE)]
    after = partition(harness)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)


def test_a_broker_is_removed_by_an_administrator_only(harness: ControllerHarness) -> None:
    done(harness.controller.ask(UnregisterBrokerRequest(broker_id=1)))
    assert sorted(harness.image.brokers) == [2, 3]
    assert partition(harness).leader == 2
    again = harness.controller.ask(UnregisterBrokerRequest(broker_id=1))
    assert code_of(again) == ErrorCode.BROKER_ID_NOT_REGISTERED  # type: ignore[arg-type]


def test_a_directory_that_goes_offline_takes_its_replicas_along(harness: ControllerHarness) -> None:
    lost, kept = Uuid(b"lost 89abcdef..."), Uuid(b"kept 89abcdef...")
    harness.add_broker(4, log_dirs=[lost, kept])
    for name in ("in-lost", "in-kept"):
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[4, 1])
        harness.create(name, -1, -1, assignments=[assignment])
    # A broker with two directories reports the directories of its replicas; here the records set them.
    for name, directory in (("in-lost", lost), ("in-kept", kept)):
        change = PartitionChangeRecord(
            topic_id=harness.image.topics.by_name[name].topic_id,
            partition_id=0,
            directories=[directory, harness.image.brokers[1].directories[0]],
        )
        done(harness.controller.submit(lambda _context, change=change: Decision([change], None)))
    harness.beat(4, offline_log_dirs=[lost])
    assert harness.image.brokers[4].directories == (kept,)
    assert (partition(harness, "in-lost").leader, partition(harness, "in-lost").isr) == (1, (1,))
    assert (partition(harness, "in-kept").leader, partition(harness, "in-kept").isr) == (4, (4, 1))


def test_cordoned_directories_are_remembered(harness: ControllerHarness) -> None:
    directory = harness.image.brokers[1].directories[0]
    assert harness.image.brokers[1].cordoned_directories is None
    harness.beat(1, cordoned_log_dirs=[directory])
    assert harness.image.brokers[1].cordoned_directories == (directory,)
    offset = harness.image.offset
    harness.beat(1, cordoned_log_dirs=[directory])
    assert harness.image.offset == offset


def test_after_a_restart_of_the_node_its_own_broker_registers_at_once_and_others_have_their_session(
    harness: ControllerHarness,
) -> None:
    harness.reopen()
    assert code_of(harness.controller.ask(registration(2, incarnation=2))) == (  # type: ignore[arg-type]
        ErrorCode.DUPLICATE_BROKER_REGISTRATION
    )
    harness.add_broker(harness.config.node_id, incarnation=2)


def test_after_a_clean_stop_that_no_controller_saw_a_broker_need_not_wait_for_its_session(
    harness: ControllerHarness,
) -> None:
    """The last nodes of a stopping cluster have no majority to notify. The stored epoch proves their clean shutdown."""
    harness.reopen()
    epoch = harness.image.brokers[2].broker_epoch
    older = registration(2, incarnation=2, previous_broker_epoch=epoch - 1)
    assert code_of(harness.controller.ask(older)) == ErrorCode.DUPLICATE_BROKER_REGISTRATION  # type: ignore[arg-type]
    assert harness.add_broker(2, incarnation=2, previous_broker_epoch=epoch) > epoch


def test_a_broker_that_was_fenced_comes_back_only_with_metadata_that_tells_of_it(harness: ControllerHarness) -> None:
    """Otherwise the broker would continue to lead partitions that have new leaders, with a valid session."""
    before = harness.image.offset
    harness.virtual.clock.ms += 8000
    harness.beat(2)
    harness.beat(3)
    harness.virtual.clock.ms += 2000
    assert done(harness.controller.fence_silent_brokers()) == [1]
    assert harness.beat(1, current_metadata_offset=before).is_fenced
    assert harness.beat(1, current_metadata_offset=harness.image.offset - 1).is_fenced
    assert not harness.beat(1, current_metadata_offset=harness.image.offset).is_fenced
    # The next process begins with its own registration.
    harness.virtual.clock.ms += 20_000
    while done(harness.controller.fence_silent_brokers()):
        pass
    epoch = harness.add_broker(1, incarnation=2, unfence=False)
    assert not harness.beat(1, current_metadata_offset=epoch).is_fenced


def test_the_next_controller_asks_for_that_metadata_too(harness: ControllerHarness) -> None:
    before = harness.image.offset
    harness.virtual.clock.ms += 10_000
    while done(harness.controller.fence_silent_brokers()):
        pass
    harness.reopen()
    fenced = harness.image.offset
    assert harness.beat(1, current_metadata_offset=before).is_fenced
    assert not harness.beat(1, current_metadata_offset=fenced).is_fenced


def test_a_controller_that_starts_knows_all_replicas_before_it_elects(harness: ControllerHarness) -> None:
    """Broker 2 is the next replica of the list but not in sync: its election would lose records."""
    assert alter(harness, 1, [1, 3]).error_code == ErrorCode.NONE
    before = partition(harness)
    harness.reopen()
    # The start itself elects no leader.
    assert partition(harness) == before
    harness.virtual.clock.ms += 8000
    harness.beat(2)
    harness.beat(3)
    harness.virtual.clock.ms += 2000
    assert done(harness.controller.fence_silent_brokers()) == [1]
    assert (partition(harness).leader, partition(harness).isr) == (3, (3,))
    # The last replica in sync leaves, so no replica may lead until it joins again.
    harness.virtual.clock.ms += 8000
    harness.beat(2)
    harness.virtual.clock.ms += 2000
    assert done(harness.controller.fence_silent_brokers()) == [3]
    assert partition(harness).leader == -1
    harness.reopen()
    harness.beat(2)
    assert partition(harness).leader == -1
    harness.beat(3)
    assert partition(harness).leader == 3


def test_partitions_that_are_alike_get_the_change_that_each_would_get_alone(harness: ControllerHarness) -> None:
    """One decision serves partitions of a topic with the same replicas, in-sync set and leader."""
    assigned = [(1, 2), (2, 1), (1, 2), (3, 1), (1, 3), (2, 3), (1, 2), (1, 3)]
    alone = [[replicas] for replicas in assigned]
    for name, topic in {
        "together": assigned,
        **{f"alone{number}": layout for number, layout in enumerate(alone)},
    }.items():
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(topic)
        ]
        assert harness.create(name, -1, -1, assignments=assignments).error_code == ErrorCode.NONE
    for want_fence in (True, False):
        harness.beat(1, want_fence=want_fence)
        assert harness.image.brokers[1].fenced is want_fence
        by_name = harness.image.topics.by_name
        together = [by_name["together"].partitions[index] for index in range(len(assigned))]
        assert together == [by_name[f"alone{index}"].partitions[0] for index in range(len(assigned))]
        assert [partition.leader for partition in together] == [2, 2, 2, 3, 3, 2, 2, 3]
