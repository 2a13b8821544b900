"""A serializer of a user's own: customers as a number, the length of a name, and the name in UTF-8."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from ottla.serdes import Deserializer, Header, Serde, SerializationError, Serializer, list_serde


class Customer(NamedTuple):
    number: int
    name: str | None


class CustomerSerializer(Serializer[Customer]):
    def serialize(self, topic: str, value: Customer | None, headers: list[Header] | None = None) -> bytes | None:
        if value is None:
            return None
        name = (value.name or "").encode()
        return struct.pack(">ii", value.number, len(name)) + name


class CustomerDeserializer(Deserializer[Customer]):
    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> Customer | None:
        if data is None:
            return None
        if len(data) < 8:
            raise self._error(topic, f"a customer has at least 8 bytes, but there are {len(data)}.")
        number, length = struct.unpack_from(">ii", data)
        return Customer(number, bytes(data[8 : 8 + length]).decode() or None)


def test_customers_come_back() -> None:
    serde = Serde(CustomerSerializer(), CustomerDeserializer())
    assert serde.serializer.serialize("t", Customer(7, "Ada")) == bytes.fromhex("00000007 00000003 416461")
    for customer in (Customer(7, "Ada"), Customer(-1, None), None):
        assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", customer)) == customer
    several = list_serde(serde)
    customers = [Customer(1, "é"), None]
    assert several.deserializer.deserialize("t", several.serializer.serialize("t", customers)) == customers


def test_too_few_bytes_are_refused() -> None:
    with pytest.raises(SerializationError) as caught:
        CustomerDeserializer().deserialize("t", b"1234567")
    assert str(caught.value.at(partition=3, offset=9)) == (
        "The value of t-3 at offset 9: a customer has at least 8 bytes, but there are 7."
    )
