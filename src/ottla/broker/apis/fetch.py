"""Fetch (key 1), versions 4 to 18: consumers, and followers, which are consumers that may read to the end of the log.

- 4: isolation level and aborted transactions (KIP-98)
- 5: the log's start offset
- 7: incremental sessions (KIP-227)
- 9: the client's idea of the leader epoch is checked (KIP-320)
- 10: zstd
- 11: the client's rack, for reading from the nearest replica (KIP-392); from here on followers serve consumers
- 12: flexible; the epoch last fetched, for finding where two logs part (KIP-595)
- 13: topics are named by id (KIP-516)
- 15: a follower tells its epoch (KIP-903)
- 16: answers tell who leads when we do not (KIP-951)
- 17, 18: directory id and high watermark of a Raft replica; of no meaning for partitions of topics
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.fetching import Fetch, FetchLimits
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["error_response", "handle"]

_READ_COMMITTED = 1
_RACK_VERSION = 11
_REPLICA_STATE_VERSION = 15


def handle(request: FetchRequest, context: RequestContext, broker: Broker) -> FetchResponse | Deferred[FetchResponse]:
    version = context.api_version
    replica_id, replica_epoch = request.replica_id, -1
    if version >= _REPLICA_STATE_VERSION and request.replica_state is not None:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    is_follower = replica_id >= 0
    replicas = broker.replicas
    plan = replicas.sessions.plan(request, version=version, is_follower=is_follower, now_ms=context.received_ms)
    max_bytes, min_bytes = min(request.max_bytes, broker.config.fetch_max_bytes), request.min_bytes
    quota = context.quota
    is_metered = quota.is_set and not is_follower
    if is_metered:
        allowed = quota.fetch_bytes_max(context)
        if allowed is not None:
            max_bytes = min(max_bytes, allowed)
            min_bytes = min(min_bytes, max_bytes)
    limits = FetchLimits(max_bytes=max_bytes, min_bytes=min_bytes, max_wait_ms=request.max_wait_ms)
    fetch = Fetch(
        replicas,
        plan,
        limits,
        version=version,
        read_committed=request.isolation_level == _READ_COMMITTED,
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        listener_name=context.listener_name,
        only_from_leader=is_follower or version < _RACK_VERSION,
        rack=request.rack_id if replicas.reads_by_rack else "",
        throttle=(lambda size: quota.fetched(context, size)) if is_metered else None,
    )
    may_read_all = is_follower and context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    targets = fetch.targets
    topic, is_allowed = "", False
    for entry in plan.live_entries:
        partition = entry.partition
        if partition is None or partition.refusal is not None:
            found = replicas.resolve(entry)
            if isinstance(found, ErrorCode):
                fetch.refuse(entry, found)
                continue
            partition = found
        if partition.topic != topic:
            # Entries of one topic are neighbours, mostly: one question for each run of them.
            topic = partition.topic
            is_allowed = may_read_all or (not is_follower and context.allows(Operation.READ, ResourceType.TOPIC, topic))
        if is_allowed:
            targets.append((entry, partition))
        else:
            fetch.refuse(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return fetch.start()


def error_response(request: FetchRequest, version: int, error: KafkaError) -> FetchResponse:  # noqa: ARG001
    """The request as a whole failed; before version 7 there is no field to say so, and the answer is empty."""
    return FetchResponse(error_code=error.code)
