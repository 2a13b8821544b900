"""The serializer pair that encrypts values, around any other pair.

    serializer = EncryptingSerializer(JsonSerializer(), keys=DataKeys(FileKeyService("keys.json")), key_name="orders")
    deserializer = DecryptingDeserializer(JsonDeserializer(), keys=DataKeys(FileKeyService("keys.json")))

Without `keys`, `configure` makes them from settings: see `settings`. Keys of records are not encrypted, because
partitioning and compaction depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ottla.encryption import envelope
from ottla.encryption.envelope import EnvelopeError
from ottla.encryption.keys import DataKeys, KeyServiceError
from ottla.encryption.settings import EncryptionSettings, make_keys
from ottla.serdes.protocol import Deserializer, Header, Serializer

__all__ = ["DecryptingDeserializer", "EncryptingSerializer"]

T = TypeVar("T")


class EncryptingSerializer(Serializer[T]):
    """Encrypts the output of another serializer, and the values of chosen headers."""

    def __init__(
        self,
        inner: Serializer[T],
        *,
        keys: DataKeys | None = None,
        key_name: str = "",
        headers: Sequence[str] = (),
        bind_topic: bool = True,
    ) -> None:
        self._inner = inner
        self._keys = keys
        self._key_name = key_name
        self._headers = frozenset(headers)
        self._binds_topic = bind_topic

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        self._inner.configure(config, is_key=is_key)
        if is_key:
            raise ValueError("Keys of records decide about partitions and compaction; only values can be encrypted.")
        if self._keys is None:
            settings = EncryptionSettings.of(config)
            self._keys = make_keys(settings)
            self._key_name = self._key_name or settings.key_name
            self._headers = self._headers or frozenset(settings.headers)
            self._binds_topic = self._binds_topic and settings.binds_topic

    def serialize(self, topic: str, value: T | None, headers: list[Header] | None = None) -> bytes | None:
        data = self._inner.serialize(topic, value, headers)
        try:
            for index, (name, text) in enumerate(headers or ()):
                if name in self._headers and text is not None:
                    assert headers is not None
                    headers[index] = (name, self._sealed(topic, text, envelope.header_part(name)))
            # A tombstone stays null, because compaction has to see it.
            return None if data is None else self._sealed(topic, data, envelope.VALUE)
        except KeyServiceError as error:
            raise self._error(topic, f"it cannot be encrypted: {error}") from error

    def close(self) -> None:
        self._inner.close()
        if self._keys is not None:
            self._keys.service.close()

    def _sealed(self, topic: str, plaintext: bytes, part: str) -> bytes:
        if self._keys is None or not self._key_name:
            raise KeyServiceError("encryption.key.name is not set: name the key to encrypt with.")
        key = self._keys.for_next_record(self._key_name)
        return envelope.seal(
            plaintext,
            cipher=key.cipher,
            key_name=self._key_name,
            wrapped_key=key.wrapped,
            part=part,
            topic=topic if self._binds_topic else None,
        )


class DecryptingDeserializer(Deserializer[T]):
    """Decrypts values for another deserializer. Encrypted headers are decrypted in place if `headers` is a list.

    `bound_topic` is the topic that values were encrypted for, if they were copied to another one.
    """

    def __init__(
        self,
        inner: Deserializer[T],
        *,
        keys: DataKeys | None = None,
        bound_topic: str | None = None,
        accept_plaintext: bool = False,
    ) -> None:
        self._inner = inner
        self._keys = keys
        self._bound_topic = bound_topic
        self._accepts_plaintext = accept_plaintext

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        self._inner.configure(config, is_key=is_key)
        if self._keys is None:
            settings = EncryptionSettings.of(config)
            self._keys = make_keys(settings)
            self._bound_topic = self._bound_topic or settings.bound_topic
            self._accepts_plaintext = self._accepts_plaintext or settings.accepts_plaintext

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> T | None:
        if isinstance(headers, list):
            headers[:] = self.decrypt_headers(topic, headers)
        if data is None:
            return self._inner.deserialize(topic, None, headers)
        plain = self._opened(topic, bytes(data), envelope.VALUE, required=not self._accepts_plaintext)
        return self._inner.deserialize(topic, plain, headers)

    def decrypt_headers(self, topic: str, headers: Sequence[Header]) -> list[Header]:
        """All headers, with encrypted ones decrypted."""
        return [
            (name, text if text is None else self._opened(topic, text, envelope.header_part(name), required=False))
            for name, text in headers
        ]

    def close(self) -> None:
        self._inner.close()
        if self._keys is not None:
            self._keys.service.close()

    def _opened(self, topic: str, data: bytes, part: str, *, required: bool) -> bytes:
        if not required and not envelope.is_envelope(data):
            return data
        assert self._keys is not None, "configure comes first"
        try:
            parsed = envelope.parse(data)
            cipher = self._keys.of_record(parsed.key_name, parsed.wrapped_key)
            return envelope.open_envelope(parsed, cipher=cipher, part=part, topic=self._bound_topic or topic)
        except (EnvelopeError, KeyServiceError) as error:
            field = None if part == envelope.VALUE else part.partition(":")[2]
            raise self._error(topic, f"it cannot be decrypted: {error}", field=field) from error
