"""The commit gate of a shard: opened by the high watermark of its partition, or by a timeout.

The gate is registered with the partition like a produce request with acks=all that waits for followers, and is woken in
the same way. When the followers take too long, the responses of a batch fail with an error that leaves the outcome
open: the batch may still be committed.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.runtime.batch import Batch
from ottla.coordinator.runtime.settings import ShardSettings
from ottla.coordinator.runtime.status import client_error
from ottla.decisions import CommitGate, Turn
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import Timer, World
from ottla.replica.parked import Parked, Parking
from ottla.replica.partition import Partition

__all__ = ["PartitionGate"]

_LOST_LEADERSHIP = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)


class PartitionGate(CommitGate[Batch]):
    """Batches that are appended and not committed."""

    __slots__ = (
        "_on_flush_failed",
        "_on_leadership_lost",
        "_partition",
        "_settings",
        "_timeout_timer",
        "_watch",
        "_world",
        "uncertain_end",
    )

    def __init__(
        self,
        *,
        partition: Partition,
        world: World,
        settings: ShardSettings,
        on_leadership_lost: Callable[[], object],
        on_flush_failed: Callable[[], object],
    ) -> None:
        super().__init__()
        self._partition = partition
        self._world = world
        self._settings = settings
        self._on_leadership_lost = on_leadership_lost
        self._on_flush_failed = on_flush_failed
        self._watch = _Watch(self.on_progress, partition.parking)
        self._timeout_timer: Timer | None = None
        # The state rests on records up to here that may not be committed although no response waits for them: records
        # that were loaded, and records that timed out.
        self.uncertain_end = 0

    @property
    def newest(self) -> Batch | None:
        """The batch that a response without records has to wait for."""
        if self:
            return self[-1]
        if self._partition.high_watermark < self.uncertain_end:
            batch = Batch(self._world.clock.now_ms())
            batch.end_offset = self.uncertain_end
            self.wait(batch)
            return batch
        return None

    def wait_for_turn(self, turn: Turn) -> Batch:
        """A batch for responses that rest on committed records, and leave when the turn ends."""
        batch = Batch(self._world.clock.now_ms())
        batch.end_offset = self._partition.high_watermark
        self.wait(batch)
        turn.at_end(self.on_progress)
        return batch

    def wait(self, batch: Batch) -> None:
        """Keeps the batch until it is committed. No response leaves before this returns."""
        batch.deadline = self._world.clock.monotonic() + self._settings.write_timeout_ms / 1000
        self.append(batch)
        self._watch.is_parked = True
        self._partition.parked_produces.add(self._watch)
        if batch.flushed is not None and not batch.flushed.done:
            batch.flushed.when_done(lambda _: self.on_progress())
        if self._timeout_timer is None:
            self._plan_timeout()

    def on_progress(self) -> None:
        """Settles waiting batches after the high watermark has moved, a flush has ended or leadership has changed."""
        while self:
            batch = self[0]
            if batch.flushed is not None:
                if not batch.flushed.done:
                    return
                if batch.flushed.error is not None:
                    self._on_flush_failed()
                    return
            error = self._partition.commit_error(batch.end_offset)
            if error is None:
                return
            if error in _LOST_LEADERSHIP:
                # The publisher that closes the shard runs later. Until then nothing is decided here.
                self._on_leadership_lost()
                return
            since = batch.deadline - self._settings.write_timeout_ms / 1000
            self._settings.statistics.commit_wait_seconds += max(self._world.clock.monotonic() - since, 0.0)
            self.settle_oldest(None if error is ErrorCode.NONE else client_error(KafkaError(error)))
        self.stop()

    def stop(self) -> None:
        """Stops watching the partition."""
        self._watch.is_parked = False
        self._partition.parked_produces.discard(self._watch)
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
            self._timeout_timer = None

    def _plan_timeout(self) -> None:
        delay = self[0].deadline - self._world.clock.monotonic()
        self._timeout_timer = self._world.scheduler.call_later(max(0.0, delay), self._on_timeout)

    def _on_timeout(self) -> None:
        """Fails the batches whose followers took too long. The error leaves open whether the records are committed."""
        self._timeout_timer = None
        now = self._world.clock.monotonic()
        while self and self[0].deadline <= now:
            self.uncertain_end = self[0].end_offset
            self.settle_oldest(client_error(KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
        if self:
            self._plan_timeout()
        else:
            self.stop()


class _Watch(Parked[None]):
    """Registered with the partition while a batch waits for its high watermark."""

    __slots__ = ("_on_progress",)

    def __init__(self, on_progress: Callable[[], object], parking: Parking) -> None:
        super().__init__(parking)
        self._on_progress = on_progress

    def retry(self) -> None:
        self._on_progress()

    def attempt(self, step: Callable[[], None]) -> None:
        step()
