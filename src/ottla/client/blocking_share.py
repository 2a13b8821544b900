"""`BlockingShareConsumer`: a share consumer for code without an event loop. One thread at a time uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ottla.client.loop_thread import call_on_loop
from ottla.client.settings import ClientSettings
from ottla.client.share import Acknowledge, OnAcknowledged, ShareConsumer, SharedRecord, ShareSettings
from ottla.client.share.consumer import CLOSE_TIMEOUT_MS
from ottla.client.single_user import SingleUser
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid

__all__ = ["BlockingShareConsumer"]


class BlockingShareConsumer(SingleUser):
    """Iterating over it gives record after record."""

    def __init__(self, settings: ClientSettings | Mapping[str, Any], share: ShareSettings | None = None) -> None:
        super().__init__()
        self._consumer = self._make_client(lambda: ShareConsumer(settings, share))

    def subscribe(self, topics: Iterable[str]) -> None:
        self._call(self._consumer.subscribe(topics))

    def unsubscribe(self) -> None:
        self._call(self._consumer.unsubscribe())

    @property
    def subscription(self) -> tuple[str, ...]:
        return self._consumer.subscription

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._consumer.assignment

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        return self._consumer.acquisition_lock_timeout_ms

    def poll(self, timeout_ms: int = 1_000) -> list[SharedRecord]:
        return self._call(self._consumer.poll(timeout_ms))

    def __iter__(self) -> Iterator[SharedRecord]:
        while True:
            while (record := self._call(call_on_loop(self._consumer.next_waiting))) is not None:
                yield record
            self._call(self._consumer.fill_waiting())

    def wakeup(self) -> None:
        """Makes the present or the next poll raise WokenUp, from any thread."""
        self._consumer.wakeup()

    def acknowledge(self, record: SharedRecord, kind: Acknowledge = Acknowledge.ACCEPT) -> None:
        self._call(call_on_loop(lambda: self._consumer.acknowledge(record, kind)))

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: Acknowledge = Acknowledge.ACCEPT
    ) -> None:
        self._call(call_on_loop(lambda: self._consumer.acknowledge_offset(topic, partition, offset, kind)))

    def commit(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        return self._call(self._consumer.commit(timeout_ms=timeout_ms))

    def commit_async(self) -> None:
        self._call(call_on_loop(self._consumer.commit_async))

    def set_acknowledgement_callback(self, callback: OnAcknowledged | None) -> None:
        """The callback runs in a later call of this consumer. That call or the next one raises its error."""
        later = None if callback is None else self._later(callback)
        self._call(call_on_loop(lambda: self._consumer.set_acknowledgement_callback(later)))

    def client_instance_id(self, timeout_ms: int = 30_000) -> Uuid:
        return self._call(self._consumer.client_instance_id(timeout_ms))

    def metrics(self) -> dict[str, float]:
        return self._consumer.metrics()

    def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Sends the acknowledgements that were made, releases all other records, leaves, and ends the thread."""
        if self._thread.is_closed:
            return
        self._is_closing = True
        try:
            self._call(self._consumer.close(timeout_ms=timeout_ms))
        finally:
            self._thread.close()

    async def _close(self) -> None:
        raise AssertionError("close() is overridden")
