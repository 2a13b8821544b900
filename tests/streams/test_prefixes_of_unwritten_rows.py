"""A prefix of a table reads the rows with the prefix, not all rows that wait for a local commit."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from ottla.streams.state.table import PersistentMap

SUBSCRIPTIONS = 2_000


class Table:
    """Rows in memory, in the order of their keys."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self.rows = rows

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def scan(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        keys = sorted(self.rows, reverse=reverse)
        chosen = [key for key in keys if (first is None or key >= first) and (last is None or key <= last)]
        return iter([(key, self.rows[key]) for key in chosen])

    def prefix(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return [row for row in self.scan(prefix) if row[0].startswith(prefix)]

    def count(self) -> int:
        return len(self.rows)


class Counted(dict[bytes, None]):
    """Unwritten keys that count how often they are listed."""

    listed = 0

    def keys(self) -> Any:
        Counted.listed += len(self)
        return super().keys()

    def __iter__(self) -> Iterator[bytes]:
        Counted.listed += len(self)
        return super().__iter__()


def test_a_foreign_key_join_lists_unwritten_subscriptions_once() -> None:
    """The subscribers of a right row, for many right rows between two local commits."""
    rows: PersistentMap[bytes] = PersistentMap(Table({}), bytes, bytes)
    rows._dirty = Counted()
    for number in range(SUBSCRIPTIONS):
        rows.put(b"%06d" % number, b"x")
    Counted.listed = 0
    for number in range(SUBSCRIPTIONS):
        assert list(rows.prefix(b"%06d" % number)) == [(b"%06d" % number, b"x")]
        rows.put(b"new%06d" % number, b"x")
    assert Counted.listed <= 4 * SUBSCRIPTIONS


def test_ranges_and_prefixes_see_every_state_of_a_row() -> None:
    random = Random(1)
    table = Table({})
    rows: PersistentMap[bytes] = PersistentMap(table, bytes, bytes)
    expected: dict[bytes, bytes] = {}
    writing: dict[bytes, Any] = {}
    for _ in range(3_000):
        key = b"%03d" % random.randrange(200)
        match random.randrange(8):
            case 0:
                rows.delete(key)
                expected.pop(key, None)
            case 1 if not writing:
                writing = dict(rows.take_changes().rows)
            case 2 if writing:
                for name, content in writing.items():
                    table.rows.pop(name, None)
                    if content is not None:
                        table.rows[name] = content
                writing = {}
                rows.written()
                rows.shrink()
            case 3:
                rows.put_many([(key, b"many")])
                expected[key] = b"many"
            case _:
                expected[key] = b"%d" % random.randrange(9)
                rows.put(key, expected[key])
        first, last = sorted((b"%03d" % random.randrange(200), b"%03d" % random.randrange(200)))
        reverse = random.random() < 0.5
        chosen = sorted(((k, v) for k, v in expected.items() if first <= k <= last), reverse=reverse)
        assert list(rows.range(first, last, reverse=reverse)) == chosen
        prefix = key[: random.randrange(4)]
        assert list(rows.prefix(prefix)) == sorted((k, v) for k, v in expected.items() if k.startswith(prefix))


@pytest.mark.parametrize("count", [1, 5, 40])
def test_rows_between_two_reads_are_in_their_order(count: int) -> None:
    """Many keys are sorted at once, and a few are inserted one by one. Writing a key again does not repeat it."""
    random, rows, expected = (
        Random(count),
        PersistentMap[bytes](Table({b"050": b"old"}), bytes, bytes),
        {b"050": b"old"},
    )
    for _ in range(20):
        for _ in range(count):
            key, value = b"%03d" % random.randrange(200), b"%d" % random.randrange(1_000)
            if random.random() < 0.2:
                rows.delete(key)
                expected.pop(key, None)
            else:
                rows.put(key, value)
                expected[key] = value
        assert list(rows.range()) == sorted(expected.items())
    assert rows._unwritten == sorted(rows._dirty)
