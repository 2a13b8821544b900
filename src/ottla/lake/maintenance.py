"""Compaction of small files, expiry of snapshots, and deletion of files that no snapshot has.

A compaction replaces files by one with the same rows, in a snapshot that keeps the position. It may run beside the
pipeline: files that were replaced meanwhile make it fail, and rows that were added meanwhile stay.
"""

from __future__ import annotations

import logging
import pickle
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.lake.errors import Overtaken
from ottla.lake.files import DataFileWriter, IcebergFiles
from ottla.lake.iceberg import IcebergTable
from ottla.lake.tasks import RESULT, TaskResult, result_batch

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.table import FileScanTask
    from pyspark.sql import SparkSession

__all__ = ["SMALL_FILE_BYTES", "Compacted", "compact", "expire", "remove_orphans"]

log = logging.getLogger(__name__)

SMALL_FILE_BYTES = 32 * 1024 * 1024
"""Files below this size are merged."""
_GROUP_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Compacted:
    files_before: int
    files_after: int


def compact(
    spark: SparkSession, table: IcebergTable, *, files_min: int = 2, small_bytes: int = SMALL_FILE_BYTES
) -> Compacted:
    """Merges the small files of each partition that has at least `files_min` of them."""
    table.refresh()
    groups = _groups(list(table.table.scan().plan_files()), files_min, small_bytes)
    if not groups:
        return Compacted(0, 0)
    target = table.target()
    frame = spark.range(0, len(groups), 1, len(groups)).mapInArrow(partial(_merge_groups, target, groups), RESULT)
    added = []
    for row in frame.collect():
        added += target.received(pickle.loads(row.result).added)
    removed = [task.file for group in groups for task in group]
    try:
        table.replace(added, removed, commit_id=str(uuid.uuid4()))
    except Overtaken as error:
        log.warning("The compaction of %s is dropped: %s", table.name, error)
        return Compacted(0, 0)
    log.info("%s: %d files became %d", table.name, len(removed), len(added))
    return Compacted(len(removed), len(added))


def _groups(tasks: Sequence[FileScanTask], files_min: int, small_bytes: int) -> list[list[FileScanTask]]:
    """Small files of one partition, together not more than the size of a large file in memory."""
    by_partition: dict[Any, list[FileScanTask]] = {}
    for task in tasks:
        if task.file.file_size_in_bytes < small_bytes:
            by_partition.setdefault((task.file.spec_id, task.file.partition), []).append(task)
    groups: list[list[FileScanTask]] = []
    for small in by_partition.values():
        if len(small) < files_min:
            continue
        group: list[FileScanTask] = []
        size = 0
        for task in small:
            if group and size + task.file.file_size_in_bytes > _GROUP_BYTES_MAX:
                groups.append(group)
                group, size = [], 0
            group.append(task)
            size += task.file.file_size_in_bytes
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _merge_groups(
    target: IcebergFiles, groups: Sequence[Sequence[FileScanTask]], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    for batch in batches:
        for number in batch.column(0).to_pylist():
            rows = pyarrow.concat_tables([target.read(task) for task in groups[number]])
            names = [name for name in ("partition", "offset", "_partition", "_offset") if name in rows.column_names]
            writer = DataFileWriter(target, file_bytes=4 * _GROUP_BYTES_MAX)
            for part in rows.sort_by([(name, "ascending") for name in names[:2]]).to_batches():
                writer.add(part)
            yield result_batch(TaskResult(added=writer.finish()))


# Snapshots.


def expire(table: IcebergTable, *, older_than_ms: int, keep: int = 1) -> tuple[int, int]:
    """Removes older snapshots, except the `keep` newest ones, and the files that no other snapshot has.

    Returns the number of snapshots and files. A reader of a removed snapshot fails.
    """
    table.refresh()
    before_ms = time.time_ns() // 1_000_000 - older_than_ms
    snapshots = sorted(table.table.snapshots(), key=lambda snapshot: snapshot.timestamp_ms)
    named = {reference.snapshot_id for reference in table.table.refs().values()}
    old = [
        snapshot
        for snapshot in snapshots[: max(0, len(snapshots) - keep)]
        if snapshot.timestamp_ms < before_ms and snapshot.snapshot_id not in named
    ]
    if not old:
        return 0, 0
    expired_ids = {snapshot.snapshot_id for snapshot in old}
    kept = _files(table, [snapshot for snapshot in snapshots if snapshot.snapshot_id not in expired_ids])
    unused = _files(table, old) - kept
    table.table.maintenance.expire_snapshots().by_ids(sorted(expired_ids)).commit()
    # The files go last: after a crash they are orphans, while the other order would lose rows of a living snapshot.
    return len(old), sum(_delete(table, path) for path in sorted(unused))


def _files(table: IcebergTable, snapshots: Sequence[Any]) -> set[str]:
    """The paths of all files that the snapshots need: lists, manifests, data."""
    io = table.table.io
    paths: set[str] = set()
    seen: set[str] = set()
    for snapshot in snapshots:
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            paths.add(manifest.manifest_path)
            paths |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)}
    return paths


def remove_orphans(table: IcebergTable, *, older_than_ms: int) -> int:
    """Deletes data files and manifests that no snapshot has: those of batches whose driver or executor was killed.

    `older_than_ms` must be longer than any batch takes: files of a batch that is not committed yet are orphans, too.
    """
    from pyarrow import fs

    table.refresh()
    location = table.table.location()
    files, path = fs.FileSystem.from_uri(location) if "://" in location else (fs.LocalFileSystem(), location)
    before_s = time.time() - older_than_ms / 1000
    # The paths of a file system differ from those of the table: Azure leaves out the account, HDFS the host. File names
    # are compared instead. They contain a UUID; an orphan with the name of a live file would only remain.
    known = {_name(file) for file in _files(table, table.table.snapshots())}
    listed = [
        info
        for folder in ("data", "metadata")
        for info in files.get_file_info(fs.FileSelector(f"{path}/{folder}", recursive=True, allow_not_found=True))
    ]
    orphans = [
        info.path
        for info in listed
        if info.type == fs.FileType.File
        and info.path.endswith((".parquet", ".avro"))
        and info.mtime is not None
        and info.mtime.timestamp() < before_s
        and _name(info.path) not in known
    ]
    for orphan in orphans:
        files.delete_file(orphan)
    return len(orphans)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _delete(table: IcebergTable, path: str) -> bool:
    try:
        table.table.io.delete(path)
    except OSError as error:
        log.warning("Unused file %s remains: %s", path, error)
        return False
    return True
