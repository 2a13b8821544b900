"""Lookups of timestamps while the log changes: a worker opens the batches, and changes happen between its steps."""

from __future__ import annotations

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.compression import Codec
from tests.unit.storage.helpers import LogBench


def hold(bench: LogBench) -> None:
    """From now on workers run only when the test runs them."""
    bench.world.workers.immediate = False


def test_batches_are_opened_by_a_worker(bench: LogBench) -> None:
    bench.append(b"a", b"b", timestamp=10, codec=Codec.ZSTD)
    hold(bench)
    offset = bench.log.offset_for_timestamp(5)
    youngest = bench.log.offset_of_max_timestamp()
    assert not offset.done
    assert not youngest.done
    bench.append(b"c", timestamp=20)
    bench.world.workers.run_all()
    assert offset.result() == (10, 0)
    assert youngest.result() == (10, 0), "as of the question"


def test_a_segment_that_retention_takes_meanwhile_is_still_read() -> None:
    bench = LogBench(segment_bytes=200)
    for number in range(6):
        bench.append(b"x" * 50, timestamp=100 + number)
    log = bench.log
    bench.advance_high_watermark()
    hold(bench)
    offset = log.offset_for_timestamp(100)
    log.delete_segments([log.segments[0]])
    bench.world.workers.run_all()
    assert offset.result() == (100, 0)


def test_the_search_goes_on_with_what_is_there_by_then() -> None:
    """The youngest records of a segment are deleted, the rest of it is not: the answer is in a later segment."""
    bench = LogBench(segment_bytes=400)
    log = bench.log
    for timestamp in (900, 10, 20, 800, 30, 40, 700):
        bench.append(b"x" * 90, timestamp=timestamp)
    assert len(log.segments) >= 3
    bench.advance_high_watermark()
    log.advance_log_start_offset(1)
    hold(bench)
    offset = log.offset_for_timestamp(600)
    bench.world.workers.run_one()
    assert not offset.done
    bench.world.workers.run_all()
    assert offset.result() == (800, 3)


def test_damage_is_an_error_of_the_question_and_not_of_the_log(bench: LogBench) -> None:
    bench.append(b"a", timestamp=10)
    bench.append(b"b", timestamp=20)
    hold(bench)
    offset = bench.log.offset_for_timestamp(15)
    bench.log.segments.active.file.write_at(bench.log.segments.active.size // 2 + 8, b"\0\0\0\1")
    bench.world.workers.run_all()
    assert isinstance(offset.error, KafkaError)
    assert offset.error.code is ErrorCode.CORRUPT_MESSAGE
    assert not bench.log.is_offline
    assert not bench.failures


def test_a_disk_that_fails_is_told_as_a_storage_error(bench: LogBench) -> None:
    bench.append(b"a", timestamp=10)
    hold(bench)
    offset = bench.log.offset_for_timestamp(5)
    _, _, looked = bench.world.workers.tasks.pop()
    looked.fail(OSError(5, "Input/output error"))
    assert isinstance(offset.error, KafkaError)
    assert offset.error.code is ErrorCode.KAFKA_STORAGE_ERROR
