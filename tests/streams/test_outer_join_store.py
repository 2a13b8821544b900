"""The store of records without a partner decodes the rows that a caller reaches."""

from __future__ import annotations

from ottla.streams import Serdes
from ottla.streams.runtime.standby import _NoTask
from ottla.streams.serdes import FunctionSerde
from ottla.streams.state.create import create_store
from ottla.streams.state.outer_join import OuterJoinStore, Unjoined
from ottla.streams.state.specification import StoreKind, StoreSpecification

TEXT = Serdes.string()


class Owner(_NoTask):
    def log(self, *_: object) -> None:
        """The changelog has no part in these tests."""


def test_the_first_row_costs_one_decoded_value() -> None:
    decoded: list[bytes] = []

    def decode(content: bytes) -> str:
        decoded.append(content)
        return content.decode()

    counting = FunctionSerde("counting", str.encode, decode)
    specification = StoreSpecification("s", StoreKind.OUTER_JOIN, TEXT, TEXT, extra=(counting, counting))
    store = create_store(specification, Owner(), "log", TEXT, TEXT)
    assert isinstance(store, OuterJoinStore)
    for time in range(100):
        store.add(time, True, "k", "v")
    rows = store.all()
    assert next(iter(rows)) == Unjoined(0, True, "k", "v")
    assert len(decoded) == 1
