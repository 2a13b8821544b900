"""A broker with many replicas comes and goes in portions, between which anything may happen."""

from __future__ import annotations

import pytest

from ottla.metadata.controller import sweeps
from ottla.metadata.image import PartitionImage
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.create_topics import CreatableReplicaAssignment
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.metadata.harness import ControllerHarness, done, registration

PORTION = 3


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ControllerHarness:
    """Brokers 1 to 3. All have every partition of `all`; broker 1 has the only replica of `only`."""
    monkeypatch.setattr(sweeps, "CHANGES_PER_DECISION", PORTION)
    controller_harness = ControllerHarness()
    for broker_id in (1, 2, 3):
        controller_harness.add_broker(broker_id)
    create(controller_harness, "all", [[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 4)
    create(controller_harness, "only", [[1]] * 2)
    return controller_harness


def create(harness: ControllerHarness, name: str, replicas: list[list[int]]) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in enumerate(replicas)
    ]
    assert harness.create(name, -1, -1, assignments=assignments).error_code == 0


def partitions(harness: ControllerHarness) -> list[PartitionImage]:
    topics = harness.image.topics.by_name
    return [partition for name in sorted(topics) for partition in topics[name].partitions.values()]


def led_by(harness: ControllerHarness, broker_id: int) -> int:
    return sum(partition.leader == broker_id for partition in partitions(harness))


def in_sync_with(harness: ControllerHarness, broker_id: int) -> int:
    return sum(broker_id in partition.isr for partition in partitions(harness))


def fall_silent(harness: ControllerHarness, broker_id: int) -> None:
    harness.virtual.clock.ms += 8000
    for other in {1, 2, 3} - {broker_id}:
        harness.beat(other)
    harness.virtual.clock.ms += 2000


def heartbeat(harness: ControllerHarness, *, want_shut_down: bool = False) -> BrokerHeartbeatRequest:
    """Of broker 1; as `harness.beat`, which waits for the last portion."""
    return BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=harness.image.brokers[1].broker_epoch,
        current_metadata_offset=harness.image.offset,
        want_shut_down=want_shut_down,
    )


def test_a_broker_is_fenced_with_the_last_portion_and_leaders_come_first(harness: ControllerHarness) -> None:
    led, in_sync = led_by(harness, 1), in_sync_with(harness, 1)
    fall_silent(harness, 1)
    fenced = harness.controller.fence_silent_brokers()
    while not fenced.done:
        taken = in_sync - in_sync_with(harness, 1)
        assert not harness.image.brokers[1].fenced
        assert led_by(harness, 1) == max(led - taken, 0)
        assert taken % PORTION == 0 or led_by(harness, 1) == 0
        offset = harness.image.offset
        harness.virtual.scheduler.run_turn()
        assert harness.image.offset - offset <= PORTION + 1
    assert done(fenced) == [1]
    assert harness.image.brokers[1].fenced
    assert (led_by(harness, 1), in_sync_with(harness, 1)) == (0, 0)
    assert all(partition.leader != -1 for partition in harness.image.topics.by_name["all"].partitions.values())


