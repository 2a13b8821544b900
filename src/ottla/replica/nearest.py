"""The preferred read replica of a consumer: an in-sync replica in its own rack (KIP-392).

The leader chooses, because only the leader knows the in-sync set and the followers' progress. A consumer that sends its
rack gets the id of that replica instead of records. It returns to the leader if that replica cannot serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.replica.leadership import LeaderState
    from ottla.replica.views import BrokerView

__all__ = ["LEADER_SELECTOR", "NO_PREFERENCE", "RACK_AWARE_SELECTOR", "preferred_replica"]

# The two selectors of Apache Kafka, by their names in its configuration.
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

NO_PREFERENCE = -1


def preferred_replica(
    state: LeaderState, brokers: Mapping[int, BrokerView], *, rack: str, listener_name: str, fetch_offset: int
) -> int:
    """The follower that a consumer in this rack should read from, or `NO_PREFERENCE` for the leader.

    Only in-sync followers qualify: a lagging one would send the consumer back every time. Of several followers in the
    rack, the one with the largest log end offset is preferred, then the one that was caught up last.
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
