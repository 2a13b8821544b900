"""Handles a fetch: plans it by its session, resolves the partitions, starts the read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.fetch_senders import is_from_follower
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.fetch_limits import FetchLimits
from ottla.replica.fetch_serving import Fetch, FetchAnswer
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replica.fetch_sessions import FetchEntry, FetchPlan
    from ottla.replica.giant_fetch import GiantFetch
    from ottla.replica.manager import ReplicaManager

__all__ = ["error_response", "find_targets", "handle", "handle_in_slices"]

# A fetch of more partitions is served in slices: each of them costs some microseconds, and no other client is served
# meanwhile.
PARTITIONS_PER_TURN_MAX = 5_000
# The limit for a follower. All its partitions have news, because the session skips partitions without news.
FOLLOWED_PER_TURN_MAX = 500

_READ_COMMITTED = 1
_RACK_VERSION = 11
_TOPIC_ID_VERSION = 13
_REPLICA_STATE_VERSION = 15


def handle(
    request: FetchRequest, context: RequestContext, broker: Broker, plan: FetchPlan | None = None
) -> FetchAnswer | Deferred[FetchAnswer]:
    version = context.api_version
    replica_id, replica_epoch = request.replica_id, -1
    if version >= _REPLICA_STATE_VERSION and request.replica_state is not None:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    is_follower = replica_id >= 0
    replicas = broker.replicas
    if plan is None:
        plan = replicas.sessions.plan(request, version=version, is_follower=is_follower, now_ms=context.received_ms)
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    quota, throttle = context.connection.quota, None
    if quota.is_set and not is_follower:
        allowance = quota.allowance(context)
        if allowance is not None:
            throttle = allowance.fetched
            allowed = allowance.fetch_bytes_max
            if allowed is not None and allowed < max_bytes:
                max_bytes = allowed
    limits = FetchLimits(max_bytes=max_bytes, min_bytes=request.min_bytes, max_wait_ms=request.max_wait_ms)
    entries = plan.live_entries
    is_giant = len(entries) > PARTITIONS_PER_TURN_MAX or (is_follower and len(entries) > FOLLOWED_PER_TURN_MAX)
    fetch = (_giant_fetch() if is_giant else Fetch)(
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
        throttle=throttle,
    )
    if is_giant:
        return cast("GiantFetch", fetch).start_in_slices(partial(find_targets, fetch, context, replicas))
    find_targets(fetch, context, replicas, entries)
    return fetch.start()


def handle_in_slices(request: FetchRequest, context: RequestContext, broker: Broker) -> Deferred[FetchAnswer]:
    """`handle` for a request with so many partitions that its session is updated over many turns of the loop, too."""
    from ottla.replica.giant_fetch import plan_in_slices

    def serve(plan: FetchPlan) -> Deferred[FetchAnswer]:
        response = handle(request, context, broker, plan)
        return Deferred.of(response)

    planning = plan_in_slices(
        broker.replicas.sessions,
        request,
        version=context.api_version,
        is_follower=is_from_follower(request),
        now_ms=context.received_ms,
    )
    return broker.replicas.slices.run(planning).and_then(serve)


def find_targets(
    fetch: Fetch, context: RequestContext, replicas: ReplicaManager, entries: Iterable[FetchEntry]
) -> None:
    """Sorts the entries into those that are read and those that are refused."""
    is_follower = fetch.replica_id >= 0
    if is_follower and not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        for entry in entries:
            fetch.refuse(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    targets = fetch.targets
    is_by_name = not is_follower and context.api_version < _TOPIC_ID_VERSION
    topic: str | None = None
    is_allowed = is_follower
    for entry in entries:
        partition = entry.partition
        if partition is None or partition.refusal is not None:
            if is_by_name:
                # Before the partition is looked up: the time of a refusal must not tell whether the topic exists.
                if entry.topic != topic:
                    topic, is_allowed = entry.topic, _may_read(entry.topic, context)
                if not is_allowed:
                    fetch.refuse(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    continue
            resolved = replicas.resolve(entry)
            if isinstance(resolved, ErrorCode):
                is_checked = is_by_name or is_follower
                fetch.refuse(entry, _refusal(entry, resolved, context, replicas, is_checked=is_checked))
                continue
            partition = resolved
        if partition.topic != topic:
            # Entries of one topic are mostly neighbours: the authorizer is asked once for each run of them.
            topic = partition.topic
            is_allowed = is_follower or _may_read(topic, context)
        if is_allowed:
            targets.append((entry, partition))
        else:
            fetch.refuse(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _may_read(topic: str, context: RequestContext) -> bool:
    """A denial is not taken from the cache, so that the audit records every refused fetch."""
    return context.allows_cached(Operation.READ, ResourceType.TOPIC, topic) or context.allows(
        Operation.READ, ResourceType.TOPIC, topic
    )


def _refusal(
    entry: FetchEntry,
    error: ErrorCode,
    context: RequestContext,
    replicas: ReplicaManager,
    *,
    is_checked: bool,
) -> ErrorCode:
    """The error for a partition that is not here. Only principals that may read the topic learn whether it exists.

    `is_checked` is false for a consumer that names the topic by its id: only an id that exists has a name to ask about.
    """
    name = replicas.topic_name(entry.topic_id) if context.api_version >= _TOPIC_ID_VERSION else entry.topic
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not is_checked and not context.allows(Operation.READ, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return error


def _giant_fetch() -> type[GiantFetch]:
    """The class, imported with the first giant fetch, because most nodes never get one."""
    from ottla.replica.giant_fetch import GiantFetch

    return GiantFetch


def error_response(request: FetchRequest, version: int, error: KafkaError) -> FetchResponse:  # noqa: ARG001
    """The request failed as a whole. Before version 7 there is no field for the code, and the response is empty."""
    return FetchResponse(error_code=error.code)
