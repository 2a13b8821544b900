"""One fetch request, from its first read to its answer.

A fetch reads its partitions in the session's order until the answer is full: `max_bytes` for the whole, and a limit per
partition. The first batch of the first partition that has any is delivered whatever its size, or a consumer with small
limits could never pass it (KIP-74). With less than `min_bytes` to give, the fetch is parked until its partitions have
grown by what is missing, or until `max_wait_ms` is over.

What is read is never loaded: the answer holds regions of segment files, which go from file to socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.defects import error_of
from ottla.replica.fetch_sessions import FetchedPartition, FetchEntry, FetchPlan
from ottla.replica.gathering import GATHERED_BYTES, GATHERING_MS, Gathering
from ottla.replica.nearest import NO_PREFERENCE, preferred_replica
from ottla.replica.parked import Parked
from ottla.replica.partition import Partition
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.replica.manager import ReplicaManager

__all__ = ["Fetch", "FetchAnswer", "FetchLimits", "by_topic"]

# A client that goes away leaves its parked fetch behind until its time is over: nobody may ask for days.
WAIT_MS_MAX = 600_000

_NO_RECORDS = b""
_LEADER_HINT_VERSION = 16
_STORAGE_ERROR_VERSION = 6
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class FetchLimits:
    """How much a fetch wants, and how long it is ready to wait for it."""

    __slots__ = ("max_bytes", "max_wait_ms", "min_bytes")

    def __init__(self, *, max_bytes: int, min_bytes: int, max_wait_ms: int) -> None:
        self.max_bytes = max_bytes
        # More than fits into an answer would never be reached.
        self.min_bytes = min(min_bytes, max_bytes)
        self.max_wait_ms = min(max_wait_ms, WAIT_MS_MAX)

    def gathering(self) -> FetchLimits:
        """For a follower that could be answered now, but with more in a moment: see `gathering`."""
        return FetchLimits(
            max_bytes=self.max_bytes,
            min_bytes=max(self.min_bytes, GATHERED_BYTES),
            max_wait_ms=min(self.max_wait_ms, GATHERING_MS),
        )


# A very large answer is packed while it is made.
FetchAnswer = FetchResponse | PackedResponse


class Fetch(Parked[FetchAnswer]):
    """Reads, waits, reads again, answers."""

    __slots__ = (
        "gathering",
        "has_looked",
        "limits",
        "listener_name",
        "manager",
        "missing_bytes",
        "only_from_leader",
        "plan",
        "rack",
        "read_committed",
        "refused",
        "replica_epoch",
        "replica_id",
        "spans_segments",
        "targets",
        "throttle",
        "version",
    )

    def __init__(
        self,
        manager: ReplicaManager,
        plan: FetchPlan,
        limits: FetchLimits,
        *,
        version: int,
        read_committed: bool,
        replica_id: int = -1,
        replica_epoch: int = -1,
        listener_name: str = "",
        only_from_leader: bool = True,
        rack: str = "",
        throttle: Callable[[int], tuple[int, bool]] | None = None,
    ) -> None:
        super().__init__(manager.parking)
        self.manager = manager
        self.plan = plan
        self.limits = limits
        self.version = version
        self.read_committed = read_committed
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.listener_name = listener_name
        # Consumers that know of other replicas may read from any of them (KIP-392).
        self.only_from_leader = only_from_leader
        # Where the consumer is, if that is to decide where it reads.
        self.rack = rack
        # Given the size of the records: for how long to throttle the client, and whether it may have them.
        self.throttle = throttle
        # What is read, and what was refused before any reading.
        self.targets: list[tuple[FetchEntry, Partition]] = []
        self.refused: list[FetchedPartition] = []
        self.missing_bytes = 0
        self.spans_segments = False
        # However often we look for an answer, a follower asked once: only the first look counts for its progress.
        self.has_looked = False
        self.gathering = None if replica_id < 0 else Gathering(plan.session, manager.clock)

    def refuse(self, entry: FetchEntry, error: ErrorCode) -> None:
        """The partition is unknown or forbidden: it is named in the answer, but does not hasten it."""
        data = _failed(entry.index, error)
        data.aborted_transactions = []
        self.refused.append((entry, data))

    def start(self) -> FetchAnswer | Deferred[FetchAnswer]:
        """The answer, if there is enough to give."""
        limits = self.limits
        has_targets = bool(self.targets) or self.plan.has_quiet
        results, size, is_urgent = self._read(self.targets)
        if self.gathering is not None and self.gathering.begins_on_arrival(results, size):
            limits = self.limits = limits.gathering()
        if is_urgent or size >= limits.min_bytes or limits.max_wait_ms <= 0 or not has_targets or self.parking.is_full:
            return self._answer(results, size)
        self.has_looked = True
        self.missing_bytes = limits.min_bytes - size
        for _, partition in self.targets:
            waiting = partition.parked_fetches if self.replica_id < 0 else partition.parked_replica_fetches
            waiting.add(self)
        if self.plan.session is not None:
            self.plan.session.park(self)
        return self.park(limits.max_wait_ms)

    # Called while parked.

    def add_target(self, entry: FetchEntry, partition: Partition) -> None:
        """A partition that the follower had heard everything about is not quiet any more."""
        if self.is_parked:
            self.targets.append((entry, partition))
            partition.parked_replica_fetches.add(self)

    def on_readable(self, size_bytes: int) -> None:
        self.missing_bytes -= size_bytes
        # The end of a transaction is small, but everything in it becomes readable with it: no count tells how much.
        if self.missing_bytes <= 0 or self.read_committed:
            self.parking.wake(self)

    def retry(self) -> None:
        results, size, is_urgent = self._read(self.targets)
        if (
            self.gathering is not None
            and not is_urgent
            and self.gathering.begins_after_waiting(results, size, max_wait_ms=self.limits.max_wait_ms)
        ):
            self.limits = self.limits.gathering()
            self.wait_again(self.limits.max_wait_ms)
        if is_urgent or size >= self.limits.min_bytes:
            self.unpark(self._answer(results, size))
        else:
            self.missing_bytes = self.limits.min_bytes - size

    def _monotonic_ms(self) -> int:
        return int(self.manager.clock.monotonic() * 1000)

    @property
    def is_out_of_time(self) -> bool:
        return self.gathering is None or not self.gathering.has_begun

    def on_timeout(self) -> None:
        results, size, _ = self._read(self.targets)
        self.unpark(self._answer(results, size))

    def leave(self) -> None:
        if self.plan.session is not None:
            self.plan.session.unpark(self)
        for _, partition in self.targets:
            waiting = partition.parked_fetches if self.replica_id < 0 else partition.parked_replica_fetches
            waiting.discard(self)

    def _read(
        self, targets: list[tuple[FetchEntry, Partition]], size: int = 0
    ) -> tuple[list[FetchedPartition], int, bool]:
        """What there is now, its size together with what was read before, and whether somebody has to be told
        something at once.
        """
        results: list[FetchedPartition] = []
        remaining = max(0, self.limits.max_bytes - size)
        is_urgent = False
        may_skip = self.plan.session is not None and not self.read_committed
        is_consumer = self.replica_id < 0
        now_ms = 0 if is_consumer else self._monotonic_ms()
        quiet: dict[FetchEntry, Partition] = {}
        for entry, partition in targets:
            if may_skip and entry.fetch_offset == entry.sent_high_watermark:
                if is_consumer:
                    if self._is_quiet_consumer(entry, partition):
                        continue
                elif self._is_quiet_follower(entry, partition, now_ms):
                    quiet[entry] = partition
                    continue
            data = self._read_partition(entry, partition, remaining, is_first=size == 0)
            records = data.records
            if records:
                length = len(records)
                size += length
                remaining = max(0, remaining - length)
            elif data.error_code or data.diverging_epoch is not None or data.preferred_read_replica != NO_PREFERENCE:
                is_urgent = True
            results.append((entry, data))
        if not is_consumer and not self.has_looked:
            self._note_quiet(quiet, now_ms)
        return results, size, is_urgent or self.spans_segments

    def _note_quiet(self, quiet: dict[FetchEntry, Partition], now_ms: int) -> None:
        """Partitions that the follower knows everything about are not read again before they have news."""
        session = self.plan.session
        if session is not None and session.is_follower:
            session.on_quiet(quiet, follower_id=self.replica_id, now_ms=now_ms)
            if quiet:
                self._leave_out(quiet)

    def _leave_out(self, quiet: dict[FetchEntry, Partition]) -> None:
        self.targets = [target for target in self.targets if target[0] not in quiet]

    def _is_quiet_consumer(self, entry: FetchEntry, partition: Partition) -> bool:
        """Whether there is nothing to tell: no record, and no better place to ask."""
        if partition.leader_state is None:
            return not self.only_from_leader and _has_no_news(entry, partition)
        return not self.rack and _has_no_news(entry, partition)

    def _is_quiet_follower(self, entry: FetchEntry, partition: Partition, now_ms: int) -> bool:
        """Whether the follower stands at the end, is in sync and knows it; then all there is to note is the time."""
        state = partition.leader_state
        progress = None if state is None else state.followers.get(self.replica_id)
        if (
            state is None
            or progress is None
            or partition.log.log_end_offset != entry.fetch_offset
            # It was here before, in this epoch, and was found to agree.
            or progress.log_end_offset != entry.fetch_offset
            or progress.replica_epoch != self.replica_epoch
            or progress.log_start_offset != entry.replica_log_start_offset
            or self.replica_id not in state.maximal_isr
            or not _has_no_news(entry, partition)
        ):
            return False
        if not self.has_looked:
            progress.on_fetches_at_end(now_ms)
        return True

    def _read_partition(
        self, entry: FetchEntry, partition: Partition, remaining: int, *, is_first: bool
    ) -> PartitionData:
        try:
            if self.only_from_leader:
                partition.check_leader(entry.current_leader_epoch)
                if self.replica_id >= 0:
                    partition.check_follower(self.replica_id, self.replica_epoch)
            else:
                partition.check_replica(entry.current_leader_epoch)
                if self.rack:
                    elsewhere = self._elsewhere(entry, partition)
                    if elsewhere is not None:
                        return elsewhere
            if entry.last_fetched_epoch >= 0:
                diverging = _divergence(partition, entry)
                if diverging is not None:
                    return diverging
            return self._read_log(entry, partition, remaining, is_first=is_first)
        except Exception as error:  # noqa: BLE001 - a defect is the error of its partition alone
            return _failed(entry.index, error_of(error, "a fetch", partition).code)

    def _elsewhere(self, entry: FetchEntry, partition: Partition) -> PartitionData | None:
        """Instead of records: which replica the consumer should read from, if not from us."""
        state, image = partition.leader_state, self.manager.image
        if state is None or image is None:
            return None
        replica = preferred_replica(
            state,
            image.brokers,
            rack=self.rack,
            listener_name=self.listener_name,
            fetch_offset=entry.fetch_offset,
        )
        if replica == NO_PREFERENCE:
            return None
        return PartitionData(
            partition_index=entry.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            preferred_read_replica=replica,
            aborted_transactions=None,
            records=_NO_RECORDS,
        )

    def _read_log(self, entry: FetchEntry, partition: Partition, remaining: int, *, is_first: bool) -> PartitionData:
        log = partition.log
        offset = entry.fetch_offset
        high_watermark = partition.high_watermark
        stable_offset = partition.last_stable_offset
        is_follower = self.replica_id >= 0
        if is_follower:
            end_offset = log.log_end_offset
        else:
            end_offset = stable_offset if self.read_committed else high_watermark
        if offset < log.log_start_offset or offset > log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if is_follower and not self.has_looked:
            partition.on_follower_fetch(
                self.replica_id,
                fetch_offset=offset,
                log_start_offset=entry.replica_log_start_offset,
                now_ms=self._monotonic_ms(),
                replica_epoch=self.replica_epoch,
            )
            high_watermark = partition.high_watermark
        data = PartitionData(
            partition_index=entry.index,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=log.log_start_offset,
            # An empty list tells a reader of committed data that nothing was aborted; others get null.
            aborted_transactions=[] if self.read_committed else None,
            records=_NO_RECORDS,
        )
        max_bytes = min(entry.max_bytes, remaining)
        if is_follower and self.manager.throttles.holds_back(partition, self.replica_id):
            return data
        if offset < end_offset and (max_bytes > 0 or is_first):
            read = log.read(offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
            if read.region is not None:
                data.records = read.region
                if read.segment_base_offset != log.segments.active.base_offset:
                    # What follows is in the next segment, which a read does not reach: waiting would add nothing.
                    self.spans_segments = True
                if self.read_committed:
                    data.aborted_transactions = [
                        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                        for aborted in log.aborted_in_read(read, start=offset, end_offset=end_offset)
                    ]
        return data

    def _answer(self, results: list[FetchedPartition], size: int) -> FetchResponse:
        manager = self.manager
        throttle_ms = 0
        if self.throttle is not None and size:
            throttle_ms, is_given = self.throttle(size)
            if not is_given:
                error, session_id = manager.sessions.settle_without_news(self.plan)
                return FetchResponse(error_code=error, session_id=session_id, throttle_time_ms=throttle_ms)
        results = [*results, *self.refused] if self.refused else results
        error, session_id, told = manager.sessions.settle(self.plan, results, now_ms=manager.clock.now_ms())
        response = FetchResponse(error_code=error, session_id=session_id, responses=by_topic(told, self.plan))
        if throttle_ms:
            response.throttle_time_ms = throttle_ms
        self._count(told, response)
        return response

    def _count(self, told: list[FetchedPartition], response: FetchResponse) -> None:
        """Counts what the answer gives, and says what there is to say about what it does not."""
        manager = self.manager
        for entry, data in told:
            if data.records:
                partition = entry.partition
                assert partition is not None, "records come from a resolved partition"
                counters = partition.counters
                counters.fetches += 1
                if self.replica_id < 0:
                    counters.bytes_out += len(data.records)
                else:
                    counters.replica_bytes_out += len(data.records)
                    if partition.is_throttled_leading:
                        manager.throttles.on_sent(len(data.records))
            elif data.error_code:
                self._finish_error(entry, data, response)

    def _finish_error(self, entry: FetchEntry, data: PartitionData, response: FetchResponse) -> None:
        partition = entry.partition or self.manager.present(entry.topic, entry.index)
        if partition is not None:
            partition.counters.failed_fetches += 1
        if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and self.version < _STORAGE_ERROR_VERSION:
            # Clients of that time do not know the code and would give up instead of asking for the leader.
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.version >= _LEADER_HINT_VERSION and data.error_code in _LEADER_ERRORS:
            # KIP-951: tell where the leader is, so that the client need not ask for metadata first.
            topic = entry.topic or self.manager.topic_name(entry.topic_id) or ""
            leader_id, epoch, endpoint = self.manager.leader_hint(topic, entry.index, self.listener_name)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
            if endpoint is not None and all(known.node_id != leader_id for known in response.node_endpoints):
                response.node_endpoints.append(
                    NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)
                )


def _has_no_news(entry: FetchEntry, partition: Partition) -> bool:
    """Whether a consumer stands at the end and knows it: then an incremental answer has nothing to say of this."""
    log = partition.log
    return (
        log.high_watermark == entry.fetch_offset
        and log.log_start_offset == entry.sent_log_start_offset
        and partition.refusal is None
        and (entry.current_leader_epoch < 0 or entry.current_leader_epoch == partition.leader_epoch)
    )


def _failed(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index, error_code=error, high_watermark=-1, aborted_transactions=None, records=_NO_RECORDS
    )


def _divergence(partition: Partition, entry: FetchEntry) -> PartitionData | None:
    """Where the reader's log and ours part, if they do (KIP-595): it has to truncate before it goes on."""
    log = partition.log
    epoch, end_offset = partition.end_of_epoch(entry.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or entry.fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch >= entry.last_fetched_epoch and end_offset >= entry.fetch_offset:
        return None
    return PartitionData(
        partition_index=entry.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        aborted_transactions=None,
        records=_NO_RECORDS,
    )


def by_topic(results: list[FetchedPartition], plan: FetchPlan) -> list[FetchableTopicResponse]:
    """Groups neighbours of one topic; the order of partitions is the order of service and is kept."""
    topics: list[FetchableTopicResponse] = []
    current: FetchableTopicResponse | None = None
    for entry, data in results:
        if current is None or (
            current.topic_id != entry.topic_id if plan.uses_topic_ids else current.topic != entry.topic
        ):
            current = FetchableTopicResponse(topic=entry.topic, topic_id=entry.topic_id)
            topics.append(current)
        current.partitions.append(data)
    return topics
