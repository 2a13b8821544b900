"""Plain serializers write the same bytes as Kafka's serializers, and their errors name the topic and the part."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.serdes import SerializationError, list_serde, plain_serde

# The bytes are those of Kafka's serializers.
KNOWN: list[tuple[str, Any, bytes]] = [
    ("bytes", b"\x00x", b"\x00x"),
    ("string", "é", b"\xc3\xa9"),
    ("int", -2, b"\xff\xff\xff\xfe"),
    ("long", 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
    ("short", 258, b"\x01\x02"),
    ("float", 1.0, b"\x3f\x80\x00\x00"),
    ("double", 1.0, b"\x3f\xf0\x00\x00\x00\x00\x00\x00"),
    ("boolean", True, b"\x01"),
    ("uuid", uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
    ("json", {"a": [1, "é"]}, '{"a":[1,"é"]}'.encode()),
]


@pytest.mark.parametrize(("name", "value", "data"), KNOWN, ids=[name for name, _, _ in KNOWN])
def test_known_bytes(name: str, value: Any, data: bytes) -> None:
    serde = plain_serde(name)
    assert serde.serializer.serialize("t", value) == data
    assert serde.deserializer.deserialize("t", data) == value
    assert serde.deserializer.deserialize("t", memoryview(data)) == value


@pytest.mark.parametrize("name", [*(name for name, _, _ in KNOWN), "void"])
def test_null_stays_null(name: str) -> None:
    serde = plain_serde(name)
    assert serde.serializer.serialize("t", None) is None
    assert serde.deserializer.deserialize("t", None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes", "x"),
        ("string", b"x"),
        ("int", 2**31),
        ("int", 1.5),
        ("int", True),
        ("short", "1"),
        ("long", 2**63),
        ("float", "x"),
        ("boolean", 1),
        ("uuid", "x"),
        ("void", 0),
        ("json", float("nan")),
        ("json", object()),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SerializationError, match="value of t"):
        plain_serde(name).serializer.serialize("t", value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("string", b"\xff"),
        ("int", b"123"),
        ("long", b""),
        ("boolean", b"\x02"),
        ("uuid", b"x" * 36),
        ("void", b""),
        ("json", b"{"),
        ("json", b"\xff"),
    ],
)
def test_damaged_bytes_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(SerializationError) as caught:
        plain_serde(name).deserializer.deserialize("t", data)
    assert str(caught.value.at(partition=2, offset=7)).startswith("The value of t-2 at offset 7: ")


def test_the_side_is_told() -> None:
    serde = plain_serde("int")
    serde.configure({}, is_key=True)
    with pytest.raises(SerializationError, match=r"^The key of t: "):
        serde.serializer.serialize("t", "x")


def test_the_encoding_of_text_is_configured_for_each_side() -> None:
    serde = plain_serde("string")
    serde.configure({"serializer.encoding": "utf-8", "value.serializer.encoding": "latin-1"}, is_key=False)
    assert serde.serializer.serialize("t", "é") == b"\xe9"
    with pytest.raises(SerializationError, match="latin-1"):
        serde.serializer.serialize("t", "€")


def test_an_unknown_name_is_answered_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="'integer' is not one of boolean, bytes"):
        plain_serde("integer")


def test_lists_are_written_as_by_kafka() -> None:
    assert list_serde(plain_serde("int")).serializer.serialize("t", [1, None]) == bytes.fromhex(
        "00 00000001 00000001 00000002 00000001"
    )
    assert list_serde(plain_serde("string")).serializer.serialize("t", ["a", None]) == bytes.fromhex(
        "01 00000002 00000001 61 ffffffff"
    )


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)), st.lists(st.none() | st.text()))
def test_lists_come_back(numbers: list[int | None], texts: list[str | None]) -> None:
    for name, value in (("int", numbers), ("string", texts)):
        serde = list_serde(plain_serde(name))
        assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", value)) == value  # type: ignore[arg-type]


@given(st.binary(max_size=40))
def test_any_bytes_are_a_list_or_an_error(data: bytes) -> None:
    for name in ("int", "string"):
        with contextlib.suppress(SerializationError):
            list_serde(plain_serde(name)).deserializer.deserialize("t", data)
