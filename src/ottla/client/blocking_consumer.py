"""`BlockingConsumer`: a consumer for code without an event loop.

One thread at a time uses it, as Java's consumer; only `wakeup` may be called from other threads. Listeners of
rebalances and callbacks of commits run on the thread that polls, so they may call the consumer (`single_user`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.offsets import FoundOffset
from ottla.client.consumer import ConsumedBatch, ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.consumer.commits import OnCommit
from ottla.client.consumer.membership import Identity
from ottla.client.loop_thread import call_on_loop
from ottla.client.settings import ClientSettings
from ottla.client.single_user import SingleUser
from ottla.model.ids import TopicPartition, Uuid

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["BlockingConsumer"]

OnPartitions = Callable[[list[TopicPartition]], object]


class BlockingConsumer(SingleUser):
    """Iterating over it gives record after record."""

    def __init__(self, settings: ClientSettings | Mapping[str, Any], consumer: ConsumerSettings | None = None) -> None:
        super().__init__()
        self._consumer = self._make_client(lambda: Consumer(settings, consumer))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._call(self._consumer.assign(partitions))

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        self._call(
            self._consumer.subscribe(
                topics,
                pattern=pattern,
                on_assigned=self._on_caller(on_assigned),
                on_revoked=self._on_caller(on_revoked),
                on_lost=self._on_caller(on_lost),
            )
        )

    def unsubscribe(self) -> None:
        self._call(self._consumer.unsubscribe())

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._consumer.assignment

    @property
    def member(self) -> Identity | None:
        return self._consumer.member

    def poll(self, timeout_ms: int = 1_000, *, max_records: int | None = None) -> list[ConsumedRecord]:
        # Records wait in the consumer until they are taken here: a call that is interrupted before loses none.
        self._call(self._consumer.fill_waiting(timeout_ms, max_records=max_records))
        return self._consumer.take_waiting()

    def __iter__(self) -> Iterator[ConsumedRecord]:
        while True:
            while (record := self._consumer.next_waiting()) is not None:
                yield record
            self._call(self._consumer.fill_waiting())

    def batches(self, timeout_ms: int = 1_000, *, headers: bool = True) -> list[RecordBatch]:
        return self._call(self._consumer.batches(timeout_ms, headers=headers))

    def raw_batches(self, timeout_ms: int = 1_000) -> list[ConsumedBatch]:
        return self._call(self._consumer.raw_batches(timeout_ms))

    def wakeup(self) -> None:
        """Makes the present or the next poll raise WokenUp, from any thread."""
        self._consumer.wakeup()

    def pause(self, *partitions: TopicPartition) -> None:
        self._call(call_on_loop(lambda: self._consumer.pause(*partitions)))

    def resume(self, *partitions: TopicPartition) -> None:
        self._call(call_on_loop(lambda: self._consumer.resume(*partitions)))

    @property
    def paused(self) -> list[TopicPartition]:
        return self._consumer.paused

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        self._call(call_on_loop(lambda: self._consumer.seek(partition, offset, leader_epoch=leader_epoch)))

    def seek_to(self, time: int, *partitions: TopicPartition) -> None:
        self._call(self._consumer.seek_to(time, *partitions))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._call(self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._call(self._consumer.seek_to_end(*partitions))

    def position(self, partition: TopicPartition) -> int:
        return self._consumer.position(partition)

    def lag(self, partition: TopicPartition) -> int | None:
        return self._consumer.lag(partition)

    def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        self._call(self._consumer.commit(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commits in the background; `on_commit` runs in a later call of this consumer."""
        self._call(call_on_loop(lambda: self._consumer.commit_async(offsets, self._later(on_commit))))

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        return self._call(self._consumer.committed(partitions))

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset | None]:
        return self._call(self._consumer.offsets_for_times(times))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call(self._consumer.end_offsets(partitions))

    def partitions(self, topic: str) -> list[TopicPartition]:
        return self._call(self._consumer.partitions(topic))

    def client_instance_id(self, timeout_ms: int = 30_000) -> Uuid:
        return self._call(self._consumer.client_instance_id(timeout_ms))

    def metrics(self) -> dict[str, float]:
        return self._consumer.metrics()

    def close(self) -> None:
        """Commits if auto-commit is on, leaves the group, and ends the thread."""
        if self._thread.is_closed:
            return
        self._is_closing = True
        try:
            self._call(self._consumer.close())
        finally:
            self._thread.close()

    async def _close(self) -> None:
        raise AssertionError("close() is overridden")
