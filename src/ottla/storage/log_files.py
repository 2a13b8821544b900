"""The files of one log: segments, producer snapshots and leader epochs, kept consistent with one another.

`LogFiles` rolls, cuts, removes and replaces segments, and tracks the files that the next flush has to sync. It has
neither the high watermark nor the log start offset: `PartitionLog` decides about changes of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.storage.deletion import mark_deleted, remove_later
from ottla.storage.errors import CorruptLog
from ottla.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file_name,
)
from ottla.storage.partition_metadata import write_topic_id
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

if TYPE_CHECKING:
    from ottla.model.config import LogConfig
    from ottla.model.ids import Uuid
    from ottla.model.ports import File, World
    from ottla.storage.errors import StorageError
    from ottla.storage.failures import LogFailures
    from ottla.storage.leader_epochs import LeaderEpochs
    from ottla.storage.open_files import OpenFiles
    from ottla.storage.producers import ProducerLedger

__all__ = ["LogFiles", "is_any_short"]

_NEVER = (1 << 63) - 1
_NO_END = -1


def is_any_short(files: Sequence[tuple[File, int]]) -> bool:
    """True if a file has fewer bytes on disk, without a hole, than were written. The call may block on the disk."""
    return any(file.stored_size() < size for file, size in files)


class LogFiles:
    """One directory. All of it belongs to the thread of the node's state; only syncing and removing run on workers.

    Methods raise OSError only if their docstring says so; all other methods translate it with `failures`.
    """

    __slots__ = (
        "_is_directory_unsynced",
        "_pool",
        "_unsynced_paths",
        "_world",
        "directory",
        "epochs",
        "failures",
        "has_deleted",
        "producers",
        "segments",
        "was_compacted",
    )

    def __init__(
        self,
        world: World,
        pool: OpenFiles,
        directory: str,
        *,
        segments: Iterable[Segment],
        producers: ProducerLedger,
        epochs: LeaderEpochs,
        failures: LogFailures,
    ) -> None:
        self._world = world
        self._pool = pool
        self.directory = directory
        self.segments = Segments(segments)
        self.producers = producers
        self.epochs = epochs
        self.failures = failures
        # Compaction may have left gaps, here or in the leader's log, whatever the cleanup policy is now.
        self.was_compacted = False
        # True if files of this directory were renamed, to be removed later.
        self.has_deleted = False
        self._is_directory_unsynced = False
        self._unsynced_paths: list[str] = []

    def note_compacted(self) -> None:
        self.was_compacted = True

    def note_history(self, *, is_compacted: bool, damaged: Mapping[int, str]) -> None:
        """Notes the history of the log when it is opened."""
        self.was_compacted = is_compacted
        for base_offset, reason in damaged.items():
            self.failures.note_damaged(base_offset, reason)

    def continue_from(self, former: LogFiles) -> None:
        """Takes over from the former files of the log, which these files replace as a copy."""
        self.was_compacted = former.was_compacted
        self.failures.continue_from(former.failures)

    def refusal(self, error: OSError, action: str, *, end_offset: int) -> StorageError:
        return self.failures.refusal(error, action, directory=self.directory, end_offset=end_offset)

    # ---- syncing

    @property
    def is_synced(self) -> bool:
        """True if only segments have to be synced.

        The files of an empty log can wait, because their loss in a power cut loses no record.
        """
        is_any_unsynced = self._unsynced_paths or self._is_directory_unsynced or self.epochs.is_unsynced
        return not is_any_unsynced or self.is_empty

    @property
    def is_empty(self) -> bool:
        return len(self.segments) == 1 and self.segments.active.size == 0

    def sync_with_next_flush(self, *paths: str) -> None:
        """Files beside the segments that have to be durable when the recovery point moves."""
        self._unsynced_paths.extend(paths)

    def write_topic_id(self, topic_id: Uuid) -> None:
        """The directory has no topic id yet."""
        try:
            path = write_topic_id(self._world.files, self.directory, topic_id)
        except OSError as error:
            raise self.refusal(error, "write the topic id of", end_offset=_NO_END) from error
        self.sync_with_next_flush(path)

    def sync_directory_with_next_flush(self) -> None:
        """A former run has created the directory, and may not have synced it."""
        self._is_directory_unsynced = True

    def collect_unsynced(self, recovery_point: int) -> tuple[list[File], list[str]]:
        """Open files and paths that a flush has to sync; the paths are handed over."""
        active = self.segments.active
        open_files = active.undoubted_files()
        for segment in self.segments.from_offset(recovery_point):
            if segment is not active:
                open_files.extend(segment.syncable_files())
        paths, self._unsynced_paths = self._unsynced_paths, []
        if self._is_directory_unsynced:
            self._is_directory_unsynced = False
            paths += self._paths_of_directory()
        self.epochs.write_late()
        if self.epochs.is_unsynced and not self.epochs.is_unwritten:
            paths.append(self.epochs.path)
            self.epochs.mark_synced()
        return open_files, paths

    def _paths_of_directory(self) -> list[str]:
        """The paths that a new log has to sync before its first record is durable."""
        metadata = f"{self.directory}/{PARTITION_METADATA_FILE}"
        paths = [self.directory, self.directory.rpartition("/")[0]]
        return [metadata, *paths] if self._world.files.exists(metadata) else paths

    def written_files(self, recovery_point: int) -> list[tuple[File, int]]:
        """Open log files of segments that are not durable yet, with their sizes, for `is_any_short` on a worker."""
        files = [segment.open_file() for segment in self.segments.from_offset(recovery_point)]
        return [file for file in files if file is not None]

    def find_damage(self, recovery_point: int) -> StorageError | None:
        """A worker has found a short file, which the log may have truncated itself. Damage takes it out of service."""
        for segment in self.segments.from_offset(recovery_point):
            damage = segment.find_damage()
            if damage is not None:
                return self.failures.fail_log(damage)
        return None

    # ---- segments

    def roll(self, base_offset: int, config: LogConfig, *, now_ms: int) -> Segment:
        """Closes the active segment and begins a new one at the offset. Raises OSError with nothing changed."""
        old = self.segments.active
        if old.base_offset == base_offset and old.size == 0:
            # The empty active segment cannot take the offset relatively, or its index is full: it is used again.
            return old
        new = Segment.create(
            self.directory,
            base_offset,
            self._pool,
            now_ms=now_ms,
            preallocate_bytes=config.segment_bytes if config.preallocate else 0,
        )
        try:
            # With the snapshot, recovery after a crash reads the log from here and not from its beginning.
            snapshot = self.producers.take_snapshot(base_offset, durable=False)
            old.close_for_appends()
        except (OSError, CorruptLog):
            new.remove_files()
            raise
        if snapshot is not None:
            self._unsynced_paths.append(snapshot)
        self._unsynced_paths.append(self.directory)
        self.segments.add(new)
        if old.size == 0:
            self.segments.remove([old])
            old.remove_files()
        return new

    def truncate_to(self, offset: int, *, log_start_offset: int, end_offset: int, delete_delay_ms: int) -> int:
        """Cuts everything at and above the offset. Returns the new end of the log.

        The new end may be below the offset, where the last remaining batch ends. Raises StorageError with nothing
        changed, and OSError. Raises CorruptLog with later segments removed, if damage hides where to cut.
        """
        number = self.segments.number_of(offset)
        later = self.segments.from_offset(offset)[1:]
        keep = self.segments[number]
        try:
            # Opens the files, which may be refused, before anything is removed.
            with suppress(CorruptLog):
                keep.find(offset)
        except OSError as error:
            raise self.refusal(error, "truncate", end_offset=end_offset) from error
        if later:
            self.segments.remove(later)
            self._forget_damage(later)
            # The last segment first, so that a crash in between leaves no hole.
            self._remove_later(mark_deleted(later[::-1], self.producers), delete_delay_ms)
        # Records below the log's start are not missed.
        end_offset = max(keep.truncate_to(offset), log_start_offset)
        if keep.size == 0:
            # The damage was removed with the truncated part. Records that are fetched again are not damaged.
            self._forget_damage([keep])
        self._unsynced_paths += [keep.path, keep.transaction_index.path]
        self.epochs.truncate_from_end(end_offset)
        return end_offset

    def rebuild_producers(self, *, log_start_offset: int, end_offset: int, high_watermark: int) -> None:
        """The log was cut: the producer state follows."""
        self.producers.rebuild(
            list(self.segments),
            log_start_offset=log_start_offset,
            end_offset=end_offset,
            now_ms=self._world.clock.now_ms(),
            rebuild_transactions_from=_NEVER,
        )
        # Transactions that ended below the high watermark are settled, and it may be long until that moves again.
        self.producers.state.on_high_watermark(high_watermark)

    def remove_epochs_from(self, end_offset: int) -> bool:
        """Removes epochs that begin at or behind the end of the log. Returns whether there were any."""
        latest = self.epochs.latest
        try:
            self.epochs.truncate_from_end(end_offset)
        except OSError as error:
            raise self.failures.fail(error, "remove epochs of") from error
        return self.epochs.latest != latest

    def remove_epochs_before(self, start_offset: int) -> None:
        """The log begins at the offset."""
        try:
            self.epochs.truncate_from_start(start_offset)
        except OSError as error:
            raise self.failures.fail(error, "remove epochs of") from error

    def restart_at(self, offset: int, *, end_offset: int, delete_delay_ms: int) -> None:
        """Removes everything; an empty segment begins at the offset."""
        path = f"{self.directory}/{offset_file_name(offset, LOG_SUFFIX)}"
        try:
            # A full disk may refuse a new file, so it is created before the others are removed.
            self._world.files.open(path + TEMPORARY_SUFFIX).close()
        except OSError as error:
            raise self.refusal(error, "empty", end_offset=end_offset) from error
        try:
            self._replace_all(path, offset, delete_delay_ms)
        except OSError as error:
            raise self.failures.fail_halfway(error, "empty") from error

    def _replace_all(self, path: str, offset: int, delete_delay_ms: int) -> None:
        self._forget_damage(self.segments)
        paths = mark_deleted(list(self.segments), self.producers)
        self._world.files.rename(path + TEMPORARY_SUFFIX, path)
        self.segments.replace_all(Segment.create(self.directory, offset, self._pool, now_ms=self._world.clock.now_ms()))
        self._remove_later(paths, delete_delay_ms)
        self._unsynced_paths.append(self.directory)
        self.epochs.clear()
        self.producers.clear(offset)

    def remove_segments(self, segments: Sequence[Segment], *, delete_delay_ms: int) -> None:
        """Removes closed segments: for readers at once, from the disk after the delay.

        Raises OSError with some of them removed.
        """
        marked: list[Segment] = []
        paths: list[str] = []
        try:
            for segment in segments:
                paths += mark_deleted([segment], self.producers)
                marked.append(segment)
        finally:
            self.segments.remove(marked)
            self._forget_damage(marked)
            self._remove_later(paths, delete_delay_ms)

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment], *, delete_delay_ms: int) -> None:
        """Puts cleaned segments (suffix `.cleaned`, complete and synced) in the place of closed ones.

        First they become `.swap`, which is the point of no return: a crash after that finishes the replacement.
        """
        try:
            for segment in reversed(new):
                segment.rename_suffix(SWAP_SUFFIX)
            # Snapshots belong to offsets that are still there.
            replaced_bases = {segment.base_offset for segment in new}
            self.segments.replace(old, new)
            paths = mark_deleted(
                [segment for segment in old if segment.base_offset not in replaced_bases], self.producers
            )
            paths += mark_deleted([segment for segment in old if segment.base_offset in replaced_bases], None)
            for segment in new:
                segment.rename_suffix("")
        except OSError as error:
            # Opening the log again finishes the replacement, or drops it.
            raise self.failures.fail_halfway(error, "replace segments of") from error
        self._forget_damage(old)
        self._unsynced_paths.append(self.directory)
        self._remove_later(paths, delete_delay_ms)

    def _forget_damage(self, segments: Iterable[Segment]) -> None:
        if self.failures.damaged_segments:
            self.failures.forget_damage([segment.base_offset for segment in segments])

    def has_leftovers(self) -> bool:
        """Whether there are files that the next start has to remove or to put in place. Raises OSError."""
        names = self._world.files.list_directory(self.directory)
        return any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names)

    def _remove_later(self, paths: list[str], delay_ms: int) -> None:
        self.has_deleted = True
        remove_later(self._world, paths, delay_ms=delay_ms)

    # ---- closing and moving

    def take_offline(self, error: StorageError) -> None:
        """The directory failed elsewhere, or the log is deleted: every call is refused, no file is touched."""
        self.failures.take_offline(error)
        self.discard()

    def discard(self) -> None:
        """Lets go of open files without closing them properly."""
        for segment in self.segments:
            segment.discard()

    def relocate(self, directory: str) -> None:
        """The partition's directory was renamed; open files stay open."""
        self.directory = directory
        self.epochs.relocate(directory)
        self.producers.relocate(directory)
        self._unsynced_paths = []
        for segment in self.segments:
            segment.relocate(directory=directory)

    def close(self, end_offset: int) -> list[str]:
        """Writes the producer snapshot of a clean shutdown and closes the files. Returns paths to sync.

        Raises OSError.
        """
        self.producers.forget_missing_snapshots()
        snapshot = self.producers.take_snapshot(end_offset, durable=False)
        for segment in self.segments:
            segment.close()
        return [] if snapshot is None else [snapshot, self.directory]
