"""Which replica a consumer should read from: the one of its own rack, if there is one (KIP-392).

The leader chooses, because only it knows who is in sync and how far everybody is. A consumer that says in which rack it
is gets, instead of records, the number of the replica it should ask; it comes back when that one cannot help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.replica.leadership import LeaderState
    from ottla.replica.views import BrokerView

__all__ = ["LEADER_SELECTOR", "NO_PREFERENCE", "RACK_AWARE_SELECTOR", "preferred_replica"]

# The two that Apache Kafka brings along, by the names that its configuration knows them by.
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

NO_PREFERENCE = -1


def preferred_replica(
    state: LeaderState, brokers: Mapping[int, BrokerView], *, rack: str, listener_name: str, fetch_offset: int
) -> int:
    """The follower that a consumer in this rack should read from, or `NO_PREFERENCE` where the leader is best.

    Only followers in sync are named: one that lags would be named again each time the consumer came back. Of several in
    the rack it is the one that has most, then the one that was at the end last.
    """
    leader = brokers.get(state.node_id)
    if leader is not None and leader.rack == rack:
        return NO_PREFERENCE
    best = (-1, -1, NO_PREFERENCE)
    for node_id, progress in state.followers.items():
        broker = brokers.get(node_id)
        if (
            broker is not None
            and broker.rack == rack
            and node_id in state.isr
            and progress.log_start_offset <= fetch_offset <= progress.log_end_offset
            and listener_name in broker.endpoints
        ):
            best = max(best, (progress.log_end_offset, progress.caught_up_ms, node_id))
    return best[2]
