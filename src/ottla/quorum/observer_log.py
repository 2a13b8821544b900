"""A copy of the metadata log that follows the leader's: what a broker without a vote keeps.

Batches arrive as the leader wrote them and are appended byte for byte. How far they are committed is the leader's word
(the high watermark of its answers). Nothing waits for an fsync: whatever a crash takes away, the leader still has, so a
copy that turns out damaged is thrown away and fetched anew.

On opening everything in the files counts as committed, so that the node has an idea of its topics before it has reached
the leader. Should the leader disagree, `truncate_to` goes back, and whoever has read further has to read anew.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.model.ports import File, World
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.quorum.local_log import METADATA_DIRECTORY, LocalMetadataLog, MetadataLogSettings
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.snapshots import PART_SUFFIX, SnapshotId, read_snapshot
from ottla.records.errors import CorruptRecords
from ottla.records.iterate import iterate_batches, iterate_records, verify_checksum

__all__ = ["ObserverLog"]

NOBODY = -1


class ObserverLog(LocalMetadataLog):
    """Open it with `open`; the observer's fetch loop feeds it."""

    def __init__(
        self, *, world: World, directory: str, node_id: int, settings: MetadataLogSettings, directory_id: Uuid
    ) -> None:
        super().__init__(
            world=world, directory=directory, node_id=node_id, settings=settings, directory_id=directory_id
        )
        self._leader_id = NOBODY
        self._snapshot_epoch = 0
        self._incoming: tuple[SnapshotId, File] | None = None
        # Whether the copy was damaged and begun anew on opening, for the log line.
        self.was_discarded = False

    @classmethod
    def open(
        cls,
        *,
        world: World,
        metadata_log_dir: str,
        node_id: int,
        settings: MetadataLogSettings | None = None,
        directory_id: Uuid = Uuid.ZERO,
    ) -> ObserverLog:
        directory = f"{metadata_log_dir}/{METADATA_DIRECTORY}"

        def opened() -> ObserverLog:
            log = cls(
                world=world,
                directory=directory,
                node_id=node_id,
                settings=settings or MetadataLogSettings(),
                directory_id=directory_id,
            )
            log._recover()
            log._write_partition_metadata()
            state = read_quorum_state(world.files, directory)
            log._leader_epoch = max(0 if state is None else state.leader_epoch, log._journal.last_epoch, 0)
            newest = log.snapshots()
            log._snapshot_epoch = newest[-1].epoch if newest else 0
            return log

        try:
            return opened()
        except MetadataLogDamagedError:
            world.files.remove_tree(directory)
            log = opened()
            log.was_discarded = True
            return log

    @property
    def leader_id(self) -> int:
        return self._leader_id

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Not for an observer to say."""
        return ()

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry, for the leader to see whether our log is a prefix of its own."""
        return self._journal.last_epoch if self._journal.last_epoch >= 0 else self._snapshot_epoch

    def follow(self, *, leader_id: int, leader_epoch: int) -> None:
        """Takes note of who leads; epochs never go back."""
        assert leader_epoch >= self._leader_epoch, "an older epoch is not followed"
        if (leader_id, leader_epoch) == (self._leader_id, self._leader_epoch):
            return
        self._leader_id = leader_id
        self._leader_epoch = leader_epoch
        write_quorum_state(
            self._world.files,
            self._directory,
            QuorumState(
                leader_id=leader_id,
                leader_epoch=leader_epoch,
                voters=(leader_id,) if self._kraft_version == 0 and leader_id != NOBODY else (),
                data_version=1 if self._kraft_version > 0 else 0,
            ),
        )

    def append_fetched(self, records: memoryview) -> int:
        """Appends whole batches that continue the log; raises CorruptRecords when they do not. Returns how many."""
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

    def commit_to(self, high_watermark: int) -> None:
        """The leader says that everything below is committed; what we do not have yet counts once it is here."""
        offset = min(high_watermark, self._journal.end_offset)
        if offset > self._committed_offset:
            self._committed_offset = offset
            self._tell_committed()

    def truncate_to(self, offset: int) -> None:
        """Cuts off what the leader does not have."""
        self._journal.truncate_to(offset)
        self._epochs.truncate_from_end(self._journal.end_offset)
        self._committed_offset = min(self._committed_offset, self._journal.end_offset)

    # -- a snapshot instead of entries that the leader no longer has ------------------------------------------------

    def begin_snapshot(self, identity: SnapshotId) -> None:
        self.abandon_snapshot()
        path = self.snapshot_path(identity) + PART_SUFFIX
        if self._world.files.exists(path):
            self._world.files.remove(path)
        self._incoming = identity, self._world.files.open(path)

    def append_snapshot(self, piece: memoryview) -> int:
        """Adds the next bytes; returns how many there are now, which is the position of the next."""
        assert self._incoming is not None, "no snapshot is being fetched"
        _, file = self._incoming
        file.append(piece)
        return file.size

    def finish_snapshot(self) -> None:
        """Makes the snapshot the beginning of the log; raises MetadataLogDamagedError when it is not whole."""
        assert self._incoming is not None, "no snapshot is being fetched"
        identity, file = self._incoming
        self._incoming = None
        file.sync()
        file.close()
        path = self.snapshot_path(identity)
        content = read_snapshot(self._world.files, path + PART_SUFFIX)
        self._world.files.rename(path + PART_SUFFIX, path)
        self._world.files.sync_directory(self._directory)
        self._kraft_version = content.kraft_version
        self._voters_record = content.voters_record
        self._snapshot_epoch = identity.epoch
        self._journal.start_at(identity.end_offset)
        self._journal.last_epoch = -1
        self._epochs.clear()
        self._committed_offset = identity.end_offset

    def abandon_snapshot(self) -> None:
        if self._incoming is not None:
            identity, file = self._incoming
            self._incoming = None
            file.close()
            self._world.files.remove(self.snapshot_path(identity) + PART_SUFFIX)

    def close(self) -> None:
        """Syncs what is left and closes the files. Blocks."""
        self.abandon_snapshot()
        for file in self._journal.unsynced:
            file.sync()
        self._journal.close()
