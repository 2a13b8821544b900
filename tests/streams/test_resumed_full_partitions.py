"""`pause` and `resume` of an application do not read partitions of which enough rows wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.model.ids import TopicPartition
from ottla.streams import Consumed, Produced, Serdes, StreamsBuilder
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.task_table import ActiveTask
from ottla.streams.runtime.waiting import WaitingRows
from tests.support.streams_workers import config_of, worker_with_task

TEXT = Serdes.string()
FULL, OTHER = TopicPartition("in", 0), TopicPartition("other", 0)


class Consumer:
    def __init__(self) -> None:
        self.paused: set[TopicPartition] = set()

    def pause(self, *places: TopicPartition) -> None:
        self.paused.update(places)

    def resume(self, *places: TopicPartition) -> None:
        self.paused.difference_update(places)

    def position(self, _: TopicPartition) -> int:
        return 0

    def lag(self, _: TopicPartition) -> int:
        return 1


class Waiting(WaitingRows):
    is_full = True

    def full(self) -> set[TopicPartition]:
        return {FULL} if self.is_full else set()


def test_a_full_partition_stays_paused(tmp_path: Path) -> None:
    async def run() -> None:
        builder = StreamsBuilder()
        merged = builder.stream("in", Consumed.with_(TEXT, TEXT)).merge(builder.stream("other"))
        merged.to("out", Produced.with_(TEXT, TEXT))
        topology = builder.build()
        planned = PlannedTask(group=0, partition=0, names=tuple(topology.nodes), topics=("in", "other"))
        worker, task = worker_with_task(topology, planned, config_of(tmp_path))
        worker._consumer = consumer = Consumer()
        waiting = Waiting((FULL, OTHER), 1_000)
        worker._tasks.add(
            ActiveTask(planned=planned, task=task, form=None, starts={FULL: 0, OTHER: 0}, waiting=waiting)
        )

        def feed(*, is_paused: bool = False) -> None:
            assert not list(worker._tasks.feed([], consumer, None, 0, is_paused=is_paused))

        feed()
        assert consumer.paused == {FULL}
        worker._set_paused(True)
        feed(is_paused=True)
        assert consumer.paused == {FULL, OTHER}
        worker._set_paused(False)
        feed()
        assert consumer.paused == {FULL}
        waiting.is_full = False
        feed()
        assert not consumer.paused

    asyncio.run(run())
