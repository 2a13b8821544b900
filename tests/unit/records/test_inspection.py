"""The inspection of records in C and in Python: what both accept, the decoder accepts, with the same figures."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from ottla.records import validate_slow
from ottla.records.build import build_batch
from ottla.records.errors import CorruptRecords, InvalidRecords
from ottla.records.header import HEADER_SIZE
from ottla.records.inspection import COMPILED, inspect_records, record_spans, twin
from ottla.records.record import Record, scan_records
from ottla.records.validate import ProduceSettings

Inspect = Callable[..., Any]
NOW_MS = 1_700_000_000_000

implementations = pytest.mark.parametrize("inspect", [inspect_records, twin.inspect_records], ids=["in use", "twin"])


def test_the_compiled_one_is_in_use() -> None:
    assert COMPILED


def payload_of(generator: random.Random, *, keys: bool = True) -> tuple[bytes, int]:
    records = [
        Record(
            key=None if not keys and generator.random() < 0.3 else generator.randbytes(generator.choice((0, 1, 70))),
            value=generator.choice((None, b"", generator.randbytes(200))),
            timestamp=NOW_MS + generator.randrange(-(10**10), 10**10),
            headers=[("name", generator.choice((None, b"", b"x" * 130)))] * generator.randrange(3),
        )
        for _ in range(generator.randint(1, 40))
    ]
    return bytes(build_batch(records))[HEADER_SIZE:], len(records)


@implementations
def test_a_batch_in_order_is_accepted_with_its_figures(inspect: Inspect) -> None:
    generator = random.Random(1)
    for _ in range(200):
        payload, count = payload_of(generator)
        spans = list(scan_records(payload, count))
        deltas = [span[2] for span in spans]
        assert inspect(payload, 0, 0, count, True) == (len(payload), count, min(deltas), max(deltas), True)
        # In two parts.
        part = generator.randint(1, count)
        position, seen, *_ = inspect(payload, 0, 0, part, True)
        assert seen == part
        assert inspect(payload, position, part, count, True)[:2] == (len(payload), count - part)


def test_spans_are_those_of_the_decoder() -> None:
    generator = random.Random(3)
    for _ in range(300):
        payload, count = payload_of(generator, keys=False)
        expected = [tuple(span) for span in scan_records(payload, count)]
        assert record_spans(payload, count) == expected
        assert record_spans(memoryview(payload), count) == expected
        assert twin.record_spans(payload, count) == expected
        for wrong in (count - 1, count + 1, -1, len(payload)):
            assert record_spans(payload, wrong) is None
            assert twin.record_spans(payload, wrong) is None


def test_both_agree_about_spans_of_damaged_bytes_and_accept_nothing_that_the_decoder_refuses() -> None:
    generator = random.Random(4)
    accepted = 0
    for _ in range(5_000):
        payload, count = payload_of(generator, keys=False)
        damaged = bytearray(payload)
        for _ in range(generator.randint(0, 2)):
            damaged[generator.randrange(len(damaged))] = generator.choice((0, 1, 0x7F, 0x80, 0xFF))
        if generator.random() < 0.2:
            del damaged[generator.randrange(len(damaged)) :]
        spans = record_spans(damaged, count)
        assert spans == twin.record_spans(damaged, count)
        if spans is not None:
            accepted += 1
            assert spans == [tuple(span) for span in scan_records(damaged, count)]
    assert 500 < accepted < 4_500


@implementations
def test_a_record_without_a_key_is_left_to_the_caller(inspect: Inspect) -> None:
    payload = bytes(build_batch([Record(key=b"k"), Record(value=b"v")]))[HEADER_SIZE:]
    assert inspect(payload, 0, 0, 2, True) is None
    assert inspect(payload, 0, 0, 2, False) is not None
    assert inspect(payload, 0, 0, 1, True) is not None


def test_both_agree_about_damaged_bytes_and_never_accept_what_the_decoder_refuses() -> None:
    generator = random.Random(2)
    accepted = 0
    for _ in range(5_000):
        payload, count = payload_of(generator, keys=False)
        damaged = bytearray(payload)
        for _ in range(generator.randint(0, 2)):
            damaged[generator.randrange(len(damaged))] = generator.choice(
                (0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256))
            )
        if generator.random() < 0.2:
            del damaged[generator.randrange(len(damaged)) :]
        arguments = (bytes(damaged), 0, 0, count, generator.random() < 0.5)
        inspected = inspect_records(*arguments)
        assert inspected == twin.inspect_records(*arguments)
        if inspected is None or inspected[1] < count or inspected[0] < len(damaged):
            continue
        accepted += 1
        spans = list(islice(scan_records(bytes(damaged), count), count))
        assert [min(span[2] for span in spans), max(span[2] for span in spans)] == [inspected[2], inspected[3]]
        assert all(span[3] == number for number, span in enumerate(spans)) is inspected[4]
        assert not arguments[4] or all(span[6] >= 0 for span in spans)
    assert accepted > 250


@implementations
def test_positions_outside_of_the_payload_and_no_records(inspect: Inspect) -> None:
    assert inspect(b"", 0, 0, 5, True)[:2] == (0, 0)
    assert inspect(b"abc", 3, 0, 5, True)[:2] == (3, 0)


@pytest.mark.parametrize("compacted", [True, False])
def test_validation_has_the_same_result_with_and_without_inspection(
    compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(3)

    def outcome(batch: bytes, settings: ProduceSettings) -> Any:
        try:
            validated = validate_slow.validate_slowly(
                memoryview(bytearray(batch)), settings=settings, now_ms=NOW_MS, api_version=9
            )
        except (InvalidRecords, CorruptRecords) as error:
            return type(error), error.message, getattr(error, "record_errors", None)
        return bytes(validated.buffer), validated.max_timestamp

    for _ in range(500):
        records = [
            Record(
                key=generator.choice((b"k", b"k", b"k", None)) if generator.random() < 0.2 else b"k",
                value=b"v",
                timestamp=generator.choice((NOW_MS, NOW_MS, NOW_MS - 5_000, NOW_MS + 10**7, -1, -5)),
            )
            for _ in range(generator.randint(1, 6))
        ]
        settings = ProduceSettings(
            is_compacted=compacted,
            uses_append_time=generator.random() < 0.3,
            timestamp_before_max_ms=generator.choice((1_000, 2**62)),
            timestamp_after_max_ms=3_600_000,
        )
        batch = bytes(build_batch(records))
        inspected = outcome(batch, settings)
        with monkeypatch.context() as patched:
            patched.setattr(validate_slow, "inspect_records", lambda *_: None)
            assert outcome(batch, settings) == inspected
