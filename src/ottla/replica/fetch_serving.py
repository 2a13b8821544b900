"""Serves one fetch request, from its first read to its response.

A fetch reads its partitions in the session's order until the response is full: `max_bytes` for the whole response, and
a limit for each partition. The first batch of the first partition with records is returned whatever its size, because a
consumer with small limits could never pass it otherwise (KIP-74). A fetch that finds less than `min_bytes` is parked
until its partitions have grown by the missing bytes, or until `max_wait_ms` has passed.

Records are never loaded into memory: the response holds regions of segment files, which go from file to socket. A fetch
never waits for the disk on the loop's thread, either: see `cold_reads`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.cold_reads import DISK_WAIT_MS_MAX, ColdReads
from ottla.replica.defects import error_of
from ottla.replica.fetch_limits import FetchLimits
from ottla.replica.fetch_sessions import FetchedPartition, FetchEntry, FetchPlan
from ottla.replica.gathering import GATHERED_BYTES_MIN, Gathering
from ottla.replica.nearest import NO_PREFERENCE, preferred_replica
from ottla.replica.parked import Parked
from ottla.replica.partition import Partition
from ottla.replica.refusals import leader_hint
from ottla.storage.page_cache import NotCached
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

__all__ = ["Fetch", "FetchAnswer", "by_topic", "has_no_news"]

_NO_RECORDS = b""
_LEADER_HINT_VERSION = 16
_STORAGE_ERROR_VERSION = 6
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


# A very large response is encoded while it is built.
FetchAnswer = FetchResponse | PackedResponse


class Fetch(Parked[FetchAnswer]):
    """One fetch request: reads, waits, reads again, responds."""

    __slots__ = (
        "cold",
        "gathering",
        "has_read",
        "is_over",
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
        throttle: Callable[[int, int], tuple[int, bool]] | None = None,
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
        # A consumer that knows of preferred read replicas may read from any replica (KIP-392).
        self.only_from_leader = only_from_leader
        # The rack of the consumer, if it selects the replica to read from.
        self.rack = rack
        # Takes the size of the records and the time; returns the throttle time, and whether the client may have them.
        self.throttle = throttle
        # The partitions to read, and the answers of partitions that were refused before any read.
        self.targets: list[tuple[FetchEntry, Partition]] = []
        self.refused: list[FetchedPartition] = []
        self.missing_bytes = 0
        self.spans_segments = False
        # A parked fetch reads several times, but the follower fetched once: only the first read counts as its progress.
        self.has_read = False
        # The reads from the disk, if bytes were not in memory; and whether the timeout has passed.
        self.cold: ColdReads | None = None
        self.is_over = False
        self.gathering = None if replica_id < 0 else Gathering(plan.session, manager.clock)

    def refuse(self, entry: FetchEntry, error: ErrorCode) -> None:
        """The partition is unknown or forbidden: the response contains the error, but does not leave earlier for it."""
        data = _failed(entry.index, error)
        data.aborted_transactions = []
        self.refused.append((entry, data))

    def start(self) -> FetchAnswer | Deferred[FetchAnswer]:
        """The response, if there are enough records; otherwise the fetch is parked."""
        limits = self.limits
        has_targets = bool(self.targets) or self.plan.has_quiet
        results, size, is_urgent = self._read(self.targets)
        if self.cold is not None:
            # The disk is read even if no more requests may be parked: the client's next fetch finds the bytes.
            answer = self._answer(results, size) if self.parking.is_full else self._park(size)
            self.cold.load()
            return answer
        if size >= GATHERED_BYTES_MIN and self._begins_to_gather(results, size):
            limits = self.limits = limits.gathering()
        if is_urgent or size >= limits.min_bytes or limits.max_wait_ms <= 0 or not has_targets or self.parking.is_full:
            return self._answer(results, size)
        return self._park(size)

    def _park(self, size: int) -> Deferred[FetchAnswer]:
        self.has_read = True
        self.missing_bytes = self.limits.min_bytes - size
        for _, partition in self.targets:
            waiting = partition.parked_fetches if self.replica_id < 0 else partition.parked_replica_fetches
            waiting.add(self)
        if self.plan.session is not None:
            self.plan.session.park(self)
        return self.park(self.limits.max_wait_ms)

    # Called while parked.

    def add_target(self, entry: FetchEntry, partition: Partition) -> None:
        """A quiet partition of the follower's session has changed."""
        if self.is_parked:
            self.targets.append((entry, partition))
            partition.parked_replica_fetches.add(self)

    def on_readable(self, size_bytes: int) -> None:
        self.missing_bytes -= size_bytes
        # The end of a transaction makes all of its records readable, so the bytes cannot be counted.
        if self.missing_bytes <= 0 or self.read_committed:
            self.parking.wake(self)

    def retry(self) -> None:
        results, size, is_urgent = self._read(self.targets)
        if self.cold is not None and self.cold.load():
            return
        if size >= GATHERED_BYTES_MIN and not is_urgent and self._begins_to_gather(results, size):
            self.limits = self.limits.gathering()
            self.wait_again(self.limits.max_wait_ms)
        if is_urgent or size >= self.limits.min_bytes or self.is_over:
            self.unpark(self._answer(results, size))
        else:
            self.missing_bytes = self.limits.min_bytes - size

    def _begins_to_gather(self, results: list[FetchedPartition], size: int) -> bool:
        gathering = self.gathering
        return gathering is not None and gathering.begins(results, size, max_wait_ms=self.limits.max_wait_ms)

    def _monotonic_ms(self) -> int:
        return int(self.manager.clock.monotonic() * 1000)

    @property
    def is_out_of_time(self) -> bool:
        return not self.is_over and (self.gathering is None or not self.gathering.has_begun)

    def on_timeout(self) -> None:
        self._end_wait()
        results, size, _ = self._read(self.targets)
        if self.cold is not None and self.cold.load():
            self.wait_again(DISK_WAIT_MS_MAX)
        else:
            self.unpark(self._answer(results, size))

    def _end_wait(self) -> None:
        """Ends the wait for records, or the wait for the disk that follows it."""
        if self.is_over and self.cold is not None:
            self.cold.is_late = True
        self.is_over = True

    def leave(self) -> None:
        self.cold = None
        if self.plan.session is not None:
            self.plan.session.unpark(self)
        for _, partition in self.targets:
            waiting = partition.parked_fetches if self.replica_id < 0 else partition.parked_replica_fetches
            waiting.discard(self)

    def _read(
        self, targets: list[tuple[FetchEntry, Partition]], size: int = 0
    ) -> tuple[list[FetchedPartition], int, bool]:
        """The records readable now, the size of all records read so far, and whether to respond at once."""
        results: list[FetchedPartition] = []
        remaining = max(0, self.limits.max_bytes - size)
        is_urgent = False
        may_skip = self.plan.session is not None and not self.read_committed
        is_consumer = self.replica_id < 0
        # The time of a follower's fetch, which only its first read notes.
        now_ms = 0 if is_consumer or self.has_read else self._monotonic_ms()
        # Responses to consumers also name a better replica to read from (KIP-392), and a leader that has moved.
        may_skip_leading, may_skip_following = not self.rack, not self.only_from_leader
        quiet: dict[FetchEntry, Partition] = {}
        for entry, partition in targets:
            if may_skip and entry.fetch_offset == entry.sent_high_watermark and has_no_news(entry, partition):
                if is_consumer:
                    if may_skip_following if partition.leader_state is None else may_skip_leading:
                        continue
                elif self._is_quiet_follower(entry, partition, now_ms):
                    quiet[entry] = partition
                    continue
            data = self._read_partition(entry, partition, remaining, is_first=size == 0, now_ms=now_ms)
            records = data.records
            if records:
                length = len(records)
                size += length
                remaining = max(0, remaining - length)
            elif data.error_code or data.diverging_epoch is not None or data.preferred_read_replica != NO_PREFERENCE:
                is_urgent = True
            results.append((entry, data))
        if not is_consumer and not self.has_read:
            self._note_quiet(quiet, now_ms)
        return results, size, is_urgent or self.spans_segments

    def _note_quiet(self, quiet: dict[FetchEntry, Partition], now_ms: int) -> None:
        """Quiet partitions of a follower's session are not read again before they have news."""
        session = self.plan.session
        if session is not None and session.is_follower:
            session.on_quiet(quiet, follower_id=self.replica_id, now_ms=now_ms)
            if quiet:
                self._drop_quiet(quiet)

    def _drop_quiet(self, quiet: dict[FetchEntry, Partition]) -> None:
        self.targets = [target for target in self.targets if target[0] not in quiet]

    def _is_quiet_follower(self, entry: FetchEntry, partition: Partition, now_ms: int) -> bool:
        """Whether a follower without news is at the log's end and in sync: only its fetch time changes."""
        state = partition.leader_state
        progress = None if state is None else state.followers.get(self.replica_id)
        if (
            state is None
            or progress is None
            or partition.log.log_end_offset != entry.fetch_offset
            # The follower has fetched at this offset before in this epoch, and its log agreed with the leader's.
            or progress.log_end_offset != entry.fetch_offset
            or progress.replica_epoch != self.replica_epoch
            or progress.log_start_offset != entry.replica_log_start_offset
            or self.replica_id not in state.maximal_isr
        ):
            return False
        if not self.has_read:
            progress.on_fetches_at_end(now_ms)
        return True

    def _read_partition(
        self, entry: FetchEntry, partition: Partition, remaining: int, *, is_first: bool, now_ms: int
    ) -> PartitionData:
        try:
            if self.only_from_leader:
                partition.check_leader(entry.current_leader_epoch)
                if self.replica_id >= 0:
                    partition.check_follower(self.replica_id, self.replica_epoch)
            else:
                partition.check_replica(entry.current_leader_epoch)
                if self.rack:
                    elsewhere = self._preferred_replica_response(entry, partition)
                    if elsewhere is not None:
                        return elsewhere
            if entry.last_fetched_epoch >= 0:
                diverging = _divergence(partition, entry)
                if diverging is not None:
                    return diverging
            return self._read_log(entry, partition, remaining, is_first=is_first, now_ms=now_ms)
        except Exception as error:  # noqa: BLE001 - a defect is the error of its partition alone
            return _failed(entry.index, error_of(error, "a fetch", partition).code)

    def _preferred_replica_response(self, entry: FetchEntry, partition: Partition) -> PartitionData | None:
        """A response without records that names a preferred read replica, or None to read here (KIP-392)."""
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

    def _read_log(
        self, entry: FetchEntry, partition: Partition, remaining: int, *, is_first: bool, now_ms: int
    ) -> PartitionData:
        log = partition.log
        offset, log_start_offset, end_offset = entry.fetch_offset, log.log_start_offset, log.log_end_offset
        is_follower = self.replica_id >= 0
        if offset < log_start_offset or offset > end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if is_follower and not self.has_read:
            partition.on_follower_fetch(
                self.replica_id,
                fetch_offset=offset,
                log_start_offset=entry.replica_log_start_offset,
                now_ms=now_ms,
                replica_epoch=self.replica_epoch,
            )
        high_watermark, stable_offset = log.high_watermark, log.last_stable_offset
        if not is_follower:
            end_offset = stable_offset if self.read_committed else high_watermark
        data = PartitionData(
            partition_index=entry.index,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=log_start_offset,
            # An empty list tells a read-committed consumer that no transaction was aborted; other readers get null.
            aborted_transactions=[] if self.read_committed else None,
            records=_NO_RECORDS,
        )
        if offset >= end_offset:
            return data
        if partition.is_throttled_leading and is_follower and self._is_held_back(partition):
            return data
        max_bytes = min(entry.max_bytes, remaining)
        may_wait = self.cold is not None and self.cold.may_wait(is_first=is_first)
        if max_bytes > 0 or is_first:
            try:
                read = log.read(
                    offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one_batch=is_first, may_wait=may_wait
                )
                if read.region is None:
                    return data
                if self.read_committed:
                    data.aborted_transactions = [
                        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                        for aborted in log.aborted_in_read(read, start=offset, end_offset=end_offset, may_wait=may_wait)
                    ]
            except NotCached as lookup:
                if self.cold is None:
                    self.cold = ColdReads(self.manager.disk_readers, partial(self.parking.wake, self))
                self.cold.add(lookup.region)
                return data
            data.records = read.region
            if read.segment_base_offset != log.segments.active.base_offset:
                # A read ends with its segment, and the next records are in the next one: waiting adds nothing.
                self.spans_segments = True
        return data

    def _is_held_back(self, partition: Partition) -> bool:
        return self.manager.throttles.holds_back(partition, self.replica_id)

    def _answer(self, results: list[FetchedPartition], size: int) -> FetchResponse:
        manager = self.manager
        throttle_ms, now_ms = 0, manager.clock.now_ms()
        if self.throttle is not None and size:
            throttle_ms, is_given = self.throttle(size, now_ms)
            if not is_given:
                error, session_id = manager.sessions.settle_without_news(self.plan)
                return FetchResponse(error_code=error, session_id=session_id, throttle_time_ms=throttle_ms)
        if size and self.gathering is not None:
            self.gathering.on_response(size)
        results = [*results, *self.refused] if self.refused else results
        error, session_id, news = manager.sessions.settle(self.plan, results, now_ms=now_ms)
        response = FetchResponse(error_code=error, session_id=session_id, responses=by_topic(news, self.plan))
        if throttle_ms:
            response.throttle_time_ms = throttle_ms
        self._count(news, response)
        return response

    def _count(self, news: list[FetchedPartition], response: FetchResponse) -> None:
        """Counts the partitions with records, and completes those with errors."""
        manager = self.manager
        for entry, data in news:
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
            # Older clients do not know the code, and would fail instead of refreshing their metadata.
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.version >= _LEADER_HINT_VERSION and data.error_code in _LEADER_ERRORS:
            # KIP-951: the response names the leader, so that the client need not fetch metadata first.
            topic = entry.topic or self.manager.topic_name(entry.topic_id) or ""
            leader_id, epoch, endpoint = leader_hint(self.manager.image, topic, entry.index, self.listener_name)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
            if endpoint is not None and all(node.node_id != leader_id for node in response.node_endpoints):
                response.node_endpoints.append(
                    NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)
                )


def has_no_news(entry: FetchEntry, partition: Partition) -> bool:
    """True if a reader is at the high watermark and has received it: incremental responses omit the partition."""
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
    """Where the follower's log diverges and has to be truncated (KIP-595); None if the logs agree."""
    log = partition.log
    if (
        entry.last_fetched_epoch == log.epochs.latest
        and log.log_start_offset <= entry.fetch_offset <= log.log_end_offset
    ):
        # The usual case: the follower is in the newest epoch, which ends with the log.
        return None
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
    """Groups adjacent partitions of one topic. The order of partitions is the order of service, and is kept."""
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
