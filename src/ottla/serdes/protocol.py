"""The interfaces of serializers and deserializers, and their error.

A serializer is configured once, for keys or for values, and then called for every record. `None` stays `None`: a record
without a key or a tombstone needs no schema. A serializer may append to the headers of the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

__all__ = ["Configurable", "Deserializer", "Header", "Serde", "SerializationError", "Serializer"]

T = TypeVar("T")

Header = tuple[str, bytes | None]


class SerializationError(Exception):
    """A key or value cannot be converted. `str()` names topic, partition, offset and field, if known."""

    def __init__(
        self,
        reason: str,
        *,
        topic: str | None = None,
        is_key: bool = False,
        field: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.topic = topic
        self.is_key = is_key
        self.field = field
        self.partition = partition
        self.offset = offset

    def at(self, *, partition: int, offset: int, topic: str | None = None) -> Self:
        """The same error with the position of its record, which only a consumer knows."""
        self.partition, self.offset = partition, offset
        self.topic = self.topic if topic is None else topic
        return self

    def __str__(self) -> str:
        location = "key" if self.is_key else "value"
        if self.field:
            location = f"field {self.field} of the {location}"
        if self.topic is not None:
            location += f" of {self.topic}"
            location += "" if self.partition is None else f"-{self.partition}"
            location += "" if self.offset is None else f" at offset {self.offset}"
        return f"The {location}: {self.reason}"


class Configurable:
    """`configure` may be called once, `close` repeatedly."""

    is_key = False
    # True if a call may send a request to another service. Event loops run such a call without blocking (`network`).
    uses_network = False

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        self.is_key = is_key

    def close(self) -> None:
        """Releases connections; implementations without connections do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _error(self, topic: str, reason: str, *, field: str | None = None) -> SerializationError:
        return SerializationError(reason, topic=topic, is_key=self.is_key, field=field)


class Serializer(Configurable, Generic[T]):
    def serialize(self, topic: str, value: T | None, headers: list[Header] | None = None) -> bytes | None:
        """Bytes of a key or value. Raises SerializationError."""
        raise NotImplementedError


class Deserializer(Configurable, Generic[T]):
    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> T | None:
        """The key or value of these bytes. Raises SerializationError."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Serde(Generic[T]):
    """A serializer with the deserializer that reads its bytes."""

    serializer: Serializer[T]
    deserializer: Deserializer[T]

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        self.serializer.configure(config, is_key=is_key)
        self.deserializer.configure(config, is_key=is_key)

    def close(self) -> None:
        self.serializer.close()
        self.deserializer.close()
