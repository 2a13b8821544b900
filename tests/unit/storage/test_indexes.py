"""Offset, time and transaction indexes: what they find, and that damage changes nothing."""

from __future__ import annotations

from struct import pack, unpack

import pytest

from ottla.model.errors import KafkaError
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_files import OpenFiles
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex
from tests.support.files import MemoryFiles
from tests.unit.storage.helpers import DIRECTORY, LogBench, offsets_of, read_all

INDEX = f"{DIRECTORY}/00000000000000000000.index"
TIME_INDEX = f"{DIRECTORY}/00000000000000000000.timeindex"


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def offset_index(files: MemoryFiles, base: int = 100) -> OffsetIndex:
    return OffsetIndex("/i", base, OpenFiles(files, limit=10))


def test_lookup_finds_the_entry_at_or_below(files: MemoryFiles) -> None:
    index = offset_index(files)
    assert index.lookup(150) == (100, 0)
    for number in range(1, 2000):
        index.append(100 + number * 10, number * 50)
    for offset, expected in ((99, 0), (100, 0), (109, 0), (110, 50), (119, 50), (10_000, 49_500), (99_999, 99_950)):
        assert index.lookup(offset)[1] == expected
    for number in range(1, 2000):
        assert index.lookup(100 + number * 10 + 3) == (100 + number * 10, number * 50)
    assert index.boundary_at_most(49) == 0
    assert index.boundary_at_most(50) == 50
    assert index.boundary_at_most(1234) == 1200


def test_entries_are_eight_bytes_relative_to_the_base(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(107, 4096)
    index.close()
    assert files.read_bytes("/i") == pack(">ii", 7, 4096)
    time_index = TimeIndex("/t", 100, OpenFiles(files, limit=10))
    time_index.append(1234, 107)
    time_index.append(1234, 109)
    time_index.close()
    assert files.read_bytes("/t") == pack(">qi", 1234, 7)


def test_a_reopened_index_answers_the_same_and_goes_on(files: MemoryFiles) -> None:
    index = offset_index(files)
    for number in range(1, 700):
        index.append(100 + number, number * 10)
    index.close()
    again = offset_index(files)
    assert again.entry_count == 699
    assert again.lookup(400) == (400, 3000)
    again.append(800, 7000)
    assert again.last() == (800, 7000)
    assert again.lookup(850) == (800, 7000)


def test_a_preallocated_tail_of_zeros_is_not_part_of_the_index(files: MemoryFiles) -> None:
    entries = b"".join(pack(">ii", number, number * 10) for number in range(1, 50))
    files.write_atomically("/i", entries + bytes(10_485_760 - len(entries)))
    index = offset_index(files)
    assert index.entry_count == 49
    assert index.last() == (149, 490)
    index.append(160, 600)
    index.close()
    assert files.read_bytes("/i") == entries + pack(">ii", 60, 600)


def test_truncation_drops_entries_at_and_above_the_offset(files: MemoryFiles) -> None:
    index = offset_index(files)
    for number in range(1, 700):
        index.append(100 + number, number * 10)
    index.truncate_to(400)
    assert index.last() == (399, 2990)
    index.truncate_to(100)
    assert index.entry_count == 0
    index.append(105, 7)
    assert index.lookup(106) == (105, 7)


def test_little_is_kept_in_memory_and_written_in_pages(files: MemoryFiles) -> None:
    index = offset_index(files)
    for number in range(1, 128):
        index.append(100 + number, number)
    assert files.list_directory("") == []
    index.append(228, 228)
    assert files.size_of("/i") == 1024


def test_the_time_index_only_grows(files: MemoryFiles) -> None:
    index = TimeIndex("/t", 0, OpenFiles(files, limit=10))
    for timestamp, offset in ((10, 1), (10, 2), (9, 3), (20, 4)):
        index.append(timestamp, offset)
    assert [index.entry(number) for number in range(index.entry_count)] == [(10, 1), (20, 4)]
    assert index.lookup(15) == (10, 1)
    assert index.lookup(9) == (-1, 0)


def test_transaction_index_entries_have_a_version_and_four_numbers(files: MemoryFiles) -> None:
    index = TransactionIndex("/x", OpenFiles(files, limit=10))
    assert index.entries() == []
    index.append(AbortedTransaction(7, 10, 20, 15))
    assert files.read_bytes("/x") == pack(">hqqqq", 0, 7, 10, 20, 15)
    index.append(AbortedTransaction(8, 21, 30, 31))
    index.truncate_to(30)
    assert index.entries() == [AbortedTransaction(7, 10, 20, 15)]
    assert index.looks_whole(base_offset=0)
    assert not index.looks_whole(base_offset=21)


# ---- damage


def indexed() -> LogBench:
    bench = LogBench(index_interval_bytes=150)
    for number in range(60):
        bench.append(b"value-%02d" % number, timestamp=1000 + number * 10)
    bench.log.flush()
    bench.log.close()
    return bench


def everything_is_found(bench: LogBench, step: int = 1) -> None:
    log = bench.log
    for offset in range(0, 60, step):
        result = log.read(offset, max_bytes=1, end_offset=60)
        assert result.region is not None
        assert unpack(">q", result.region.read()[:8]) == (offset,)
    for number in range(0, 60, step):
        assert log.offset_for_timestamp(1000 + number * 10).result() == (1000 + number * 10, number)
        assert log.offset_for_timestamp(1000 + number * 10 - 9).result() == (1000 + number * 10, number)
    assert log.offset_for_timestamp(1591).result() is None
    assert log.offset_of_max_timestamp().result() == (1590, 59)
    assert offsets_of(log) == list(range(60))
    # A limit in bytes is met at a batch's end, whatever the index says.
    assert [record.offset for record in read_all(log, max_bytes=700)] == list(range(60))


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_indexes_are_rebuilt(path: str, clean: bool) -> None:
    bench = indexed()
    before = bench.files.read_bytes(path)
    bench.files.remove(path)
    bench.open(clean=clean, recovery_point=60)
    everything_is_found(bench)
    bench.log.close()
    if path == INDEX and not clean:
        assert bench.files.read_bytes(path) == before


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("damage", ["empty", "zeros", "ones", "cut", "reversed", "odd size"])
def test_damaged_indexes_change_no_answer(path: str, damage: str) -> None:
    bench = indexed()
    data = bench.files.read_bytes(path)
    broken = {
        "empty": b"",
        "zeros": bytes(len(data)),
        "ones": b"\xff" * len(data),
        "cut": data[: len(data) // 24 * 12],
        "reversed": data[::-1],
        "odd size": data[:-3],
    }[damage]
    bench.files.write_atomically(path, broken)
    bench.open(clean=True, recovery_point=60)
    everything_is_found(bench)


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX])
def test_every_flipped_bit_of_an_index_changes_no_answer(path: str) -> None:
    bench = indexed()
    whole = bench.files.read_bytes(path)
    for position in range(len(whole)):
        broken = bytearray(whole)
        broken[position] ^= 1 << (position % 8)
        bench.files.write_atomically(path, bytes(broken), durable=False)
        bench.open(clean=True, recovery_point=60)
        everything_is_found(bench, step=5)


