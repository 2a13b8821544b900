"""How one partition changes: elections, eligible leaders, reassignments."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata.controller.partition_change import Election, PartitionChange
from ottla.metadata.image import PartitionImage
from ottla.metadata.topics_delta import merge_partition_change
from ottla.model.ids import Uuid

TOPIC_ID = Uuid(b"0123456789abcdef")


def directory(broker_id: int) -> Uuid:
    return Uuid(bytes((1, broker_id)) + bytes(14))


def partition(*replicas: int, **fields: Any) -> PartitionImage:
    defaults: dict[str, Any] = {
        "replicas": replicas,
        "isr": replicas,
        "leader": replicas[0],
        "leader_epoch": 5,
        "partition_epoch": 9,
        "directories": tuple(directory(replica) for replica in replicas),
    }
    return PartitionImage(**{**defaults, **fields})


def change(before: PartitionImage, *, alive: tuple[int, ...] = (1, 2, 3, 4), **fields: Any) -> PartitionImage | None:
    arguments: dict[str, Any] = {
        "partition": before,
        "topic_id": TOPIC_ID,
        "partition_id": 0,
        "can_lead": lambda replica: replica in alive,
        "min_insync_replicas": 2,
        "elr_enabled": True,
        "default_directory": directory,
    }
    wanted = PartitionChange(**arguments)
    for name, value in fields.items():
        setattr(wanted, name, value)
    record = wanted.build()
    return None if record is None else merge_partition_change(before, record)


def test_nothing_wanted_changes_nothing() -> None:
    assert change(partition(1, 2, 3)) is None


def test_the_next_live_replica_in_sync_leads() -> None:
    after = change(partition(1, 2, 3), alive=(3,), isr=(2, 3))
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (3, (2, 3), 6, 10)


def test_a_shrinking_in_sync_set_keeps_leader_and_epoch() -> None:
    after = change(partition(1, 2, 3), isr=(1, 3))
    assert after is not None
    assert (after.leader, after.leader_epoch, after.partition_epoch, after.elr) == (1, 5, 10, ())


def test_below_the_minimum_those_who_leave_stay_eligible_until_it_is_met_again() -> None:
    alone = change(partition(1, 2, 3), isr=(1,))
    assert alone is not None
    assert (alone.isr, alone.elr) == ((1,), (2, 3))
    without_replicas = change(alone, alive=(2, 3), isr=())
    assert without_replicas is not None
    # The leader is an eligible one, and the last leader stays eligible beside the other.
    assert (without_replicas.leader, without_replicas.isr, without_replicas.elr) == (2, (2,), (1, 3))
    met = change(without_replicas, isr=(2, 3))
    assert met is not None
    assert met.elr == ()


def test_who_stopped_uncleanly_is_not_eligible() -> None:
    after = change(partition(1, 2, 3, isr=(1,), elr=(2, 3)), isr=(1,), stopped_uncleanly=(2,))
    assert after is not None
    assert after.elr == (3,)


def test_without_eligible_leaders_the_in_sync_set_never_runs_empty() -> None:
    after = change(partition(1, isr=(1,)), alive=(), isr=(), elr_enabled=False)
    assert after is not None
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (-1, (1,), (), ())


def test_the_last_known_leader_comes_back_recovering() -> None:
    offline = partition(1, 2, isr=(), leader=-1, last_known_elr=(1,))
    assert change(offline, alive=(2,)) is None
    back = change(offline, alive=(1, 2))
    assert back is not None
    assert (back.leader, back.isr, back.leader_recovery_state, back.last_known_elr) == (1, (1,), 1, ())


def test_an_unclean_election_takes_any_live_replica() -> None:
    offline = partition(1, 2, 3, isr=(1,), leader=-1)
    assert change(offline, alive=(3,)) is None
    after = change(offline, alive=(3,), election=Election.UNCLEAN)
    assert after is not None
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (3, (3,), (), 1)


def test_the_preferred_replica_leads_only_when_it_is_in_sync() -> None:
    assert change(partition(1, 2, isr=(2,), leader=2, elr=(1,)), election=Election.PREFERRED) is None
    after = change(partition(1, 2, leader=2), election=Election.PREFERRED)
    assert after is not None
    assert after.leader == 1


@pytest.mark.parametrize("isr", [(1, 2), (1, 2, 3)])
def test_a_reassignment_waits_for_every_replica_it_adds(isr: tuple[int, ...]) -> None:
    moving = partition(1, 2, 3, 4, isr=(1, 2), adding_replicas=(3, 4), removing_replicas=(1, 2))
    after = change(moving, isr=isr)
    assert after is None or after.is_reassigning


def test_a_reassignment_ends_when_what_it_adds_is_in_sync() -> None:
    moving = partition(1, 2, 3, 4, isr=(1, 2), adding_replicas=(3, 4), removing_replicas=(1, 2))
    after = change(moving, isr=(1, 2, 3, 4))
    assert after is not None
    assert (after.replicas, after.isr, after.leader) == ((3, 4), (3, 4), 3)
    assert not after.is_reassigning
    assert after.directories == (directory(3), directory(4))


def test_a_replica_that_is_removed_raises_the_leader_epoch() -> None:
    moving = partition(1, 2, 3, isr=(1, 2), adding_replicas=(), removing_replicas=(3,))
    after = change(moving, isr=(1, 2))
    assert after is not None
    assert (after.replicas, after.leader, after.leader_epoch) == ((1, 2), 1, 6)


def test_a_reassignment_begins_with_both_sets() -> None:
    after = change(partition(1, 2), replicas=(1, 2, 3), adding=(3,), removing=(2,))
    assert after is not None
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((1, 2, 3), (3,), (2,))
    assert after.directories == (directory(1), directory(2), directory(3))
    assert after.leader_epoch == 5
