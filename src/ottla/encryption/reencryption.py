"""Encrypts records again under a new data key.

After a rotation, so that the retired version of a key can be removed; or for another topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.encryption import envelope
from ottla.encryption.keys import DataKeys
from ottla.serdes.protocol import Header

__all__ = ["Reencryption"]


class Reencryption:
    """Raises EnvelopeError and KeyServiceError for a record that cannot be decrypted."""

    def __init__(self, keys: DataKeys, *, source_topic: str, target_topic: str, key_name: str | None = None) -> None:
        self._keys = keys
        self._source = source_topic
        self._target = target_topic
        # None: each record keeps its key name.
        self._key_name = key_name

    def value(self, data: bytes | None) -> bytes | None:
        """Encrypts the value under a new data key. A plain value is encrypted only if a key is named."""
        return None if data is None else self._renewed(data, envelope.VALUE, encrypts=self._key_name is not None)

    def headers(self, headers: Sequence[Header]) -> list[Header]:
        """Encrypts encrypted headers under a new data key; other headers stay as they are."""
        return [
            (name, text if text is None else self._renewed(text, envelope.header_part(name), encrypts=False))
            for name, text in headers
        ]

    def _renewed(self, data: bytes, part: str, *, encrypts: bool) -> bytes:
        name, topic, plaintext = self._key_name or "", self._target, data
        is_bound = True
        if envelope.is_envelope(data):
            parsed = envelope.parse(data)
            cipher = self._keys.of_record(parsed.key_name, parsed.wrapped_key)
            plaintext = envelope.open_envelope(parsed, cipher=cipher, part=part, topic=self._source)
            name, is_bound = self._key_name or parsed.key_name, parsed.is_bound
        elif not encrypts:
            return data
        key = self._keys.for_next_record(name)
        return envelope.seal(
            plaintext,
            cipher=key.cipher,
            key_name=name,
            wrapped_key=key.wrapped,
            part=part,
            topic=topic if is_bound else None,
        )
