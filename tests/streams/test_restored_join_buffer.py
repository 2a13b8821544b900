"""The restore of a join buffer finds the record of a deletion without a look at all records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.streams import Serdes
from ottla.streams.machine.task import ChangelogRecord
from ottla.streams.record import Headers, Record
from ottla.streams.runtime.standby import _NoTask
from ottla.streams.state.buffers import JoinBuffer
from ottla.streams.state.create import create_store
from ottla.streams.state.specification import StoreKind, StoreSpecification

TEXT = Serdes.string()
RECORDS = 500


class Owner(_NoTask):
    def __init__(self) -> None:
        self.changelog: list[ChangelogRecord] = []

    def log(self, store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        self.changelog.append(ChangelogRecord(store, key, value, timestamp, headers))


class Listed(list[Any]):
    """Records that count how many of them were listed."""

    listed = 0

    def __iter__(self) -> Iterator[Any]:
        Listed.listed += len(self)
        return super().__iter__()


def new_buffer(owner: Owner) -> JoinBuffer:
    specification = StoreSpecification("b", StoreKind.JOIN_BUFFER, TEXT, TEXT, retention_ms=RECORDS)
    store = create_store(specification, owner, "log", TEXT, TEXT)
    assert isinstance(store, JoinBuffer)
    return store


def test_a_deletion_does_not_list_all_records() -> None:
    owner = Owner()
    written = new_buffer(owner)
    for time in range(3 * RECORDS):
        assert written.put(Record(str(time % 7), "x", time))
        list(written.evict())
    restored = new_buffer(Owner())
    listed = 0
    for change in owner.changelog:
        restored._records = Listed(restored._records)
        Listed.listed = 0
        restored.restore(change.key, change.value, change.timestamp)
        listed += Listed.listed
    assert [record[:3] for record in restored._records] == [record[:3] for record in written._records]
    assert listed == 0


def test_a_record_that_is_restored_again_is_there_once() -> None:
    owner = Owner()
    new_buffer(owner).put(Record("k", "x", 5))
    restored = new_buffer(Owner())
    (change,) = owner.changelog
    for _ in range(2):
        restored.restore(change.key, change.value, change.timestamp)
    assert len(restored._records) == 1
