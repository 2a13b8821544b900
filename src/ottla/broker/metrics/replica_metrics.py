"""Metrics of topics and of replication on this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.metric import COUNTER, GAUGE, PARTITIONS_PER_STEP, Metric, Row

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape
    from ottla.replica.counters import PartitionCounters
    from ottla.replica.partition import Partition
    from ottla.replica.statistics import ReplicaStatistics

__all__ = ["REPLICA_METRICS"]


def _by_topic(
    of_broker: Callable[[ReplicaStatistics], int], of_partition: Callable[[PartitionCounters], int]
) -> Callable[[Scrape], Iterator[Row]]:
    """The broker's total, without the label, and then every topic with partitions on this broker."""

    def read(scrape: Scrape) -> Iterator[Row]:
        yield (None,), of_broker(scrape.replicas)
        for topic in list(scrape.broker.replicas.by_name.values()):
            partitions = list(topic.partitions.values())
            total = 0
            for start in range(0, len(partitions), PARTITIONS_PER_STEP):
                if start:
                    yield None
                step = partitions[start : start + PARTITIONS_PER_STEP]
                total += sum([of_partition(partition.counters) for partition in step])
            yield (topic.name,), total

    return read


def _statistic(number: Callable[[ReplicaStatistics], int]) -> Callable[[Scrape], int]:
    return lambda scrape: number(scrape.replicas)


def _rows_of(holds: Callable[[Partition], bool]) -> Callable[[Scrape], Iterator[Row]]:
    def read(scrape: Scrape) -> Iterator[Row]:
        for partition in scrape.partitions_with_pauses():
            if partition is None:
                yield None
            elif holds(partition):
                yield (partition.topic, partition.index), 1

    return read


def _is_under_replicated(partition: Partition) -> bool:
    state = partition.leader_state
    return state is not None and len(state.isr) < state.replica_count


def _is_under_min(partition: Partition) -> bool:
    state = partition.leader_state
    return state is not None and len(state.isr) < partition.needed_replicas(state)


def _follower_lags(scrape: Scrape) -> Iterator[Row]:
    largest: dict[int, int] = {}
    for partition in scrape.partitions_with_pauses():
        if partition is None:
            yield None
            continue
        state = partition.leader_state
        if state is None or state.is_alone:
            continue
        end_offset = partition.log.log_end_offset
        for follower_id, progress in state.followers.items():
            lag = max(end_offset - max(progress.log_end_offset, 0), 0)
            if lag >= largest.get(follower_id, 0):
                largest[follower_id] = lag
    for follower_id, lag in sorted(largest.items()):
        yield (follower_id,), lag


def _purgatories(scrape: Scrape) -> Iterator[Row]:
    produces: set[object] = set()
    fetches: set[object] = set()
    deletes: set[object] = set()
    for partition in scrape.partitions_with_pauses():
        if partition is None:
            yield None
            continue
        if partition.parked_fetches:
            fetches.update(partition.parked_fetches)
        if partition.parked_replica_fetches:
            fetches.update(partition.parked_replica_fetches)
        if partition.parked_produces:
            produces.update(partition.parked_produces)
        if partition.parked_deletes:
            deletes.update(partition.parked_deletes)
    sizes = {"Produce": len(produces), "Fetch": len(fetches), "DeleteRecords": len(deletes)}
    for name, size in sizes.items():
        yield (name,), size


def _topic_metric(name: str) -> str:
    return f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec[,topic=*]"


def _manager_metric(name: str) -> str:
    return f"kafka.server:type=ReplicaManager,name={name}"


