"""`StateRestoreListener`: receives the progress of restores. Workers report to the application, which calls it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from ottla.model.ids import TopicPartition
from ottla.streams.runtime.restore import RestoreProgress

__all__ = ["RestoreReporter", "StateRestoreListener", "call_listener"]

_INTERVAL_S = 0.1


class StateRestoreListener:
    """Override the methods that are needed. Called from threads of the application."""

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """The restore of a store begins."""

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """Records were restored since the last call."""

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """A store is complete."""

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The task has moved, or failed, before its store was complete."""


class RestoreReporter:
    """Part of a worker: sends progress to the application, batches at most a few times in a second."""

    def __init__(self, worker: int, send: Callable[[dict[str, Any]], None]) -> None:
        self._worker = worker
        self._send = send
        self._waiting: dict[tuple[str, int], RestoreProgress] = {}
        self._due = 0.0

    def __call__(self, progress: RestoreProgress) -> None:
        place = (progress.topic, progress.partition)
        if progress.event == "batch":
            before = self._waiting.get(place)
            records = progress.records + (0 if before is None else before.records)
            self._waiting[place] = replace(progress, records=records)
            if time.monotonic() < self._due:
                return
        self._due = time.monotonic() + _INTERVAL_S
        waiting, self._waiting = self._waiting, {}
        for pending in waiting.values():
            self._send({"worker": self._worker, "restore": asdict(pending)})
        if progress.event != "batch":
            self._send({"worker": self._worker, "restore": asdict(progress)})


def call_listener(listener: StateRestoreListener, content: dict[str, Any]) -> None:
    """Called in the application with a report of a worker."""
    progress = RestoreProgress(**content)
    place = TopicPartition(progress.topic, progress.partition)
    if progress.event == "start":
        listener.on_restore_start(place, progress.store, progress.start_offset, progress.end_offset)
    elif progress.event == "batch":
        listener.on_batch_restored(place, progress.store, progress.position, progress.records)
    elif progress.event == "end":
        listener.on_restore_end(place, progress.store, progress.records)
    else:
        listener.on_restore_suspended(place, progress.store, progress.records)
