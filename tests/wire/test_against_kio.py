"""Our codec against kio, an independent library for Kafka's schema, for every message and version that both have.

The same values are put into a message of ours and one of theirs. Both must give the same bytes, and each must read
the other's bytes as these values. kio has types of its own for times, durations and error codes; values are drawn so
that these can hold them.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio._kio_native import entity_reader
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import classify_field, is_optional

from ottla.model.ids import Uuid
from ottla.wire.codec import decode, encode
from ottla.wire.message import Message, Structure
from ottla.wire.schema import FieldSpec, fields_at
from tests.wire.values import MESSAGES, element_of

OURS = {cls.__name__: cls for cls in MESSAGES}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

# (name, version) -> "module:name" of every top-level message that kio knows.
PATHS = {
    (path.split(":")[-1], version): path
    for versions in schema_name_map.values()
    for version, kinds in versions.items()
    for path in kinds.values()
}
ENTITIES = sorted({name for name, _ in PATHS})


def load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(__import__(module, fromlist=[name]), name)


@pytest.mark.parametrize("name", ENTITIES)
def test_same_bytes_and_same_values_as_kio(name: str) -> None:
    cls = OURS[name]
    theirs_versions = sorted(version for entity, version in PATHS if entity == name)
    assert theirs_versions, "kio knows no version"
    for version in theirs_versions:
        assert cls.VERSIONS[0] <= version <= cls.VERSIONS[1]
        kio_cls = load(PATHS[name, version])
        random = Random(f"{name} {version}")
        for _ in range(8):
            ours, theirs = pair_of(cls, kio_cls, version, random)
            compare(cls, kio_cls, version, ours, theirs)


def compare(cls: type[Message], kio_cls: Any, version: int, ours: Any, theirs: Any) -> None:
    with io.BytesIO() as buffer:
        entity_writer(kio_cls)(buffer, theirs)
        their_bytes = buffer.getvalue()
    our_bytes = encode(ours, version)
    assert our_bytes == their_bytes
    decoded, end = decode(cls, memoryview(their_bytes), version)
    assert end == len(their_bytes)
    assert decoded == ours
    read, size = entity_reader(kio_cls)(our_bytes, 0)
    assert size == len(our_bytes)
    assert read == theirs


def pair_of(cls: type[Structure], kio_cls: Any, version: int, random: Random) -> tuple[Any, Any]:
    """The same random values as a message of ours and one of theirs."""
    our_fields = [f for f in fields_at(cls, version) if f.present]
    their_fields = dataclasses.fields(kio_cls)
    assert len(our_fields) == len(their_fields), (cls, version)
    ours, theirs = {}, {}
    for our_field, their_field in zip(our_fields, their_fields, strict=True):
        assert our_field.tag == their_field.metadata.get("tag")
        ours[our_field.name], theirs[their_field.name] = values_of(our_field, their_field, version, random)
    return cls(**ours), kio_cls(**theirs)


def values_of(field: FieldSpec, kio_field: Any, version: int, random: Random) -> tuple[Any, Any]:
    kind = kio_field.metadata.get("kafka_type")
    # kio says None for the zero uuid and for a time that is not known.
    if kind not in ("uuid", "datetime_i64"):
        assert field.nullable == is_optional(kio_field), (field, kio_field)
    # kio cannot write a tagged null where null is not the default.
    can_be_null = field.nullable and (field.tag is None or field.default is None)
    if can_be_null and random.random() < 0.2:
        return None, None
    element = classify_field(kio_field).type_
    if field.is_array:
        count = random.choice((0, 1, 2, 3)) if field.structure else random.choice((0, 1, 2, 9, 130))
        pairs = [pair_of_elements(field, element, kind, version, random) for _ in range(count)]
        return [ours for ours, _ in pairs], tuple(theirs for _, theirs in pairs)
    if field.structure is None or field.tag is None or field.nullable:
        return pair_of_elements(field, element, kind, version, random)
    # A tagged structure that is absent is None here and the default there.
    ours, theirs = pair_of_elements(field, element, kind, version, random)
    default = get_tagged_field_default(kio_field)
    return (None, default) if theirs == default or random.random() < 0.3 else (ours, theirs)


def pair_of_elements(
    field: FieldSpec, kio_type: Any, kind: str | None, version: int, random: Random
) -> tuple[Any, Any]:
    if field.structure is not None:
        return pair_of(field.structure, kio_type, version, random)
    if kind == "error_code":
        code = random.choice(list(ErrorCode))
        return int(code), code
    if kind in ("timedelta_i32", "timedelta_i64"):
        milliseconds = random.choice((0, 1, -1, 2**31 - 1, random.randrange(-(2**31), 2**31)))
        return milliseconds, datetime.timedelta(milliseconds=milliseconds)
    if kind == "datetime_i64":
        milliseconds = random.choice((0, 1, 253370764800000, random.randrange(4 * 10**12)))
        return milliseconds, EPOCH + datetime.timedelta(milliseconds=milliseconds)
    value = element_of(field, version, random)
    if isinstance(value, Uuid):
        return value, UUID(bytes=value.bytes) if value else None
    return value, bytes(value) if isinstance(value, memoryview) else value
