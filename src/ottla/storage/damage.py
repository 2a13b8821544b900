"""Opens a log again whose files were truncated or removed while the node ran.

The log ends at the same offset as before, so that no offset is assigned twice. The missing records are a gap, from
which `PartitionLog.doubtful_from` makes a follower fetch again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import World
from ottla.storage.errors import DISK_RETRY_SECONDS, is_temporary
from ottla.storage.log import PartitionLog
from ottla.storage.open_files import OpenFiles
from ottla.storage.partition_metadata import write_topic_id
from ottla.storage.recovery import open_log

if TYPE_CHECKING:
    from ottla.storage.directories import LogDirectory
    from ottla.storage.prompt_checkpoints import PromptCheckpoints

__all__ = ["recover_damaged", "recover_on_worker"]

logger = logging.getLogger(__name__)


def recover_on_worker(
    world: World,
    pool: OpenFiles,
    damaged: PartitionLog,
    topic_id: Uuid,
    directory: LogDirectory,
    checkpoints: PromptCheckpoints,
    is_wanted: Callable[[], bool],
) -> Deferred[PartitionLog]:
    """`recover_damaged`, again and again while the disk is full or there are no descriptors or memory.

    Resolves after `checkpoints` has written the offsets of the log, or without them if the node is stopping.
    """
    recovered: Deferred[PartitionLog] = Deferred()

    def begin() -> None:
        world.workers.submit(recover_damaged, world, pool, damaged, topic_id, directory.fail).when_done(on_done)

    def on_done(outcome: Deferred[PartitionLog]) -> None:
        if isinstance(outcome.error, OSError) and is_temporary(outcome.error) and is_wanted():
            logger.warning("%s cannot be recovered for now: %s", damaged.topic_partition, outcome.error)
            world.scheduler.call_later(
                DISK_RETRY_SECONDS, lambda: begin() if is_wanted() else outcome.pass_to(recovered)
            )
        else:
            outcome.pass_to(recovered)

    def write_offsets(log: PartitionLog) -> Deferred[PartitionLog]:
        # A shutdown before the log is in service is not clean: the next start has to find the gap again.
        directory.unrecovered.add(log.topic_partition)
        if not is_wanted():
            # The shutdown has its own checkpoints, and may have ended the workers.
            return Deferred.resolved(log)
        # After a crash, recovery from an older recovery point would take the gap for damage, and truncate the records
        # behind it. So the new recovery point is written before the first append.
        offsets = (log.recovery_point, log.log_start_offset, log.high_watermark)
        directory.offsets_of_refused[log.topic_partition] = offsets
        return checkpoints.written(directory).then(lambda _: log)

    begin()
    return recovered.and_then(write_offsets)


def recover_damaged(
    world: World, pool: OpenFiles, damaged: PartitionLog, topic_id: Uuid, on_failure: Callable[[OSError], None]
) -> PartitionLog:
    """Runs on a worker. The damaged log is out of service."""
    directory = damaged.directory
    is_gone = not world.files.is_directory(directory)
    if not is_gone:
        for segment in damaged.segments:
            # Recovery reads only the last segment. Markers in other segments may have no entry yet.
            segment.transaction_index.write_late()
    log, report = open_log(
        world,
        pool,
        topic_partition=damaged.topic_partition,
        directory=directory,
        config=damaged.config,
        # In a new directory there is nothing to check.
        clean_shutdown=is_gone,
        is_damaged=True,
        # The log was written up to its end.
        recovery_point=damaged.log_end_offset,
        log_start_offset=damaged.log_start_offset,
        cleaned_to=0 if damaged.may_have_gaps else None,
        producer_id_expiration_ms=damaged.producers.expiration_ms,
        on_failure=on_failure,
    )
    for segment in log.segments.from_offset(damaged.recovery_point):
        # The recovery point is now above these records, which no flush has synced.
        if world.files.exists(segment.path):
            file = world.files.open(segment.path, create=False)
            file.sync()
            file.close()
    if topic_id:
        log.files.sync_with_next_flush(write_topic_id(world.files, directory, topic_id))
    log.update_high_watermark(min(max(damaged.high_watermark, log.log_start_offset), report.high_watermark_max(log)))
    logger.error(
        "%s was recovered in %s: the records from offset %d to %d are lost here. If another replica leads, they are "
        "fetched from it again; otherwise they stay missing.",
        log.topic_partition,
        directory,
        report.lost_from,
        report.lost_to - 1,
    )
    return log
