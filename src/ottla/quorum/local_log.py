"""What every copy of the metadata log has in common, whoever writes to it: files, snapshots, recovery, reading.

`SingleVoterLog` (the leader's copy) and `ObserverLog` (a copy that follows a leader elsewhere) build on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion, World
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.quorum.journal import Journal
from ottla.quorum.snapshots import (
    Snapshot,
    SnapshotId,
    list_snapshots,
    read_snapshot,
    remove_unfinished_snapshots,
    snapshot_bytes,
    write_snapshot,
)
from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import iterate_records
from ottla.records.record import Record
from ottla.storage.leader_epochs import EpochEnd, LeaderEpochs
from ottla.wire.codec import decode
from ottla.wire.messages.control_records import KRaftVersionRecord, VotersRecord

__all__ = [
    "METADATA_DIRECTORY",
    "METADATA_TOPIC_ID",
    "CommittedBatch",
    "LocalMetadataLog",
    "MetadataLogSettings",
]

METADATA_DIRECTORY = "__cluster_metadata-0"
METADATA_TOPIC_ID = Uuid.ONE


class CommittedBatch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    # Empty for control batches, which concern only the quorum.
    values: list[memoryview]


class MetadataLogSettings(NamedTuple):
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 24 * 3600 * 1000


class LocalMetadataLog:
    """One node's files of the log; what may be appended and when it counts is for those who derive from it."""

    def __init__(
        self, *, world: World, directory: str, node_id: int, settings: MetadataLogSettings, directory_id: Uuid
    ) -> None:
        self._world = world
        self._directory = directory
        self._node_id = node_id
        self._settings = settings
        self._directory_id = directory_id
        self._journal = Journal(world.files, directory)
        self._epochs = LeaderEpochs.load(world.files, directory)
        self._kraft_version = 0
        self._voters_record: bytes | None = None
        self._leader_epoch = 0
        self._committed_offset = 0
        # Called after the committed offset has grown.
        self.on_committed: list[Callable[[], object]] = []

    @property
    def node_id(self) -> int:
        return self._node_id

    @property
    def leader_epoch(self) -> int:
        return self._leader_epoch

    @property
    def directory_id(self) -> Uuid:
        """The directory that this copy lies in."""
        return self._directory_id

    @property
    def voter_directory_id(self) -> Uuid:
        return self._directory_id if self._kraft_version > 0 else Uuid.ZERO

    @property
    def start_offset(self) -> int:
        return self._journal.start_offset

    @property
    def committed_offset(self) -> int:
        return self._committed_offset

    @property
    def end_offset(self) -> int:
        return self._journal.end_offset

    @property
    def size_bytes(self) -> int:
        return self._journal.size_bytes

    @property
    def cut_bytes(self) -> int:
        """How much of a torn tail was cut off on opening."""
        return self._journal.cut_bytes

    def committed_batches(self, from_offset: int) -> Iterator[CommittedBatch]:
        for batch in self._journal.batches(from_offset):
            header = batch.header
            if header.base_offset >= self._committed_offset:
                return
            values = [] if header.is_control else [memoryview(record.value or b"") for record in iterate_records(batch)]
            yield CommittedBatch(
                header.base_offset, header.last_offset, header.leader_epoch, header.max_timestamp, values
            )

    def region(self, from_offset: int, *, max_bytes: int) -> FileRegion | None:
        return self._journal.region(from_offset, end_offset=self._committed_offset, max_bytes=max_bytes)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where the largest epoch at or below this one ends; -1 and -1 when the log knows none."""
        return self._epochs.end_offset_for(epoch, self._journal.end_offset)

    def snapshots(self) -> list[SnapshotId]:
        """Finished snapshots, oldest first."""
        return list_snapshots(self._world.files, self._directory)

    def snapshot_path(self, identity: SnapshotId) -> str:
        return f"{self._directory}/{identity.file_name}"

    def latest_snapshot(self) -> tuple[SnapshotId, Snapshot] | None:
        """The newest snapshot that is whole; a damaged one is an error, since the log before it may be gone."""
        snapshots = self.snapshots()
        if not snapshots:
            return None
        newest = snapshots[-1]
        return newest, read_snapshot(self._world.files, self.snapshot_path(newest))

    def write_snapshot(
        self, *, end_offset: int, epoch: int, values: Iterable[bytes], last_contained_timestamp_ms: int
    ) -> Deferred[SnapshotId]:
        """Writes a snapshot on a worker (`values` must not touch what changes), then drops what it makes obsolete."""
        assert end_offset <= self._committed_offset, "a snapshot covers committed entries only"
        identity = SnapshotId(end_offset, epoch)
        now_ms = self._world.clock.now_ms()
        batches = snapshot_bytes(
            values,
            epoch=epoch,
            timestamp_ms=now_ms,
            last_contained_timestamp_ms=last_contained_timestamp_ms,
            kraft_version=self._kraft_version,
            voters_record=self._voters_record,
        )
        result: Deferred[SnapshotId] = Deferred()

        def written(size: Deferred[int]) -> None:
            if size.error is not None:
                result.fail(size.error)
                return
            self._delete_obsolete(now_ms)
            result.resolve(identity)

        path = self.snapshot_path(identity)
        self._world.workers.submit(write_snapshot, self._world.files, path, batches).when_done(written)
        return result

    def _recover(self) -> None:
        """Holds snapshot and journal against each other; everything in the files counts as committed afterwards."""
        files = self._world.files
        remove_unfinished_snapshots(files, self._directory)
        snapshot = self.latest_snapshot()
        if snapshot is not None:
            identity, content = snapshot
            self._kraft_version = content.kraft_version
            self._check_voters(content.voter_ids)
            self._voters_record = content.voters_record
            if self._journal.end_offset < identity.end_offset:
                self._journal.start_at(identity.end_offset)
            elif self._journal.start_offset > identity.end_offset:
                raise MetadataLogDamagedError(
                    f"{self._directory} begins at offset {self._journal.start_offset}, but its newest snapshot ends at "
                    f"{identity.end_offset}: entries between them are missing"
                )
        elif self._journal.start_offset > 0:
            raise MetadataLogDamagedError(
                f"{self._directory} begins at offset {self._journal.start_offset} and has no snapshot before it"
            )
        self._committed_offset = self._journal.end_offset
        for batch in self._journal.batches(self._journal.start_offset):
            if batch.header.is_control:
                for record in iterate_records(batch):
                    self._replay_control(record)

    def _replay_control(self, record: Record) -> None:
        kind = read_control_type(record.key)
        body = memoryview(record.value or b"")
        if kind == ControlType.KRAFT_VERSION:
            self._kraft_version = decode(KRaftVersionRecord, body, 0)[0].kraft_version
        elif kind == ControlType.KRAFT_VOTERS:
            self._check_voters([voter.voter_id for voter in decode(VotersRecord, body, 0)[0].voters])
            self._voters_record = bytes(body)

    def _check_voters(self, voters: Iterable[int]) -> None:
        """Raises MetadataLogUnsupportedError when this copy cannot belong to a quorum of these voters."""

    def _write_partition_metadata(self) -> None:
        files = self._world.files
        path = f"{self._directory}/partition.metadata"
        if not files.exists(path):
            files.write_atomically(path, f"version: 0\ntopic_id: {METADATA_TOPIC_ID}".encode(), durable=False)

    def _roll_if_due(self, now_ms: int) -> None:
        journal = self._journal
        first_ms = journal.active_first_timestamp_ms
        if journal.active_size_bytes >= self._settings.segment_bytes or (
            first_ms >= 0 and now_ms - first_ms > self._settings.segment_ms
        ):
            journal.roll()

    def _tell_committed(self) -> None:
        for tell in self.on_committed:
            tell()

    def _delete_obsolete(self, now_ms: int) -> None:
        """Drops the oldest snapshots, and the log before the next one, while there is too much or it is too old."""
        files = self._world.files
        snapshots = self.snapshots()
        sizes = {each: files.size_of(self.snapshot_path(each)) for each in snapshots}
        while len(snapshots) > 1:
            oldest = snapshots[0]
            path = self.snapshot_path(oldest)
            # A negative setting sets no bound.
            too_much = 0 <= self._settings.retention_bytes < self._journal.size_bytes + sum(sizes.values())
            too_old = 0 <= self._settings.retention_ms < now_ms - files.modified_ms(path)
            if not too_much and not too_old:
                return
            files.remove(path)
            del sizes[oldest]
            snapshots.pop(0)
            self._journal.delete_before(snapshots[0].end_offset)
