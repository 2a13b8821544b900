"""Decisions to elect leaders without a failure: by request, for preferred replicas, and unclean elections.

ElectLeaders requests preferred or unclean elections for all or some partitions (KIP-183, KIP-460). Timers return
leadership to preferred replicas (`auto.leader.rebalance.enable`), and elect leaders for partitions without one where
`unclean.leader.election.enable` accepts the loss of records. A decision by timer makes a bounded number of changes and
returns whether more changes may remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.metadata.controller.decision import Decision, DecisionContext, ensure_bounded
from ottla.metadata.controller.effective_config import is_unclean_election_enabled
from ottla.metadata.controller.partition_change import Election
from ottla.metadata.controller.partitions import Located, change_of, leader_test
from ottla.metadata.controller.sweeps import sweep
from ottla.metadata.image import NO_LEADER, PartitionImage, TopicImage
from ottla.metadata.topics_delta import NO_LEADER_CHANGE
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.messages.metadata_records import PartitionChangeRecord

__all__ = [
    "decide_balance_leaders",
    "decide_elect_leaders",
    "decide_unclean_elections",
]

PREFERRED_ELECTION = 0
UNCLEAN_ELECTION = 1


def decide_elect_leaders(request: ElectLeadersRequest, context: DecisionContext) -> Decision[ElectLeadersResponse]:
    if request.election_type not in (PREFERRED_ELECTION, UNCLEAN_ELECTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown election type {request.election_type}")
    election = Election.PREFERRED if request.election_type == PREFERRED_ELECTION else Election.UNCLEAN
    records: list[Any] = []
    response = ElectLeadersResponse()
    topics = context.image.topics
    elects_all = request.topic_partitions is None
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topic_partitions is None:
        wanted = [(name, sorted(topics.by_name[name].partitions)) for name in sorted(topics.by_name)]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    for name, partition_ids in wanted:
        results = ReplicaElectionResult(topic=name)
        response.replica_election_results.append(results)
        for partition_id in partition_ids:
            code, message = _elect_named(name, partition_id, election, context, records)
            # A request for all partitions is answered with the elections that succeeded or failed.
            if not elects_all or code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.partition_result.append(
                    PartitionResult(partition_id=partition_id, error_code=code, error_message=message)
                )
    ensure_bounded(len(records))
    return Decision(records, response)


def decide_balance_leaders(context: DecisionContext) -> Decision[bool]:
    """Returns leadership to preferred replicas that are in sync again; true if more changes remain."""

    def imbalanced(topic: TopicImage) -> list[tuple[int, PartitionImage]]:
        return [
            (partition_id, partition)
            for partition_id, partition in topic.partitions.items()
            if partition.leader != partition.preferred_leader
        ]

    portion = sweep(context, (imbalanced,), lambda located: _elect(located, Election.PREFERRED, context))
    return Decision(portion.records, portion.place is not None)


def decide_unclean_elections(context: DecisionContext) -> Decision[bool]:
    """Elects leaders outside the in-sync replicas where that is allowed; true if more changes remain."""

    def leaderless(topic: TopicImage) -> list[tuple[int, PartitionImage]]:
        without_leader = [
            (partition_id, partition)
            for partition_id, partition in topic.partitions.items()
            if partition.leader == NO_LEADER
        ]
        overrides = context.image.configs.of_topic(topic.name)
        return without_leader if without_leader and is_unclean_election_enabled(context.config, overrides) else []

    portion = sweep(context, (leaderless,), lambda located: _elect(located, Election.UNCLEAN, context))
    return Decision(portion.records, portion.place is not None)


def _elect_named(
    name: str, partition_id: int, election: Election, context: DecisionContext, records: list[Any]
) -> tuple[ErrorCode, str | None]:
    topic = context.image.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(partition_id)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist"
    if election is Election.PREFERRED:
        needed = partition.leader != partition.preferred_leader
    else:
        needed = partition.leader == NO_LEADER
    if not needed:
        return ErrorCode.ELECTION_NOT_NEEDED, "the partition already has a suitable leader"
    record = _elect(Located(topic, partition_id, partition), election, context)
    if record is None:
        if election is Election.PREFERRED:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "the preferred replica is not in sync or not alive"
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica of the partition is alive"
    records.append(record)
    return ErrorCode.NONE, None


def _elect(located: Located, election: Election, context: DecisionContext) -> PartitionChangeRecord | None:
    """The change that gives the partition a new leader; None if no replica may lead."""
    change = change_of(located, context, leader_test(context.image, located.partition))
    change.election = election
    record = change.build()
    return None if record is None or record.leader in (NO_LEADER, NO_LEADER_CHANGE) else record
