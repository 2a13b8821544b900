"""Values for messages, drawn from a seeded generator: every field of a version, and many edge values."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import ottla.wire.messages
from ottla.model.ids import Uuid
from ottla.wire.message import Message, Structure
from ottla.wire.schema import FieldSpec, fields_at

__all__ = ["MESSAGES", "all_messages", "message_at", "snake_case", "versions_of"]

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
TEXTS = ("", "a", "topic-1", "ünï", "日本", "x" * 126, "x" * 127, "y" * 300, "\N{GRINNING FACE}")


def all_messages() -> list[type[Message]]:
    messages = []
    for info in pkgutil.iter_modules(ottla.wire.messages.__path__):
        module = importlib.import_module(f"ottla.wire.messages.{info.name}")
        messages += [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Message) and value.__module__ == module.__name__
        ]
    return sorted(messages, key=lambda cls: cls.__name__)


MESSAGES = all_messages()


def versions_of(cls: type[Message]) -> Iterator[int]:
    yield from range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


def snake_case(name: str) -> str:
    """Our name for a field of Kafka's."""
    name = name.replace("kRaft", "kraft").replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def message_at(cls: type[Structure], version: int, random: Random) -> Any:
    """A message with every field of the version set to something; the others keep their defaults."""
    return cls(**{f.name: value_of(f, version, random) for f in fields_at(cls, version) if f.present})


def value_of(field: FieldSpec, version: int, random: Random) -> Any:
    if field.nullable and random.random() < 0.2:
        return None
    if (
        field.tag is not None
        and field.structure
        and not field.is_array
        and not field.nullable
        and random.random() < 0.3
    ):
        return None
    if field.is_array:
        count = random.choice((0, 1, 1, 2, 3)) if field.structure else random.choice((0, 1, 2, 3, 9, 130))
        return [element_of(field, version, random) for _ in range(count)]
    return element_of(field, version, random)


def element_of(field: FieldSpec, version: int, random: Random) -> Any:
    kind = field.kind
    if field.structure is not None:
        return message_at(field.structure, version, random)
    if kind in BITS:
        half = 1 << (BITS[kind] - 1)
        return random.choice((0, -1, 1, half - 1, -half, random.randrange(-half, half)))
    if kind in UNSIGNED_BITS:
        bound = 1 << UNSIGNED_BITS[kind]
        return random.choice((0, 1, bound - 1, random.randrange(bound)))
    if kind == "bool":
        return random.random() < 0.5
    if kind == "float64":
        return random.choice((0.0, -1.5, 1e300, random.uniform(-1e6, 1e6)))
    if kind in ("string", "classic_string"):
        return random.choice(TEXTS)
    if kind == "uuid":
        return random.choice((Uuid.ZERO, Uuid(random.randbytes(16))))
    assert kind in ("bytes", "records"), kind
    return memoryview(random.randbytes(random.choice((0, 1, 126, 127, 500))))
