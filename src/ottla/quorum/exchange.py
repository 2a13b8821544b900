"""The requests between replicas as messages of the protocol: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch.

This module only translates; the machine decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.quorum import events as e
from ottla.quorum.events import LogEnd
from ottla.quorum.local_log import METADATA_TOPIC_ID
from ottla.quorum.snapshots import SnapshotId
from ottla.quorum.voters import ReplicaKey
from ottla.wire.messages import begin_quorum_epoch as b
from ottla.wire.messages import end_quorum_epoch as q
from ottla.wire.messages import fetch as f
from ottla.wire.messages import fetch_snapshot as s
from ottla.wire.messages import vote as v
from ottla.wire.peers import Endpoint

__all__ = [
    "LeaderNews",
    "TOPIC",
    "begin_epoch_answer",
    "begin_epoch_request",
    "begin_epoch_response",
    "end_epoch_request",
    "end_epoch_response",
    "fetch_answer",
    "fetch_request",
    "named_endpoint",
    "only_partition",
    "snapshot_request",
    "vote_answer",
    "vote_request",
    "vote_response",
]

TOPIC = "__cluster_metadata"

# The time that the leader may park a fetch without new entries.
FETCH_WAIT_MS = 500


class LeaderNews(NamedTuple):
    """The part that all responses share: the leader, its epoch and its endpoint."""

    leader_id: int
    epoch: int
    endpoint: Endpoint | None


def vote_request(effect: e.SendVote, *, own: ReplicaKey, cluster_id: str) -> v.VoteRequest:
    partition = v.RequestPartitionData(
        partition_index=0,
        replica_epoch=effect.epoch,
        replica_id=own.node_id,
        replica_directory_id=own.directory_id,
        voter_directory_id=effect.voter.directory_id,
        last_offset_epoch=effect.log_end.epoch,
        last_offset=effect.log_end.offset,
        pre_vote=effect.is_pre_vote,
    )
    return v.VoteRequest(
        cluster_id=cluster_id,
        voter_id=effect.voter.node_id,
        topics=[v.RequestTopicData(topic_name=TOPIC, partitions=[partition])],
    )


def vote_response(answer: e.Answer, news: LeaderNews, *, api_version: int) -> v.VoteResponse:
    partition = v.ResponsePartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=news.leader_id,
        leader_epoch=news.epoch,
        vote_granted=answer.is_granted,
    )
    return v.VoteResponse(
        topics=[v.ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(v.NodeEndpoint, news, api_version >= 1),
    )


def vote_answer(response: v.VoteResponse, effect: e.SendVote) -> e.VoteAnswered | None:
    """None if the response is about another partition, or has a top-level error."""
    data = None if response.error_code else only_partition(response)
    if data is None:
        return None
    return e.VoteAnswered(
        voter_id=effect.voter.node_id,
        asked_epoch=effect.epoch,
        is_pre_vote=effect.is_pre_vote,
        error=ErrorCode.told(data.error_code),
        is_granted=data.vote_granted,
        leader_id=data.leader_id,
        epoch=data.leader_epoch,
    )


def begin_epoch_request(
    effect: e.SendBeginEpoch, *, own: ReplicaKey, cluster_id: str, listeners: Sequence[tuple[str, Endpoint]]
) -> b.BeginQuorumEpochRequest:
    partition = b.RequestPartitionData(
        partition_index=0,
        voter_directory_id=effect.voter.directory_id,
        leader_id=own.node_id,
        leader_epoch=effect.epoch,
    )
    return b.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=effect.voter.node_id,
        topics=[b.RequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[b.LeaderEndpoint(name=name, host=at.host, port=at.port) for name, at in listeners],
    )


def begin_epoch_response(answer: e.Answer, news: LeaderNews, *, api_version: int) -> b.BeginQuorumEpochResponse:
    partition = b.ResponsePartitionData(
        partition_index=0, error_code=answer.error, leader_id=news.leader_id, leader_epoch=news.epoch
    )
    return b.BeginQuorumEpochResponse(
        topics=[b.ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(b.NodeEndpoint, news, api_version >= 1),
    )


def begin_epoch_answer(response: b.BeginQuorumEpochResponse, effect: e.SendBeginEpoch) -> e.BeginEpochAnswered | None:
    """None if the response is about another partition, or has a top-level error."""
    data = None if response.error_code else only_partition(response)
    if data is None:
        return None
    return e.BeginEpochAnswered(
        voter_id=effect.voter.node_id,
        error=ErrorCode.told(data.error_code),
        leader_id=data.leader_id,
        epoch=data.leader_epoch,
    )


def end_epoch_request(
    effect: e.SendEndEpoch, *, own: ReplicaKey, cluster_id: str, listeners: Sequence[tuple[str, Endpoint]]
) -> q.EndQuorumEpochRequest:
    partition = q.RequestPartitionData(
        partition_index=0,
        leader_id=own.node_id,
        leader_epoch=effect.epoch,
        preferred_successors=[candidate.node_id for candidate in effect.candidates],
        preferred_candidates=[
            q.ReplicaInfo(candidate_id=candidate.node_id, candidate_directory_id=candidate.directory_id)
            for candidate in effect.candidates
        ],
    )
    return q.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[q.RequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[q.LeaderEndpoint(name=name, host=at.host, port=at.port) for name, at in listeners],
    )


def end_epoch_response(answer: e.Answer, news: LeaderNews, *, api_version: int) -> q.EndQuorumEpochResponse:
    partition = q.ResponsePartitionData(
        partition_index=0, error_code=answer.error, leader_id=news.leader_id, leader_epoch=news.epoch
    )
    return q.EndQuorumEpochResponse(
        topics=[q.ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(q.NodeEndpoint, news, api_version >= 1),
    )


def fetch_request(
    *,
    replica: ReplicaKey,
    cluster_id: str,
    epoch: int,
    log_end: LogEnd,
    high_watermark: int,
    max_bytes: int,
) -> f.FetchRequest:
    partition = f.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=log_end.offset,
        last_fetched_epoch=log_end.epoch,
        log_start_offset=-1,
        partition_max_bytes=0,
        replica_directory_id=replica.directory_id,
        high_watermark=high_watermark,
    )
    return f.FetchRequest(
        cluster_id=cluster_id,
        replica_state=f.ReplicaState(replica_id=replica.node_id),
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[f.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def fetch_answer(response: f.FetchResponse, *, fetch_id: int) -> e.FetchAnswered | None:
    """None if the response is about another partition, or has a top-level error."""
    data = None if response.error_code else only_partition(response, "responses")
    if data is None or data.current_leader is None:
        return None
    diverging, snapshot = data.diverging_epoch, data.snapshot_id
    return e.FetchAnswered(
        fetch_id=fetch_id,
        error=ErrorCode.told(data.error_code),
        leader_id=data.current_leader.leader_id,
        epoch=data.current_leader.leader_epoch,
        high_watermark=data.high_watermark,
        diverging=LogEnd(diverging.epoch, diverging.end_offset)
        if diverging is not None and diverging.end_offset >= 0
        else None,
        snapshot=SnapshotId(snapshot.end_offset, snapshot.epoch)
        if snapshot is not None and snapshot.end_offset >= 0
        else None,
        records=data.records or None,
    )


def snapshot_request(
    *, replica: ReplicaKey, cluster_id: str, epoch: int, snapshot: SnapshotId, position: int, max_bytes: int
) -> s.FetchSnapshotRequest:
    partition = s.RequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=s.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=replica.directory_id,
    )
    return s.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=replica.node_id,
        max_bytes=max_bytes,
        topics=[s.RequestTopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def only_partition(message: Any, topics_field: str = "topics") -> Any | None:
    """The partition of the metadata log; None if the message is about another partition."""
    topics = getattr(message, topics_field)
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    named = getattr(topic, "topic_name", None) or getattr(topic, "topic", None) or getattr(topic, "name", None)
    if named != TOPIC and getattr(topic, "topic_id", Uuid.ZERO) != METADATA_TOPIC_ID:
        return None
    index = partition.partition_index if hasattr(partition, "partition_index") else getattr(partition, "partition", 0)
    return partition if index == 0 else None


def named_endpoint(endpoints: Sequence[Any], node_id: int) -> Endpoint | None:
    """The node's endpoint in a response."""
    return next((Endpoint(node.host, node.port) for node in endpoints if node.node_id == node_id), None)


def _endpoints(kind: Any, news: LeaderNews, is_known: bool) -> list[Any]:
    if not is_known or news.leader_id < 0 or news.endpoint is None:
        return []
    return [kind(node_id=news.leader_id, host=news.endpoint.host, port=news.endpoint.port)]
