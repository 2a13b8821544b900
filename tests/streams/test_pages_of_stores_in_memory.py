"""Reading a few rows of a store in memory does not copy all rows behind them."""

from __future__ import annotations

from typing import Any

from ottla.streams import Serdes, Stores
from ottla.streams.runtime.standby import _NoTask
from ottla.streams.state.create import create_store
from ottla.streams.state.reading import read_rows
from ottla.streams.state.sorted_map import SortedMap

TEXT = Serdes.string()
ROWS = 1_000


class Counted(dict[bytes, Any]):
    """Rows that count how many of them were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def __getitem__(self, key: bytes) -> Any:
        self.reads += 1
        return super().__getitem__(key)


def filled() -> tuple[SortedMap[bytes], Counted]:
    rows: SortedMap[bytes] = SortedMap()
    rows._entries = entries = Counted()
    rows.get = entries.get
    for number in range(ROWS):
        rows.put(b"%04d" % number, b"x")
    return rows, entries


def test_pages_of_a_query_read_every_row_once() -> None:
    specification = Stores.in_memory_key_value_store("s", TEXT, TEXT)
    store: Any = create_store(specification, _NoTask(), "log", TEXT, TEXT)
    store._map, entries = filled()
    has_more, first, keys = True, b"", []
    while has_more:
        page, has_more = read_rows(store, "range", {"first": first}, 10)
        keys += [row.key for row in page]
        first = page[-1].key + b"\0"
    assert keys == [b"%04d" % number for number in range(ROWS)]
    assert entries.reads <= 2 * ROWS


def test_ranges_are_the_same_in_both_directions_and_skip_what_is_deleted() -> None:
    rows, _ = filled()
    assert [key for key, _ in rows.range(b"0995", b"0997")] == [b"0995", b"0996", b"0997"]
    assert [key for key, _ in rows.range(b"0995", b"0997", reverse=True)] == [b"0997", b"0996", b"0995"]
    assert [key for key, _ in rows.prefix(b"099")] == [b"%04d" % number for number in range(990, 1_000)]
    seen = []
    for key, _ in rows.range(b"0990"):
        seen.append(key)
        rows.delete(b"%04d" % (int(key) + 1))
    assert seen == [b"0990", b"0992", b"0994", b"0996", b"0998"]
