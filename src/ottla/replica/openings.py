"""Replicas whose logs are still to be created: so many in each turn of the loop.

Creating a log means a directory and two files, about a tenth of a millisecond. A topic may bring thousands, and whoever
else has a request with this node must not wait for all of them. So a change of the metadata creates a few at once, as
nearly every topic needs no more, and puts the rest here. Until its log is there a replica answers what Kafka answers
when a client knows of a partition before its broker does: NOT_LEADER_OR_FOLLOWER, to be tried again.

Led replicas come first: others fetch from them, and those that are asked for come before all.

What is opened is always brought in line with the newest metadata, never with the change that put it here; so no later
change of the same partition can be overtaken, and one that was deleted meanwhile is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, islice
from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition, Uuid

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler

__all__ = ["LOGS_PER_TURN", "Openings"]

# From the queue in each turn, and as many more that are asked for before the next one.
LOGS_PER_TURN = 32


class Openings:
    """`open_replicas(topic, topic_id, indexes)` has to ask `admits` for each log that it is about to create."""

    __slots__ = ("_followed", "_is_planned", "_led", "_open_replicas", "_scheduler", "_spare")

    def __init__(self, scheduler: Scheduler, open_replicas: Callable[[str, Uuid, list[int]], None]) -> None:
        self._scheduler = scheduler
        self._open_replicas = open_replicas
        self._led: dict[TopicPartition, Uuid] = {}
        self._followed: dict[TopicPartition, Uuid] = {}
        self._spare = 2 * LOGS_PER_TURN
        self._is_planned = False

    def __len__(self) -> int:
        return len(self._led) + len(self._followed)

    def admits(self) -> bool:
        """Whether one more log may be created in this turn; if so it is counted."""
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
        """Somebody asks for it: it comes before the others, if it is here and this turn has not had its share."""
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
        self._spare = 2 * LOGS_PER_TURN
        queue = self._led or self._followed
        taken = [(topic_partition, queue[topic_partition]) for topic_partition in islice(queue, LOGS_PER_TURN)]
        for topic_partition, _ in taken:
            del queue[topic_partition]
        # Neighbours are of one topic, mostly, whose settings are then worked out once.
        for (topic, topic_id), run in groupby(taken, key=lambda each: (each[0].topic, each[1])):
            self._open_replicas(topic, topic_id, [topic_partition.partition for topic_partition, _ in run])
        if self:
            self._plan()
