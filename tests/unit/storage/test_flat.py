"""The cost of an append or a read does not depend on the size of the partition.

The cost is measured in executed lines of code, which do not depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from tests.unit.storage.helpers import LogBench

TraceFunction = Callable[[FrameType, str, Any], Any]
SMALL, LARGE = 300, 9_000
# A search that halves what is left takes some steps more in a longer list.
GROWTH_MAX = 1.3


def filled(batches: int) -> LogBench:
    """A log of many segments, each with an index of several entries."""
    bench = LogBench(segment_bytes=2_000, index_interval_bytes=200)
    for _ in range(batches):
        bench.append(b"x" * 40)
    return bench


@pytest.fixture(scope="module")
def benches() -> tuple[LogBench, LogBench]:
    small, large = filled(SMALL), filled(LARGE)
    assert len(small.log.segments) * 25 < len(large.log.segments)
    return small, large


def lines(work: Callable[[], object]) -> int:
    """The number of Python lines that the call executes."""
    count = 0

    def on_event(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return on_event

    # Once before, so that what is made at first use is there.
    work()
    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def read(bench: LogBench, where: str) -> int:
    log = bench.log
    end = log.log_end_offset
    offset = {"beginning": 0, "middle": end // 2, "end": end - 1}[where]
    result = log.read(offset, max_bytes=1_000, end_offset=end)
    assert result.region is not None
    return len(result.region)


def test_an_append(benches: tuple[LogBench, LogBench]) -> None:
    # The middle of many: now and then one of them rolls a segment.
    small, large = (sorted(lines(partial(bench.append, b"x" * 40)) for _ in range(9))[4] for bench in benches)
    assert large <= small * GROWTH_MAX


@pytest.mark.parametrize("where", ["beginning", "middle", "end"])
def test_a_read(benches: tuple[LogBench, LogBench], where: str) -> None:
    small, large = (lines(partial(read, bench, where)) for bench in benches)
    assert large <= small * GROWTH_MAX


def test_looking_for_a_time(benches: tuple[LogBench, LogBench]) -> None:
    small, large = (lines(partial(bench.log.offset_for_timestamp, 1_000)) for bench in benches)
    assert large <= small * GROWTH_MAX
