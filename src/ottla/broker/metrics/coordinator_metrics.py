"""Metrics of groups, of their lag, of transactions, and of the load that the coordinators put on this broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.metrics.metric import COUNTER, GAUGE, Metric, Row

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape
    from ottla.coordinator.group.service import GroupCoordinator
    from ottla.coordinator.group.state import GroupShard
    from ottla.coordinator.runtime.statistics import ShardStatistics
    from ottla.coordinator.txn.service import TransactionCoordinator

__all__ = ["COORDINATOR_METRICS"]

_OFFSET_COMMIT, _TXN_OFFSET_COMMIT = 8, 28


def _groups(scrape: Scrape) -> GroupCoordinator | None:
    """The group coordinator; None if it does not exist yet. Reading metrics does not create it."""
    return scrape.broker.group_coordination.existing


def _transactions(scrape: Scrape) -> TransactionCoordinator | None:
    return scrape.broker.transaction_coordination.existing


def _coordinators(scrape: Scrape) -> Iterator[tuple[str, Any]]:
    groups, transactions = _groups(scrape), _transactions(scrape)
    if groups is not None:
        yield "group", groups.runtime
    if transactions is not None:
        yield "transaction", transactions.runtime


def _load(number: Callable[[ShardStatistics], float]) -> Callable[[Scrape], Iterator[Row]]:
    return lambda scrape: (((name,), number(runtime.settings.statistics)) for name, runtime in _coordinators(scrape))


def _shards(scrape: Scrape) -> Iterator[Row]:
    for name, runtime in _coordinators(scrape):
        for status, count in sorted(Counter(shard.status.value for shard in runtime.shards()).items()):
            yield (name, status), count


def _waiting(scrape: Scrape) -> Iterator[Row]:
    for name, runtime in _coordinators(scrape):
        yield (name,), sum(shard.answers_waiting for shard in runtime.shards())


def _group_states(scrape: Scrape) -> Iterator[GroupShard]:
    groups = _groups(scrape)
    return iter(()) if groups is None else (shard.state for shard in groups.runtime.active_shards())


def _counts_of_groups(scrape: Scrape) -> Iterator[Row]:
    counts: Counter[tuple[str, str]] = Counter()
    for state in _group_states(scrape):
        counts.update((group.TYPE.value, group.state_name) for group in state.groups.values())
        yield None
    yield from sorted(counts.items())


def _lags(scrape: Scrape) -> Iterator[Row]:
    """The lag of every group. If this broker only follows a partition, the follower's high watermark is used."""
    replicas = scrape.broker.replicas
    for lag in scrape.lags():
        if lag is None:
            yield None
            continue
        for row in lag.partitions:
            records_behind = row.lag
            if records_behind is None:
                partition = replicas.get(row.topic, row.partition)
                if partition is None:
                    continue
                records_behind = max(partition.high_watermark - row.committed_offset, 0)
            yield (lag.group_id, row.topic, row.partition), records_behind


def _committed(scrape: Scrape) -> Iterator[Row]:
    for lag in scrape.lags():
        if lag is None:
            yield None
            continue
        for row in lag.partitions:
            yield (lag.group_id, row.topic, row.partition), row.committed_offset


def _commit_requests(scrape: Scrape) -> int:
    apis = scrape.broker.statistics.apis
    return sum(apis[key].requests for key in (_OFFSET_COMMIT, _TXN_OFFSET_COMMIT) if key in apis)


def _transaction_states(scrape: Scrape) -> Iterator[Row]:
    coordinator = _transactions(scrape)
    if coordinator is None:
        return
    counts: Counter[str] = Counter()
    for shard in coordinator.runtime.active_shards():
        counts.update(transaction.status.label for transaction in shard.state.transactions.values())
        yield None
    for state, count in sorted(counts.items()):
        yield (state,), count


