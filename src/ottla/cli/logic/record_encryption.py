"""Encryption in `ottla produce` and `ottla consume`: the settings `encryption.*` among a client's properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli.failures import Failure
from ottla.client.consumer import ConsumedRecord

if TYPE_CHECKING:
    from ottla.encryption.keys import DataKeys
    from ottla.encryption.settings import EncryptionSettings

__all__ = ["Decrypt", "Encrypt", "decryption", "encryption", "keys_of", "take_settings"]

_PREFIX = "encryption."

Headers = list[tuple[str, bytes | None]]
# Encrypts a value and headers of a topic.
Encrypt = Callable[[str, bytes | None, Headers], tuple[bytes | None, Headers]]
Decrypt = Callable[[ConsumedRecord], ConsumedRecord]


def take_settings(properties: dict[str, str]) -> dict[str, str]:
    """Removes the settings of encryption from a client's properties, and returns them."""
    return {name: properties.pop(name) for name in list(properties) if name.startswith(_PREFIX)}


def keys_of(properties: dict[str, str]) -> tuple[EncryptionSettings, DataKeys]:
    """Raises Failure with the setting that is wrong or the key service's reason."""
    from ottla.encryption.keys import KeyServiceError
    from ottla.encryption.settings import EncryptionSettings, make_keys

    try:
        settings = EncryptionSettings.of(properties)
        return settings, make_keys(settings)
    except (ValueError, KeyServiceError) as error:
        raise Failure(str(error)) from None


def encryption(properties: dict[str, str]) -> Encrypt | None:
    """None without settings. The function raises ValueError if the key service fails."""
    if not properties:
        return None
    from ottla.encryption.serializers import EncryptingSerializer
    from ottla.serdes import BytesSerializer

    settings, keys = keys_of(properties)
    if not settings.key_name:
        raise Failure("encryption.key.name is missing: name the key to encrypt with.")
    serializer = EncryptingSerializer(
        BytesSerializer(),
        keys=keys,
        key_name=settings.key_name,
        headers=settings.headers,
        bind_topic=settings.binds_topic,
    )

    def encrypt(topic: str, value: bytes | None, headers: Headers) -> tuple[bytes | None, Headers]:
        from ottla.serdes.protocol import SerializationError

        changed = list(headers)
        try:
            return serializer.serialize(topic, value, changed), changed
        except SerializationError as error:
            raise ValueError(str(error)) from None

    return encrypt


def decryption(properties: dict[str, str]) -> Decrypt | None:
    """None without settings. The function raises ValueError for a record that cannot be decrypted."""
    if not properties:
        return None
    from ottla.encryption.serializers import DecryptingDeserializer
    from ottla.serdes import BytesDeserializer

    settings, keys = keys_of(properties)
    deserializer = DecryptingDeserializer(
        BytesDeserializer(),
        keys=keys,
        bound_topic=settings.bound_topic,
        accept_plaintext=settings.accepts_plaintext,
    )

    def decrypt(record: ConsumedRecord) -> ConsumedRecord:
        from ottla.serdes.protocol import SerializationError

        headers = list(record.headers)
        try:
            return record._replace(value=deserializer.deserialize(record.topic, record.value, headers), headers=headers)
        except SerializationError as error:
            raise ValueError(error.reason.rstrip(".")) from None

    return decrypt
