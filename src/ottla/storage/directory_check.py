"""Checks all segments in a log directory of a stopped node, for `ottla doctor`. Nothing is changed.

In the last segment of a log, a damaged end above the recovery point is the usual effect of a crash, which the next
start repairs. It counts as damage after a clean shutdown only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.model.ids import TopicPartition
from ottla.model.ports import Files
from ottla.storage.directories import LogDirectory
from ottla.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_START_OFFSET_FILE,
    LOG_SUFFIX,
    RECOVERY_POINT_FILE,
    SEGMENT_SUFFIXES,
    DirectoryKind,
    offset_file_name,
    offset_of_file,
    parse_directory_name,
)
from ottla.storage.segment_check import Damage, SegmentCheck, check_segment

__all__ = ["DamagedSegment", "check_directory"]


class DamagedSegment(NamedTuple):
    topic_partition: TopicPartition
    path: str
    base_offset: int
    damage: Damage


class _Log(NamedTuple):
    files: Files
    topic_partition: TopicPartition
    directory: str
    names: set[str]
    recovery_point: int
    log_start_offset: int
    is_clean: bool
    may_have_gaps: bool


def check_directory(files: Files, path: str) -> Iterator[DamagedSegment | TopicPartition]:
    """Every checked partition, after its damaged segments. Raises OSError.

    The caller holds the lock of the directory.
    """
    directory = LogDirectory(files, path)
    recovery_points = directory.read_checkpoint(RECOVERY_POINT_FILE)
    start_offsets = directory.read_checkpoint(LOG_START_OFFSET_FILE)
    cleaned = directory.read_cleaned()
    is_clean = files.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}")
    for name in files.list_directory(path):
        parsed = parse_directory_name(name)
        if parsed is None or parsed.kind is not DirectoryKind.CURRENT or not files.is_directory(f"{path}/{name}"):
            continue
        partition = parsed.topic_partition
        if partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        log = _Log(
            files,
            partition,
            f"{path}/{name}",
            set(files.list_directory(f"{path}/{name}")),
            recovery_points.get(partition, 0),
            start_offsets.get(partition, 0),
            is_clean,
            cleaned is None or partition in cleaned,
        )
        yield from _check_log(log)
        yield partition


def _check_log(log: _Log) -> Iterator[DamagedSegment]:
    bases = sorted(
        {
            offset
            for name in log.names
            if name.endswith(SEGMENT_SUFFIXES)
            and (offset := offset_of_file(name)) is not None
            # A crash has interrupted the deletion.
            and offset_file_name(offset, LOG_SUFFIX) + DELETED_SUFFIX not in log.names
        }
    )
    for number, base_offset in enumerate(bases):
        is_last = number == len(bases) - 1
        path = f"{log.directory}/{offset_file_name(base_offset, LOG_SUFFIX)}"
        if is_last:
            damages = _check_last(log, path, base_offset)
        else:
            damages = _check_closed(log, path, base_offset, bases[number + 1])
        for damage in damages:
            if damage.last_offset >= log.log_start_offset:
                yield DamagedSegment(log.topic_partition, path, base_offset, damage)


def _check_closed(log: _Log, path: str, base_offset: int, end_offset: int) -> list[Damage]:
    if path.rpartition("/")[2] not in log.names:
        return [Damage("the log file is missing", base_offset, end_offset - 1)]
    size = log.files.size_of(path)
    index = path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX
    if size == 0 and log.files.exists(index) and log.files.size_of(index) > 0:
        return [Damage("the log file is empty", base_offset, end_offset - 1)]
    return _run(log, path, base_offset, size=size, end_offset=end_offset).damages


def _check_last(log: _Log, path: str, base_offset: int) -> list[Damage]:
    if path.rpartition("/")[2] not in log.names:
        return [Damage("the log file is missing", base_offset, max(log.recovery_point - 1, base_offset))]
    check = _run(log, path, base_offset, size=log.files.size_of(path), end_offset=None)
    damages = [damage for damage in check.damages if log.is_clean or damage.first_offset < log.recovery_point]
    if not check.damages and check.next_offset < log.recovery_point:
        damages.append(Damage("its last records are missing", check.next_offset, log.recovery_point - 1))
    return damages


def _run(log: _Log, path: str, base_offset: int, *, size: int, end_offset: int | None) -> SegmentCheck:
    return check_segment(
        SegmentCheck(log.files, path, base_offset, size=size, end_offset=end_offset, may_have_gaps=log.may_have_gaps)
    )