def test_the_log_itself_damaged_below_the_recovery_point_is_refused_not_served() -> None:
    bench = LogBench(index_interval_bytes=150)
    for number in range(60):
        bench.append(b"value-%02d" % number)
    bench.log.roll()
    bench.append(b"last")
    size = len(bench.files.nodes[f"{DIRECTORY}/00000000000000000000.log"].data) // 60
    bench.restart(clean=True)
    # The length of a batch in the middle: the beginnings of later batches are unknown.
    bench.files.corrupt(f"{DIRECTORY}/00000000000000000000.log", 30 * size + 10, 0x7F)
    refused = 0
    for offset in range(60):
        try:
            result = bench.log.read(offset, max_bytes=1, end_offset=61)
        except KafkaError:
            refused += 1
            continue
        assert result.region is not None
        assert unpack(">q", result.region.read()[:8]) == (offset,)
    assert 1 <= refused <= 5


# ---- open files


def test_open_files_are_bounded_and_come_back_when_needed() -> None:
    bench = LogBench(segment_bytes=300, index_interval_bytes=50)
    bench.pool = OpenFiles(bench.files, limit=6)
    for number in range(60):
        bench.append(b"value-%02d" % number)
    assert len(bench.bases()) > 10
    for _ in range(2):
        assert offsets_of(bench.log) == list(range(60))
        assert len(bench.pool) <= 6


def test_an_index_that_cannot_be_written_is_not_given_up(files: MemoryFiles) -> None:
    files.make_directories("/broken")
    files.make_directories("/whole")
    pool = OpenFiles(files, limit=1)
    broken = OffsetIndex("/broken/i", 0, pool)
    broken.append(1, 1)
    assert broken.entry_count == 1
    files.break_directory("/broken")
    # Opening another file closes the first, whose failed write must not fail the other file.
    whole = OffsetIndex("/whole/i", 0, pool)
    whole.append(1, 1)
    whole.write_pending()
    with pytest.raises(OSError, match="input/output"):
        broken.write_pending()
    assert broken.entry_count == 1


def test_segments_are_found_by_offset() -> None:
    bench = LogBench(segment_bytes=200)
    for number in range(10):
        bench.append(b"value-%02d" % number)
    segments = bench.log.segments
    bases = bench.bases()
    assert len(bases) > 3
    for number, base in enumerate(bases):
        assert segments.number_of(base) == number
        assert segments.number_of(base - 1) == max(0, number - 1)
        assert segments.from_offset(base)[0].base_offset == base
        following = segments.after(segments[number])
        assert (following.base_offset if following else None) == ([*bases, None])[number + 1]


def test_a_region_survives_its_file_being_taken_back() -> None:
    bench = LogBench(segment_bytes=300)
    bench.pool = OpenFiles(bench.files, limit=2)
    for number in range(30):
        bench.append(b"value-%02d" % number)
    region = bench.log.read(0, max_bytes=1000, end_offset=30).region
    assert region is not None
    content = region.read()
    assert offsets_of(bench.log) == list(range(30))
    assert region.read() == content
