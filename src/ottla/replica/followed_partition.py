"""One followed partition: from which offset to fetch, and how a response is applied.

The leader's log is authoritative. A follower sends the epoch of its last record with each fetch. The leader responds
with records only if the two logs agree up to that record, and otherwise with the epoch and offset where they diverge,
as far as it knows. The follower truncates there and fetches again, until the logs agree (KIP-101, KIP-279, KIP-595).
The high watermark plays no part in this: it may be behind the committed records, and truncating there would lose
records.

Received batches are appended as they are: same bytes, same offsets, same epochs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.iterate import Batch, iterate_batches, verify_checksum

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.replica.follower_fetch_session import PartitionKey
    from ottla.replica.partition import Partition
    from ottla.storage.log import PartitionLog
    from ottla.wire.follower_fetch import ReceivedSlice, WantedSlice
    from ottla.wire.messages.fetch import EpochEndOffset, PartitionData

__all__ = ["Cleaner", "DoubtEnded", "FollowedPartition", "GapsNotNoted", "truncation_offset", "wanted_by_topic"]

logger = logging.getLogger("ottla.replica.followed_partition")

NOT_SENT = -1


class Cleaner(Protocol):
    """The log cleaner, as far as a follower uses it."""

    def on_log_truncated(self, log: PartitionLog, offset: int) -> None: ...

    def note_gaps(self, log: PartitionLog) -> bool: ...


class GapsNotNoted(Exception):
    """Batches with offset gaps can be appended only after the cleaner's checkpoint names this log."""


class DoubtEnded(Exception):
    """The doubtful end of the log was truncated. The fetched batches may not continue the rest."""


class FollowedPartition:
    """One partition that follows one leader in one epoch. A new epoch has a new object."""

    __slots__ = (
        "attempts",
        "cleaner",
        "flushed",
        "is_failed",
        "is_held_back",
        "is_started",
        "key",
        "leader_epoch",
        "partition",
        "sent_offset",
    )

    def __init__(self, partition: Partition, cleaner: Cleaner) -> None:
        self.partition = partition
        self.cleaner = cleaner
        self.key: PartitionKey = (partition.topic_id.bytes, partition.index)
        self.leader_epoch = partition.leader_epoch
        # The offset of the last fetch; a response for another offset is ignored.
        self.sent_offset = NOT_SENT
        # Failures in a row; they determine the length of the pause.
        self.attempts = 0
        # Set if `flush.messages` was reached: a fetch at the new end promises that everything before it is durable.
        self.flushed: Deferred[None] | None = None
        # True if the partition is not fetched until the metadata has another epoch.
        self.is_failed = False
        # Paused because the replication quota is exceeded (KIP-73).
        self.is_held_back = False
        self.is_started = False

    def on_success(self) -> Deferred[None] | None:
        """A response was applied. Returns the flush that the next fetch has to wait for, if any."""
        self.attempts = 0
        flushed, self.flushed = self.flushed, None
        return flushed

    def on_failure(self) -> int:
        """Returns the number of failures in a row before this one."""
        self.attempts += 1
        return self.attempts - 1

    def leave_session(self) -> None:
        """The partition is paused: a response under way is not for its next position."""
        self.sent_offset = NOT_SENT

    def throttle(self, *, is_held_back: bool) -> None:
        self.is_held_back = is_held_back

    def fail(self) -> None:
        """Stops fetching in this epoch."""
        self.is_failed = True
        self.sent_offset = NOT_SENT

    @property
    def is_watched(self) -> bool:
        """Whether a consumer waits here for received records that are not known to be committed."""
        partition = self.partition
        return bool(partition.parked_fetches) and partition.log.high_watermark < partition.log.log_end_offset

    @property
    def position(self) -> int:
        """The next fetch offset: the end of the log, or the beginning of its doubtful part."""
        log = self.partition.log
        return log.log_end_offset if log.doubtful_from is None else log.doubtful_from

    def start(self) -> Deferred[None] | None:
        """Called before the first fetch, and after every pause. Returns the flush that the fetch has to wait for.

        A log without leader epochs (old formats, a lost checkpoint) is truncated to its high watermark. A flush that
        `flush.messages` demands may have failed, or an earlier run of the node did not get to it.
        """
        log = self.partition.log
        if not self.is_started and log.epochs.latest < 0 and log.high_watermark < log.log_end_offset:
            logger.warning("%s has no leader epochs and is truncated to its high watermark", self.partition)
            self._truncate(log.high_watermark)
        self.is_started = True
        return None if log.log_end_offset - log.recovery_point < log.config.flush_messages else log.flush()

    def wanted(self, max_bytes: int) -> WantedSlice:
        """The partition in the next request."""
        partition = self.partition
        log = partition.log
        if log.doubtful_from is None:
            offset, epoch = log.log_end_offset, log.epochs.latest
        else:
            offset, epoch = log.doubtful_from, log.epochs.epoch_of(log.doubtful_from - 1)
        self.sent_offset = offset
        return partition.index, self.leader_epoch, offset, epoch, log.log_start_offset, max_bytes

    def on_fetched(self, data: PartitionData | ReceivedSlice) -> bool:
        """Applies a response without an error. Returns whether the fetch position has changed.

        Raises KafkaError if the log refuses, and GapsNotNoted or DoubtEnded if the fetch has to be retried.
        """
        log = self.partition.log
        if log.doubtful_from is not None:
            self._end_doubt(log.doubtful_from)
            raise DoubtEnded
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            self._on_diverging(diverging)
            return True
        end_offset, start_offset = log.log_end_offset, log.log_start_offset
        if data.records:
            self._append(memoryview(data.records))  # type: ignore[arg-type]
        self.partition.follow_high_watermark(data.high_watermark)
        if log.log_start_offset < data.log_start_offset <= log.high_watermark:
            log.advance_log_start_offset(data.log_start_offset)
        return log.log_end_offset != end_offset or log.log_start_offset != start_offset

    def on_out_of_range(self, *, leader_start_offset: int, leader_end_offset: int) -> bool:
        """The fetch offset is outside of the leader's log: moves this log into its range. Returns whether it changed.

        A leader that ends before this log was elected although it lacked records. A leader that begins after this log
        has deleted the records in between.
        """
        log = self.partition.log
        if log.doubtful_from is not None:
            self._end_doubt(log.doubtful_from)
            return True
        if leader_end_offset < log.log_end_offset:
            logger.warning(
                "%s is truncated from %d to %d, the end of its leader",
                self.partition,
                log.log_end_offset,
                leader_end_offset,
            )
            self._truncate(leader_end_offset)
            return True
        if leader_start_offset > log.log_end_offset:
            logger.info("%s restarts at %d, the start of its leader", self.partition, leader_start_offset)
            self._restart_at(leader_start_offset)
            return True
        return False

    def _end_doubt(self, doubtful_from: int) -> None:
        """Truncates the doubtful end, which is fetched again: a leader has responded and has these records."""
        log = self.partition.log
        logger.info("%s is fetched again from %d because of a gap in its offsets", self.partition, doubtful_from)
        self._truncate(max(doubtful_from, log.log_start_offset))
        log.resolve_doubt()

    def _on_diverging(self, diverging: EpochEndOffset) -> None:
        log = self.partition.log
        offset, end_offset = (
            truncation_offset(log, epoch=diverging.epoch, end_offset=diverging.end_offset),
            log.log_end_offset,
        )
        if not self._truncate(offset):
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The leader of {self.partition} ends epoch {diverging.epoch} at {diverging.end_offset}, "
                f"where a log that ends at {end_offset} has nothing to truncate.",
            )
        logger.info(
            "%s is truncated from %d to %d: its leader ends epoch %d at %d",
            *(self.partition, end_offset, offset, diverging.epoch, diverging.end_offset),
        )

    def _append(self, records: memoryview) -> None:
        log = self.partition.log
        batches = list(iterate_batches(records))
        if not batches:
            return
        has_gaps = False
        expected = log.log_end_offset
        for batch in batches:
            header = batch.header
            if not verify_checksum(batch.view, header):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"The batch at {header.base_offset} of {self.partition} arrived corrupt."
                )
            has_gaps = has_gaps or header.base_offset > expected
            expected = header.next_offset
        first = batches[0].header
        if first.base_offset < log.log_end_offset == log.log_start_offset <= first.last_offset:
            # The leader's log begins in the middle of a batch, and batches are not divided.
            self._restart_at(first.base_offset)
        if has_gaps and not self.cleaner.note_gaps(log):
            raise GapsNotNoted
        if len(batches) == 1:
            self.flushed = self.partition.append_as_follower(batches[0].view, [first]).flushed
            return
        for piece in _pieces(batches, log.config.segment_bytes):
            last = piece[-1]
            view = records[piece[0].position : last.position + last.header.size]
            self.flushed = self.partition.append_as_follower(view, [batch.header for batch in piece]).flushed

    def _truncate(self, offset: int) -> bool:
        """Returns whether there was anything to truncate."""
        log = self.partition.log
        if offset < log.log_start_offset:
            self._restart_at(offset)
            return True
        was_cut = log.truncate_to(offset)
        self._on_truncated(log.log_end_offset)
        return was_cut

    def _restart_at(self, offset: int) -> None:
        log = self.partition.log
        log.truncate_fully_and_start_at(offset)
        self._on_truncated(offset)

    def _on_truncated(self, offset: int) -> None:
        self.cleaner.on_log_truncated(self.partition.log, offset)
        # Consumers may wait here for truncated records.
        self.partition.wake_all()


