"""The prefix and the headers that identify a record's schema."""

from __future__ import annotations

import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.serdes.subjects import subject_strategy
from ottla.serdes.wire_format import SchemaTag, packed_indexes, read_tag, tagged_header, tagged_value

GUID = "66d4bd67-827e-0b29-612a-e13e19b58952"


def test_known_bytes() -> None:
    assert tagged_value(1, b"x") == b"\0\0\0\0\1x"
    assert tagged_value(258, b"x", [0]) == b"\0\0\0\1\2\0x"
    assert tagged_value(1, b"", [1, 0]) == b"\0\0\0\0\1\4\2\0"
    assert tagged_header(GUID) == b"\1" + uuid.UUID(GUID).bytes


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 200), min_size=1, max_size=5), st.binary())
def test_a_prefix_is_read_again(schema_id: int, indexes: list[int], payload: bytes) -> None:
    data = memoryview(tagged_value(schema_id, payload, indexes))
    tag, rest = read_tag(data, None, is_key=False, has_indexes=True)
    assert (tag, bytes(rest)) == (SchemaTag(schema_id, None, tuple(indexes)), payload)


def test_a_header_comes_before_a_prefix() -> None:
    headers = [("other", b"1"), ("__value_schema_id", tagged_header(GUID, [2]))]
    tag, rest = read_tag(memoryview(b"\0\0\0\0\1"), headers, is_key=False, has_indexes=True)
    assert (tag, bytes(rest)) == (SchemaTag(None, GUID, (2,)), b"\0\0\0\0\1")
    tag, _ = read_tag(memoryview(b"\0\0\0\0\1"), headers, is_key=True, has_indexes=False)
    assert tag == SchemaTag(1)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_tag_or_an_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        read_tag(memoryview(data), [("__key_schema_id", data)], is_key=True, has_indexes=True)


def test_the_usual_path_of_a_message_is_one_byte() -> None:
    assert packed_indexes([0]) == b"\0"
    assert packed_indexes([0, 0]) == b"\4\0\0"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (None, "t-value"),
        ("TopicNameStrategy", "t-value"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "x.R"),
        ("topic_record_name", "t-x.R"),
        ("AssociatedNameStrategy", "t-value"),
        (lambda topic, is_key, record: f"{topic}/{is_key}/{record}", "t/False/x.R"),
    ],
)
def test_subjects(strategy: object, subject: str) -> None:
    assert subject_strategy(strategy)("t", False, "x.R") == subject  # type: ignore[arg-type]


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match="'SomeStrategy' is not one of TopicNameStrategy"):
        subject_strategy("SomeStrategy")
    with pytest.raises(ValueError, match="has no name"):
        subject_strategy("RecordNameStrategy")("t", False, None)
