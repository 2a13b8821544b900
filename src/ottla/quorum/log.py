"""The metadata log as its writers and readers see it, and its form with a single voter.

`MetadataLog` is all that `ottla.metadata` knows: append values, learn when they are committed, read what is committed,
keep snapshots. A value is one metadata record in its framing; the log does not look into it.

With one voter an entry is committed as soon as it is durable here. Appends go to the page cache at once; one fsync at
a time runs on a worker, and whatever was appended while it ran is covered by the next (group commit). Nothing is
reported committed before its fsync returned. When a write is refused (the disk is full) the file is as before and the
append fails alone; when an fsync fails, nobody knows what is on the disk, and the log stops for good: every append
that waits, and every later one, fails with `MetadataLogFailedError`.

Each start is a new epoch: it is written to `quorum-state` first and opened in the log by a LeaderChange record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import File, FileRegion, Files, World
from ottla.quorum.errors import MetadataLogFailedError, MetadataLogUnsupportedError
from ottla.quorum.local_log import METADATA_DIRECTORY, CommittedBatch, LocalMetadataLog, MetadataLogSettings
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.snapshots import Snapshot, SnapshotId
from ottla.records.build import build_batch
from ottla.records.control import ControlType, build_control_batch
from ottla.records.record import Record
from ottla.wire.codec import encode
from ottla.wire.messages.control_records import LeaderChangeMessage, LeaderChangeVoter

__all__ = [
    "METADATA_DIRECTORY",
    "CommittedBatch",
    "MetadataLog",
    "MetadataLogSettings",
    "ReadableMetadataLog",
    "SingleVoterLog",
]


class ReadableMetadataLog(Protocol):
    """A copy of the log, whoever writes to it."""

    @property
    def node_id(self) -> int: ...

    @property
    def leader_id(self) -> int:
        """The active controller, or -1."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def voter_ids(self) -> tuple[int, ...]: ...

    @property
    def voter_directory_id(self) -> Uuid:
        """The directory of this node's voter (KIP-853); zero in a quorum given by configuration."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; what is before it is in the snapshot."""

    @property
    def committed_offset(self) -> int:
        """The first offset that is not committed (the high watermark)."""

    @property
    def end_offset(self) -> int:
        """The offset the next append will get."""

    def committed_batches(self, from_offset: int) -> Iterator[CommittedBatch]: ...

    def region(self, from_offset: int, *, max_bytes: int) -> FileRegion | None:
        """Committed bytes for a fetch of another node."""

    def latest_snapshot(self) -> tuple[SnapshotId, Snapshot] | None: ...

    def write_snapshot(
        self, *, end_offset: int, epoch: int, values: Iterable[bytes], last_contained_timestamp_ms: int
    ) -> Deferred[SnapshotId]: ...


class MetadataLog(ReadableMetadataLog, Protocol):
    """What the controller needs of a quorum, however many voters it has."""

    def append(self, values: Sequence[bytes], *, timestamp_ms: int | None = None) -> Deferred[int]:
        """Appends one atomic batch (stamped now unless told); resolves with its last offset once it is committed."""


