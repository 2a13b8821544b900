"""The base classes of all messages: fields in slots, compared and printed by value.

The classes in `ottla.wire.messages` derive from these base classes and add a constructor with the protocol's defaults.
They contain no encoding. `FIELDS` is a table of constants from which `ottla.wire.codec` compiles an encoder and a
decoder for each class and version on first use.
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
# The content of a records field: one or several byte sequences. None of them is copied.
Records = bytes | bytearray | memoryview | FileRegion | Sequence[Part] | None

# (name, type, versions, nullable versions, tag, default, ignorable); a range of versions is (first, last).
FieldTable = tuple[tuple[str, str, tuple[int, int], tuple[int, int] | None, int | None, Any, bool], ...]

# The default of a list or structure parameter. The constructor replaces it with a new list or structure.
EMPTY: Any = ()

# Fields with secrets, which must not appear in logs and error messages.
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

    # The API key of a request or response, or the type of a record; -1 for kinds of message without a number.
    API_KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    # The first version with compact lengths and tagged fields (KIP-482). If no version has them, it is above VERSIONS.
    FLEXIBLE_SINCE: ClassVar[int] = 32767


class Request(Message, Generic[R_co]):
    """A request. The type parameter is its response, so that code that sends any request can be checked by types."""

    __slots__ = ()