def wanted_by_topic(
    listed: list[FollowedPartition], max_bytes: int, throttled_max_bytes: int
) -> list[tuple[bytes, list[WantedSlice]]]:
    """The topics of a request for these partitions."""
    topics: dict[bytes, list[WantedSlice]] = {}
    for followed in listed:
        is_throttled = followed.partition.is_throttled_following
        wanted = followed.wanted(throttled_max_bytes if is_throttled else max_bytes)
        topic_id = followed.key[0]
        if topic_id in topics:
            topics[topic_id].append(wanted)
        else:
            topics[topic_id] = [wanted]
    return list(topics.items())


def truncation_offset(log: PartitionLog, *, epoch: int, end_offset: int) -> int:
    """The offset to truncate at, if the leader's largest epoch at or below ours is `epoch` and ends at `end_offset`.

    If this log has that epoch, the logs agree up to the smaller of the two ends of the epoch. Otherwise they diverge
    earlier: this log keeps its epochs below that epoch, and the next response narrows the divergence (KIP-279).
    """
    own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
    if own_end_offset < 0:
        return min(end_offset, log.log_end_offset)
    if own_epoch != epoch:
        return min(own_end_offset, log.log_end_offset)
    return min(own_end_offset, end_offset, log.log_end_offset)


def _pieces(batches: list[Batch], bytes_max: int) -> list[list[Batch]]:
    """Groups of whole batches that fit into a segment; mostly one group."""
    last = batches[-1]
    if last.position + last.header.size - batches[0].position <= bytes_max:
        return [batches]
    pieces: list[list[Batch]] = [[]]
    size = 0
    for batch in batches:
        size += batch.header.size
        if size > bytes_max and pieces[-1]:
            pieces.append([])
            size = batch.header.size
        pieces[-1].append(batch)
    return pieces