def _ended(scrape: Scrape) -> Iterator[Row]:
    coordinator = _transactions(scrape)
    if coordinator is not None:
        yield ("commit",), coordinator.context.commits
        yield ("abort",), coordinator.context.aborts


# fmt: off
COORDINATOR_METRICS: Final = (
    Metric("kafka_consumergroup_lag", GAUGE, ("consumergroup", "topic", "partition"),
           "Records between a group's committed offset and the end of the partition. Reported by the coordinator of "
           "the group if it has a replica of the partition; named as in kafka-exporter.", "", _lags),
    Metric("kafka_consumergroup_current_offset", GAUGE, ("consumergroup", "topic", "partition"),
           "The committed offset of a group, reported by its coordinator; named as in kafka-exporter.", "",
           _committed),
    Metric("kafka_server_group_coordinator_metrics_group_count", GAUGE, ("protocol", "state"),
           "Groups of this coordinator, by type and state.",
           "kafka.server:type=group-coordinator-metrics,name=group-count,protocol=*,state=*", _counts_of_groups),
    Metric("kafka_coordinator_group_groupmetadatamanager_numoffsets", GAUGE, (),
           "Committed offsets that this coordinator stores.",
           "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
           lambda scrape: sum(state.offsets.count_of_group(group) for state in _group_states(scrape)
                              for group in state.offsets.groups())),
    Metric("ottla_group_rebalances_total", COUNTER, (),
           "Rebalances of groups of this coordinator: new generations and group epochs.",
           "kafka.server:type=group-coordinator-metrics; group-completed-rebalance-count and "
           "consumer-group-rebalance-count",
           lambda scrape: 0 if (groups := _groups(scrape)) is None else groups.context.rebalances),
    Metric("ottla_offset_commit_requests_total", COUNTER, (),
           "OffsetCommit and TxnOffsetCommit requests.", "", _commit_requests),
    Metric("ottla_coordinator_partitions", GAUGE, ("coordinator", "state"),
           "Partitions of the coordinators' topics that this broker leads, by loading state.",
           "kafka.server:type=group-coordinator-metrics,name=num-partitions,state=*", _shards),
    Metric("ottla_coordinator_batches_total", COUNTER, ("coordinator",),
           "Batches appended to the coordinators' topics. A batch costs as much as a produce request with acks=all.",
           "", _load(lambda s: s.batches)),
    Metric("ottla_coordinator_records_total", COUNTER, ("coordinator",),
           "Records in these batches.", "", _load(lambda s: s.records)),
    Metric("ottla_coordinator_bytes_total", COUNTER, ("coordinator",),
           "Bytes of these batches.", "", _load(lambda s: s.bytes)),
    Metric("ottla_coordinator_failed_batches_total", COUNTER, ("coordinator",),
           "Batches that could not be appended.", "", _load(lambda s: s.failed_batches)),
    Metric("ottla_coordinator_commit_wait_seconds_total", COUNTER, ("coordinator",),
           "Time for which batches waited for followers.", "", _load(lambda s: s.commit_wait_seconds)),
    Metric("ottla_coordinator_answers_waiting", GAUGE, ("coordinator",),
           "Responses that wait until their records are committed.", "", _waiting),
    Metric("ottla_coordinator_loads_total", COUNTER, ("coordinator",),
           "Partitions of the coordinators' topics that were loaded.", "", _load(lambda s: s.loads)),
    Metric("ottla_coordinator_load_seconds_total", COUNTER, ("coordinator",),
           "Time that these loads took.",
           "kafka.server:type=group-coordinator-metrics and transaction-coordinator-metrics; partition-load-time-avg",
           _load(lambda s: s.load_seconds)),
    Metric("ottla_transactional_ids", GAUGE, ("state",),
           "Transactional ids of this coordinator, by state; Ongoing means open.", "", _transaction_states),
    Metric("ottla_transactions_ended_total", COUNTER, ("result",),
           "Transactions that were committed or aborted.", "", _ended),
)
# fmt: on
