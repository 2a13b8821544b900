"""A batch that goes on where its producer's last one ended is not looked at further, and nothing else comes of that."""

from __future__ import annotations

import random

import pytest

from ottla.model.errors import KafkaError
from ottla.records.header import TRANSACTIONAL_BIT, BatchHeader
from ottla.records.validate import AppendOrigin
from ottla.storage.producer_state import ProducerBatch, ProducerEntry, ProducerState

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
            # As a marker would.
            entry.current_transaction_first_offset = -1
    assert min(seen.values()) > 10, seen
