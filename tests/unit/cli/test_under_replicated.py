"""Replicas that a reassignment adds do not make a partition under-replicated, as in Kafka's tool."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.commands.topics import _moving
from ottla.cli.logic import doctor_checks as checks
from ottla.cli.logic.topic_filters import Filters, wanted_partitions
from ottla.client.admin.partitions import OngoingReassignment
from ottla.client.errors import ConnectionLost, RequestUnsupported
from ottla.model.errors import ErrorCode, KafkaError
from tests.unit.cli.test_doctor import ONE, healthy, partition, topic

# Broker 4 is added for broker 3, and still copies.
MOVING = {ONE: OngoingReassignment((1, 2, 3, 4), (4,), (3,))}


def test_a_replica_that_is_added_is_no_fault() -> None:
    facts = replace(healthy(), topics=[topic(partition(0, replicas=(1, 2, 3, 4), isr=(1, 2, 3)))], moving=MOVING)
    assert list(checks.partitions_under_replicated(facts)) == []
    facts = replace(facts, topics=[topic(partition(0, replicas=(1, 2, 3, 4), isr=(1, 2)))])
    (finding,) = checks.partitions_under_replicated(facts)
    assert finding.what == "Broker 3 is behind in 1 partitions."


def test_a_replica_that_is_added_is_not_under_replicated() -> None:
    filters = Filters(under_replicated_partitions=True)
    described = topic(partition(0, replicas=(1, 2, 3, 4), isr=(1, 2, 3)), partition(1, isr=(2, 3)))
    wanted = wanted_partitions(described, filters, min_isr=1, live={1, 2, 3, 4}, moving=MOVING)
    assert [selected.partition for selected in wanted] == [1]


def test_a_partition_without_leader_is_under_min_isr() -> None:
    described = topic(partition(0, leader=-1, replicas=(1,), isr=(1,)))
    wanted = wanted_partitions(described, Filters(under_min_isr_partitions=True), min_isr=1, live=set())
    assert [selected.partition for selected in wanted] == [0]


def admin_that_fails(error: Exception) -> Any:
    async def reassignments() -> None:
        raise error

    return SimpleNamespace(partitions=SimpleNamespace(reassignments=reassignments))


@pytest.mark.parametrize(
    "error", [RequestUnsupported("Too old."), KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)], ids=["old", "denied"]
)
def test_a_cluster_that_lists_no_reassignments_has_none(error: Exception) -> None:
    assert asyncio.run(_moving(admin_that_fails(error))) == {}


@pytest.mark.parametrize(
    "error", [ConnectionLost("Reset."), KafkaError(ErrorCode.REQUEST_TIMED_OUT)], ids=["lost", "late"]
)
def test_other_errors_are_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error)):
        asyncio.run(_moving(admin_that_fails(error)))
