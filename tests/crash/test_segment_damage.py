"""A crash, and then the tail of a segment is cut anywhere or has any bit flipped.

Whatever happens to the bytes, opening the log must give a prefix of the batches that were written (never a changed
record, never one out of order, never one skipped), and that prefix must reach up to the damage.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.records.compression import Codec
from ottla.records.iterate import iterate_batches
from ottla.storage.log import PartitionLog
from tests.support.files import MemoryFiles
from tests.unit.storage.helpers import DIRECTORY, LogBench, read_all

LOG = f"{DIRECTORY}/00000000000000000000.log"


def written(**settings: object) -> tuple[LogBench, list[int]]:
    """A log with batches of several kinds, and the end of each batch."""
    bench = LogBench(index_interval_bytes=100, **settings)
    ends = []
    for number in range(3):
        bench.append(b"plain-%d" % number, b"second", timestamp=1000 + number)
        ends.append(bench.log.segments.active.size)
    bench.append(b"idempotent", producer_id=7, producer_epoch=0, sequence=0, leader_epoch=1)
    ends.append(bench.log.segments.active.size)
    bench.append(*[b"packed"] * 20, codec=Codec.LZ4, leader_epoch=1)
    ends.append(bench.log.segments.active.size)
    bench.append(b"transactional", producer_id=8, producer_epoch=0, sequence=0, transactional=True, leader_epoch=2)
    ends.append(bench.log.segments.active.size)
    bench.end_transaction(8, commit=False, leader_epoch=2)
    ends.append(bench.log.segments.active.size)
    return bench, ends


def damaged(bench: LogBench, data: bytes) -> LogBench:
    """The same directory after a crash, with other bytes in the log file."""
    files = MemoryFiles()
    files.make_directories(DIRECTORY)
    for path, node in bench.files.nodes.items():
        files.write_atomically(path, data if path == LOG else bytes(node.data), durable=False)
    after = LogBench(files)
    after.config = bench.config
    after.open(clean=False, recovery_point=0)
    return after


def stored(log: PartitionLog) -> bytes:
    """All that the log serves, byte by byte."""
    result = bytearray()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset).region
        assert region is not None
        data = region.read()
        result += data
        offset = list(iterate_batches(data))[-1].header.next_offset
    return bytes(result)


def prefix_up_to(ends: list[int], position: int) -> int:
    """The end of the last batch that lies wholly before the position."""
    return max((end for end in ends if end <= position), default=0)


def test_every_prefix_of_the_segment_recovers_to_its_last_whole_batch() -> None:
    bench, ends = written()
    original = bytes(bench.files.nodes[LOG].data)
    assert ends[-1] == len(original)
    for length in range(len(original) + 1):
        after = damaged(bench, original[:length])
        expected = prefix_up_to(ends, length)
        assert stored(after.log) == original[:expected], f"cut to {length} bytes"
        assert after.log.segments.active.size == expected
        assert len(after.files.nodes[LOG].data) == expected
        # The log goes on where it was cut, and serves that too.
        result = after.append(b"next", leader_epoch=3)
        assert list(read_all(after.log))[-1].offset == result.first_offset == after.log.log_end_offset - 1


def every_bit(data: bytes) -> Iterator[tuple[int, int]]:
    for position in range(len(data)):
        for bit in range(8):
            yield position, 1 << bit


def test_every_flipped_bit_recovers_to_the_last_batch_before_it() -> None:
    bench, ends = written()
    original = bytes(bench.files.nodes[LOG].data)
    for position, mask in every_bit(original):
        broken = bytearray(original)
        broken[position] ^= mask
        after = damaged(bench, bytes(broken))
        expected = prefix_up_to(ends, position)
        assert stored(after.log) == original[:expected], f"bit {mask:#x} of byte {position}"


def test_every_flipped_bit_of_a_compacted_log_is_cut_off_or_doubted() -> None:
    """A gap may be regular there, so it is kept in case no other replica has these records; but it is doubted."""
    bench, ends = written(cleanup_policy="compact")
    original = bytes(bench.files.nodes[LOG].data)
    doubted = 0
    for position, mask in every_bit(original):
        broken = bytearray(original)
        broken[position] ^= mask
        log = damaged(bench, bytes(broken)).log
        expected = prefix_up_to(ends, position)
        where = f"bit {mask:#x} of byte {position}"
        if log.doubtful_from is None:
            assert stored(log) == original[:expected], where
            continue
        doubted += 1
        assert position - expected < 8, f"only base offsets: {where}"
        log.truncate_to(log.doubtful_from)
        # The position of the batch before the gap is doubtful, too.
        assert stored(log) in (original[:expected], original[: prefix_up_to(ends, expected - 1)]), where
        assert log.doubtful_from is None
    assert doubted


@pytest.mark.parametrize("garbage", [b"\0" * 700, b"\xff" * 61, bytes(range(256)), b"\0" * 16 + b"\x02" + b"\0" * 100])
def test_garbage_behind_the_last_batch_is_cut(garbage: bytes) -> None:
    bench, _ = written()
    original = bytes(bench.files.nodes[LOG].data)
    after = damaged(bench, original + garbage)
    assert stored(after.log) == original
    assert after.report.bytes_cut == len(garbage)


def test_what_lies_behind_a_damaged_batch_is_not_served() -> None:
    bench = LogBench(segment_bytes=400)
    for number in range(12):
        bench.append(b"value-%02d" % number * 5)
    assert len(bench.log.segments) > 3
    first, second = bench.bases()[:2]
    path = f"{DIRECTORY}/{second:020d}.log"
    bench.files.corrupt(path, 70, 1)
    bench.restart(clean=False, recovery_point=0)
    # The segments behind the damage went with it: a hole in the middle would be worse than a shorter log.
    assert bench.bases() == [first, second]
    assert bench.log.log_end_offset == second
    assert bench.report.segments_dropped > 0
    assert [record.offset for record in read_all(bench.log)] == list(range(second))
    bench.append(b"again")
    assert bench.log.log_end_offset == second + 1


@pytest.mark.parametrize("batches_left", [None, 0, 1])
def test_a_segment_that_lost_its_end_at_the_end_of_a_batch_leaves_no_hole(batches_left: int | None) -> None:
    bench = LogBench(segment_bytes=400)
    for number in range(12):
        bench.append(b"value-%02d" % number * 5)
    second, third = bench.bases()[1:3]
    assert third - second == 3
    path = f"{DIRECTORY}/{second:020d}.log"
    if batches_left is None:
        bench.files.remove(path)
    else:
        data = bytes(bench.files.nodes[path].data)
        bench.files.write_atomically(path, data[: batches_left * len(data) // 3])
    bench.restart(clean=False, recovery_point=0)
    assert bench.log.log_end_offset == second + (batches_left or 0)
    assert [record.offset for record in read_all(bench.log)] == list(range(bench.log.log_end_offset))
    assert bench.report.segments_dropped > 0


def test_a_compacted_segment_that_lost_its_end_is_doubted() -> None:
    bench = LogBench(segment_bytes=400, cleanup_policy="compact")
    for number in range(12):
        bench.append(b"value-%02d" % number * 5)
    second, third = bench.bases()[1:3]
    path = f"{DIRECTORY}/{second:020d}.log"
    data = bytes(bench.files.nodes[path].data)
    bench.files.write_atomically(path, data[: len(data) // 3 * 2])
    bench.restart(clean=False, recovery_point=0)
    assert bench.log.log_end_offset == 12
    assert bench.log.doubtful_from == third - 2
    # A compacted log has gaps, which are not doubted.
    assert bench.restart(clean=False, recovery_point=0, cleaned_to=third).doubtful_from is None
    assert bench.restart(clean=False, recovery_point=0, cleaned_to=second).doubtful_from == third - 2


def test_a_batch_that_claims_offsets_of_the_next_segment_is_damaged() -> None:
    bench = LogBench(segment_bytes=400, cleanup_policy="compact")
    for number in range(12):
        bench.append(b"value-%02d" % number * 5)
    second, third = bench.bases()[1:3]
    assert third - second == 3
    path = f"{DIRECTORY}/{second:020d}.log"
    # The segment's last batch: no later batch of this segment could reveal the damage.
    bench.files.corrupt(path, len(bench.files.nodes[path].data) // 3 * 2 + 6, 1)
    bench.restart(clean=False, recovery_point=0)
    assert bench.log.log_end_offset == third - 1
    assert [record.offset for record in read_all(bench.log)] == list(range(third - 1))
    assert bench.log.doubtful_from is None


def test_segments_below_the_recovery_point_are_not_read_again() -> None:
    bench = LogBench(segment_bytes=400)
    for number in range(12):
        bench.append(b"value-%02d" % number * 5)
    point = bench.bases()[-1]
    bench.restart(clean=False, recovery_point=point)
    assert bench.report.segments_checked == 1


def test_a_power_cut_keeps_what_was_flushed() -> None:
    bench = LogBench(segment_bytes=1000)
    for number in range(10):
        bench.append(b"value-%02d" % number)
    bench.log.flush()
    point = bench.log.recovery_point
    assert point == 10
    for number in range(5):
        bench.append(b"later-%02d" % number)
    bench.files.lose_unsynced()
    bench.restart(clean=False)
    assert bench.log.log_end_offset >= point
    values = [bytes(record.value or b"") for record in read_all(bench.log)]
    assert values[:10] == [b"value-%02d" % number for number in range(10)]


def test_damage_of_the_tail_after_a_clean_shutdown_is_noticed_too() -> None:
    bench, ends = written()
    bench.log.flush()
    bench.log.close()
    original = bytes(bench.files.nodes[LOG].data)
    last_start = ends[-2]
    for position in range(last_start + 16, len(original)):
        files = MemoryFiles()
        files.make_directories(DIRECTORY)
        for path, node in bench.files.nodes.items():
            files.write_atomically(path, bytes(node.data), durable=False)
        files.corrupt(LOG, position, 0x10)
        after = LogBench(files, index_interval_bytes=100)
        after.open(clean=True, recovery_point=bench.log.recovery_point)
        # The damaged batch was acknowledged, so its offset is not given again.
        assert after.log.log_end_offset == bench.log.log_end_offset
        assert after.log.doubtful_from is not None
        after.log.truncate_to(after.log.doubtful_from)
        assert stored(after.log) == original[:last_start], f"byte {position}"
