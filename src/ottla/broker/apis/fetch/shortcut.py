"""Fetches of followers of the usual shape, from frame to response without message objects.

See `ottla.replica.follower_serving`, which serves them. A fetch of any other shape, and one of a consumer, is left to
`handler`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.broker.apis.fetch.handler import find_targets
from ottla.replica.fetch_limits import FetchLimits
from ottla.replica.follower_serving import FollowerFetch, plan_usual
from ottla.wire.follower_fetch import REQUEST_BYTES_MAX, VERSION, read_request

if TYPE_CHECKING:
    from ottla.broker.apis.api import ShortcutOutcome
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred
    from ottla.replica.fetch_serving import FetchAnswer

__all__ = ["VERSION", "plan_usual_fetch"]


def plan_usual_fetch(frame: memoryview, position: int, context: RequestContext, broker: Broker) -> ShortcutOutcome:
    """Applies a follower's fetch to its session; `_start` serves it. `Shortcut.run` describes the returned value."""
    if context.api_version != VERSION or len(frame) - position > REQUEST_BYTES_MAX:
        # A later version; or more partitions than `plan_usual` takes, and very many are decoded in slices.
        return None
    try:
        request = read_request(frame, position)
    except (IndexError, struct.error):
        # The frame is malformed: the decoder reports the error.
        return None
    if request is None:
        return None
    replicas = broker.replicas
    plan = plan_usual(replicas.sessions, replicas.by_id, request, now_ms=context.received_ms)
    if plan is None:
        return None
    replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, *_ = request
    limits = FetchLimits(
        max_bytes=min(max_bytes, broker.config.fetch_max_bytes), min_bytes=min_bytes, max_wait_ms=max_wait_ms
    )
    fetch = FollowerFetch(
        replicas,
        plan,
        limits,
        version=VERSION,
        read_committed=False,
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        listener_name=context.listener_name,
    )
    return fetch, _start


def _start(fetch: FollowerFetch, context: RequestContext, broker: Broker) -> FetchAnswer | Deferred[FetchAnswer]:
    """Asks the authorizer and serves the fetch. Exceptions are answered like exceptions of a handler."""
    find_targets(fetch, context, broker.replicas, fetch.plan.live_entries)
    return fetch.start()
