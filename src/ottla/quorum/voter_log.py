"""The copy of the metadata log on a node with the controller role, which may lead or follow.

A leader appends its own batches, a follower the batches of its leader. Both write to the page cache at once. A worker
runs one fsync at a time, and the next fsync covers everything that was appended meanwhile (group commit). An entry is
committed when a majority of voters has it on disk, including this node if it votes. `synced_offset` is the end of the
entries on this node's disk; `commit_to` sets the offset that the quorum has committed.

If a write is refused (a full disk), the file is unchanged and only that append fails. If an fsync fails, the content of
the disk is unknown and the log stops for good: every pending and every later append fails with
`MetadataLogFailedError`. If this node loses leadership, pending appends fail with `NotLeaderError`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import File, FileRegion, Files, Lane, World
from ottla.quorum.errors import MetadataLogFailedError, NotLeaderError
from ottla.quorum.local_log import METADATA_DIRECTORY, LocalMetadataLog, MetadataLogSettings
from ottla.quorum.quorum_state import NO_NODE
from ottla.quorum.snapshots import Snapshot
from ottla.quorum.voters import VoterSet
from ottla.records.build import build_value_batch
from ottla.records.control import ControlType, build_control_batch
from ottla.records.iterate import iterate_batches, iterate_records

__all__ = ["VoterLog"]


class VoterLog(LocalMetadataLog):
    """Created by `open`. `ottla.quorum.raft_node` sets the leader and the committed offset."""

    def __init__(
        self, *, world: World, directory: str, node_id: int, settings: MetadataLogSettings, directory_id: Uuid
    ) -> None:
        super().__init__(
            world=world, directory=directory, node_id=node_id, settings=settings, directory_id=directory_id
        )
        self._leader_id = NO_NODE
        self._is_leading = False
        self.configured_voters = VoterSet()
        self.synced_offset = 0
        # The end offset that the fsync in flight will cover; None without one.
        self._syncing_to: int | None = None
        self._failure: MetadataLogFailedError | None = None
        self._is_closed = False
        # (end offset of the append, its Deferred), oldest first.
        self._waiting: deque[tuple[int, Deferred[int]]] = deque()
        # Called when `synced_offset` has grown.
        self.on_synced: Callable[[], object] | None = None
        # Called when a leader has appended entries, so that parked fetches can be answered.
        self.on_appended: Callable[[], object] | None = None
        # Called once when the log stops for good.
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
        configured_voters: VoterSet | None = None,
    ) -> VoterLog:
        """Opens or creates `__cluster_metadata-0` in the directory.

        `configured_voters` are used as long as the log itself has no voters.
        """
        directory = f"{metadata_log_dir}/{METADATA_DIRECTORY}"
        log = cls(
            world=world,
            directory=directory,
            node_id=node_id,
            settings=settings or MetadataLogSettings(),
            directory_id=directory_id,
        )
        log.configured_voters = configured_voters or VoterSet()
        log._recover()
        log._write_partition_metadata()
        # Opening has synced the entries that it read.
        log.synced_offset = log.end_offset
        return log

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def leader_id(self) -> int:
        return self._leader_id

    @property
    def is_leading(self) -> bool:
        return self._is_leading

    @property
    def voters(self) -> VoterSet:
        """The voters: the newest set in the log, committed or not, or the configured set."""
        voters = self.history.voters
        return self.configured_voters if voters is None else voters

    @property
    def former_voters(self) -> VoterSet | None:
        """The previous voters, as long as the newest set is not known to be committed."""
        offset = self.history.voters_offset
        if offset < 0 or (offset < self._committed_offset and not self._is_presumed):
            return None
        return self.history.former_voters or self.configured_voters

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(sorted(self.voters.ids))

    @property
    def has_pending_voters(self) -> bool:
        """True if a change of voters is not committed yet."""
        return self.history.voters_offset >= self._committed_offset

    # -- roles ------------------------------------------------------------------------------------------------------

    def invariants(self) -> None:
        super().invariants()
        assert 0 <= self.synced_offset <= self.end_offset, "nothing beyond the end is durable"
        assert self._syncing_to is None or self._syncing_to <= self.end_offset
        ends = [end_offset for end_offset, _ in self._waiting]
        assert ends == sorted(ends), "appends are committed in their order"

    def lead(self, *, epoch: int) -> None:
        """Makes this node the leader, which accepts appends in this epoch."""
        self._leader_id, self._leader_epoch = self._node_id, epoch
        self._is_leading = True
        self._epochs.assign(epoch, self._journal.end_offset)

    def follow(self, *, leader_id: int, epoch: int) -> None:
        """Follows another leader, or none (-1): fails the pending appends."""
        self._leader_id, self._leader_epoch = leader_id, epoch
        self._is_leading = False
        waiting, self._waiting = self._waiting, deque()
        for _, deferred in waiting:
            deferred.fail(NotLeaderError(f"node {self._node_id} lost leadership in epoch {epoch}"))

    # -- appending --------------------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], *, timestamp_ms: int | None = None) -> Deferred[int]:
        assert values, "an append needs at least one record"
        refusal = self._refusal()
        if refusal is not None:
            return Deferred.failed(refusal)
        if timestamp_ms is None:
            timestamp_ms = self._world.clock.now_ms()
        batch = build_value_batch(
            values, timestamp_ms=timestamp_ms, base_offset=self._journal.end_offset, leader_epoch=self._leader_epoch
        )
        return self._append_batch(batch, len(values), timestamp_ms)

    def append_control(self, records: Sequence[tuple[ControlType, bytes]]) -> Deferred[int]:
        """Appends control records of the quorum. A set of voters takes effect at once."""
        refusal = self._refusal()
        if refusal is not None:
            return Deferred.failed(refusal)
        timestamp_ms = self._world.clock.now_ms()
        batch = build_control_batch(
            records,
            timestamp_ms=timestamp_ms,
            base_offset=self._journal.end_offset,
            leader_epoch=self._leader_epoch,
        )
        appended = self._append_batch(batch, len(records), timestamp_ms)
        if appended.error is None:
            for control_batch in iterate_batches(memoryview(batch)):
                for record in iterate_records(control_batch):
                    self._replay_control(record)
        return appended

    def append_fetched(self, records: memoryview) -> int:
        try:
            return super().append_fetched(records)
        finally:
            # Also after a disk that became full during the append: the next fetch waits until the appended entries are
            # durable.
            self._sync_if_idle()

    def truncate_to(self, offset: int) -> None:
        try:
            super().truncate_to(offset)
        except OSError as error:
            self._stop(error)
            raise
        self._lower_synced(self._journal.end_offset)
        self._sync_if_idle()

    def _replace_by(self, content: Snapshot) -> None:
        super()._replace_by(content)
        self._lower_synced(self._journal.end_offset)
        # The snapshot is durable, and the log after it is empty.
        self.synced_offset = self._journal.end_offset

    def commit_to(self, high_watermark: int) -> None:
        super().commit_to(high_watermark)
        while self._waiting and self._waiting[0][0] <= self._committed_offset:
            entry_end, deferred = self._waiting.popleft()
            deferred.resolve(entry_end - 1)

    def uncommitted_region(self, from_offset: int, *, max_bytes: int) -> FileRegion | None:
        """Bytes for a fetch of another voter, with uncommitted entries."""
        return self._journal.region(from_offset, end_offset=self._journal.end_offset, max_bytes=max_bytes)

    def close(self) -> None:
        """Syncs unsynced entries unless the log has failed, and closes the files. Blocks."""
        self.abandon_snapshot()
        if self._failure is None:
            for file in self._journal.not_durable:
                file.sync()
        self._is_closed = True
        self._journal.close()

    def _refusal(self) -> Exception | None:
        if self._failure is not None:
            return self._failure
        if not self._is_leading:
            return NotLeaderError(f"node {self._node_id} does not lead the quorum")
        return None

    def _append_batch(self, batch: bytearray, record_count: int, timestamp_ms: int) -> Deferred[int]:
        try:
            self._roll_if_due(timestamp_ms)
            end_offset = self._journal.append(
                batch, record_count=record_count, epoch=self._leader_epoch, timestamp_ms=timestamp_ms
            )
        except OSError as error:
            # The file is unchanged, so the log continues and only this append is refused.
            return Deferred.failed(error)
        result: Deferred[int] = Deferred()
        self._waiting.append((end_offset, result))
        self._sync_if_idle()
        if self.on_appended is not None:
            self.on_appended()
        return result

    def _roll(self) -> None:
        """Starts a segment after the previous one is on disk, so that a power loss leaves no gap between segments.

        This costs one fsync on the thread of the node per segment, which is about one in days.
        """
        try:
            self._journal.sync_active()
        except OSError as error:
            self._stop(error)
            raise
        super()._roll()

    # -- durability -------------------------------------------------------------------------------------------------

    def _sync_if_idle(self) -> None:
        if self._syncing_to is None and self._failure is None:
            self._sync()

    def _sync(self) -> None:
        self._syncing_to = self._journal.end_offset
        has_new_names, dirty = self._journal.begin_sync()
        directories = [self._directory] if has_new_names else []
        done = self._world.workers.lane(Lane.METADATA).submit(_sync_files, self._world.files, directories, dirty)
        done.when_done(self._on_synced)

    def _on_synced(self, outcome: Deferred[None]) -> None:
        self._journal.end_sync()
        if self._is_closed:
            # `close` has synced the same files. The fsync that was in flight may have found them closed.
            return
        assert self._syncing_to is not None
        synced_to, self._syncing_to = self._syncing_to, None
        if outcome.error is not None:
            self._stop(outcome.error)
            return
        self.synced_offset = max(self.synced_offset, synced_to)
        # The next fsync starts before the callbacks run, because they may take a while.
        if self._journal.unsynced:
            self._sync()
        if self.on_synced is not None:
            self.on_synced()

    def _lower_synced(self, end_offset: int) -> None:
        self.synced_offset = min(self.synced_offset, end_offset)
        if self._syncing_to is not None:
            self._syncing_to = min(self._syncing_to, end_offset)

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
