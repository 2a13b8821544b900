"""The common part of all copies of the metadata log: files, snapshots, recovery, reading, following.

`VoterLog` (a copy that may lead) and `ObserverLog` (a copy that only follows) extend it.

Following is the same for both. Batches are appended byte for byte as the leader wrote them, and the committed offset is
the high watermark in the leader's responses.

On opening, every entry in the files is presumed to be committed, so that the node knows its topics before it has
reached another node. The first response of the quorum may revoke that. `on_replaced` reports it, and also a snapshot
that replaces entries: a reader that has read further must load the log again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import File, FileRegion, Files, Lane, World
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.quorum.journal import Journal
from ottla.quorum.snapshots import (
    PART_SUFFIX,
    Snapshot,
    SnapshotId,
    list_snapshots,
    read_snapshot,
    remove_unfinished_snapshots,
    snapshot_bytes,
    write_snapshot,
)
from ottla.quorum.voter_history import VoterHistory
from ottla.quorum.voters import VoterSet
from ottla.records.control import ControlType, read_control_type
from ottla.records.errors import CorruptRecords
from ottla.records.iterate import iterate_batches, iterate_records, record_values, verify_checksum
from ottla.records.record import Record
from ottla.storage.leader_epochs import EpochEnd, EpochStart, LeaderEpochs
from ottla.wire.codec import decode
from ottla.wire.messages.control_records import KRaftVersionRecord

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
    """The files of the log on one node. Subclasses define which appends are allowed and when they are committed."""

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
        # The voters, as far as the log has them (KIP-853).
        self.history = VoterHistory()
        self._leader_epoch = 0
        self._snapshot_epoch = 0
        self._committed_offset = 0
        self._is_presumed = True
        # The snapshot that is being fetched; without its file while a worker checks it.
        self._incoming: tuple[SnapshotId, File | None] | None = None
        # A snapshot that was read to check it, until the first reader takes it.
        self._checked: tuple[SnapshotId, Snapshot] | None = None
        # Called when the committed offset has grown.
        self.on_committed: list[Callable[[], object]] = []
        # Called when the committed log does not continue the previous one.
        self.on_replaced: Callable[[], object] | None = None

    @property
    def node_id(self) -> int:
        return self._node_id

    @property
    def leader_epoch(self) -> int:
        return self._leader_epoch

    @property
    def directory_id(self) -> Uuid:
        """The id of the directory of this copy."""
        return self._directory_id

    @property
    def kraft_version(self) -> int:
        return self.history.kraft_version

    @property
    def voter_directory_id(self) -> Uuid:
        return self._directory_id if self.kraft_version > 0 else Uuid.ZERO

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry. The leader compares it to find out whether our log is a prefix of its own."""
        return self._journal.last_epoch if self._journal.last_epoch >= 0 else self._snapshot_epoch

    @property
    def start_offset(self) -> int:
        return self._journal.start_offset

    @property
    def committed_offset(self) -> int:
        return self._committed_offset

    @property
    def known_committed_offset(self) -> int:
        """The committed offset without the entries that were presumed committed on opening."""
        return 0 if self._is_presumed else self._committed_offset

    @property
    def end_offset(self) -> int:
        return self._journal.end_offset

    @property
    def size_bytes(self) -> int:
        return self._journal.size_bytes

    @property
    def cut_bytes(self) -> int:
        """The bytes of a torn tail that opening has truncated."""
        return self._journal.cut_bytes

    def committed_batches(self, from_offset: int) -> Iterator[CommittedBatch]:
        for batch in self._journal.batches(from_offset):
            header = batch.header
            if header.base_offset >= self._committed_offset:
                return
            values = [] if header.is_control else record_values(batch)
            yield CommittedBatch(
                header.base_offset, header.last_offset, header.leader_epoch, header.max_timestamp, values
            )

    def region(self, from_offset: int, *, max_bytes: int) -> FileRegion | None:
        return self._journal.region(from_offset, end_offset=self._committed_offset, max_bytes=max_bytes)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The end of the largest epoch at or below this one; -1 and -1 if the log has none."""
        return self._epochs.end_offset_for(epoch, self._journal.end_offset)

    def snapshots(self) -> list[SnapshotId]:
        """The complete snapshots, oldest first."""
        return list_snapshots(self._world.files, self._directory)

    def snapshot_path(self, identity: SnapshotId) -> str:
        return f"{self._directory}/{identity.file_name}"

    def latest_snapshot(self) -> tuple[SnapshotId, Snapshot] | None:
        """The newest snapshot. A damaged one is an error, because the log before it may be deleted."""
        snapshots = self.snapshots()
        if not snapshots:
            return None
        newest = snapshots[-1]
        checked, self._checked = self._checked, None
        if checked is not None and checked[0] == newest:
            return checked
        return newest, read_snapshot(self._world.files, self.snapshot_path(newest))

    def write_snapshot(
        self, *, end_offset: int, epoch: int, values: Iterable[bytes], last_contained_timestamp_ms: int
    ) -> Deferred[SnapshotId]:
        """Writes a snapshot on a worker, then deletes obsolete entries. `values` must not read mutable state."""
        assert end_offset <= self._committed_offset, "a snapshot covers committed entries only"
        identity = SnapshotId(end_offset, epoch)
        now_ms = self._world.clock.now_ms()
        batches = snapshot_bytes(
            values,
            epoch=epoch,
            timestamp_ms=now_ms,
            last_contained_timestamp_ms=last_contained_timestamp_ms,
            kraft_version=self.history.kraft_version_at(end_offset),
            voters_record=self.history.record_at(end_offset),
        )

        def written(_size: int) -> SnapshotId:
            self._snapshot_epoch = max(self._snapshot_epoch, epoch)
            self._delete_obsolete(now_ms)
            return identity

        path = self.snapshot_path(identity)
        return (
            self._world.workers.lane(Lane.METADATA)
            .submit(write_snapshot, self._world.files, path, batches)
            .then(written)
        )

    def _recover(self) -> None:
        """Checks snapshot and journal against each other. Afterwards every entry in the files counts as committed."""
        files = self._world.files
        remove_unfinished_snapshots(files, self._directory)
        snapshot = self._checked = self.latest_snapshot()
        if snapshot is not None:
            identity, content = snapshot
            self._snapshot_epoch = identity.epoch
            self._take_from_snapshot(identity, content)
            if self._journal.end_offset < identity.end_offset or 0 <= self._journal.last_epoch < identity.epoch:
                # The node crashed between writing the snapshot and deleting the log before it.
                self._journal.start_at(identity.end_offset)
                self._epochs.clear()
            elif self._journal.start_offset > identity.end_offset:
                raise MetadataLogDamagedError(
                    f"{self._directory} starts at offset {self._journal.start_offset}, but its newest snapshot ends at "
                    f"{identity.end_offset}: entries between them are missing"
                )
        elif self._journal.start_offset > 0:
            raise MetadataLogDamagedError(
                f"{self._directory} starts at offset {self._journal.start_offset} and has no snapshot before it"
            )
        self._committed_offset = self._journal.end_offset
        # The checkpoint of epochs may be older than the log.
        epochs = [entry for entry in self._epochs.entries if entry.start_offset < self._journal.start_offset]
        for batch in self._journal.batches(self._journal.start_offset):
            header = batch.header
            if not epochs or header.leader_epoch > epochs[-1].epoch:
                epochs.append(EpochStart(header.leader_epoch, header.base_offset))
            if header.is_control:
                for record in iterate_records(batch):
                    self._replay_control(record)
        self._epochs.replace(epochs)

    def _take_from_snapshot(self, identity: SnapshotId, content: Snapshot) -> None:
        voters = None if content.voters_record is None else VoterSet.decode(content.voters_record)
        self.history.begin(identity.end_offset - 1, kraft_version=content.kraft_version, voters=voters)

    def _replay_control(self, record: Record) -> None:
        kind = read_control_type(record.key)
        body = memoryview(record.value or b"")
        if kind == ControlType.KRAFT_VERSION:
            self.history.add_kraft_version(record.offset, decode(KRaftVersionRecord, body, 0)[0].kraft_version)
        elif kind == ControlType.KRAFT_VOTERS:
            self.history.add_voters(record.offset, VoterSet.decode(body))

    # -- following --------------------------------------------------------------------------------------------------

    def append_fetched(self, records: memoryview) -> int:
        """Appends whole batches that continue the log; raises CorruptRecords otherwise. Returns their number."""
        appended = 0
        for batch in iterate_batches(records):
            header = batch.header
            if not verify_checksum(batch.view, header):
                raise CorruptRecords(f"the checksum of the entries at offset {header.base_offset} is wrong")
            if header.base_offset != self._journal.end_offset:
                raise CorruptRecords(
                    f"entries at offset {header.base_offset} do not continue a log that ends at "
                    f"{self._journal.end_offset}"
                )
            self._roll_if_due(header.max_timestamp)
            self._epochs.assign(header.leader_epoch, header.base_offset)
            self._journal.append(
                bytearray(batch.view[: header.size]),
                record_count=header.next_offset - header.base_offset,
                epoch=header.leader_epoch,
                timestamp_ms=header.max_timestamp,
            )
            if header.is_control:
                for record in iterate_records(batch):
                    self._replay_control(record)
            appended += 1
        return appended

    def invariants(self) -> None:
        """Holds between any two steps of the node; checked by the simulator and by model tests."""
        assert self.start_offset <= self.committed_offset <= self.end_offset, "committed entries are in the log"
        assert self._epochs.latest_start_offset <= self.end_offset, "an epoch begins within the log, or at its end"

    def commit_to(self, high_watermark: int) -> None:
        """The leader has committed everything below the offset. Missing entries are committed once they are here."""
        offset = min(high_watermark, self._journal.end_offset)
        was_presumed, self._is_presumed = self._is_presumed, False
        if offset > self._committed_offset:
            self._committed_offset = offset
            self._tell_committed()
        elif was_presumed and offset < self._committed_offset:
            self._committed_offset = max(offset, self._snapshot_end_offset())
            self._tell_replaced()

    def diverges_at(self, *, epoch: int, end_offset: int) -> int:
        """The truncation point for the end of the leader's largest epoch at or below our last epoch (KIP-595)."""
        ours = self.end_offset_for_epoch(epoch)
        offset = min(ours.end_offset, end_offset) if ours.epoch == epoch else ours.end_offset
        return max(offset, self._journal.start_offset)

    def truncate_to(self, offset: int) -> None:
        """Truncates the entries that the leader does not have."""
        self._journal.truncate_to(offset)
        end_offset = self._journal.end_offset
        self._epochs.truncate_from_end(end_offset)
        self.history.truncate_to(end_offset)
        if end_offset < self._committed_offset:
            self._committed_offset = end_offset
            self._tell_replaced()

    def begin_snapshot(self, identity: SnapshotId) -> None:
        """Starts a snapshot that replaces entries that the leader has deleted."""
        self.abandon_snapshot()
        path = self.snapshot_path(identity) + PART_SUFFIX
        if self._world.files.exists(path):
            self._world.files.remove(path)
        self._incoming = identity, self._world.files.open(path)

    def append_snapshot(self, piece: memoryview) -> int:
        """Appends a chunk; returns the size so far, which is the position of the next chunk."""
        assert self._incoming is not None, "no snapshot is being fetched"
        _, file = self._incoming
        assert file is not None, "the snapshot is complete"
        file.append(piece)
        return file.size

    def check_snapshot(self) -> Deferred[Snapshot]:
        """Reads the whole fetched snapshot on a worker; fails with MetadataLogDamagedError if it is incomplete.

        `install_snapshot` or `abandon_snapshot` must follow. The latter may come before the worker has ended.
        """
        assert self._incoming is not None, "no snapshot is being fetched"
        identity, file = self._incoming
        # From now on the worker closes the file.
        self._incoming = identity, None
        path = self.snapshot_path(identity) + PART_SUFFIX
        return self._world.workers.lane(Lane.METADATA).submit(_finish_file, self._world.files, file, path)

    def install_snapshot(self, content: Snapshot) -> None:
        """Makes the checked snapshot the start of the log."""
        self._replace_by(content)
        self._tell_replaced()

    def _replace_by(self, content: Snapshot) -> None:
        assert self._incoming is not None, "no snapshot is being fetched"
        identity, _ = self._incoming
        path = self.snapshot_path(identity)
        self._world.files.rename(path + PART_SUFFIX, path)
        self._incoming = None
        self._world.files.sync_directory(self._directory)
        self.history.clear()
        self._take_from_snapshot(identity, content)
        self._snapshot_epoch = identity.epoch
        self._journal.start_at(identity.end_offset)
        self._epochs.clear()
        self._committed_offset = identity.end_offset
        self._is_presumed = False
        self._checked = identity, content

    def abandon_snapshot(self) -> None:
        if self._incoming is not None:
            identity, file = self._incoming
            self._incoming = None
            if file is not None:
                file.close()
            # The next snapshot of this name, or the next start, removes a file that a failing disk keeps.
            with suppress(OSError):
                self._world.files.remove(self.snapshot_path(identity) + PART_SUFFIX)

    def _snapshot_end_offset(self) -> int:
        snapshots = self.snapshots()
        return snapshots[-1].end_offset if snapshots else 0

    def _tell_replaced(self) -> None:
        if self.on_replaced is not None:
            self.on_replaced()

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
            self._roll()

    def _roll(self) -> None:
        self._journal.roll()

    def _tell_committed(self) -> None:
        for tell in self.on_committed:
            tell()

    def _delete_obsolete(self, now_ms: int) -> None:
        """Deletes the oldest snapshots, and the log before the next one, beyond the limits of size and age."""
        files = self._world.files
        snapshots = self.snapshots()
        sizes = {snapshot: files.size_of(self.snapshot_path(snapshot)) for snapshot in snapshots}
        while len(snapshots) > 1:
            oldest = snapshots[0]
            path = self.snapshot_path(oldest)
            # A negative limit means no limit.
            too_much = 0 <= self._settings.retention_bytes < self._journal.size_bytes + sum(sizes.values())
            too_old = 0 <= self._settings.retention_ms < now_ms - files.modified_ms(path)
            if not too_much and not too_old:
                return
            files.remove(path)
            del sizes[oldest]
            snapshots.pop(0)
            self._journal.delete_before(snapshots[0].end_offset)


def _finish_file(files: Files, file: File | None, path: str) -> Snapshot:
    """Makes a fetched snapshot durable and reads it. Runs on a worker."""
    assert file is not None, "a snapshot is checked once"
    try:
        file.sync()
    finally:
        file.close()
    return read_snapshot(files, path)
