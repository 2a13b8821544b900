"""One partition of a state topic that this broker leads: its state in memory, and the commit gate for its responses.

    submit(decide) -> decision -> records into the open batch -> replay -> (end of the loop's turn) one append
                                                                        -> high watermark passes -> responses

Decisions of one turn of the loop share a batch: hundreds of commits that arrive together cost one append. A shard
whose last turn brought one or two decisions expects no more and appends a commit's offsets at once. With a thousand
groups over fifty shards that is the rule, and a response that need not wait costs less. A decision sees the records of
all decisions before it. The response of a decision without records waits until all records before it are committed.

When an append fails, the state is ahead of the log. It is dropped and loaded again, and pending requests fail with an
error that makes clients find the coordinator again. That is rare (a full or broken disk; too few replicas are noticed
before anything changes), so there is no second copy of the state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.coordinator.runtime.batch import Batch
from ottla.coordinator.runtime.partition_gate import PartitionGate
from ottla.coordinator.runtime.record_format import RecordFormat
from ottla.coordinator.runtime.settings import ShardSettings
from ottla.coordinator.runtime.state import CoordinatorState
from ottla.coordinator.runtime.statistics import ShardStatistics
from ottla.coordinator.runtime.status import REFUSALS, TRANSITIONS, ShardStatus, client_error
from ottla.decisions import Decide, Decision, Question, Timers, Turn
from ottla.decisions.gate import answer_now
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import Timer, World
from ottla.records.build import assemble_batch, batch_attributes
from ottla.records.compression import Codec
from ottla.records.header import ATTRIBUTES_POSITION, HEADER_SIZE
from ottla.records.record import append_contents
from ottla.replica.markers import EndMarker, append_marker
from ottla.replica.partition import Partition
from ottla.storage.log import AppendResult

__all__ = ["Shard", "ShardSettings", "ShardStatus"]

logger = logging.getLogger("ottla.coordinator.shard")

S = TypeVar("S", bound=CoordinatorState)
R = TypeVar("R")


class Shard(Generic[S]):
    """LOADING at first: the loader fills `state` by `replay` and calls `activate`."""

    __slots__ = (
        "_expects_more_decisions",
        "_flush_timer",
        "_format",
        "_gate",
        "_new_state",
        "_open",
        "_settings",
        "_turn",
        "_world",
        "_written_in",
        "index",
        "on_reload",
        "partition",
        "state",
        "status",
        "timers",
    )

    def __init__(
        self,
        *,
        index: int,
        partition: Partition,
        world: World,
        record_format: RecordFormat,
        settings: ShardSettings,
        turn: Turn,
        new_state: Callable[[int, Timers[S]], S],
    ) -> None:
        self.index = index
        self.partition = partition
        self.status = ShardStatus.LOADING
        self._world = world
        self._format = record_format
        self._settings = settings
        self._new_state = new_state
        # Set while records of this turn are collected.
        self._open: Batch | None = None
        self._flush_timer: Timer | None = None
        self._turn = turn
        # True if the last turn with records had several decisions.
        self._expects_more_decisions = False
        # The number of the last turn whose first batch was appended at once.
        self._written_in = -1
        # Appended, and not committed yet.
        self._gate = PartitionGate(
            partition=partition,
            world=world,
            settings=settings,
            on_leadership_lost=self.close,
            on_flush_failed=self.reload,
        )
        # Called when the state has to be loaded again.
        self.on_reload: Callable[[Shard[S]], object] | None = None
        self._make_state()

    @property
    def answers_waiting(self) -> int:
        """Responses that wait for their records to be committed."""
        return sum(len(batch.responses) for batch in self._gate)

    @property
    def statistics(self) -> ShardStatistics:
        return self._settings.statistics

    def submit(self, decide: Decide[S, R]) -> Deferred[R]:
        """Decides at once. The response resolves when all records that it depends on are committed."""
        if self.status is not ShardStatus.ACTIVE:
            return Deferred.failed(KafkaError(REFUSALS[self.status]))
        now_ms = self._world.clock.now_ms()
        try:
            decision = decide(self.state, now_ms)
        except KafkaError as error:
            return Deferred.failed(self._settings.refusal_if_replaced(self.partition.leader_state) or error)
        if decision.run is None and not decision.records:
            refusal = self._settings.refusal_if_replaced(self.partition.leader_state)
            return self._answer_without_records(decision) if refusal is None else Deferred.failed(refusal)
        try:
            batch = self._write(decision, now_ms)
        except KafkaError as error:
            failure = client_error(error)
            if decision.on_settled is not None:
                decision.on_settled(failure)
            return Deferred.failed(failure)
        if decision.following is not None:
            return self.submit(decision.following)
        response = batch.hold(decision)
        if not batch.is_shared:
            self._flush()
        return response

    def ask(self, question: Question[S, R]) -> Deferred[R]:
        """Answers from memory, once everything in it is committed.

        A coordinator that is cut off cannot commit records, but it could answer questions, with less than its successor
        has acknowledged. So a coordinator that may have been replaced refuses them.
        """
        if self.status is not ShardStatus.ACTIVE:
            return Deferred.failed(KafkaError(REFUSALS[self.status]))
        if self._settings.others_may_lead(self.partition.leader_state):
            return Deferred.failed(KafkaError(ErrorCode.NOT_COORDINATOR))
        try:
            response = question(self.state)
        except KafkaError as error:
            return Deferred.failed(error)
        return self._answer_without_records(Decision((), response))

    def can_append_alone(self, size_bytes: int) -> bool:
        """True if a record of that size would be appended at once, alone, and be committed: see `append_alone`."""
        partition, settings = self.partition, self._settings
        leader = partition.leader_state
        return (
            self.status is ShardStatus.ACTIVE
            and self._open is None
            and not self._gate
            and not self._expects_more_decisions
            and self._written_in != self._turn.number
            and leader is not None
            and leader.is_alone
            and partition.refusal is None
            and settings.linger_ms <= 0
            and settings.codec is Codec.NONE
            and HEADER_SIZE + RECORD_OVERHEAD + size_bytes <= partition.log.config.max_message_bytes
        )

    def append_alone(self, checksummed: bytes, response: R, now_ms: int) -> R | Deferred[R]:
        """Appends a record as a batch of its own, given from the attributes on; the caller replays it afterwards.

        Does what `submit` does for the only decision of a turn, without the parts that several decisions need.
        """
        turn = self._turn
        self._written_in = turn.number
        turn.at_end()
        try:
            result = self.partition.append_record(checksummed, timestamp=now_ms, now_ms=now_ms)
        except KafkaError as error:
            failure = self._count_failure(error)
            self.reload()
            raise failure from error
        statistics = self._settings.statistics
        statistics.batches += 1
        statistics.records += 1
        statistics.bytes += ATTRIBUTES_POSITION + len(checksummed)
        if result.flushed is None and self.partition.log.high_watermark > result.last_offset:
            return response
        batch = Batch(now_ms)
        answer = batch.hold(Decision((), response))
        self._on_appended(batch, result)
        return answer

    def submit_in_transaction(self, decide: Decide[S, R], *, producer_id: int, producer_epoch: int) -> Deferred[R]:
        """`submit` for records of a transaction, which its coordinator has confirmed; they count after its commit.

        They are appended at once, in a batch of their own: no other record may come between the check that the
        transaction is open and the append, and the next request may bring its marker.
        """
        if self.status is not ShardStatus.ACTIVE:
            return Deferred.failed(KafkaError(REFUSALS[self.status]))
        self._flush(settles=False)
        if self.status is not ShardStatus.ACTIVE:
            return Deferred.failed(KafkaError(REFUSALS[self.status]))
        now_ms = self._world.clock.now_ms()
        try:
            decision = decide(self.state, now_ms)
            if decision.run is None and not decision.records:
                return self._answer_without_records(decision)
            self.partition.log.producers.state.check_in_transaction(producer_id, producer_epoch)
            batch = self._write(decision, now_ms, producer_id)
        except KafkaError as error:
            return Deferred.failed(client_error(error))
        batch.producer_id = producer_id
        batch.producer_epoch = producer_epoch
        response = batch.hold(decision)
        self._flush()
        return response

    def complete_transaction(self, marker: EndMarker) -> Deferred[None]:
        """Writes the marker and replays the end of the transaction; resolves when the marker is committed."""
        if self.status is not ShardStatus.ACTIVE:
            return Deferred.failed(KafkaError(REFUSALS[self.status]))
        self._flush(settles=False)
        if self.status is not ShardStatus.ACTIVE:
            return Deferred.failed(KafkaError(REFUSALS[self.status]))
        now_ms = self._world.clock.now_ms()
        try:
            result = append_marker(self.partition, marker, now_ms=now_ms)
        except KafkaError as error:
            return Deferred.failed(client_error(error))
        self.state.replay_transaction_end(marker.producer_id, is_commit=marker.is_commit)
        batch = Batch(now_ms)
        completed: Deferred[None] = batch.hold(Decision((), None))
        self._on_appended(batch, result)
        return completed

    def activate(self) -> None:
        """Everything in the log has been replayed."""
        self._become(ShardStatus.ACTIVE)
        self._gate.uncertain_end = self.partition.log.log_end_offset
        self.state.on_loaded(self._world.clock.now_ms())

    def fail(self) -> None:
        self._become(ShardStatus.FAILED)

    def close(self) -> None:
        """Leadership was lost: pending requests fail with NOT_COORDINATOR."""
        self._drop(ShardStatus.CLOSED)

    def reload(self) -> None:
        """Drops the state and loads it again from the log."""
        self._drop(ShardStatus.LOADING)
        self._make_state()
        if self.on_reload is not None:
            self.on_reload(self)

    def invariants(self) -> None:
        """Raises AssertionError if the shard contradicts itself. For tests and the simulator."""
        if self.status is not ShardStatus.ACTIVE:
            assert self._open is None, f"{self.partition} collects records while it is {self.status.value}"
            assert not self._gate, f"{self.partition} holds responses back while it is {self.status.value}"
            return
        ends = [batch.end_offset for batch in self._gate]
        assert ends == sorted(ends), f"{self.partition}: the commit gate is out of order: {ends}"
        assert all(0 <= end <= self.partition.log.log_end_offset for end in ends)
        self.state.invariants()

    # Writing.

    def _write(self, decision: Decision[Any], now_ms: int, producer_id: int = -1) -> Batch:
        """Adds the records to the open batch and replays them. Raises with nothing changed."""
        partition, state = self.partition, self.state
        leader = partition.check_leader()
        if leader.replica_count > 1:
            partition.check_enough_replicas(leader)
        run = decision.run
        if run is None:
            contents = list(map(self._format.encode_content, decision.records))
            count = len(contents)
            size = count * RECORD_OVERHEAD + sum(map(len, contents))
        else:
            count = run.count
            size = count * RECORD_OVERHEAD + run.size_bytes
        is_long = count >= LONG_RUN and run is not None
        size_max = partition.config.max_message_bytes
        if size + HEADER_SIZE > size_max:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"The decision has {size} bytes of records; {partition} takes {size_max} bytes at once.",
            )
        batch = self._open
        if batch is not None and (is_long or HEADER_SIZE + len(batch.payload) + size > size_max):
            self._flush(settles=False)
            if self.status is not ShardStatus.ACTIVE:
                raise KafkaError(REFUSALS[self.status])
            if self.state is not state:
                # The append has failed, and the partition is so short that it has been loaded again at once.
                raise KafkaError(REFUSALS[ShardStatus.LOADING])
            batch = None
        if batch is None:
            batch = self._open = Batch(now_ms)
            # Only runs arrive by the thousand. Other callers may rely on `submit` returning before the response.
            self._plan_flush(batch, may_be_at_once=run is not None, is_long=is_long)
        timestamp_delta = now_ms - batch.base_timestamp
        if run is None:
            append_contents(batch.payload, contents, first_offset_delta=batch.count, timestamp_delta=timestamp_delta)
        else:
            run.write(batch.payload, first_offset_delta=batch.count, timestamp_delta=timestamp_delta)
        batch.count += count
        if now_ms > batch.max_timestamp:
            batch.max_timestamp = now_ms
        if run is not None:
            run.replay(self.state, producer_id)
        else:
            replay = self.state.replay
            for key_message, value_message in decision.records:
                replay(key_message, value_message, producer_id)
        return batch

    def _plan_flush(self, batch: Batch, *, may_be_at_once: bool, is_long: bool) -> None:
        linger_ms, turn = self._settings.linger_ms, self._turn
        if is_long:
            batch.is_shared = False
        elif linger_ms > 0:
            self._flush_timer = self._world.scheduler.call_later(linger_ms / 1000, self._flush)
        elif may_be_at_once and not self._expects_more_decisions and self._written_in != turn.number:
            self._written_in = turn.number
            batch.is_shared = False
            turn.at_end()
        else:
            turn.at_end(self._flush)

    def _flush(self, *, settles: bool = True) -> None:
        """Appends the open batch, unless it was full and appended before its turn ended.

        Without `settles` its responses wait for the next append or for the end of the turn, because a callback of a
        response may submit a decision, which would come between the caller's decision and its records.
        """
        batch, self._open = self._open, None
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if batch is None:
            return
        if batch.is_shared:
            decisions = len(batch.responses) + (self._written_in == self._turn.number)
            self._expects_more_decisions = decisions >= DECISIONS_WORTH_WAITING_FOR
        buffer = assemble_batch(
            batch.payload,
            base_offset=0,
            last_offset_delta=batch.count - 1,
            record_count=batch.count,
            attributes=batch_attributes(self._settings.codec, is_transactional=batch.producer_id >= 0),
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
        )
        partition = self.partition
        try:
            result = partition.append_built(buffer, now_ms=self._world.clock.now_ms())
        except KafkaError as error:
            failure = self._count_failure(error)
            # A callback of a response may ask or submit: the state is ahead of the log.
            if self.status is ShardStatus.ACTIVE:
                self.reload()
            batch.settle(failure)
            return
        statistics = self._settings.statistics
        statistics.batches += 1
        statistics.records += batch.count
        statistics.bytes += len(buffer)
        self._on_appended(batch, result, settles=settles)

    def _count_failure(self, error: KafkaError) -> KafkaError:
        """Counts and logs a failed append; the error for the client."""
        logger.warning("%s could not be written; its state is loaded again from the log: %s", self.partition, error)
        self._settings.statistics.failed_batches += 1
        return client_error(error)

    def _on_appended(self, batch: Batch, result: AppendResult, *, settles: bool = True) -> None:
        batch.end_offset = result.last_offset + 1
        batch.flushed = result.flushed
        # With `flush.messages` the flush may have ended, if it failed before a worker got it.
        is_flushed = result.flushed is not None and result.flushed.done
        is_committed = result.flushed is None and self.partition.high_watermark >= batch.end_offset
        if is_committed and settles and not self._gate:
            batch.settle(None)
            return
        self._gate.wait(batch)
        if not settles:
            self._turn.at_end(self._gate.on_progress)
        elif is_committed or is_flushed:
            self._gate.on_progress()

    def _answer_without_records(self, decision: Decision[R]) -> Deferred[R]:
        batch = self._open or self._gate.newest
        if batch is None and not decision.answers:
            return answer_now(decision)
        if batch is None:
            # The caller has to hold the response before the other requests are answered: their order counts.
            batch = self._gate.wait_for_turn(self._turn)
        return batch.hold(decision)

    # States.

    def _make_state(self) -> None:
        self.timers: Timers[S] = Timers(self._world.scheduler)
        self.timers.submit = self.submit
        self.state: S = self._new_state(self.index, self.timers)

    def _drop(self, status: ShardStatus) -> None:
        was_active = self.status is ShardStatus.ACTIVE
        self._become(status)
        self.timers.close()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._gate.stop()
        if self._open is not None:
            self._gate.append(self._open)
            self._open = None
        self._gate.fail(KafkaError(ErrorCode.NOT_COORDINATOR))
        if was_active:
            self.state.on_unloaded()

    def _become(self, status: ShardStatus) -> None:
        assert status in TRANSITIONS[self.status], f"{self.partition}: {self.status} -> {status}"
        self.status = status


# Varints and lengths of one record: a bound, not the exact number.
RECORD_OVERHEAD = 32

# The decisions of one turn from which on it pays to wait for the end of the turn.
DECISIONS_WORTH_WAITING_FOR = 3

# A run with this number of records gets its own batch, which is written faster; the extra append costs little.
LONG_RUN = 16
