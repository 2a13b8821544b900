"""Rules of types ENCRYPT, for fields with a tag, and ENCRYPT_PAYLOAD, for whole values.

A data encryption key (DEK) belongs to a subject, and is kept in the registry, encrypted by a key of a key service (the
KEK). The bytes are those of Confluent's clients, so both can read the data of the other.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

from ottla.serdes.registry_client import RegistryClient
from ottla.serdes.rules.ciphers import decrypt, encrypt
from ottla.serdes.rules.contracts import Field, FieldKind, Rule, RuleCall, RuleFailed, RuleMode, transform_fields
from ottla.serdes.rules.data_keys import DataKeyRegistry, KeyRequest

__all__ = ["EncryptionRules"]

# The prefix of a ciphertext whose key expires: a zero byte and the version of the key.
_VERSION = struct.Struct(">bI")


class EncryptionRules:
    def __init__(self, client: RegistryClient, config: Mapping[str, Any]) -> None:
        self._keys = DataKeyRegistry(client, config)

    def encrypt_fields(self, rule: Rule, call: RuleCall, value: Any) -> Any:
        request = _request(rule, call)

        def transform(field: Field, content: Any) -> Any:
            if content is None:
                return None
            if field.kind is FieldKind.STRING and isinstance(content, str):
                return self._text(request, content)
            if field.kind is FieldKind.BYTES and isinstance(content, bytes):
                return self._bytes(request, content)
            if request.is_reading:
                return content
            raise RuleFailed(f"the field {field.full_name} is not a string or bytes, which alone can be encrypted")

        return transform_fields(rule, call, value, transform)

    def encrypt_payload(self, rule: Rule, call: RuleCall, value: Any) -> Any:
        return self._bytes(_request(rule, call), bytes(value))

    def _text(self, request: KeyRequest, content: str) -> str:
        if not request.is_reading:
            return base64.b64encode(self._bytes(request, content.encode())).decode()
        try:
            return self._bytes(request, base64.b64decode(content, validate=True)).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise RuleFailed("a field to decrypt is not base64 of a ciphertext") from None

    def _bytes(self, request: KeyRequest, content: bytes) -> bytes:
        if not request.is_reading:
            key = self._keys.for_writing(request)
            prefix = _VERSION.pack(0, key.version) if request.expiry_days else b""
            return prefix + encrypt(request.algorithm, key.material, content)
        version = 1
        if request.expiry_days:
            if len(content) < _VERSION.size:
                raise RuleFailed("a ciphertext is too short")
            version, content = _VERSION.unpack_from(content)[1], content[_VERSION.size :]
        key = self._keys.for_reading(request, version)
        return decrypt(request.algorithm, key.material, content)


def _request(rule: Rule, call: RuleCall) -> KeyRequest:
    """The parameters of the rule. Raises RuleFailed."""
    name = call.parameter(rule, "encrypt.kek.name")
    if not name:
        raise RuleFailed("encrypt.kek.name is missing")
    days = call.parameter(rule, "encrypt.dek.expiry.days") or "0"
    if not days.isdecimal():
        raise RuleFailed(f"encrypt.dek.expiry.days={days} is not a number of days")
    return KeyRequest(
        kek=name,
        subject=call.subject,
        algorithm=call.parameter(rule, "encrypt.dek.algorithm") or "AES256_GCM",
        expiry_days=int(days),
        kms_type=call.parameter(rule, "encrypt.kms.type") or "",
        kms_key_id=call.parameter(rule, "encrypt.kms.key.id") or "",
        is_reading=call.mode is RuleMode.READ,
    )
