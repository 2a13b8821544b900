"""The doctor on log directories: damaged, truncated and missing segments, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.cli.failures import Failure
from ottla.cli.output import Output, counted
from ottla.host.files import OsFiles
from ottla.model.ids import TopicPartition
from ottla.model.ports import DirectoryLocked
from ottla.storage.directory_check import DamagedSegment, check_directory
from ottla.storage.names import LOCK_FILE

__all__ = ["find_damaged_segments", "show_damaged_segments"]

WHAT_TO_DO = (
    "If the topic has other replicas, start the node: it fetches these records from another in-sync replica. Otherwise "
    "restore the files from a backup before the start."
)


def find_damaged_segments(directory: str) -> tuple[list[DamagedSegment], list[TopicPartition]]:
    """The damaged segments in a log directory, and the partitions that were checked."""
    files = OsFiles()
    try:
        lock = files.lock(f"{directory}/{LOCK_FILE}")
    except DirectoryLocked as error:
        raise Failure(
            f"{directory} is in use by a running node. Stop the node, or set ottla.log.scrub.bytes.per.second: then "
            "the running node checks its segments."
        ) from error
    damaged: list[DamagedSegment] = []
    checked: list[TopicPartition] = []
    try:
        for outcome in check_directory(files, directory):
            if isinstance(outcome, DamagedSegment):
                damaged.append(outcome)
            else:
                checked.append(outcome)
    finally:
        lock.release()
    return damaged, checked


def show_damaged_segments(output: Output, directories: Iterable[str]) -> None:
    """A table for people, a list for programs. The exit code is 1 if a segment is damaged."""
    damaged: list[DamagedSegment] = []
    partitions = 0
    for directory in directories:
        segments, checked = find_damaged_segments(directory)
        damaged += segments
        partitions += len(checked)
    output.failed |= bool(damaged)
    output.emit({"damagedSegments": [_as_json(segment) for segment in damaged], "partitions": partitions})
    if output.as_json:
        return
    if not damaged:
        print(f"No segment is damaged ({counted(partitions, 'partition')}).")
        return
    rows = [
        (
            str(segment.topic_partition),
            segment.base_offset,
            f"{segment.damage.first_offset}-{segment.damage.last_offset}",
            segment.damage.reason,
            segment.path,
        )
        for segment in damaged
    ]
    output.table(("PARTITION", "SEGMENT", "OFFSETS", "DAMAGE", "FILE"), rows, right=(1, 2), fold=(3, 4))
    print(WHAT_TO_DO)


def _as_json(segment: DamagedSegment) -> dict[str, Any]:
    return {
        "topic": segment.topic_partition.topic,
        "partition": segment.topic_partition.partition,
        "segment": segment.base_offset,
        "firstOffset": segment.damage.first_offset,
        "lastOffset": segment.damage.last_offset,
        "damage": segment.damage.reason,
        "file": segment.path,
        "fix": WHAT_TO_DO,
    }
