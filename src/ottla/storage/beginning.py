"""The log of a partition that is new on this node.

Its directory was just created, so there is nothing to recover, and creating the files is the only cost. One topic may
bring thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.model.config import LogConfig
from ottla.model.ids import TopicPartition
from ottla.model.ports import World
from ottla.storage.failures import LogFailures
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log import PartitionLog
from ottla.storage.log_files import LogFiles
from ottla.storage.open_files import OpenFiles
from ottla.storage.producers import ProducerLedger
from ottla.storage.segment import Segment

__all__ = ["begin_log"]


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
    producers = ProducerLedger(world.files, directory, expiration_ms=producer_id_expiration_ms, snapshots=())
    producers.begin_at(0)
    preallocate_bytes = config.segment_bytes if config.preallocate else 0
    segment = Segment.create(
        directory, 0, pool, now_ms=world.clock.now_ms(), preallocate_bytes=preallocate_bytes, has_remains=False
    )
    if not preallocate_bytes:
        # Most new partitions get no record for a while. The first append opens the file again.
        segment.discard()
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
