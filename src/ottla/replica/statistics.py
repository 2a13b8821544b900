"""Statistics of all partitions of this broker, computed when metrics are read.

Each partition has its own `PartitionCounters`. The counters of a partition that leaves this broker are added to
`ReplicaManager.departed`, so that the sums over all partitions never decrease while the node runs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ottla.model.values import Value
from ottla.replica.counters import PartitionCounters
from ottla.replica.transactional import late_transactions

if TYPE_CHECKING:
    from ottla.replica.manager import ReplicaManager

__all__ = ["ReplicaStatistics", "replica_statistics"]

# Partitions that are counted before the node may do other work.
PARTITIONS_PER_STEP = 500


class ReplicaStatistics(Value):
    """The statistics of a broker's replicas at one moment."""

    partitions: int
    leaders: int
    offline: int
    under_replicated: int
    at_min_isr: int
    under_min_isr: int
    isr_shrinks: int
    isr_expansions: int
    # Followed partitions whose fetching has stopped.
    failed_fetches: int
    parked: int
    parked_timeouts: int
    fetch_sessions: int
    fetch_session_partitions: int
    fetch_session_evictions: int
    # From producers and coordinators; from leaders.
    bytes_in: int
    replica_bytes_in: int
    # To consumers; to followers.
    bytes_out: int
    replica_bytes_out: int
    messages_in: int
    # Partitions of produce requests, and partitions of fetch responses with records.
    produces: int
    fetches: int
    # Partitions of responses with an error.
    failed_produce_requests: int
    failed_fetch_requests: int
    # Batches of idempotent producers that were already in the log.
    duplicates: int
    # Led partitions with a hanging transaction, which blocks read-committed consumers.
    late_transactions: int


def replica_statistics(manager: ReplicaManager) -> Generator[None, None, ReplicaStatistics]:
    """Computes the statistics, and yields now and then so that the node can work. Returns them at the end."""
    partitions = list(manager.partitions())
    sums = PartitionCounters()
    sums.add(manager.departed)
    leaders = under_replicated = at_min = under_min = late = 0
    now_ms, timeout_ms_max = manager.clock.now_ms(), manager.config.transaction_max_timeout_ms
    for number, partition in enumerate(partitions, 1):
        sums.add(partition.counters)
        state = partition.leader_state
        if state is not None:
            leaders += 1
            under_replicated += len(state.isr) < state.replica_count
            spare = len(state.isr) - partition.needed_replicas(state)
            at_min += spare == 0
            under_min += spare < 0
        if not number % PARTITIONS_PER_STEP:
            late += late_transactions(
                partitions[number - PARTITIONS_PER_STEP : number], now_ms, timeout_ms_max=timeout_ms_max
            )
            yield
    tail = partitions[len(partitions) // PARTITIONS_PER_STEP * PARTITIONS_PER_STEP :]
    late += late_transactions(tail, now_ms, timeout_ms_max=timeout_ms_max)
    return ReplicaStatistics(
        partitions=len(partitions),
        leaders=leaders,
        offline=len(manager.offline),
        under_replicated=under_replicated,
        at_min_isr=at_min,
        under_min_isr=under_min,
        isr_shrinks=0 if manager.isr_keeper is None else manager.isr_keeper.shrinks,
        isr_expansions=0 if manager.isr_keeper is None else manager.isr_keeper.expansions,
        failed_fetches=0 if manager.fetchers is None else manager.fetchers.failed,
        parked=manager.parking.parked,
        parked_timeouts=manager.parking.timeouts,
        fetch_sessions=len(manager.sessions),
        fetch_session_partitions=manager.sessions.partitions_cached,
        fetch_session_evictions=manager.sessions.evictions,
        bytes_in=sums.bytes_in,
        replica_bytes_in=sums.replica_bytes_in,
        bytes_out=sums.bytes_out,
        replica_bytes_out=sums.replica_bytes_out,
        messages_in=sums.messages_in,
        produces=sums.produces,
        fetches=sums.fetches,
        failed_produce_requests=sums.failed_produces,
        failed_fetch_requests=sums.failed_fetches,
        duplicates=sums.duplicates,
        late_transactions=late,
    )