def test_a_check_between_two_portions_begins_no_second_fencing(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    fenced = harness.controller.fence_silent_brokers()
    offset = harness.image.offset
    assert done(harness.controller.fence_silent_brokers()) == []
    assert (harness.image.offset, fenced.done) == (offset, False)


def test_the_next_controller_completes_the_fencing(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    harness.controller.fence_silent_brokers()
    harness.reopen()
    assert not harness.image.brokers[1].fenced
    assert led_by(harness, 1) + in_sync_with(harness, 1) > 0
    fall_silent(harness, 1)
    fenced = harness.controller.fence_silent_brokers()
    harness.virtual.scheduler.run()
    assert done(fenced) == [1]
    assert harness.image.brokers[1].fenced
    assert (led_by(harness, 1), in_sync_with(harness, 1)) == (0, 0)


def test_a_broker_that_is_heard_in_between_keeps_the_rest(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    fenced = harness.controller.fence_silent_brokers()
    while led_by(harness, 1):
        harness.virtual.scheduler.run_turn()
    kept = in_sync_with(harness, 1)
    assert kept > 0
    assert not harness.beat(1).is_fenced
    assert done(fenced) == []
    assert not harness.image.brokers[1].fenced
    # The broker leads its only replicas again; the other partitions keep their new leaders.
    assert [partition.leader for partition in harness.image.topics.by_name["only"].partitions.values()] == [1, 1]
    assert led_by(harness, 1) == 2
    assert in_sync_with(harness, 1) >= kept


def test_a_broker_with_older_metadata_is_fenced_all_the_same(harness: ControllerHarness) -> None:
    """The broker would continue to lead partitions that have new leaders."""
    before = harness.image.offset
    fall_silent(harness, 1)
    fenced = harness.controller.fence_silent_brokers()
    asked_in_between = harness.image.offset
    assert harness.beat(1, current_metadata_offset=before).is_fenced
    assert done(fenced) == [1]
    assert harness.image.brokers[1].fenced
    assert harness.beat(1, current_metadata_offset=asked_in_between).is_fenced
    assert not harness.beat(1).is_fenced


def test_a_topic_that_is_created_in_between_is_found(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    fenced = harness.controller.fence_silent_brokers()
    harness.virtual.scheduler.run_turn()
    # The topic's name sorts before the start of the next portion.
    create(harness, "aaa", [[1, 2], [2, 1]])
    harness.virtual.scheduler.run()
    assert done(fenced) == [1]
    assert (led_by(harness, 1), in_sync_with(harness, 1)) == (0, 0)
    assert [partition.leader for partition in harness.image.topics.by_name["aaa"].partitions.values()] == [2, 2]


def test_the_next_controller_gives_a_broker_the_rest_of_what_it_can_lead(harness: ControllerHarness) -> None:
    create(harness, "more", [[1]] * (2 * PORTION))
    fall_silent(harness, 1)
    harness.controller.fence_silent_brokers()
    harness.virtual.scheduler.run()
    assert led_by(harness, 1) == 0
    assert not harness.controller.ask(heartbeat(harness)).done
    assert (led_by(harness, 1), harness.image.brokers[1].fenced) == (PORTION, False)
    harness.reopen()
    harness.beat(1)
    assert led_by(harness, 1) == 2 + 2 * PORTION


def test_a_shutdown_moves_everything_in_portions(harness: ControllerHarness) -> None:
    assert not harness.beat(1, want_shut_down=True).should_shut_down
    assert harness.image.brokers[1].in_controlled_shutdown
    assert (led_by(harness, 1), in_sync_with(harness, 1)) == (0, 0)
    harness.beat(2)
    harness.beat(3)
    assert harness.beat(1, want_shut_down=True).should_shut_down
    assert harness.image.brokers[1].fenced


def test_the_next_controller_continues_a_shutdown(harness: ControllerHarness) -> None:
    assert not harness.controller.ask(heartbeat(harness, want_shut_down=True)).done
    assert led_by(harness, 1) > 0
    harness.reopen()
    assert not harness.beat(1, want_shut_down=True).should_shut_down
    assert (led_by(harness, 1), in_sync_with(harness, 1)) == (0, 0)


def test_a_new_process_is_registered_after_the_last_portion(harness: ControllerHarness) -> None:
    fall_silent(harness, 1)
    registered = harness.controller.ask(registration(1, incarnation=2))
    assert not registered.done
    epoch = harness.image.brokers[1].broker_epoch
    harness.virtual.scheduler.run()
    assert done(registered).broker_epoch == harness.image.brokers[1].broker_epoch > epoch
    assert (led_by(harness, 1), in_sync_with(harness, 1)) == (0, 0)
    assert all(1 not in partition.elr for partition in partitions(harness))


def test_a_broker_is_removed_after_the_last_portion(harness: ControllerHarness) -> None:
    removed = harness.controller.ask(UnregisterBrokerRequest(broker_id=1))
    assert 1 in harness.image.brokers
    harness.virtual.scheduler.run()
    assert done(removed).error_code == 0
    assert 1 not in harness.image.brokers
    assert (led_by(harness, 1), in_sync_with(harness, 1)) == (0, 0)
