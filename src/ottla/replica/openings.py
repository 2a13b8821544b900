"""Replicas whose logs are still to be created: a limited number in each turn of the loop.

Creating a log takes a directory and the file `partition.metadata` (with `preallocate` also the log file), about a tenth
of a millisecond. A topic may have thousands of partitions, and other requests must not wait for all of their logs. So a
metadata change creates a few logs at once, which is enough for nearly every topic, and queues the rest here. A replica
without its log responds with NOT_LEADER_OR_FOLLOWER, as Kafka does while a client knows a partition before its broker
does; clients retry.

Led replicas come first, because followers fetch from them. A replica that a request asks for comes before all others.

A log is always created from the newest image, not from the change that queued it. So a later change of the partition is
never overtaken, and a deleted partition is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, islice
from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition, Uuid

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler

__all__ = ["LOGS_AT_ONCE", "LOGS_PER_TURN", "Openings"]

# Logs that are created at once while no log waits.
LOGS_AT_ONCE = 64
# Logs created from the queue in each turn, and as many more that requests ask for before the next turn.
LOGS_PER_TURN = 16


class Openings:
    """`open_replicas(topic, topic_id, indexes)` asks `admits` before it creates a log."""

    __slots__ = ("_followed", "_is_planned", "_led", "_open_replicas", "_scheduler", "_spare")

    def __init__(self, scheduler: Scheduler, open_replicas: Callable[[str, Uuid, list[int]], None]) -> None:
        self._scheduler = scheduler
        self._open_replicas = open_replicas
        self._led: dict[TopicPartition, Uuid] = {}
        self._followed: dict[TopicPartition, Uuid] = {}
        self._spare = LOGS_AT_ONCE
        self._is_planned = False

    def __len__(self) -> int:
        return len(self._led) + len(self._followed)

    def admits(self) -> bool:
        """Whether one more log may be created in this turn. If so, it is counted."""
        self._plan()
        if self._spare <= 0:
            return False
        self._spare -= 1
        return True

    def add(self, topic_partition: TopicPartition, topic_id: Uuid, *, is_led: bool) -> None:
        self.discard(topic_partition)
        (self._led if is_led else self._followed)[topic_partition] = topic_id
        self._plan()

    def discard(self, topic_partition: TopicPartition) -> Uuid | None:
        return self._led.pop(topic_partition, None) or self._followed.pop(topic_partition, None)

    def open_now(self, topic_partition: TopicPartition, *, at_any_rate: bool = False) -> None:
        """Creates the log of a partition that a request asks for, if it is queued and this turn has room."""
        if not self._led and not self._followed:
            return
        if self._spare > 0 or at_any_rate:
            topic_id = self.discard(topic_partition)
            if topic_id is not None:
                self._spare = max(self._spare, 1)
                self._open_replicas(topic_partition.topic, topic_id, [topic_partition.partition])

    def clear(self) -> None:
        self._led.clear()
        self._followed.clear()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        queue = self._led or self._followed
        batch = [(topic_partition, queue[topic_partition]) for topic_partition in islice(queue, LOGS_PER_TURN)]
        for topic_partition, _ in batch:
            del queue[topic_partition]
        self._spare = len(batch) + LOGS_PER_TURN if self else LOGS_AT_ONCE
        try:
            # Adjacent partitions mostly have one topic, whose configuration is then computed once.
            for (topic, topic_id), run in groupby(batch, key=lambda queued: (queued[0].topic, queued[1])):
                self._open_replicas(topic, topic_id, [topic_partition.partition for topic_partition, _ in run])
        finally:
            # An unexpected error must not stop the other replicas.
            if self:
                self._plan()
