"""The bytes of a decision's records are those of each record by itself, and so are the records of the bytes."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata import record_encoding
from ottla.metadata.record_encoding import RecordDecoder, encode_all
from ottla.metadata.versions import METADATA_VERSION_LATEST, encode_for
from ottla.model.ids import Uuid
from ottla.wire.codec import MalformedMessage
from ottla.wire.messages import metadata_records as r
from ottla.wire.metadata_codec import decode_record

TOPIC, OTHER_TOPIC = Uuid(bytes(15) + b"\x07"), Uuid(bytes(15) + b"\x08")
ONE, TWO = [1, 2, 3], [2, 3, 1]
DIRECTORIES = [Uuid(bytes(15) + bytes((number,))) for number in (101, 102, 103)]
NOBODY: list[int] = []


def created(index: int, **fields: Any) -> r.PartitionRecord:
    defaults: dict[str, Any] = {
        "partition_id": index,
        "topic_id": TOPIC,
        "replicas": ONE,
        "isr": ONE,
        "removing_replicas": NOBODY,
        "adding_replicas": NOBODY,
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": DIRECTORIES,
    }
    return r.PartitionRecord(**{**defaults, **fields})


def changed(index: int, **fields: Any) -> r.PartitionChangeRecord:
    return r.PartitionChangeRecord(partition_id=index, **{"topic_id": TOPIC, "isr": ONE, "leader": 2, **fields})


def alike_and_not(level: int) -> list[Any]:
    directories = DIRECTORIES if level >= 17 else []
    return [
        r.TopicRecord(name="t", topic_id=TOPIC),
        *(created(index, directories=directories) for index in (0, 1, 2, 300, 70_000)),
        created(3, directories=directories, replicas=TWO, isr=TWO, leader=2),
        created(4, directories=directories, leader_epoch=5, partition_epoch=6),
        created(5, directories=directories, topic_id=OTHER_TOPIC),
        created(6, directories=directories),
        *(changed(index) for index in (0, 1, 2, 300, 70_000)),
        changed(7, leader=3),
        changed(8, isr=TWO),
        changed(9, topic_id=OTHER_TOPIC),
        changed(10, leader_recovery_state=1),
        changed(11, isr=None),
        changed(12),
        r.RemoveTopicRecord(topic_id=OTHER_TOPIC),
        *(changed(index) for index in (13, 14)),
    ]


@pytest.mark.parametrize("level", [7, 17, METADATA_VERSION_LATEST])
def test_records_that_are_alike_and_records_that_are_not(level: int) -> None:
    records = alike_and_not(level)
    assert encode_all(records, level) == [encode_for(record, level) for record in records]


@pytest.mark.parametrize("level", [7, 17, METADATA_VERSION_LATEST])
def test_decoded_records_that_are_alike_and_records_that_are_not(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [memoryview(encode_for(record, level)) for record in alike_and_not(level)]
    decoded = []

    def counted(value: memoryview) -> Any:
        decoded.append(value)
        return decode_record(value)

    monkeypatch.setattr(record_encoding, "decode_record", counted)
    decoder = RecordDecoder()
    records = [decoder.decode(value) for value in values]
    assert [encode_for(record, level) for record in records] == [bytes(value) for value in values]
    # Equal records are decoded once, with the topic's and the removal.
    assert len(decoded) == 12
    assert len(values) == 24


def test_few_records_are_kept_for_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_encoding, "ALIKE_MAX", 3)
    decoder = RecordDecoder()
    for index in range(20):
        value = encode_for(changed(index, leader=index % 5), METADATA_VERSION_LATEST)
        assert encode_for(decoder.decode(memoryview(value)), METADATA_VERSION_LATEST) == value
        assert len(decoder._templates) <= 3


def test_a_value_is_malformed_after_a_record_that_ends_alike() -> None:
    """Only the number of the partition may differ: the type and the version are compared, too."""
    value = encode_for(changed(1), METADATA_VERSION_LATEST)
    decoder = RecordDecoder()
    decoder.decode(memoryview(value))
    others = (b"\x02" + value[1:], value[:1] + b"\x7f" + value[2:], value[:2] + b"\x7f" + value[3:])
    for wrong in (*others, value[:5], b""):
        with pytest.raises(MalformedMessage):
            decoder.decode(memoryview(wrong))


def test_every_field_but_the_number_is_compared() -> None:
    """A new field of these records must be added to what is compared."""
    values: dict[str, Any] = {"topic_id": OTHER_TOPIC, "directories": list(reversed(DIRECTORIES))}
    for make in (created, changed):
        first = make(0)
        for name in type(first).__slots__:
            if name == "partition_id":
                continue
            other: Any = make(1)
            present = getattr(other, name)
            is_list = isinstance(present, list) or present is None
            if name not in values:
                values[name] = [3, 1, 2] if is_list else present + 1
            setattr(other, name, values[name])
            level = METADATA_VERSION_LATEST
            assert encode_all([first, other], level)[1] == encode_for(other, level), name
