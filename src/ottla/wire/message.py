"""What every message is: named fields in slots, compared and shown by value.

The classes in `ottla.wire.messages` derive from these two and add a constructor with the protocol's defaults. They
know nothing of bytes: `FIELDS` is a table of constants from which `ottla.wire.codec` compiles encoders and decoders,
one per class and version, when they are first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from ottla.model.ports import FileRegion

__all__ = ["EMPTY", "Buffer", "FieldTable", "Message", "Part", "Records", "Request", "Structure"]

# The response that answers a request.
R_co = TypeVar("R_co", bound="Message", covariant=True)

Buffer = bytes | bytearray | memoryview
Part = bytes | bytearray | memoryview | FileRegion
# What a response may hold in a records field: one run of bytes or several, none of which is copied.
Records = bytes | bytearray | memoryview | FileRegion | Sequence[Part] | None

# (name, type, versions, nullable versions, tag, default, ignorable); a range of versions is (first, last).
FieldTable = tuple[tuple[str, str, tuple[int, int], tuple[int, int] | None, int | None, Any, bool], ...]

# The default of parameters that hold a list or a structure: a constructor replaces it by one of its own.
EMPTY: Any = ()

# Fields that must not get into a log or the message of an error: passwords, and what stands for one.
_SECRET = frozenset(("auth_bytes", "hmac", "salt", "salted_password", "server_key", "stored_key"))


class Structure:
    """A group of fields inside a message."""

    __slots__: tuple[str, ...] = ()

    FIELDS: ClassVar[FieldTable] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={'[hidden]' if name in _SECRET else repr(getattr(self, name))}" for name in self.__slots__
        )
        return f"{type(self).__name__}({fields})"


class Message(Structure):
    """A whole message: a request, a response, or a record of one of Kafka's own logs."""

    __slots__ = ()

    # The API key of a request or response, the type of a record; -1 where the kind has no number.
    API_KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    # The first version with compact lengths and tagged fields (KIP-482); above VERSIONS when there is none.
    FLEXIBLE_SINCE: ClassVar[int] = 32767


class Request(Message, Generic[R_co]):
    """A request. The type parameter is its response, so that code that sends any request can be checked by types."""

    __slots__ = ()
