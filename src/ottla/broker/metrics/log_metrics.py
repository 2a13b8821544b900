"""Metrics of the logs on this broker's disks, and of the cleaner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.metric import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Distribution, DistributionRow, Metric, Row

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape
    from ottla.replica.partition import Partition
    from ottla.storage.cleaner.cleaner import CleanerStatistics

__all__ = ["LOG_METRICS"]


def _per_partition(number: Callable[[Partition], int]) -> Callable[[Scrape], Iterator[Row]]:
    return lambda scrape: (((partition.topic, partition.index), number(partition)) for partition in scrape.partitions)


def _per_led_partition(number: Callable[[Partition], int]) -> Callable[[Scrape], Iterator[Row]]:
    def read(scrape: Scrape) -> Iterator[Row]:
        for partition in scrape.partitions_with_pauses():
            if partition is None:
                yield None
            elif partition.is_leader:
                yield (partition.topic, partition.index), number(partition)

    return read


def _flushes_ms(scrape: Scrape) -> Iterator[DistributionRow]:
    pool = scrape.broker.logs.pool
    recent = scrape.recent.growth("flush", pool.flush_times)
    yield (), Distribution(pool.flush_times, pool.flush_seconds * 1000, 1e-3, recent)


def _flushes(scrape: Scrape) -> Iterator[DistributionRow]:
    pool = scrape.broker.logs.pool
    yield (), Distribution(pool.flush_times, pool.flush_seconds, 1e-6)


def _volumes(scrape: Scrape, index: int) -> Iterator[Row]:
    files = scrape.broker.world.files
    for directory in scrape.broker.logs.directories:
        if not directory.is_offline:
            try:
                yield (directory.path,), files.free_bytes(directory.path)[index]
            except OSError:
                # The volume has failed. The next write takes the directory offline; until then it has no size.
                continue


def _cleaner(number: Callable[[CleanerStatistics], float]) -> Callable[[Scrape], float]:
    return lambda scrape: number(scrape.cleaner)


def _log_metric(name: str) -> str:
    return f"kafka.log:type=Log,name={name},topic=*,partition=*"


DAMAGED_SEGMENTS_MAX = 100

# fmt: off
LOG_METRICS: Final = (
    Metric("kafka_log_log_size", GAUGE, ("topic", "partition"),
           "Bytes of a partition's log on this broker.", _log_metric("Size"),
           _per_partition(lambda partition: partition.log.size_bytes)),
    Metric("kafka_log_log_numlogsegments", GAUGE, ("topic", "partition"),
           "Segments of a partition's log.", _log_metric("NumLogSegments"),
           _per_partition(lambda partition: len(partition.log.segments))),
    Metric("kafka_log_log_logstartoffset", GAUGE, ("topic", "partition"),
           "First offset of a partition's log.", _log_metric("LogStartOffset"),
           _per_partition(lambda partition: partition.log.log_start_offset)),
    Metric("kafka_log_log_logendoffset", GAUGE, ("topic", "partition"),
           "Offset of the next record of a partition's log.", _log_metric("LogEndOffset"),
           _per_partition(lambda partition: partition.log.log_end_offset)),
    Metric("kafka_topic_partition_current_offset", GAUGE, ("topic", "partition"),
           "High watermark of a partition, reported by its leader; named as in kafka-exporter.", "",
           _per_led_partition(lambda partition: partition.high_watermark)),
    Metric("kafka_log_logflushstats_logflushrateandtimems", SUMMARY, (),
           "Duration of log flushes in milliseconds; quantiles of the last minute or two.",
           "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", _flushes_ms),
    Metric("ottla_log_flush_seconds", HISTOGRAM, (), "Duration of log flushes.", "", _flushes),
    Metric("ottla_log_damaged_segments", GAUGE, (),
           "Damaged segments that were found and are not repaired yet.", "",
           lambda scrape: len(scrape.damaged_segments)),
    Metric("ottla_log_damaged_segment", GAUGE, ("topic", "partition", "offset"),
           "1 for a damaged segment, by its base offset; the first hundred of them.", "",
           lambda scrape: (((*partition, base_offset), 1)
                           for partition, base_offset in scrape.damaged_segments[:DAMAGED_SEGMENTS_MAX])),
    Metric("ottla_log_scrubbed_bytes_total", COUNTER, (),
           "Bytes of closed segments that were checked in the background (ottla.log.scrub.bytes.per.second).", "",
           lambda scrape: scrape.broker.logs.maintenance.scrubbed_bytes),
    Metric("kafka_log_logmanager_offlinelogdirectorycount", GAUGE, (),
           "Log directories that are offline.", "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
           lambda scrape: sum(directory.is_offline for directory in scrape.broker.logs.directories)),
    Metric("kafka_log_logmanager_logdirectoryoffline", GAUGE, ("logdirectory",),
           "1 for a log directory that is offline, else 0.",
           "kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=*",
           lambda scrape: (((directory.path,), int(directory.is_offline))
                           for directory in scrape.broker.logs.directories)),
    Metric("ottla_log_directory_size_bytes", GAUGE, ("logdirectory",),
           "Size of the volume that holds a log directory.", "", lambda scrape: _volumes(scrape, 0)),
    Metric("ottla_log_directory_usable_bytes", GAUGE, ("logdirectory",),
           "Free bytes on the volume that holds a log directory.", "", lambda scrape: _volumes(scrape, 1)),
    Metric("ottla_log_files_open", GAUGE, (),
           "Open log files.", "", lambda scrape: len(scrape.broker.logs.pool)),
    Metric("kafka_log_logcleanermanager_max_dirty_percent", GAUGE, (),
           "Dirty percentage of the dirtiest log.",
           "kafka.log:type=LogCleanerManager,name=max-dirty-percent", _cleaner(lambda s: 100 * s.dirtiest_ratio)),
    Metric("kafka_log_logcleanermanager_time_since_last_run_ms", GAUGE, (),
           "Milliseconds since the last run of the cleaner.",
           "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
           lambda scrape: max(scrape.broker.world.clock.now_ms() - scrape.cleaner.last_run_ms, 0)),
    Metric("kafka_log_logcleanermanager_uncleanable_partitions_count", GAUGE, (),
           "Logs that the cleaner has marked as uncleanable.",
           "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,logDirectory=*",
           _cleaner(lambda s: s.uncleanable)),
    Metric("kafka_log_logcleaner_max_buffer_utilization_percent", GAUGE, (),
           "Utilization of the key map in the last cleaning, in percent.",
           "kafka.log:type=LogCleaner,name=max-buffer-utilization-percent",
           _cleaner(lambda s: 100 * s.last_map_utilization)),
    Metric("kafka_log_logcleaner_cleaner_recopy_percent", GAUGE, (),
           "Bytes that cleanings have written, in percent of the bytes that they have read.",
           "kafka.log:type=LogCleaner,name=cleaner-recopy-percent",
           _cleaner(lambda s: 100 * s.bytes_kept / s.bytes_read if s.bytes_read else 0)),
    Metric("ottla_log_cleanings_total", COUNTER, (), "Completed log cleanings.", "",
           _cleaner(lambda s: s.cleanings)),
    Metric("ottla_log_cleanings_running", GAUGE, (), "Running log cleanings.", "",
           _cleaner(lambda s: s.running)),
)
# fmt: on
