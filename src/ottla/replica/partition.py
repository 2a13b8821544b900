"""One partition on this broker: its log, its leader, and the bounds of reads.

`Partition` decides how a request may use a log: whether this broker leads, whether the client's leader epoch is
current, how many in-sync replicas a write needs, and where a read ends (at the high watermark, or at the last stable
offset for a read-committed consumer). The log itself is independent of this.

A partition that was deleted or lost its log directory stays a valid object. Its `refusal` is the error that every later
request gets, including parked requests and fetch sessions that still hold the object.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.header import ATTRIBUTES_POSITION
from ottla.replica import refusals
from ottla.replica.counters import PartitionCounters
from ottla.replica.leadership import NEVER_MS, FollowerProgress, LeaderState
from ottla.replica.parked import WaitList
from ottla.replica.throttles import is_throttled

if TYPE_CHECKING:
    from ottla.model.config import LogConfig
    from ottla.records.header import BatchHeader
    from ottla.records.validate import ProduceSettings, ValidatedRecords
    from ottla.replica.appends import AppendQueue
    from ottla.replica.fetch_sessions import FetchEntry, FetchSession
    from ottla.replica.isr import IsrKeeper
    from ottla.replica.parked import Parking
    from ottla.storage.log import AppendResult, PartitionLog

__all__ = ["Partition"]

logger = logging.getLogger("ottla.replica.partition")

NO_EPOCH = -1
ACKS_ALL = -1


class Partition:
    """One replica: the leader's or a follower's."""

    __slots__ = (
        "append_queue",
        "counters",
        "index",
        "is_throttled_following",
        "is_throttled_leading",
        "isr_keeper",
        "leader_epoch",
        "leader_id",
        "leader_state",
        "log",
        "node_id",
        "parked_deletes",
        "parked_fetches",
        "parked_produces",
        "parked_replica_fetches",
        "parking",
        "partition_epoch",
        "produce_settings",
        "quiet_followers",
        "refusal",
        "topic",
        "topic_id",
        "unseen_bytes",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        log: PartitionLog,
        *,
        node_id: int,
        parking: Parking,
        isr_keeper: IsrKeeper | None = None,
    ) -> None:
        self.topic, self.index = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.node_id = node_id
        self.parking = parking
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.leader_state: LeaderState | None = None
        # Asks the controller to change the in-sync set; None on a broker without replication.
        self.isr_keeper = isr_keeper
        self.refusal: ErrorCode | None = None
        # Set while a batch of this partition is validated on a worker: later batches queue behind it.
        self.append_queue: AppendQueue | None = None
        self.produce_settings: ProduceSettings | None = None
        # Consumers' fetches wait for the high watermark.
        self.parked_fetches = WaitList()
        # Followers read uncommitted records, so their fetches wait for appends.
        self.parked_replica_fetches = WaitList()
        self.parked_produces = WaitList()
        self.parked_deletes = WaitList()
        # Whether the topic's configuration lists this replica as throttled (KIP-73).
        self.is_throttled_leading = False
        self.is_throttled_following = False
        # Followers at the log's end without news about it, by node id. The session of such a follower does not
        # look at this partition until `wake_quiet`.
        self.quiet_followers: dict[int, tuple[FetchSession, FetchEntry]] = {}
        # Appended since the high watermark last moved: bytes that consumers cannot see yet.
        self.unseen_bytes = 0
        self.counters = PartitionCounters()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def config(self) -> LogConfig:
        return self.log.config

    @property
    def is_leader(self) -> bool:
        return self.leader_state is not None

    @property
    def high_watermark(self) -> int:
        """The end of the committed records: every in-sync replica has them, so consumers may read them."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Every transaction that begins below this offset is committed or aborted."""
        return self.log.last_stable_offset

    def invariants(self) -> None:
        """Holds between any two steps of the node; checked by the simulator and by model tests."""
        state, log = self.leader_state, self.log
        log.invariants()
        assert self.refusal is None or state is None, "a partition that refuses requests leads nothing"
        assert self.unseen_bytes >= 0
        if state is None:
            assert not self.quiet_followers, "only a leader has followers"
        else:
            assert (self.leader_id, self.leader_epoch) == (self.node_id, state.epoch), "leader and epoch go together"
            assert not state.is_alone or log.high_watermark == log.log_end_offset, "nobody else has to be waited for"
            state.invariants(log_end_offset=log.log_end_offset)
            assert self.quiet_followers.keys() <= state.followers.keys(), "quiet followers are followers"

    # Configuration.

    def connect(self, isr_keeper: IsrKeeper) -> None:
        """Replication has started on this broker."""
        self.isr_keeper = isr_keeper

    def configure(self, config: LogConfig, produce_settings: ProduceSettings) -> None:
        """Applies the topic's configuration. A lower `min.insync.replicas` may commit more records."""
        self.log.configure(config)
        self.produce_settings = produce_settings
        replica = f"{self.index}:{self.node_id}"
        self.is_throttled_leading = is_throttled(replica, config.leader_replication_throttled_replicas)
        self.is_throttled_following = is_throttled(replica, config.follower_replication_throttled_replicas)
        self.advance_high_watermark()

    # Leadership.

    def become_leader(
        self,
        *,
        epoch: int,
        partition_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        now_ms: int = NEVER_MS,
    ) -> None:
        """Makes this broker the leader, or keeps it as the leader. A new epoch begins at the end of the log."""
        state = self.leader_state
        if state is not None and state.epoch == epoch:
            if partition_epoch < self.partition_epoch:
                # The controller's AlterPartition response was faster than this metadata, which is older.
                return
            if partition_epoch > self.partition_epoch:
                self.wake_quiet()
                state.assign(replicas=replicas, isr=isr)
        else:
            # Called before the state changes: progress of a former epoch does not count in the new epoch.
            self.wake_quiet()
            state = self.leader_state = LeaderState(
                node_id=self.node_id,
                epoch=epoch,
                epoch_start_offset=self.log.log_end_offset,
                replicas=replicas,
                isr=isr,
                now_ms=now_ms,
            )
            # Followers copy this log as it is from now on.
            self.log.resolve_doubt()
            self.wake_all()
        self.leader_id = self.node_id
        self.leader_epoch = epoch
        self.partition_epoch = partition_epoch
        self.advance_high_watermark()

    def become_follower(self, *, leader_id: int, epoch: int, partition_epoch: int) -> None:
        """Makes another broker the leader, or none: requests that wait for this leader are woken."""
        # Consumers may wait at a follower, too (KIP-392): a new epoch has to fence them.
        is_new = self.leader_state is not None or epoch != self.leader_epoch
        self.leader_state = None
        self.leader_id = leader_id
        self.leader_epoch = epoch
        self.partition_epoch = partition_epoch
        if is_new:
            self.wake_all()

    def refuse(self, error: ErrorCode) -> None:
        """Refuses every later request with this error: the partition was deleted, or its log directory failed."""
        self.refusal = error
        self.leader_state = None
        self.wake_all()

    def follower_progress(self, node_id: int) -> FollowerProgress | None:
        state = self.leader_state
        return None if state is None else state.followers.get(node_id)

    def check_follower(self, node_id: int, replica_epoch: int = -1) -> FollowerProgress:
        """The progress of a broker that follows this partition. Raises if the broker may not fetch as a follower."""
        state = self.leader_state
        progress = None if state is None else state.followers.get(node_id)
        if progress is None:
            raise refusals.no_replica(self, node_id)
        if 0 <= replica_epoch < progress.replica_epoch:
            raise refusals.former_replica_epoch(
                node_id, replica_epoch=replica_epoch, known_epoch=progress.replica_epoch
            )
        return progress

    def on_follower_fetch(
        self, node_id: int, *, fetch_offset: int, log_start_offset: int, now_ms: int, replica_epoch: int = -1
    ) -> None:
        """A follower fetched at an offset, so it holds everything before it. May move the high watermark."""
        progress = self.check_follower(node_id, replica_epoch)
        progress.on_fetch(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
            replica_epoch=replica_epoch,
        )
        for parked in self.parked_deletes:
            self.parking.wake(parked)
        state, keeper = self.leader_state, self.isr_keeper
        if state is not None and keeper is not None and node_id not in state.maximal_isr:
            # Before the high watermark moves, so that the joining follower counts.
            keeper.consider_joining(self, state, progress)
        self.advance_high_watermark()

    def commit_isr(self, state: LeaderState, *, isr: Iterable[int], partition_epoch: int) -> None:
        """The controller has accepted a change of the in-sync set that this leader proposed."""
        if state is self.leader_state and partition_epoch >= self.partition_epoch:
            self.wake_quiet()
            state.commit_isr(isr)
            self.partition_epoch = partition_epoch
            self.advance_high_watermark()

    def advance_high_watermark(self) -> None:
        """Moves the high watermark to the smallest log end offset of the in-sync replicas, and wakes waiting requests.

        With fewer in-sync replicas than `min.insync.replicas` it does not move (KIP-966).
        """
        state = self.leader_state
        if state is None:
            return
        log = self.log
        high_watermark = end_offset = log.log_end_offset
        if not state.is_alone:
            if len(state.isr) < self.needed_replicas(state):
                return
            keeper, is_joining = self.isr_keeper, None
            if keeper is not None and len(state.maximal_isr) < state.replica_count:
                is_joining = keeper.joining_test(self)
            high_watermark = state.high_watermark(high_watermark, is_joining)
        if high_watermark > log.high_watermark:
            self._raise_high_watermark(high_watermark, end_offset)
            for parked in self.parked_produces:
                self.parking.wake(parked)

    def follow_high_watermark(self, high_watermark: int) -> None:
        """Takes over the leader's high watermark, up to the end of this log. Consumers may read here (KIP-392)."""
        end_offset = self.log.log_end_offset
        high_watermark = min(high_watermark, end_offset)
        if high_watermark > self.log.high_watermark:
            self._raise_high_watermark(high_watermark, end_offset)

    def note_quiet_follower(self, node_id: int, session: FetchSession, entry: FetchEntry) -> None:
        """Notes a follower at the log's end without news: its session skips this partition until `wake_quiet`."""
        self.quiet_followers[node_id] = (session, entry)

    def wake_quiet(self) -> None:
        """The partition has changed: the sessions of quiet followers look at it again."""
        if self.quiet_followers:
            quiet, self.quiet_followers = self.quiet_followers, {}
            for follower_id, (session, entry) in quiet.items():
                session.on_news(entry, self, follower_id)

    def _raise_high_watermark(self, high_watermark: int, end_offset: int) -> None:
        if self.quiet_followers:
            self.wake_quiet()
        log = self.log
        unseen_bytes, hidden_bytes = self.unseen_bytes, 0
        if high_watermark < end_offset:
            # Only a part is committed. The remaining bytes (their share of the offsets) count when they are committed.
            hidden_bytes = unseen_bytes * (end_offset - high_watermark) // (end_offset - log.high_watermark)
        self.unseen_bytes = hidden_bytes
        log.update_high_watermark(high_watermark)
        for parked in self.parked_fetches:
            # At least one byte: records from before a restart are not counted.
            parked.on_readable(max(unseen_bytes - hidden_bytes, 1))

    def wake_all(self) -> None:
        self.wake_quiet()
        wake = self.parking.wake
        for waiting in (self.parked_fetches, self.parked_replica_fetches, self.parked_produces, self.parked_deletes):
            for parked in waiting:
                wake(parked)

    # Checks.

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> LeaderState:
        """Raises unless this broker leads and the client's leader epoch is current (KIP-320)."""
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise refusals.wrong_leader_epoch(self, current_leader_epoch)
        state = self.leader_state
        if state is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Broker {self.leader_id} leads {self}.")
        return state

    def check_replica(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raises unless a consumer may read from this replica (KIP-392): it exists, and the leader epoch is current."""
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise refusals.wrong_leader_epoch(self, current_leader_epoch)

    def needed_replicas(self, state: LeaderState) -> int:
        """`min.insync.replicas`, or the number of replicas if that is smaller."""
        return min(self.log.config.min_insync_replicas, state.replica_count)

    def check_enough_replicas(self, state: LeaderState) -> None:
        """Raises if an acks=all write would lack in-sync replicas."""
        needed = self.needed_replicas(state)
        if len(state.isr) < needed:
            raise refusals.not_enough_replicas(self, in_sync=len(state.isr), needed=needed)

    def commit_error(self, required_offset: int) -> ErrorCode | None:
        """The result of a write that waits for followers, or None while it has to wait."""
        state = self.leader_state
        if state is None:
            return self.refusal or ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if len(state.isr) < self.needed_replicas(state):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # Epochs.

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the offset was or, at the log's end, will be written; -1 if unknown."""
        state = self.leader_state
        if state is not None and offset >= state.epoch_start_offset:
            return state.epoch
        return self.log.epochs.epoch_of(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below the given one, and its end offset; (-1, -1) if unknown.

        The leader's own epoch counts from the election on, even while it has no records: a consumer may know it from
        ListOffsets.
        """
        log, state = self.log, self.leader_state
        latest = log.epochs.latest
        if state is None or epoch <= latest or epoch > state.epoch:
            return log.end_offset_for_epoch(epoch)
        if epoch == state.epoch:
            return epoch, log.log_end_offset
        return (epoch if latest == NO_EPOCH else latest), state.epoch_start_offset

    # Writing.

    def append_as_leader(self, records: ValidatedRecords, *, required_acks: int, now_ms: int) -> AppendResult:
        """Appends validated batches. Raises KafkaError with nothing written."""
        state = self.leader_state
        if state is None:
            state = self.check_leader()
        if required_acks == ACKS_ALL and state.replica_count > 1:
            self.check_enough_replicas(state)
        result = self.log.append_as_leader(records, leader_epoch=state.epoch, now_ms=now_ms)
        counters = self.counters
        counters.produces += 1
        if not result.duplicate:
            counters.messages_in += records.record_count
            self._on_appended(state, len(records.buffer))
        else:
            counters.duplicates += 1
            logger.debug("%s: duplicate batch, already at offset %d", self, result.first_offset)
        return result

    def append_built(self, buffer: bytearray, *, now_ms: int, required_acks: int = ACKS_ALL) -> AppendResult:
        """Appends batches that this broker has built: records of a coordinator, or transaction markers."""
        state = self.check_leader()
        if required_acks == ACKS_ALL and state.replica_count > 1:
            self.check_enough_replicas(state)
        result = self.log.append_built(buffer, leader_epoch=state.epoch, now_ms=now_ms)
        if not result.duplicate:
            self._on_appended(state, len(buffer))
        return result

    def append_record(self, checksummed: bytes, *, timestamp: int, now_ms: int) -> AppendResult:
        """`append_built` for one record where this broker holds the only replica: see `PartitionLog.append_record`."""
        state = self.leader_state
        assert state is not None, "the caller has checked the leader"
        result = self.log.append_record(checksummed, timestamp=timestamp, leader_epoch=state.epoch, now_ms=now_ms)
        self._on_appended(state, ATTRIBUTES_POSITION + len(checksummed))
        return result

    def append_as_follower(self, records: memoryview, headers: list[BatchHeader]) -> AppendResult:
        """Appends whole batches as the leader sent them. Raises KafkaError with nothing written."""
        result = self.log.append_as_follower(records, headers=headers)
        self.unseen_bytes += len(records)
        self.counters.replica_bytes_in += len(records)
        return result

    def append_mirrored(self, records: memoryview, headers: list[BatchHeader], *, now_ms: int) -> AppendResult:
        """Appends batches at their own offsets, as `mirroring` has checked them."""
        state = self.check_leader()
        result = self.log.append_as_follower(records, headers=headers, now_ms=now_ms)
        self.counters.produces += 1
        self.counters.messages_in += sum(header.record_count for header in headers)
        self._on_appended(state, len(records))
        return result

    def open_append_queue(self, queue: AppendQueue) -> None:
        """A batch is validated on a worker: later batches of producers go into the queue."""
        assert self.append_queue is None, "one queue keeps the order of appends"
        self.append_queue = queue

    def close_append_queue(self) -> None:
        """The queue is empty: batches of producers are appended directly again."""
        self.append_queue = None

    @property
    def low_watermark(self) -> int:
        """The first offset that every replica on a live broker still has."""
        state, keeper = self.leader_state, self.isr_keeper
        lowest = self.log.log_start_offset
        if state is not None and not state.is_alone:
            is_alive = None if keeper is None else keeper.is_alive
            lowest = state.low_watermark(lowest, is_alive)
        return lowest

    def delete_records_before(self, offset: int) -> int:
        """Deletes the records before the offset (-1: before the high watermark). Returns the new log start offset.

        Followers delete their records a moment later: `low_watermark` shows when all followers have done so.
        """
        self.check_leader()
        cleanup_policy = self.log.config.cleanup_policy
        if "compact" in cleanup_policy and "delete" not in cleanup_policy:
            raise refusals.compacted_only(self)
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise refusals.not_deletable_to(self, target)
        if target > self.log.log_start_offset:
            self.wake_quiet()
            self.log.advance_log_start_offset(target)
        return target

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def _on_appended(self, state: LeaderState, size_bytes: int) -> None:
        self.counters.bytes_in += size_bytes
        self.unseen_bytes += size_bytes
        if self.quiet_followers:
            self.wake_quiet()
        for parked in self.parked_replica_fetches:
            parked.on_readable(size_bytes)
        if state.is_alone:
            # There are no followers: an appended record is committed.
            end_offset = self.log.log_end_offset
            self._raise_high_watermark(end_offset, end_offset)
            for parked in self.parked_produces:
                self.parking.wake(parked)
        elif len(state.maximal_isr) == 1:
            # No follower is in sync, so no fetch will move the high watermark.
            self.advance_high_watermark()
