"""Where a read has ended, the next one begins without looking for the place."""

from __future__ import annotations

import pytest

from ottla.records.iterate import iterate_batches
from ottla.storage.log import PartitionLog
from ottla.storage.segment import Segment
from tests.unit.storage.helpers import LogBench, read_all

BATCHES = 300


def filled(*, index_interval_bytes: int, value: bytes = b"v" * 100) -> LogBench:
    bench = LogBench(index_interval_bytes=index_interval_bytes)
    for _ in range(BATCHES):
        bench.append(value)
    return bench


def first_offset(log: PartitionLog, offset: int) -> int:
    region = log.read(offset, max_bytes=1000, end_offset=log.log_end_offset).region
    assert region is not None
    return next(iterate_batches(region.read())).header.base_offset


@pytest.mark.parametrize("index_interval_bytes", [200, 1 << 20])
def test_a_reader_that_goes_on_is_not_looked_up(monkeypatch: pytest.MonkeyPatch, index_interval_bytes: int) -> None:
    log = filled(index_interval_bytes=index_interval_bytes).log
    looked_for = []
    find = Segment.find

    def counted(segment: Segment, offset: int, **options: bool) -> object:
        looked_for.append(offset)
        return find(segment, offset, **options)

    monkeypatch.setattr(Segment, "find", counted)
    assert [record.offset for record in read_all(log, max_bytes=1000)] == list(range(BATCHES))
    assert looked_for == [0]


def test_what_was_cut_off_is_forgotten() -> None:
    bench = filled(index_interval_bytes=200)
    log = bench.log
    assert len(list(read_all(log, max_bytes=1000))) == BATCHES
    log.truncate_to(1)
    for _ in range(BATCHES):
        bench.append(b"other")
    assert [first_offset(log, offset) for offset in reversed(range(BATCHES))] == list(reversed(range(BATCHES)))


def test_no_more_than_a_few_places_are_kept() -> None:
    bench = filled(index_interval_bytes=200)
    segment = bench.log.segments.active
    assert not segment._read_ends, "there was no read yet"
    assert len(list(read_all(bench.log, max_bytes=500))) == BATCHES
    assert 0 < len(segment._read_ends) <= 32
    assert not LogBench().log.segments.active._read_ends, "each segment has its own"