# fmt: off
REPLICA_METRICS: Final = (
    Metric("kafka_server_brokertopicmetrics_messagesin_total", COUNTER, ("topic",),
           "Records that producers have written; without a topic label, the total.",
           _topic_metric("MessagesIn"),
           _by_topic(lambda broker: broker.messages_in, lambda counters: counters.messages_in)),
    Metric("kafka_server_brokertopicmetrics_bytesin_total", COUNTER, ("topic",),
           "Bytes of records written to partitions that this broker leads.",
           _topic_metric("BytesIn"), _by_topic(lambda broker: broker.bytes_in, lambda counters: counters.bytes_in)),
    Metric("kafka_server_brokertopicmetrics_bytesout_total", COUNTER, ("topic",),
           "Bytes of records sent to consumers.",
           _topic_metric("BytesOut"), _by_topic(lambda broker: broker.bytes_out, lambda counters: counters.bytes_out)),
    Metric("kafka_server_brokertopicmetrics_replicationbytesin_total", COUNTER, ("topic",),
           "Bytes of records copied from leaders on other brokers.", _topic_metric("ReplicationBytesIn"),
           _by_topic(lambda broker: broker.replica_bytes_in, lambda counters: counters.replica_bytes_in)),
    Metric("kafka_server_brokertopicmetrics_replicationbytesout_total", COUNTER, ("topic",),
           "Bytes of records sent to followers.", _topic_metric("ReplicationBytesOut"),
           _by_topic(lambda broker: broker.replica_bytes_out, lambda counters: counters.replica_bytes_out)),
    Metric("kafka_server_brokertopicmetrics_failedproducerequests_total", COUNTER, ("topic",),
           "Partitions of produce requests that were answered with an error.", _topic_metric("FailedProduceRequests"),
           _by_topic(lambda broker: broker.failed_produce_requests, lambda counters: counters.failed_produces)),
    Metric("ottla_duplicate_batches_total", COUNTER, ("topic",),
           "Duplicate batches of idempotent producers: dropped, and answered as the first time.",
           "", _by_topic(lambda broker: broker.duplicates, lambda counters: counters.duplicates)),
    Metric("kafka_server_brokertopicmetrics_failedfetchrequests_total", COUNTER, ("topic",),
           "Partitions of fetch requests that were answered with an error.", _topic_metric("FailedFetchRequests"),
           _by_topic(lambda broker: broker.failed_fetch_requests, lambda counters: counters.failed_fetches)),
    Metric("kafka_server_brokertopicmetrics_totalproducerequests_total", COUNTER, ("topic",),
           "Partitions of produce requests, answered with success or with an error.",
           _topic_metric("TotalProduceRequests"),
           _by_topic(lambda broker: broker.produces + broker.failed_produce_requests,
                     lambda counters: counters.produces + counters.failed_produces)),
    Metric("kafka_server_brokertopicmetrics_totalfetchrequests_total", COUNTER, ("topic",),
           "Partitions of fetch requests, those of followers included, answered with records or with an error.",
           _topic_metric("TotalFetchRequests"),
           _by_topic(lambda broker: broker.fetches + broker.failed_fetch_requests,
                     lambda counters: counters.fetches + counters.failed_fetches)),
    Metric("kafka_server_replicamanager_partitioncount", GAUGE, (),
           "Partitions with a replica on this broker.", _manager_metric("PartitionCount"),
           _statistic(lambda s: s.partitions)),
    Metric("kafka_server_replicamanager_leadercount", GAUGE, (),
           "Partitions that this broker leads.", _manager_metric("LeaderCount"), _statistic(lambda s: s.leaders)),
    Metric("kafka_server_replicamanager_underreplicatedpartitions", GAUGE, (),
           "Partitions led by this broker with replicas that are not in sync.",
           _manager_metric("UnderReplicatedPartitions"), _statistic(lambda s: s.under_replicated)),
    Metric("ottla_replica_out_of_sync_partitions", GAUGE, (),
           "Partitions with a replica on this broker, led or followed, with replicas that are not in sync. Replicas "
           "that a reassignment adds and replicas in failed directories of this broker do not count.", "",
           lambda scrape: scrape.cluster.out_of_sync_here),
    Metric("kafka_server_replicamanager_underminisrpartitioncount", GAUGE, (),
           "Partitions led by this broker with fewer than min.insync.replicas in sync: they refuse acks=all.",
           _manager_metric("UnderMinIsrPartitionCount"), _statistic(lambda s: s.under_min_isr)),
    Metric("kafka_server_replicamanager_atminisrpartitioncount", GAUGE, (),
           "Partitions led by this broker with exactly min.insync.replicas in sync: the next loss stops acks=all.",
           _manager_metric("AtMinIsrPartitionCount"), _statistic(lambda s: s.at_min_isr)),
    Metric("kafka_server_replicamanager_offlinereplicacount", GAUGE, (),
           "Replicas of this broker whose log directory is offline.",
           _manager_metric("OfflineReplicaCount"), _statistic(lambda s: s.offline)),
    Metric("kafka_server_replicamanager_reassigningpartitions", GAUGE, (),
           "Partitions led by this broker that are being reassigned.",
           _manager_metric("ReassigningPartitions"), lambda scrape: scrape.cluster.reassigning_here),
    Metric("kafka_server_replicamanager_partitionswithlatetransactionscount", GAUGE, (),
           "Partitions led by this broker with a hanging transaction.",
           _manager_metric("PartitionsWithLateTransactionsCount"), _statistic(lambda s: s.late_transactions)),
    Metric("kafka_server_replicamanager_isrshrinks_total", COUNTER, (),
           "Removals of a follower from an in-sync set.",
           _manager_metric("IsrShrinksPerSec"), _statistic(lambda s: s.isr_shrinks)),
    Metric("kafka_server_replicamanager_isrexpands_total", COUNTER, (),
           "Additions of a follower to an in-sync set.",
           _manager_metric("IsrExpandsPerSec"), _statistic(lambda s: s.isr_expansions)),
    Metric("kafka_cluster_partition_underreplicated", GAUGE, ("topic", "partition"),
           "1 for a partition led by this broker that is under-replicated; other partitions have no row.",
           "kafka.cluster:type=Partition,name=UnderReplicated,topic=*,partition=*", _rows_of(_is_under_replicated)),
    Metric("kafka_cluster_partition_underminisr", GAUGE, ("topic", "partition"),
           "1 for a partition led by this broker with fewer than min.insync.replicas in sync; no row for the others.",
           "kafka.cluster:type=Partition,name=UnderMinIsr,topic=*,partition=*", _rows_of(_is_under_min)),
    Metric("ottla_replica_max_lag", GAUGE, ("replica",),
           "Lag of a follower in records at its last fetch, in the partition with the largest lag; by the node id of "
           "the follower.", "", _follower_lags),
    Metric("kafka_server_replicafetchermanager_failedpartitionscount", GAUGE, (),
           "Followed partitions whose fetching has failed and is not retried.",
           "kafka.server:type=ReplicaFetcherManager,name=FailedPartitionsCount,clientId=Replica",
           _statistic(lambda s: s.failed_fetches)),
    Metric("kafka_server_delayedoperationpurgatory_purgatorysize", GAUGE, ("delayedoperation",),
           "Requests that wait for followers, for data, or for the deletion of records on all replicas.",
           "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=*", _purgatories),
    Metric("ottla_parked_timeouts_total", COUNTER, (),
           "Waiting requests that have timed out.", "", _statistic(lambda s: s.parked_timeouts)),
    Metric("kafka_server_fetchsessioncache_numincrementalfetchsessions", GAUGE, (),
           "Cached fetch sessions.",
           "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
           _statistic(lambda s: s.fetch_sessions)),
    Metric("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", GAUGE, (),
           "Partitions in all cached fetch sessions.",
           "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
           _statistic(lambda s: s.fetch_session_partitions)),
    Metric("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", COUNTER, (),
           "Fetch sessions evicted from the cache.",
           "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
           _statistic(lambda s: s.fetch_session_evictions)),
)
# fmt: on
