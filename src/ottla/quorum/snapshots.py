"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`.

A snapshot replaces every entry before its end offset. The file consists of record batches: a SnapshotHeader control
record, the state as ordinary records, a SnapshotFooter (KIP-630). It is written under a temporary name, synced and
renamed, so a file with the final name is complete. A file without a footer is damaged and not used.
`bootstrap.checkpoint` has the same format and contains the first records of a new cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.model.ports import Files
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.records.build import build_value_batch
from ottla.records.control import ControlType, build_control_batch, read_control_type
from ottla.records.errors import CorruptRecords
from ottla.records.iterate import iterate_batches, iterate_records, record_values, verify_checksum
from ottla.wire.codec import decode, encode
from ottla.wire.messages.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

__all__ = [
    "BOOTSTRAP_FILE",
    "PART_SUFFIX",
    "Snapshot",
    "SnapshotId",
    "list_snapshots",
    "read_snapshot",
    "remove_unfinished_snapshots",
    "snapshot_bytes",
    "write_snapshot",
]

BOOTSTRAP_FILE = "bootstrap.checkpoint"
SUFFIX = ".checkpoint"
PART_SUFFIX = ".part"

# The size of batches in a snapshot; a larger record gets its own batch.
_BATCH_BYTES = 512 * 1024


class SnapshotId(NamedTuple):
    """Covers every offset below `end_offset`; `epoch` is the epoch of the last covered entry."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


class Snapshot(NamedTuple):
    values: list[memoryview]
    last_contained_timestamp_ms: int
    # The quorum's own part of a snapshot (KIP-853); version 0 and no voters in a quorum given by configuration.
    kraft_version: int
    voter_ids: tuple[int, ...]
    voters_record: bytes | None
    size_bytes: int


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """The complete snapshots, oldest first."""
    complete = []
    for name in files.list_directory(directory):
        stem = name.removesuffix(SUFFIX)
        if stem == name or len(stem) != 31 or stem[20] != "-":
            continue
        offset, epoch = stem[:20], stem[21:]
        if offset.isdigit() and epoch.isdigit():
            complete.append(SnapshotId(int(offset), int(epoch)))
    return sorted(complete)


def remove_unfinished_snapshots(files: Files, directory: str) -> None:
    """Partly written snapshots that a crash has left."""
    for name in files.list_directory(directory):
        if name.endswith(SUFFIX + PART_SUFFIX):
            files.remove(f"{directory}/{name}")


def snapshot_bytes(
    values: Iterable[bytes],
    *,
    epoch: int,
    timestamp_ms: int,
    last_contained_timestamp_ms: int,
    kraft_version: int = 0,
    voters_record: bytes | None = None,
) -> Iterator[bytearray]:
    """The batches of a snapshot. Their offsets only count the records of the snapshot."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_timestamp_ms)
    controls = [(ControlType.SNAPSHOT_HEADER, encode(header, 0))]
    if kraft_version > 0 and voters_record is not None:
        controls.append((ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(kraft_version=kraft_version), 0)))
        controls.append((ControlType.KRAFT_VOTERS, voters_record))
    yield build_control_batch(controls, timestamp_ms=timestamp_ms, base_offset=0, leader_epoch=epoch)
    offset = len(controls)
    pending: list[bytes] = []
    pending_bytes = 0
    for value in values:
        if pending_bytes + len(value) > _BATCH_BYTES and pending:
            yield build_value_batch(pending, timestamp_ms=timestamp_ms, base_offset=offset, leader_epoch=epoch)
            offset += len(pending)
            pending, pending_bytes = [], 0
        pending.append(value)
        pending_bytes += len(value)
    if pending:
        yield build_value_batch(pending, timestamp_ms=timestamp_ms, base_offset=offset, leader_epoch=epoch)
        offset += len(pending)
    footer = encode(SnapshotFooterRecord(version=0), 0)
    yield build_control_batch(
        [(ControlType.SNAPSHOT_FOOTER, footer)], timestamp_ms=timestamp_ms, base_offset=offset, leader_epoch=epoch
    )


def write_snapshot(files: Files, path: str, batches: Iterable[bytearray]) -> int:
    """Writes a snapshot durably under its final name; returns its size. Blocks: call it on a worker."""
    part = path + PART_SUFFIX
    if files.exists(part):
        files.remove(part)
    file = files.open(part)
    try:
        for batch in batches:
            file.append(batch)
        file.sync()
        size = file.size
    finally:
        file.close()
    files.rename(part, path)
    files.sync_directory(path.rpartition("/")[0])
    return size


def read_snapshot(files: Files, path: str) -> Snapshot:
    """All values of a snapshot; raises if it is damaged or has no footer."""
    data = memoryview(files.read_bytes(path))
    values: list[memoryview] = []
    last_contained_timestamp_ms = 0
    kraft_version = 0
    voter_ids: tuple[int, ...] = ()
    voters_record: bytes | None = None
    finished = False
    try:
        for batch in iterate_batches(data):
            if not verify_checksum(batch.view, batch.header):
                raise MetadataLogDamagedError(f"{path} is damaged at byte {batch.position}")
            if not batch.header.is_control:
                values += record_values(batch)
                continue
            for record in iterate_records(batch):
                kind = read_control_type(record.key)
                body = memoryview(record.value or b"")
                if kind == ControlType.SNAPSHOT_HEADER:
                    last_contained_timestamp_ms = decode(SnapshotHeaderRecord, body, 0)[0].last_contained_log_timestamp
                elif kind == ControlType.KRAFT_VERSION:
                    kraft_version = decode(KRaftVersionRecord, body, 0)[0].kraft_version
                elif kind == ControlType.KRAFT_VOTERS:
                    voter_ids = tuple(voter.voter_id for voter in decode(VotersRecord, body, 0)[0].voters)
                    voters_record = bytes(body)
                elif kind == ControlType.SNAPSHOT_FOOTER:
                    finished = True
    except CorruptRecords as error:
        raise MetadataLogDamagedError(f"{path} is damaged: {error}") from error
    if not finished:
        raise MetadataLogDamagedError(f"{path} has no footer: it was not written completely")
    return Snapshot(values, last_contained_timestamp_ms, kraft_version, voter_ids, voters_record, len(data))
