"""Distinct types for ids, offsets and epochs.

The integer types are `NewType`s: they cost nothing at run time, and the type checker rejects an offset in place of an
epoch.
"""

from __future__ import annotations

import binascii
import builtins
from random import Random
from typing import ClassVar, NamedTuple, NewType

__all__ = ["LeaderEpoch", "NodeId", "Offset", "ProducerId", "TopicId", "TopicPartition", "Uuid"]

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
NodeId = NewType("NodeId", int)
ProducerId = NewType("ProducerId", int)

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


class Uuid:
    """A uuid. Its text is 22 characters of url-safe base64 without padding, as in Kafka."""

    __slots__ = ("bytes",)

    ZERO: ClassVar[Uuid]
    ONE: ClassVar[Uuid]

    bytes: builtins.bytes

    def __init__(self, value: builtins.bytes | bytearray | memoryview) -> None:
        assert len(value) == 16, "a uuid has 16 bytes"
        self.bytes = builtins.bytes(value)

    @classmethod
    def random(cls, random: Random) -> Uuid:
        """A random (version 4) uuid. Its text does not begin with a dash, as an option on a command line would."""
        while True:
            value = bytearray(random.randbytes(16))
            value[6] = value[6] & 0x0F | 0x40
            value[8] = value[8] & 0x3F | 0x80
            candidate = cls(value)
            if not str(candidate).startswith("-"):
                return candidate

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Parses the text of a uuid, 22 characters. Raises ValueError for other texts."""
        if len(text) > 24:
            raise ValueError(f"{text[:24]!r}... is too long to be a uuid, which has 22 characters")
        try:
            padded = text.rstrip("=").encode("ascii").translate(_FROM_URL_SAFE) + b"=="
            value = binascii.a2b_base64(padded)
        except (UnicodeEncodeError, binascii.Error):
            raise ValueError(f"{text!r} is not a uuid: it is not url-safe base64") from None
        if len(value) != 16:
            raise ValueError(f"{text!r} is not a uuid: it has {len(value)} bytes instead of 16")
        return cls(value)

    def __str__(self) -> str:
        encoded = binascii.b2a_base64(self.bytes, newline=False)
        return encoded[:22].translate(_TO_URL_SAFE).decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self.bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uuid) and self.bytes == other.bytes

    def __lt__(self, other: Uuid) -> bool:
        return self.bytes < other.bytes

    def __bool__(self) -> bool:
        return self.bytes != _ZERO_BYTES


_ZERO_BYTES = bytes(16)
Uuid.ZERO = Uuid(_ZERO_BYTES)
Uuid.ONE = Uuid(bytes(15) + b"\x01")

TopicId = Uuid


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
