"""Moves a partition from one log directory to another while it is in use (KIP-113).

A copy, the *future* replica, is written to `<topic>-<partition>.<uuid>-future` in the target directory. Chunks are read
on a worker, and the loop does other work between chunks. When the copy has the end of the log, the swap is one step on
the loop's thread: the old directory is renamed for deletion, the future directory gets its name, and the log continues
with the files of the copy.

A follower may truncate its log meanwhile, and append other records at the same offsets. Then the copy is truncated at
the same offset, and a chunk that was read before is discarded.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.model.byte_rate import ByteRate
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.model.ports import Lane, World
from ottla.records.header import read_header
from ottla.records.iterate import iterate_batches
from ottla.storage.cold_lookups import look_up
from ottla.storage.directories import LogDirectory
from ottla.storage.errors import DISK_RETRY_SECONDS, LogDirectoryOffline, StorageError, is_temporary
from ottla.storage.log import PartitionLog, ReadResult
from ottla.storage.names import delete_directory_name, future_directory_name, has_whole_future_name
from ottla.storage.partition_metadata import write_topic_id
from ottla.storage.recovery import open_log

if TYPE_CHECKING:
    from ottla.storage.manager import LogManager

__all__ = ["Mover", "checked_target"]

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_NOTING_PAUSE_SECONDS = 0.1
_NOT_CUT = (1 << 63) - 1


class _Move:
    __slots__ = ("cut_at", "directory", "future", "is_cancelled", "is_flushed", "topic_partition", "unique")

    def __init__(
        self, topic_partition: TopicPartition, directory: LogDirectory, future: PartitionLog, unique: Uuid
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.future = future
        # In the name of the copy, and in the name of the original once the copy is complete.
        self.unique = unique
        self.is_cancelled = False
        self.is_flushed = False
        # The lowest offset to which the original was truncated since the last chunk was requested.
        self.cut_at = _NOT_CUT

    def follow_cut(self) -> None:
        if self.cut_at != _NOT_CUT:
            self.is_flushed = False
            if self.cut_at < self.future.log_end_offset:
                self.future.truncate_to(self.cut_at)
            self.cut_at = _NOT_CUT


class Mover:
    """At most one move for each partition. A new move replaces it."""

    def __init__(self, world: World, manager: LogManager) -> None:
        self._world = world
        self._manager = manager
        self._moves: dict[TopicPartition, _Move] = {}
        # The bytes of all moves (replica.alter.log.dirs.io.max.bytes.per.second).
        config = manager.config
        self._rate = ByteRate(
            window_seconds=float(config.alter_log_dirs_replication_quota_window_size_seconds),
            window_count=config.alter_log_dirs_replication_quota_window_num,
        )

    def futures_in(self, directory: LogDirectory) -> list[PartitionLog]:
        return [move.future for move in self._moves.values() if move.directory is directory]

    def move(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        under_way = self._moves.get(topic_partition)
        if under_way is not None and under_way.directory is directory:
            return
        self.cancel(topic_partition)
        current = self._manager.get(topic_partition)
        assert current is not None
        if self._manager.directory_of(topic_partition) is directory:
            return
        unique = Uuid.random(self._world.random)
        name = future_directory_name(topic_partition, unique)
        path = f"{directory.path}/{name}"
        try:
            future = self._begin(topic_partition, current, directory, path)
        except OSError as error:
            directory.clear_away(path)
            directory.tolerate(error)
            raise StorageError(f"Could not begin the copy of {topic_partition} in {directory.path}: {error}") from error
        move = self._moves[topic_partition] = _Move(topic_partition, directory, future, unique)
        self._world.scheduler.call_soon(self._copy_next, move)

    def cancel(self, topic_partition: TopicPartition) -> None:
        move = self._moves.pop(topic_partition, None)
        if move is not None:
            move.is_cancelled = True
            move.future.files.take_offline(StorageError("the move was cancelled"))
            if move.directory.is_offline:
                return
            self._manager.cleaner.on_move_called_off(topic_partition, move.directory.path)
            # Renamed, so that a restart does not continue a cancelled move.
            name = delete_directory_name(topic_partition, Uuid.random(self._world.random))
            aside = f"{move.directory.path}/{name}"
            if move.directory.set_aside(move.future.directory, aside, removes=True):
                self._manager.remove_tree_later(move.directory, aside)

    def on_cut(self, topic_partition: TopicPartition, offset: int) -> None:
        """The log was truncated to the offset."""
        move = self._moves.get(topic_partition)
        if move is not None:
            move.cut_at = min(move.cut_at, offset)

    def resume(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Begins an interrupted move again. If the target is full or fails, the original stays in service."""
        try:
            self.move(topic_partition, directory)
        except StorageError as error:
            logger.warning("Cancelled the move of %s to %s: %s", topic_partition, directory.path, error.message)

    def directory_failed(self, directory: LogDirectory) -> None:
        for topic_partition, move in list(self._moves.items()):
            if move.directory is directory or self._manager.get(topic_partition) is None:
                self.cancel(topic_partition)

    def stop(self) -> None:
        """Stops for a shutdown, which keeps the copies. The next start begins them again."""
        for move in self._moves.values():
            move.is_cancelled = True
        self._moves.clear()

    def _begin(
        self, topic_partition: TopicPartition, current: PartitionLog, directory: LogDirectory, path: str
    ) -> PartitionLog:
        self._world.files.make_directories(path)
        topic_id = self._manager.topic_id_of(topic_partition)
        unsynced = [write_topic_id(self._world.files, path, topic_id)] if topic_id else []
        future = open_log(
            self._world,
            self._manager.pool,
            topic_partition=topic_partition,
            directory=path,
            config=current.config,
            clean_shutdown=True,
            log_start_offset=current.log_start_offset,
            producer_id_expiration_ms=self._manager.config.producer_id_expiration_ms,
            on_failure=directory.fail,
        ).log
        future.files.sync_with_next_flush(path, *unsynced)
        return future

    def _copy_next(self, move: _Move) -> None:
        current = self._manager.get(move.topic_partition)
        if move.is_cancelled or current is None:
            return
        self._rate.limit = self._manager.config.replica_alter_log_dirs_io_max_bytes_per_second
        pause_seconds = self._rate.excess_seconds(self._world.clock.monotonic())
        if pause_seconds:
            self._world.scheduler.call_later(pause_seconds, self._copy_next, move)
            return
        readers = self._world.workers.lane(Lane.READS)
        look_up(readers, lambda may_wait: self._look_up(move, may_wait)).when_done(
            lambda outcome: self._on_looked_up(move, outcome)
        )

    def _look_up(self, move: _Move, may_wait: bool) -> ReadResult | None:
        """The next chunk of the original; None if there is nothing to copy any more."""
        current, future = self._manager.get(move.topic_partition), move.future
        if move.is_cancelled or current is None:
            return None
        move.follow_cut()
        if future.log_end_offset < current.log_start_offset:
            # Retention has deleted records that the copy does not have yet.
            future.truncate_fully_and_start_at(current.log_start_offset)
        end_offset = current.log_end_offset
        read = current.read(future.log_end_offset, max_bytes=_CHUNK_BYTES, end_offset=end_offset, may_wait=may_wait)
        if read.region is None and future.log_end_offset < end_offset:
            # The log ends with a gap: its last segment is empty.
            self._manager.cleaner.note_gaps(current)
            future.skip_to(end_offset)
        return read

    def _on_looked_up(self, move: _Move, outcome: Deferred[ReadResult | None]) -> None:
        if outcome.error is not None:
            self._give_up(move, outcome.error)
            return
        read, current = outcome.result(), self._manager.get(move.topic_partition)
        if read is None or current is None:
            return
        if read.region is None and move.is_flushed:
            if self._manager.cleaner.on_log_moving(current, move.directory.path):
                self._swap(move, current)
            else:
                self._world.scheduler.call_later(_NOTING_PAUSE_SECONDS, self._copy_next, move)
            return
        if read.region is None:
            # The original is removed soon after the swap, so the copy has to be durable first. Records that are
            # appended meanwhile are copied afterwards, and are as volatile as any new record.
            move.future.flush().when_done(lambda flushed: self._on_flushed(move, flushed))
            return
        self._world.workers.lane(Lane.READS).submit(read.region.read).when_done(
            lambda chunk: self._on_chunk(move, chunk)
        )

    def _on_chunk(self, move: _Move, outcome: Deferred[bytes]) -> None:
        if move.is_cancelled:
            return
        if outcome.error is not None:
            self._give_up(move, outcome.error)
            return
        chunk, current = outcome.result(), self._manager.get(move.topic_partition)
        self._rate.record(len(chunk), self._world.clock.monotonic())
        try:
            if move.cut_at == _NOT_CUT:
                if current is not None and _has_gaps(move.future, chunk):
                    # Lost records or compaction left the gap. The segments of the copy have other boundaries, so
                    # recovery would take the gap for damage. `on_log_moving` notes it for the target before the swap.
                    self._manager.cleaner.note_gaps(current)
                _append(move.future, chunk)
        except KafkaError as error:
            self._give_up(move, error)
            return
        self._world.scheduler.call_soon(self._copy_next, move)

    def _on_flushed(self, move: _Move, outcome: Deferred[None]) -> None:
        if move.is_cancelled:
            return
        if outcome.error is not None:
            self._give_up(move, outcome.error)
            return
        move.is_flushed = True
        self._world.scheduler.call_soon(self._copy_next, move)

    def _give_up(self, move: _Move, error: BaseException) -> None:
        logger.warning("Cancelled the move of %s to %s: %s", *(move.topic_partition, move.directory.path, error))
        self.cancel(move.topic_partition)

    def _swap(self, move: _Move, current: PartitionLog) -> None:
        old_directory = self._manager.directory_of(move.topic_partition)
        assert old_directory is not None
        future = move.future
        # The start takes over a copy only if it finds the original under this name (`Loader`).
        aside = f"{old_directory.path}/{delete_directory_name(move.topic_partition, move.unique)}"
        target = f"{move.directory.path}/{move.topic_partition}"
        try:
            # In this order a crash in between leaves only the future replica, which the next start takes over, and
            # never two current replicas.
            self._world.files.rename(current.directory, aside)
        except OSError as error:
            if is_temporary(error):
                # A full disk may have no room for a longer name.
                self._world.scheduler.call_later(DISK_RETRY_SECONDS, self._copy_next, move)
            else:
                old_directory.fail(error)
            return
        try:
            # Blocks for one fsync. The target may be on another disk: after a power cut that undoes this rename but not
            # the next one, the start would find two copies and refuse the directories.
            self._world.files.sync_directory(old_directory.path)
        except OSError as error:
            self._undo_swap(current, old_directory, aside)
            if is_temporary(error):
                self._world.scheduler.call_later(DISK_RETRY_SECONDS, self._copy_next, move)
            else:
                old_directory.fail(error)
            return
        try:
            self._world.files.rename(future.directory, target)
        except OSError as error:
            self._undo_swap(current, old_directory, aside)
            move.directory.tolerate(error)
            self.cancel(move.topic_partition)
            return
        del self._moves[move.topic_partition]
        future.files.relocate(target)
        current.adopt(future)
        current.files.sync_with_next_flush(target, move.directory.path)
        self._manager.moved(move.topic_partition, move.directory)
        current.flush().when_done(lambda flushed: self._on_swap_flushed(flushed, old_directory, aside))

    def _on_swap_flushed(self, flushed: Deferred[None], old_directory: LogDirectory, aside: str) -> None:
        """Removes the original if the new name of the copy is durable. Otherwise the next start removes it."""
        if flushed.error is None:
            self._manager.remove_tree_later(old_directory, aside)
        else:
            logger.warning("Kept %s until the next start, because the copy is not durable: %s", aside, flushed.error)

    def _undo_swap(self, current: PartitionLog, old_directory: LogDirectory, aside: str) -> None:
        """Restores the original, because the copy could not replace it. The original must not be removed."""
        try:
            self._world.files.rename(aside, current.directory)
        except OSError as error:
            old_directory.fail(error)


def checked_target(
    topic_partition: TopicPartition, path: str, directory: LogDirectory | None, cordoned: Collection[LogDirectory]
) -> LogDirectory:
    """The directory that a client asks for. Raises KafkaError, with the codes of Apache Kafka."""
    if not has_whole_future_name(topic_partition):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The name of {topic_partition} is too long for a move")
    if directory is None:
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of this node's log directories")
    if directory.is_offline:
        raise LogDirectoryOffline(f"The log directory {path} is out of service")
    if directory in cordoned:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The log directory {path} is cordoned")
    return directory


def _has_gaps(future: PartitionLog, chunk: bytes) -> bool:
    expected = future.log_end_offset
    for batch in iterate_batches(memoryview(chunk)):
        if batch.header.base_offset > expected:
            return True
        expected = batch.header.next_offset
    return False


def _append(future: PartitionLog, chunk: bytes) -> None:
    first = read_header(chunk)
    if first.base_offset < future.log_end_offset == future.log_start_offset <= first.last_offset:
        # The log begins in the middle of a batch (DeleteRecords), and batches are not divided.
        future.truncate_fully_and_start_at(first.base_offset)
    future.append_as_follower(chunk)
