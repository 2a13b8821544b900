"""The newest offset of every key, in C and in Python: the same results, and none for payloads that are unusual."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.records.build import build_batch
from ottla.records.header import HEADER_SIZE
from ottla.records.record import Record, scan_records
from ottla.storage.cleaner.newest import COMPILED, NewestOffsets, twin
from ottla.storage.cleaner.offset_map import OffsetMap

SECRET = bytes(range(16))

implementations = pytest.mark.parametrize("kind", [NewestOffsets, twin.NewestOffsets], ids=["in use", "twin"])


def test_the_compiled_one_is_in_use() -> None:
    assert COMPILED


def payload_of(generator: random.Random, keys: int) -> tuple[bytes, list[Record]]:
    records = [
        Record(
            key=generator.choice((None, *[b"k%d" % generator.randrange(keys)] * 9, b"long" * 30)),
            value=generator.choice((None, b"", generator.randbytes(50))),
            timestamp=1_700_000_000_000 + generator.randrange(-(10**6), 10**6),
        )
        for _ in range(generator.randint(1, 40))
    ]
    return bytes(build_batch(records))[HEADER_SIZE:], records


@implementations
def test_the_newest_records_are_kept(kind: Any) -> None:
    generator = random.Random(1)
    for _ in range(100):
        newest = kind(1_000, SECRET)
        batches = [payload_of(generator, 20) for _ in range(5)]
        model: dict[bytes, int] = {}
        offset, start = 0, generator.randrange(60)
        for payload, records in batches:
            assert newest.put_records(payload, len(records), offset, start) is True
            for place, record in enumerate(records):
                if record.key is not None and offset + place >= start:
                    model[bytes(record.key)] = offset + place
            offset += len(records)
        assert len(newest) == len(model)
        assert all(newest.get(key) == value for key, value in model.items())
        latest, offset = generator.randrange(offset), 0
        for payload, records in batches:
            for tombstones in (True, False):
                stay = [
                    place
                    for place, record in enumerate(records)
                    if offset + place > latest
                    or (
                        record.key is not None
                        and (record.value is not None or tombstones)
                        and offset + place >= model.get(bytes(record.key), -1)
                    )
                ]
                spans = list(scan_records(payload, len(records)))
                assert newest.keep_records(payload, len(records), offset, latest, tombstones) == (
                    len(stay),
                    sum(record.key is None and offset + place <= latest for place, record in enumerate(records)),
                    sum(records[place].value is None for place in stay),
                    max((spans[place][2] for place in stay), default=0),
                    b""
                    if len(stay) == len(records)
                    else b"".join(payload[spans[place][0] : spans[place][1]] for place in stay),
                )
            offset += len(records)


@implementations
def test_a_batch_that_may_not_fit_changes_nothing(kind: Any) -> None:
    newest = kind(3, SECRET)
    newest.put(b"a", 5)
    payload = bytes(build_batch([Record(key=key) for key in (b"a", b"b", b"c", b"d")]))[HEADER_SIZE:]
    assert newest.put_records(payload, 4, 10, 0) is False
    assert (len(newest), newest.get(b"a"), newest.get(b"b")) == (1, 5, -1)
    # Only what is at or above the start counts, and known keys need no room.
    assert newest.put_records(payload, 4, 10, 12) is True
    assert [newest.get(key) for key in (b"a", b"b", b"c", b"d")] == [5, -1, 12, 13]
    newest.put(b"a", 20)
    for key, offset in ((b"e", 1), (b"a", -1)):
        with pytest.raises(ValueError, match="full"):
            newest.put(key, offset)


@implementations
def test_a_full_table_finds_every_key(kind: Any) -> None:
    for count in (1, 2, 10, 5_000):
        newest = kind(count, SECRET)
        for number in range(count):
            newest.put(b"%d" % number, number)
        assert len(newest) == count
        assert all(newest.get(b"%d" % number) == number for number in range(count))
        assert newest.get(b"none") == -1


@implementations
def test_keys_of_every_length_differ(kind: Any) -> None:
    newest = kind(400, SECRET)
    for length in range(200):
        newest.put(bytes(length), length)
        newest.put(bytes(length) + b"x", 1_000 + length)
    assert [newest.get(bytes(length)) for length in range(200)] == list(range(200))
    assert newest.get(memoryview(bytes(7) + b"x")) == 1_007


@implementations
def test_unusual_payloads_get_no_answer(kind: Any) -> None:
    generator = random.Random(2)
    newest = kind(10_000, SECRET)
    payload, records = payload_of(generator, 20)
    count = len(records)
    wrong = [(payload, count + 1), (payload, count - 1), (payload, -1), (payload[:-1], count), (payload + b"x", count)]
    for data, number in wrong:
        assert newest.put_records(data, number, 0, 0) is None
        assert newest.keep_records(data, number, 0, 100, True) is None
    for base_offset in (-1, (1 << 63) - 1):
        assert newest.put_records(payload, count, base_offset, 0) is None
    assert len(newest) == 0
    for _ in range(3_000):
        damaged = bytearray(payload)
        damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        newest.put_records(damaged, count, 0, 0)
        newest.keep_records(damaged, count, 0, 100, True)


@implementations
def test_a_table_needs_room_and_a_secret(kind: Any) -> None:
    for arguments in ((0, SECRET), (-1, SECRET), (1, b"short")):
        with pytest.raises(ValueError, match="secret of 16 bytes"):
            kind(*arguments)


@implementations
def test_keys_that_differ_in_one_byte_are_different(kind: Any) -> None:
    offsets = kind(1_000, SECRET)
    for number in range(1_000):
        offsets.put(number.to_bytes(8, "big"), number)
    assert [offsets.get(number.to_bytes(8, "big")) for number in range(1_000)] == list(range(1_000))
    assert offsets.get((256).to_bytes(8, "little")) == -1


def test_a_batch_larger_than_the_map_is_accepted_by_an_empty_map() -> None:
    records = [Record(key=b"%d" % number) for number in range(10)]
    payload = memoryview(bytes(build_batch(records))[HEADER_SIZE:])
    offset_map = OffsetMap(capacity=4, secret=SECRET)
    assert offset_map.put_records(payload, 10, 0, 0) is True
    assert offset_map.newest(b"9") == 9
    assert offset_map.put_records(payload, 10, 10, 0) is True, "its keys are known"
    more = memoryview(bytes(build_batch([Record(key=b"more")]))[HEADER_SIZE:])
    assert offset_map.put_records(more, 1, 20, 0) is False


def test_a_map_is_not_larger_than_its_keys() -> None:
    offset_map = OffsetMap.of_bytes(1 << 40, load_factor=0.9, secret=SECRET, keys_max=3)
    assert offset_map.put_all({b"a": 1, b"b": 2, b"c": 3})
    assert not offset_map.put_all({b"d": 4})
    assert offset_map.utilization < 1e-6
