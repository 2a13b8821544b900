"""The log of a partition that is new on this node.

Its directory was just created, so there is nothing to recover, and creating the files is the only cost. One topic may
bring thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.model.config import LogConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.model.ports import World
from ottla.storage.failures import LogFailures
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log import PartitionLog
from ottla.storage.log_files import LogFiles
from ottla.storage.names import LOG_SUFFIX, PARTITION_METADATA_FILE, offset_file_name
from ottla.storage.open_files import OpenFiles
from ottla.storage.partition_metadata import write_topic_id
from ottla.storage.producers import ProducerLedger
from ottla.storage.recovery import open_log
from ottla.storage.segment import Segment

__all__ = ["begin_log", "create_log", "reopen_empty_log", "segment_without_file"]

_FIRST_LOG_FILE = offset_file_name(0, LOG_SUFFIX)


def create_log(
    world: World,
    pool: OpenFiles,
    *,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    path: str,
    config: LogConfig,
    producer_id_expiration_ms: int,
    on_failure: Callable[[OSError], None],
) -> PartitionLog:
    """Creates the directory and the log in it."""
    files = world.files
    # Left by an earlier attempt, which a full disk stopped.
    had_directory = files.is_directory(path)
    if not had_directory:
        files.make_directories(path)
    unsynced = [path, path.rpartition("/")[0]]
    if topic_id:
        unsynced.append(write_topic_id(files, path, topic_id))
    if had_directory:
        log = open_log(
            world,
            pool,
            topic_partition=topic_partition,
            directory=path,
            config=config,
            clean_shutdown=True,
            producer_id_expiration_ms=producer_id_expiration_ms,
            on_failure=on_failure,
        ).log
    else:
        log = begin_log(
            world,
            pool,
            topic_partition=topic_partition,
            directory=path,
            config=config,
            producer_id_expiration_ms=producer_id_expiration_ms,
            on_failure=on_failure,
        )
    log.files.sync_with_next_flush(*unsynced)
    return log


def begin_log(
    world: World,
    pool: OpenFiles,
    *,
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    producer_id_expiration_ms: int,
    on_failure: Callable[[OSError], None] | None = None,
) -> PartitionLog:
    """Creates an empty log in an empty directory. `recovery.open_log` opens any directory."""
    now_ms = world.clock.now_ms()
    if config.preallocate:
        segment = Segment.create(
            directory, 0, pool, now_ms=now_ms, preallocate_bytes=config.segment_bytes, has_remains=False
        )
    else:
        segment = segment_without_file(directory, pool, now_ms=now_ms)
    return _empty_log(world, pool, segment, topic_partition, config, producer_id_expiration_ms, on_failure)


def reopen_empty_log(
    world: World,
    pool: OpenFiles,
    *,
    topic_partition: TopicPartition,
    directory: str,
    listed: Iterable[str],
    config: LogConfig,
    producer_id_expiration_ms: int,
    on_failure: Callable[[OSError], None] | None = None,
) -> PartitionLog | None:
    """The log in a directory that has never had a record; None if any file shows otherwise.

    The caller has listed the directory and checked that no checkpoint has an offset of the log. May run on a worker.
    """
    files = world.files
    for name in listed:
        if name != PARTITION_METADATA_FILE and (name != _FIRST_LOG_FILE or files.size_of(f"{directory}/{name}")):
            return None
    segment = segment_without_file(directory, pool, now_ms=world.clock.now_ms())
    log = _empty_log(world, pool, segment, topic_partition, config, producer_id_expiration_ms, on_failure)
    # A flush passes over an empty log, so its directory may not be durable.
    log.files.sync_directory_with_next_flush()
    return log


def segment_without_file(directory: str, pool: OpenFiles, *, now_ms: int) -> Segment:
    """The first segment of a log, which begins at offset 0. Its first record creates the file.

    Most new partitions get no record for a while, and the file is half of the cost of a new partition.
    """
    return Segment(directory, 0, pool, size=0, created_ms=now_ms, is_new=True)


def _empty_log(
    world: World,
    pool: OpenFiles,
    segment: Segment,
    topic_partition: TopicPartition,
    config: LogConfig,
    producer_id_expiration_ms: int,
    on_failure: Callable[[OSError], None] | None,
) -> PartitionLog:
    directory = segment.directory
    producers = ProducerLedger(world.files, directory, expiration_ms=producer_id_expiration_ms, snapshots=())
    producers.begin_at(0)
    files = LogFiles(
        world,
        pool,
        directory,
        segments=[segment],
        producers=producers,
        epochs=LeaderEpochs(world.files, directory),
        failures=LogFailures(topic_partition, world.clock, on_failure=on_failure),
    )
    return PartitionLog(
        world,
        pool,
        files,
        topic_partition=topic_partition,
        config=config,
        log_start_offset=0,
        next_offset=0,
        recovery_point=0,
    )
