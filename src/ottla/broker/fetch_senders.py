"""Distinguishes fetches of followers from fetches of consumers, on both kinds of listener."""

from __future__ import annotations

from ottla.replica.follower_serving import FollowerFetch
from ottla.wire.messages.fetch import FetchRequest

__all__ = ["is_from_follower"]


def is_from_follower(request: FetchRequest | FollowerFetch) -> bool:
    """True if another node sent the fetch. From version 15 on its id is in `replica_state` (KIP-903)."""
    if isinstance(request, FollowerFetch) or request.replica_id >= 0:
        return True
    state = request.replica_state
    return state is not None and state.replica_id >= 0
