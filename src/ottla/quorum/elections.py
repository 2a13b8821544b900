"""Answers the election requests of other replicas: Vote, BeginQuorumEpoch, EndQuorumEpoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.model.errors import ErrorCode
from ottla.quorum import events as e
from ottla.quorum import exchange as x
from ottla.quorum.events import LogEnd
from ottla.quorum.voters import ReplicaKey
from ottla.wire.messages import begin_quorum_epoch as b
from ottla.wire.messages import end_quorum_epoch as q
from ottla.wire.messages import vote as v

if TYPE_CHECKING:
    from ottla.quorum.raft_node import RaftNode

__all__ = ["Elections"]


class Elections:
    """The machine's decision is durable before the response is created."""

    def __init__(self, quorum: RaftNode, *, cluster_id: str) -> None:
        self._quorum = quorum
        self._cluster_id = cluster_id

    def vote(self, request: v.VoteRequest, *, api_version: int) -> v.VoteResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return v.VoteResponse(error_code=refusal)
        partition = x.only_partition(request)
        assert partition is not None
        answer = self._quorum.step(
            e.VoteRequested(
                candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
                epoch=partition.replica_epoch,
                log_end=LogEnd(partition.last_offset_epoch, partition.last_offset),
                is_pre_vote=partition.pre_vote,
                voter=ReplicaKey(request.voter_id, partition.voter_directory_id) if request.voter_id >= 0 else None,
            )
        )
        assert answer is not None
        return x.vote_response(answer, self._quorum.news, api_version=api_version)

    def begin_epoch(self, request: b.BeginQuorumEpochRequest, *, api_version: int) -> b.BeginQuorumEpochResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return b.BeginQuorumEpochResponse(error_code=refusal)
        partition = x.only_partition(request)
        assert partition is not None
        self._quorum.learn_endpoints(partition.leader_id, request.leader_endpoints)
        answer = self._quorum.step(
            e.BeginEpochRequested(
                leader_id=partition.leader_id,
                epoch=partition.leader_epoch,
                voter=ReplicaKey(request.voter_id, partition.voter_directory_id) if request.voter_id >= 0 else None,
            )
        )
        assert answer is not None
        return x.begin_epoch_response(answer, self._quorum.news, api_version=api_version)

    def end_epoch(self, request: q.EndQuorumEpochRequest, *, api_version: int) -> q.EndQuorumEpochResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return q.EndQuorumEpochResponse(error_code=refusal)
        partition = x.only_partition(request)
        assert partition is not None
        self._quorum.learn_endpoints(partition.leader_id, request.leader_endpoints)
        candidates = [
            candidate.candidate_id for candidate in partition.preferred_candidates
        ] or partition.preferred_successors
        answer = self._quorum.step(
            e.EndEpochRequested(
                leader_id=partition.leader_id, epoch=partition.leader_epoch, candidates=tuple(candidates)
            )
        )
        assert answer is not None
        return x.end_epoch_response(answer, self._quorum.news, api_version=api_version)

    def _refusal(self, request: Any) -> ErrorCode | None:
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if self._quorum.is_closed:
            return ErrorCode.BROKER_NOT_AVAILABLE
        return ErrorCode.INVALID_REQUEST if x.only_partition(request) is None else None
