"""What all stores share: their serdes, and the changelog that every write goes to."""

from __future__ import annotations

from typing import Any, Protocol

from ottla.streams.record import Headers, RecordMetadata
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreSpecification

__all__ = ["Store", "StoreOwner"]


class StoreOwner(Protocol):
    """The task of a store."""

    @property
    def timestamp(self) -> int:
        """The timestamp of the record that is being processed."""
        ...

    @property
    def metadata(self) -> RecordMetadata | None:
        """Where that record came from; None during punctuations."""
        ...

    def log(self, store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Appends to the changelog of a store."""
        ...


class Store:
    """A store of one task. Keys and values are kept as bytes, so that callers can change what they read."""

    def __init__(
        self, specification: StoreSpecification, owner: StoreOwner, topic: str, key_serde: Serde, value_serde: Serde
    ) -> None:
        self.specification = specification
        self.name = specification.name
        self._owner = owner
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._is_logged = specification.is_logged

    def disable_logging(self) -> None:
        """The changelog is written by another producer, for instance as the source topic of a table."""
        self._is_logged = False

    def flush(self) -> None:
        """Before a commit: writes what the store held back from its changelog."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Applies a record of the changelog."""
        raise NotImplementedError

    def _log(self, key: bytes, value: bytes | None, timestamp: int | None = None) -> None:
        if self._is_logged:
            self._owner.log(self.name, key, value, self._owner.timestamp if timestamp is None else timestamp)

    def _encode_key(self, key: Any) -> bytes:
        if key is None:
            raise ValueError(f"Store {self.name} has no key None.")
        return self._key_serde.serialize(self._topic, key)

    def _decode_key(self, data: bytes) -> Any:
        return self._key_serde.deserialize(self._topic, data)

    def _encode(self, value: Any) -> bytes | None:
        return None if value is None else self._value_serde.serialize(self._topic, value)

    def _decode(self, data: bytes | None) -> Any:
        return None if data is None else self._value_serde.deserialize(self._topic, data)
