"""The logs of a directory as a clean shutdown left them, in one file: `ottla-clean-logs`.

A start reads this file instead of the directories of thousands of partitions. For each log it contains the end of the
log and the stamps of its directory and its log files (`Files.stamp_of`). A log is taken as it was left only if no stamp
has changed; otherwise it is opened like any other log. The file is valid only together with the marker of the same
shutdown, whose stamp it contains, too. So a start never trusts the file after a crash, or after another program has
used the directory. Apache Kafka ignores the file.

The format is JSON: a list of the version, the stamp of the marker and, for each topic, its name and its logs
(`LeftLog`), behind a checksum of eight hexadecimal digits. The file contains everything that a start needs of such
logs, so their checkpoints are not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

from ottla.model.config import LogConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.model.ports import Files, World
from ottla.storage.failures import LogFailures
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log import PartitionLog
from ottla.storage.log_files import LogFiles
from ottla.storage.names import CLEAN_LOGS_FILE, LOG_SUFFIX, offset_file_name
from ottla.storage.open_files import OpenFiles
from ottla.storage.producers import ProducerLedger
from ottla.storage.segment import Segment

__all__ = ["LeftLog", "read_clean_logs", "reopen_log", "write_clean_logs"]

_VERSION = 3
_CHECKSUM_LENGTH = 8
_NO_FILE = -1


class LeftLog(NamedTuple):
    """One log. Its sequences are lists, as in JSON."""

    partition: int
    topic_id: str
    start_offset: int
    high_watermark: int
    end_offset: int
    directory_stamp: int
    segments: list[list[int]]
    """Base offset, size, time of the last change in milliseconds, and stamp of the log file."""
    epochs: list[list[int]]
    snapshots: list[int]
    has_producers: bool


def write_clean_logs(
    files: Files, directory: str, logs: Iterable[tuple[PartitionLog, Uuid | None]], *, marker_stamp: int
) -> None:
    """The logs are closed and synced, and the marker of the clean shutdown is written."""
    by_topic: dict[str, list[LeftLog]] = {}
    for log, topic_id in logs:
        # A file may be missing. The next start handles that.
        with suppress(OSError):
            if _is_plain(files, log):
                by_topic.setdefault(log.topic_partition.topic, []).append(_left_log(files, log, topic_id))
    content = json.dumps([_VERSION, marker_stamp, list(by_topic.items())], separators=(",", ":")).encode()
    files.write_atomically(f"{directory}/{CLEAN_LOGS_FILE}", b"%08x" % crc32(content) + content)


def read_clean_logs(files: Files, directory: str, *, marker_stamp: int) -> dict[str, LeftLog]:
    """The logs of the last clean shutdown by the names of their directories. The file is removed.

    Empty if the file is not of that shutdown.
    """
    path = f"{directory}/{CLEAN_LOGS_FILE}"
    if not files.exists(path):
        return {}
    data = files.read_bytes(path)
    files.remove(path)
    content = memoryview(data)[_CHECKSUM_LENGTH:]
    if marker_stamp == -1 or data[:_CHECKSUM_LENGTH] != b"%08x" % crc32(content):
        return {}
    try:
        version, stamp, *topics = json.loads(bytes(content))
    except ValueError:
        # An empty file, or zeros, whose checksum is zero, too.
        return {}
    if version != _VERSION or stamp != marker_stamp:
        return {}
    return {f"{topic}-{fields[0]}": LeftLog._make(fields) for topic, logs in topics[0] for fields in logs}


def reopen_log(
    world: World,
    pool: OpenFiles,
    left: LeftLog,
    *,
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    cleaned_to: int | None,
    producer_id_expiration_ms: int,
    on_failure: Callable[[OSError], None] | None,
    now_ms: int,
) -> PartitionLog | None:
    """The log as it was left, or None if a file has changed since then. `recovery.open_log` opens any log.

    The log start offset and the high watermark are those of the shutdown, because the checkpoints may be older.
    """
    files = world.files
    if files.stamp_of(directory) != left.directory_stamp:
        return None
    segments = _left_segments(files, pool, left, directory, now_ms)
    if not segments:
        return None
    segments[-1].is_tail_unread = True
    epochs = LeaderEpochs(files, directory)
    if left.epochs:
        epochs.restore(left.epochs)
        epochs.truncate_from_end(left.end_offset)
        epochs.truncate_from_start(left.start_offset)
    producers = ProducerLedger(files, directory, expiration_ms=producer_id_expiration_ms, snapshots=left.snapshots)
    if not left.has_producers:
        producers.begin_at(left.end_offset)
    elif not producers.load_snapshot(left.end_offset, now_ms):
        return None
    if left.snapshots:
        try:
            producers.remove_strays({segment.base_offset for segment in segments})
        except FileNotFoundError:
            return None
    failures = LogFailures(topic_partition, world.clock, on_failure=on_failure)
    log = PartitionLog(
        world,
        pool,
        LogFiles(world, pool, directory, segments=segments, producers=producers, epochs=epochs, failures=failures),
        topic_partition=topic_partition,
        config=config,
        log_start_offset=left.start_offset,
        next_offset=left.end_offset,
        recovery_point=left.end_offset,
    )
    if log.files.is_empty:
        # A flush passes over an empty log, so its directory may not be durable.
        log.files.sync_directory_with_next_flush()
    if cleaned_to is not None:
        log.files.note_compacted()
    if left.high_watermark > left.start_offset:
        log.update_high_watermark(left.high_watermark)
    return log


def _left_segments(files: Files, pool: OpenFiles, left: LeftLog, directory: str, now_ms: int) -> list[Segment]:
    """The segments as they were left; empty if a log file has changed."""
    segments: list[Segment] = []
    for base_offset, size, modified_ms, stamp in left.segments:
        # A segment that had no file still has none, because the stamp of the directory is unchanged.
        if stamp != _NO_FILE and files.stamp_of(f"{directory}/{offset_file_name(base_offset, LOG_SUFFIX)}") != stamp:
            return []
        segments.append(Segment(directory, base_offset, pool, size=size, created_ms=now_ms, modified_ms=modified_ms))
    return segments


def _is_plain(files: Files, log: PartitionLog) -> bool:
    """True if opening the log would find nothing to repair, to remove or to doubt."""
    *closed, active = log.segments
    if log.recovery_point < log.log_end_offset or log.log_start_offset > log.log_end_offset:
        return False
    if log.epochs.is_unwritten:
        # The file has epochs that the log has not.
        return False
    if log.doubtful_from is not None or log.files.failures.damaged_segments or log.files.failures.gaps_to_skip:
        return False
    if any(segment.size == 0 for segment in closed) or (closed and active.size == 0):
        # Only opening the log distinguishes compaction from damage.
        return False
    if any(_stored_size(files, segment) != segment.size for segment in log.segments):
        # Another program has truncated a file while the node ran, and no read has noticed it.
        return False
    return not ((log.files.has_deleted or log.may_have_gaps) and log.files.has_leftovers())


def _stored_size(files: Files, segment: Segment) -> int:
    if segment.size == 0 and segment.base_offset == 0 and not files.exists(segment.path):
        # No record has created the file yet.
        return 0
    return files.size_of(segment.path)


def _left_log(files: Files, log: PartitionLog, topic_id: Uuid | None) -> LeftLog:
    return LeftLog(
        log.topic_partition.partition,
        str(topic_id or Uuid.ZERO),
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        files.stamp_of(log.directory),
        [
            [segment.base_offset, segment.size, segment.modified_ms, files.stamp_of(segment.path)]
            for segment in log.segments
        ],
        [list(entry) for entry in log.epochs.entries],
        list(log.producers.snapshots),
        len(log.producers.state) > 0,
    )
