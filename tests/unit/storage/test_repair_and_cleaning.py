"""A repair and a cleaning of the same segments at the same time: neither writes into the files of the other."""

from __future__ import annotations

import pytest

from ottla.records.build import build_batch
from ottla.records.iterate import iterate_batches
from ottla.records.record import Record
from ottla.storage.cleaner.offset_map import OffsetMap
from ottla.storage.cleaner.plan import measure, plan_cleaning
from ottla.storage.cleaner.rewrite import Cleaning
from ottla.storage.errors import CorruptLog
from ottla.storage.log import PartitionLog
from ottla.storage.segment_repair import SegmentRepair, begin_repair
from tests.unit.storage.logs_node import Node

LATER_MS = 1_000_000


class Damaged:
    """A compacted log of four segments; a byte of the second one is wrong."""

    def __init__(self) -> None:
        self.node = Node()
        self.node.start()
        self.log: PartitionLog = self.node.create("t", cleanup_policy="compact")
        for number in range(80):
            record = Record(key=b"key %d" % number, value=bytes(150), timestamp=1000 + number)
            self.log.append_built(build_batch([record]), leader_epoch=0, now_ms=1)
            if number in (19, 39, 59):
                self.log.roll()
                self.node.world.scheduler.run()
        self.log.update_high_watermark(80)
        self.content = b"".join(bytes(segment.file.read(0, segment.size)) for segment in self.log.segments)
        self.node.files.corrupt(self.log.segments[1].path, 500, 0xFF)

    def repair(self) -> SegmentRepair:
        """A repair that has begun and waits for its next fetch."""
        repair = begin_repair(self.log, self.log.segments[1], self.node.files)
        repair.add(self.content[:5000], [])
        return repair

    def complete(self, repair: SegmentRepair) -> None:
        batches = iterate_batches(memoryview(self.content))
        begin = next(batch.position for batch in batches if batch.header.base_offset == repair.next_offset)
        repair.add(self.content[begin:], [])
        repair.finish()

    def cleaning(self) -> Cleaning:
        """Of the third segment, which reads and writes the first two as well."""
        plan = plan_cleaning(self.log, measure(self.log, checkpoint=40, now_ms=LATER_MS), now_ms=LATER_MS)
        assert plan is not None
        return Cleaning(self.node.files, plan, OffsetMap(capacity=1000, secret=bytes(16)))


def finish(cleaning: Cleaning) -> None:
    while not cleaning.step(LATER_MS, 64).is_finished:
        pass


def test_a_cleaning_that_meets_the_damage_leaves_the_copies_of_the_repair() -> None:
    damaged = Damaged()
    repair, cleaning = damaged.repair(), damaged.cleaning()
    with pytest.raises(CorruptLog):
        finish(cleaning)
    damaged.complete(repair)
    assert repair.install(damaged.node.logs.pool)
    assert b"".join(bytes(segment.file.read(0, segment.size)) for segment in damaged.log.segments) == damaged.content
