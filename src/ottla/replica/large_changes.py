"""A metadata change of thousands of partitions, applied in several turns of the loop.

When a broker with thousands of replicas comes or goes, one change concerns all of them on every other broker. Applying
a partition takes several microseconds, and other requests must not wait for all. So a large change is applied in
portions. For a queued partition the metadata seems to arrive later, which clients and brokers handle by retrying.

| at once | why |
|---|---|
| partitions that this broker no longer leads | the controller considers the broker up to date when it has this image |
| internal topics (names with `__`) | the coordinators look at their leaders right after this change |

Partitions that this broker leads from now on come before those that it follows: clients wait for them.

A queued partition is applied as the newest image describes it, so a later change is never overtaken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.ids import Uuid

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler
    from ottla.replica.partition import Partition
    from ottla.replica.views import DeltaView, PartitionView

__all__ = ["CHANGES_AT_ONCE_MAX", "CHANGES_PER_TURN", "LargeChanges"]

# Smaller changes are applied at once. Nearly every change is.
CHANGES_AT_ONCE_MAX = 128
CHANGES_PER_TURN = 128


class _Portion(NamedTuple):
    topic: str
    topic_id: Uuid
    indexes: list[int]


class LargeChanges:
    """`apply(topic, topic_id, indexes)` applies the newest image; `present(topic, index)` is the partition, if any."""

    __slots__ = ("_apply", "_followed", "_is_planned", "_led", "_node_id", "_present", "_scheduler")

    def __init__(
        self,
        scheduler: Scheduler,
        apply: Callable[[str, Uuid, list[int]], None],
        present: Callable[[str, int], Partition | None],
        *,
        node_id: int,
    ) -> None:
        self._scheduler = scheduler
        self._apply = apply
        self._present = present
        self._node_id = node_id
        self._led: deque[_Portion] = deque()
        self._followed: deque[_Portion] = deque()
        self._is_planned = False

    def __len__(self) -> int:
        return sum(len(portion.indexes) for portions in (self._led, self._followed) for portion in portions)

    def urgent(self, delta: DeltaView) -> Iterable[tuple[str, Uuid, Iterable[tuple[int, PartitionView]]]]:
        """The changes to apply at once, by topic. All other changes are queued."""
        changed_topics = delta.topics.changed
        is_large = sum(len(changed.changed) for changed in changed_topics.values()) > CHANGES_AT_ONCE_MAX
        for topic_id, changed in changed_topics.items():
            if is_large and not changed.name.startswith("__"):
                yield changed.name, topic_id, self._queue(changed.name, topic_id, changed.changed.items())
            else:
                yield changed.name, topic_id, changed.changed.items()

    def clear(self) -> None:
        self._led.clear()
        self._followed.clear()

    def _queue(
        self, topic: str, topic_id: Uuid, views: Iterable[tuple[int, PartitionView]]
    ) -> list[tuple[int, PartitionView]]:
        at_once: list[tuple[int, PartitionView]] = []
        led: list[int] = []
        followed: list[int] = []
        for index, view in views:
            if view.leader == self._node_id:
                led.append(index)
                continue
            partition = self._present(topic, index)
            if partition is not None and partition.is_leader:
                at_once.append((index, view))
            else:
                followed.append(index)
        for indexes, portions in ((led, self._led), (followed, self._followed)):
            for start in range(0, len(indexes), CHANGES_PER_TURN):
                portions.append(_Portion(topic, topic_id, indexes[start : start + CHANGES_PER_TURN]))
        self._plan()
        return at_once

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        applied = 0
        try:
            while applied < CHANGES_PER_TURN and (portions := self._led or self._followed):
                portion = portions.popleft()
                applied += len(portion.indexes)
                self._apply(*portion)
        finally:
            # An unexpected error must not stop the other portions.
            if self._led or self._followed:
                self._plan()
