"""A batch that continues its producer's last batch skips further checks, with the same outcome."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from ottla.model.errors import KafkaError
from ottla.records.header import TRANSACTIONAL_BIT, BatchHeader
from ottla.records.iterate import iterate_batches
from ottla.records.validate import AppendOrigin
from ottla.storage.producer_state import ProducerBatch, ProducerEntry, ProducerState
from tests.unit.storage.helpers import LogBench

SEQUENCE_MAX = (1 << 31) - 1


def random_batch(chance: random.Random, offset: int, last_sequence: int) -> BatchHeader:
    count = chance.choice([1, 1, 2])
    near = (last_sequence + chance.choice([1, 1, 1, 0, -1, -2, 2])) & SEQUENCE_MAX
    sequence = chance.choice([near, near, near, 0, -1, SEQUENCE_MAX])
    attributes = chance.choice([0, TRANSACTIONAL_BIT])
    epoch = chance.choice([0, 0, 0, 1])
    return BatchHeader(offset, 100, 0, 2, 0, attributes, count - 1, 5, 5, 7, epoch, sequence, count)


def outcome(state: ProducerState, header: BatchHeader) -> ProducerBatch | str | None:
    try:
        return state.check(header, AppendOrigin.CLIENT)
    except KafkaError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(10))
def test_checks_come_to_the_same_with_and_without_a_short_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    state = ProducerState()
    state.verifies_transactions = seed % 2 == 0
    seen = {"short": 0, "refused": 0}
    for offset in range(0, 4_000, 2):
        entry = state.get(7)
        header = random_batch(chance, offset, -1 if entry is None else entry.last_sequence)
        seen["short"] += entry is not None and entry.is_next(header)
        quick = outcome(state, header)
        with monkeypatch.context() as patch:
            patch.setattr(ProducerEntry, "is_next", lambda *_: False)
            assert outcome(state, header) == quick
        seen["refused"] += isinstance(quick, str)
        if quick is None:
            state.update(header)
        entry = state.get(7)
        if entry is not None and chance.random() < 0.1:
            # The effect of a marker.
            entry.current_transaction_first_offset = -1
    assert min(seen.values()) > 10, seen


def filled(segment_bytes: int) -> LogBench:
    """Two producers take turns, with batches of one to three records; their numbers run past the highest one."""
    chance = random.Random(segment_bytes)
    bench = LogBench(segment_bytes=segment_bytes)
    following = {7: SEQUENCE_MAX - 9, 8: 0}
    for _ in range(24):
        producer_id = chance.choice(list(following))
        values = [b"v"] * chance.randint(1, 3)
        sequence = following[producer_id]
        now_ms = bench.world.clock.now_ms()
        bench.append(*values, producer_id=producer_id, producer_epoch=0, sequence=sequence, timestamp=now_ms)
        following[producer_id] = (sequence + len(values)) & SEQUENCE_MAX
    return bench


def recall_everything(bench: LogBench) -> None:
    """Appends an unknown batch, which makes the log search all of its batches."""
    for producer_id in (7, 8):
        with pytest.raises(KafkaError):
            bench.append(b"v", producer_id=producer_id, producer_epoch=0, sequence=1_000_000)


WAYS: dict[str, Callable[[LogBench], object]] = {
    "appended": lambda _: None,
    "out of a snapshot": lambda bench: bench.restart(clean=True),
    "out of a snapshot and the log before it": lambda bench: (bench.restart(clean=True), recall_everything(bench)),
    "out of a scan": lambda bench: bench.restart(clean=False),
    "after a cut": lambda bench: bench.log.truncate_to(bench.log.log_end_offset - 9),
    "after a cut and a restart": lambda bench: (
        bench.log.truncate_to(bench.log.log_end_offset - 9),
        bench.restart(clean=True),
    ),
    "after a cut and a scan": lambda bench: (
        bench.log.truncate_to(bench.log.log_end_offset - 9),
        bench.restart(clean=False),
    ),
}


@pytest.mark.parametrize("segment_bytes", [1 << 20, 400])
@pytest.mark.parametrize("way", WAYS)
def test_the_batches_kept_follow_each_other(way: str, segment_bytes: int) -> None:
    """Then only the last of them determines the next sequence number, and no kept batch has that number."""
    bench = filled(segment_bytes)
    WAYS[way](bench)
    last_in_log = {header.producer_id: header for header in headers_of(bench)}
    assert set(last_in_log) == {7, 8}
    for producer_id, last in last_in_log.items():
        entry = bench.log.producers.state.get(producer_id)
        assert entry is not None
        kept = entry.batches
        assert (kept[-1].last_sequence, kept[-1].last_offset) == (last.last_sequence, last.last_offset)
        for before, after in pairwise(kept):
            assert (after.last_sequence - after.offset_delta - 1) & SEQUENCE_MAX == before.last_sequence
            assert after.first_offset > before.last_offset
        following = (last.last_sequence + 1) & SEQUENCE_MAX
        assert entry.is_next(header_of(producer_id, following, count=1))
        for kept_batch in kept:
            first = (kept_batch.last_sequence - kept_batch.offset_delta) & SEQUENCE_MAX
            assert not entry.is_next(header_of(producer_id, first, count=kept_batch.offset_delta + 1))


def headers_of(bench: LogBench) -> Iterator[BatchHeader]:
    """Of all batches, one segment after the other."""
    log, offset = bench.log, 0
    while offset < log.log_end_offset:
        region = log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset).region
        assert region is not None
        for batch in iterate_batches(region.read()):
            yield batch.header
            offset = batch.header.next_offset


def header_of(producer_id: int, sequence: int, *, count: int) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, 0, count - 1, 5, 5, producer_id, 0, sequence, count)
