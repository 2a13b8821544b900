"""Records of internal topics, byte for byte as Kafka's classes write them."""

from __future__ import annotations

import pytest

from ottla.mirror.messages import Checkpoint, Heartbeat, MalformedMessage, OffsetSync
from ottla.model.ids import TopicPartition

CASES = [
    (Heartbeat("a", "b", 258), b"\0\x01a\0\x01b", b"\0\0" + b"\0\0\0\0\0\0\x01\x02"),
    (
        Checkpoint("g", TopicPartition("a.t", 3), 7, 9, "m"),
        b"\0\x01g\0\x03a.t\0\0\0\x03",
        b"\0\0" + bytes(7) + b"\x07" + bytes(7) + b"\x09" + b"\0\x01m",
    ),
    (OffsetSync(TopicPartition("t", 1), 7, 9), b"\0\x01t\0\0\0\x01", bytes(7) + b"\x07" + bytes(7) + b"\x09"),
]


@pytest.mark.parametrize(("message", "key", "value"), CASES)
def test_bytes_are_those_of_kafka(message: Heartbeat | Checkpoint | OffsetSync, key: bytes, value: bytes) -> None:
    assert (message.key(), message.value()) == (key, value)
    assert type(message).decode(key, value) == message


@pytest.mark.parametrize(("message", "key", "value"), CASES)
def test_cut_records_are_refused(message: Heartbeat | Checkpoint | OffsetSync, key: bytes, value: bytes) -> None:
    for length in range(len(key)):
        with pytest.raises(MalformedMessage):
            type(message).decode(key[:length], value)
    for length in range(len(value)):
        with pytest.raises(MalformedMessage):
            type(message).decode(key, value[:length])
