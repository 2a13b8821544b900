from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.ids import TopicPartition, Uuid


@given(st.binary(min_size=16, max_size=16))
def test_text_is_url_safe_base64_without_padding(value: bytes) -> None:
    uuid = Uuid(value)
    assert str(uuid) == base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    assert Uuid.parse(str(uuid)) == uuid
    assert hash(Uuid.parse(str(uuid))) == hash(uuid)


def test_a_slice_of_a_frame_is_copied() -> None:
    frame = bytearray(b"xx" + bytes(range(16)))
    uuid = Uuid(memoryview(frame)[2:])
    frame[2] = 99
    assert uuid.bytes == bytes(range(16))


def test_zero_is_false() -> None:
    assert not Uuid.ZERO
    assert Uuid.ONE
    assert str(Uuid.ZERO) == "A" * 22


def test_random_uuids_are_version_4_and_never_begin_with_a_dash() -> None:
    chance = random.Random(7)
    for _ in range(500):
        uuid = Uuid.random(chance)
        assert uuid.bytes[6] >> 4 == 4
        assert uuid.bytes[8] >> 6 == 2
        assert not str(uuid).startswith("-")


@pytest.mark.parametrize("text", ["", "abc", "A" * 21, "A" * 23, "A" * 30, "ä" * 22])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Uuid.parse(text)


def test_a_topic_partition_is_named_like_its_directory() -> None:
    assert str(TopicPartition("a-b", 3)) == "a-b-3"