class SingleVoterLog(LocalMetadataLog):
    """The log of a quorum of one; open it with `open`, which also makes this node the leader of a new epoch."""

    def __init__(
        self, *, world: World, directory: str, node_id: int, settings: MetadataLogSettings, directory_id: Uuid
    ) -> None:
        super().__init__(
            world=world, directory=directory, node_id=node_id, settings=settings, directory_id=directory_id
        )
        self._syncing = False
        self._failure: MetadataLogFailedError | None = None
        # (end offset of the append, its deferred), oldest first.
        self._waiting: deque[tuple[int, Deferred[int]]] = deque()
        # Told once when the log stops for good.
        self.on_failure: Callable[[MetadataLogFailedError], object] | None = None

    @classmethod
    def open(
        cls,
        *,
        world: World,
        metadata_log_dir: str,
        node_id: int,
        settings: MetadataLogSettings | None = None,
        directory_id: Uuid = Uuid.ZERO,
    ) -> SingleVoterLog:
        """Opens or creates `__cluster_metadata-0` below the directory and becomes its leader.

        What the files hold is committed: it may have been answered before the last stop. Nothing can be appended
        behind what the caller has not read, so replay `committed_batches` before the first append.
        """
        directory = f"{metadata_log_dir}/{METADATA_DIRECTORY}"
        log = cls(
            world=world,
            directory=directory,
            node_id=node_id,
            settings=settings or MetadataLogSettings(),
            directory_id=directory_id,
        )
        log._recover()
        log._begin_epoch()
        return log

    @property
    def leader_id(self) -> int:
        return self._node_id

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return (self._node_id,)

    def append(self, values: Sequence[bytes], *, timestamp_ms: int | None = None) -> Deferred[int]:
        assert values, "an append without records has no offset"
        if self._failure is not None:
            return Deferred.failed(self._failure)
        if timestamp_ms is None:
            timestamp_ms = self._world.clock.now_ms()
        try:
            self._roll_if_due(timestamp_ms)
        except OSError as error:
            return Deferred.failed(error)
        batch = build_batch(
            [Record(value=value, timestamp=timestamp_ms) for value in values],
            base_offset=self._journal.end_offset,
            leader_epoch=self._leader_epoch,
        )
        return self._append_batch(batch, len(values), timestamp_ms)

    def close(self) -> None:
        """Syncs what is left, unless the log has failed, and closes the files. Blocks."""
        if self._failure is None:
            for file in self._journal.unsynced:
                file.sync()
        self._journal.close()

    def _check_voters(self, voters: Iterable[int]) -> None:
        others = [voter for voter in voters if voter != self._node_id]
        if others:
            raise MetadataLogUnsupportedError(
                f"{self._directory} belongs to a quorum with the voters {sorted({*others, self._node_id})}; "
                "a quorum of several voters is not supported yet"
            )

    def _begin_epoch(self) -> None:
        files = self._world.files
        state = read_quorum_state(files, self._directory)
        if state is not None:
            self._check_voters(state.voters)
        self._leader_epoch = max(0 if state is None else state.leader_epoch, self._journal.last_epoch) + 1
        write_quorum_state(
            files,
            self._directory,
            QuorumState(
                leader_id=self._node_id,
                leader_epoch=self._leader_epoch,
                voters=() if self._kraft_version > 0 else (self._node_id,),
                data_version=1 if self._kraft_version > 0 else 0,
            ),
        )
        self._epochs.assign(self._leader_epoch, self._journal.end_offset)
        self._write_partition_metadata()
        version = 1 if self._kraft_version > 0 else 0
        voter = LeaderChangeVoter(
            voter_id=self._node_id, voter_directory_id=self._directory_id if version > 0 else Uuid.ZERO
        )
        message = LeaderChangeMessage(version=version, leader_id=self._node_id, voters=[voter], granting_voters=[voter])
        timestamp_ms = self._world.clock.now_ms()
        batch = build_control_batch(
            [(ControlType.LEADER_CHANGE, encode(message, version))],
            timestamp_ms=timestamp_ms,
            base_offset=self._journal.end_offset,
            leader_epoch=self._leader_epoch,
        )
        self._append_batch(batch, 1, timestamp_ms)

    def _append_batch(self, batch: bytearray, record_count: int, timestamp_ms: int) -> Deferred[int]:
        try:
            end_offset = self._journal.append(
                batch, record_count=record_count, epoch=self._leader_epoch, timestamp_ms=timestamp_ms
            )
        except OSError as error:
            # The file is as it was before, so the log goes on; only this append is refused.
            return Deferred.failed(error)
        result: Deferred[int] = Deferred()
        self._waiting.append((end_offset, result))
        if not self._syncing:
            self._sync()
        return result

    def _sync(self) -> None:
        self._syncing = True
        journal = self._journal
        dirty, journal.unsynced = journal.unsynced, []
        directories = [self._directory] if journal.has_new_names else []
        journal.has_new_names = False
        end_offset = journal.end_offset
        done = self._world.workers.submit(_sync_files, self._world.files, directories, dirty)
        done.when_done(lambda outcome: self._on_synced(outcome, end_offset))

    def _on_synced(self, outcome: Deferred[None], end_offset: int) -> None:
        self._syncing = False
        if outcome.error is not None:
            self._stop(outcome.error)
            return
        self._committed_offset = end_offset
        # The next fsync is on its way before anybody is told, since what they do may take a while.
        if self._journal.end_offset > end_offset:
            self._sync()
        self._tell_committed()
        while self._waiting and self._waiting[0][0] <= end_offset:
            entry_end, deferred = self._waiting.popleft()
            deferred.resolve(entry_end - 1)

    def _stop(self, cause: BaseException) -> None:
        failure = MetadataLogFailedError(
            f"entries of {self._directory} from offset {self._committed_offset} on could not be made durable: {cause}"
        )
        failure.__cause__ = cause
        self._failure = failure
        waiting, self._waiting = self._waiting, deque()
        for _, deferred in waiting:
            deferred.fail(failure)
        if self.on_failure is not None:
            self.on_failure(failure)


def _sync_files(files: Files, directories: list[str], dirty: list[File]) -> None:
    for file in dirty:
        file.sync()
    for directory in directories:
        files.sync_directory(directory)
