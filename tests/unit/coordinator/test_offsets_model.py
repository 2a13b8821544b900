"""Any interleaving of commits, transactions, deletions, expiry, restarts and compactions: what groups are told of their
offsets is what a model says.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from ottla.model.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.group_path import OFFSETS_TOPIC, RecognisingPath
from tests.unit.coordinator.test_offsets_in_transactions import UNSTABLE, Bench

GROUPS = ("g", "h")
PARTITIONS = range(3)
PRODUCERS = (7, 8)
RETENTION_MS = 60_000
STEPS = 60
SEEDS = 12

Place = tuple[str, int]
"""Group and partition."""


class Committed(NamedTuple):
    offset: int
    # In the order of the log.
    number: int
    time_ms: int


class Model:
    def __init__(self) -> None:
        self.offsets: dict[Place, Committed] = {}
        self.pending: dict[int, dict[Place, Committed]] = {producer: {} for producer in PRODUCERS}

    def end(self, producer: int, *, commit: bool) -> None:
        for place, committed in self.pending[producer].items():
            known = self.offsets.get(place)
            if commit and (known is None or known.number < committed.number):
                self.offsets[place] = committed
        self.pending[producer].clear()

    def delete(self, *places: Place) -> None:
        for place in places:
            for table in (self.offsets, *self.pending.values()):
                table.pop(place, None)

    def expire(self, now_ms: int) -> None:
        for place, committed in list(self.offsets.items()):
            if now_ms - committed.time_ms >= RETENTION_MS and not self.is_pending(place):
                del self.offsets[place]

    def is_pending(self, place: Place) -> bool:
        return any(place in table for table in self.pending.values())

    def expected_offsets(self, group: str, *, stable: bool) -> dict[tuple[str, int], int]:
        offsets: dict[tuple[str, int], int] = {}
        for index in PARTITIONS:
            committed = self.offsets.get((group, index))
            offsets["t", index] = -1 if committed is None else committed.offset
            if stable and self.is_pending((group, index)):
                offsets["t", index] = UNSTABLE
        return offsets


class Story:
    """Each step is carried out on the coordinator and on the model."""

    def __init__(self, directory: str, random: Random) -> None:
        self.random = random
        self.model = Model()
        self.number = 0
        settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "2000000000"}
        self.path = path = RecognisingPath(directory, properties=settings)
        path.create_topic("t", len(PARTITIONS))
        path.create_offsets_topic(2, min_cleanable_dirty_ratio="0.0", delete_retention_ms="1000")
        self.bench = Bench(path)

    def go_on(self) -> str:
        steps = [
            *[self.commit] * 8,
            *[self.commit_in_transaction] * 6,
            *[self.end] * 5,
            *[self.delete_offsets] * 2,
            self.delete_group,
            *[self.expire] * 2,
            *[self.compact] * 3,
            *[self.restart] * 3,
        ]
        step = self.random.choice(steps)
        step()
        return step.__name__

    def commit(self) -> None:
        group = self.random.choice(GROUPS)
        indexes = self.random.sample(PARTITIONS, self.random.randint(1, 3))
        committed = {index: self._next() for index in indexes}
        codes = self.path.commit_offsets(group, {("t", index): commit.offset for index, commit in committed.items()})
        assert set(codes.values()) == {ErrorCode.NONE}
        self.model.offsets.update({(group, index): commit for index, commit in committed.items()})

    def commit_in_transaction(self) -> None:
        group, index, producer = (
            self.random.choice(GROUPS),
            self.random.choice(PARTITIONS),
            self.random.choice(PRODUCERS),
        )
        committed = self._next()
        code = self.bench.commit(committed.offset, group=group, producer_id=producer, index=index)
        assert code is ErrorCode.NONE
        self.model.pending[producer][group, index] = committed

    def end(self) -> None:
        """In both partitions of the offsets topic, as the transaction's coordinator would."""
        producer, commit = self.random.choice(PRODUCERS), self.random.random() < 0.6
        for group in GROUPS:
            assert self.bench.end(commit=commit, producer_id=producer, group=group) is ErrorCode.NONE
        self.model.end(producer, commit=commit)

    def delete_offsets(self) -> None:
        group, index = self.random.choice(GROUPS), self.random.choice(PARTITIONS)
        topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index)])
        self.path.ask(OffsetDeleteRequest(group_id=group, topics=[topic]))
        self.model.delete((group, index))

    def delete_group(self) -> None:
        group = self.random.choice(GROUPS)
        self.path.ask(DeleteGroupsRequest(groups_names=[group]))
        self.model.delete(*((group, index) for index in PARTITIONS))

    def expire(self) -> None:
        self.path.advance(self.random.choice((1_000, 30_000, RETENTION_MS)))
        self.path.groups.expire_offsets()
        self.path.run()
        self.model.expire(self.path.virtual.clock.now_ms())

    def compact(self) -> None:
        for index in range(2):
            self.path.partition(OFFSETS_TOPIC, index).log.roll()
        self.path.advance(2_000)
        self.path.logs.cleaner.wake()
        self.path.run()

    def restart(self) -> None:
        self.bench.restart()

    def check(self) -> None:
        for group in GROUPS:
            for stable in (False, True):
                fetched = self.path.fetch_offsets(group, {"t": list(PARTITIONS)}, require_stable=stable)
                assert fetched == self.model.expected_offsets(group, stable=stable)
            known = self.model.expected_offsets(group, stable=False)
            assert self.path.fetch_offsets(group) == {place: offset for place, offset in known.items() if offset >= 0}

    def _next(self) -> Committed:
        self.number += 1
        return Committed(self.number, self.number, self.path.virtual.clock.now_ms())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_groups_are_told_what_was_committed_last(log_directory: str, seed: int) -> None:
    story = Story(log_directory, Random(seed))
    for number in range(STEPS):
        step = story.go_on()
        try:
            story.check()
        except AssertionError as error:
            error.add_note(f"after step {number}, {step}")
            raise
    story.path.stop()
