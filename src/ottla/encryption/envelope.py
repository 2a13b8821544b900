"""The bytes of an encrypted value.

    magic 0xE5, version 1      2 bytes
    flags                      1 byte: 1 if the value is bound to its topic
    name of the key            length (1 byte), UTF-8
    wrapped data key           length (2 bytes), as the key service returned it
    nonce                      12 bytes
    ciphertext and tag         the rest; the tag has 16 bytes

The tag also covers everything before the nonce, the part of the record (`value`, `header:NAME`) and, if bound, the
topic: a ciphertext that was moved to another header or topic cannot be decrypted.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["VALUE", "Envelope", "EnvelopeError", "header_part", "is_envelope", "open_envelope", "parse", "seal"]

MAGIC = b"\xe5\x01"
BOUND_TO_TOPIC = 0x01
NONCE_BYTES = 12
TAG_BYTES = 16

# The part of a record that a ciphertext belongs to.
VALUE = "value"


class EnvelopeError(ValueError):
    """The bytes are not an envelope, were changed, or belong to another topic or key."""


class Envelope(NamedTuple):
    key_name: str
    wrapped_key: bytes
    is_bound: bool
    # Everything before the nonce.
    head: bytes
    nonce: bytes
    ciphertext: bytes


def header_part(name: str) -> str:
    return f"header:{name}"


def is_envelope(data: bytes) -> bool:
    return data[:2] == MAGIC


def seal(plaintext: bytes, *, cipher: AESGCM, key_name: str, wrapped_key: bytes, part: str, topic: str | None) -> bytes:
    """Encrypts. `topic` is None for a value that may be copied to other topics."""
    name = key_name.encode()
    flags = 0 if topic is None else BOUND_TO_TOPIC
    head = b"".join(
        (MAGIC, struct.pack(">BB", flags, len(name)), name, struct.pack(">H", len(wrapped_key)), wrapped_key)
    )
    nonce = os.urandom(NONCE_BYTES)
    return head + nonce + cipher.encrypt(nonce, plaintext, _context(head, part, topic))


def parse(data: bytes) -> Envelope:
    """Raises EnvelopeError."""
    if not is_envelope(data):
        raise EnvelopeError("the bytes are not encrypted, or not by ottla.encryption.")
    try:
        flags, name_length = struct.unpack_from(">BB", data, 2)
        key_name = data[4 : 4 + name_length].decode()
        (key_length,) = struct.unpack_from(">H", data, 4 + name_length)
    except (struct.error, UnicodeDecodeError):
        raise EnvelopeError("the envelope is damaged.") from None
    end = 6 + name_length + key_length
    if flags & ~BOUND_TO_TOPIC or len(data) < end + NONCE_BYTES + TAG_BYTES:
        raise EnvelopeError("the envelope is damaged.")
    return Envelope(
        key_name=key_name,
        wrapped_key=data[6 + name_length : end],
        is_bound=bool(flags & BOUND_TO_TOPIC),
        head=data[:end],
        nonce=data[end : end + NONCE_BYTES],
        ciphertext=data[end + NONCE_BYTES :],
    )


def open_envelope(envelope: Envelope, *, cipher: AESGCM, part: str, topic: str) -> bytes:
    """Decrypts. Raises EnvelopeError if anything was changed."""
    context = _context(envelope.head, part, topic if envelope.is_bound else None)
    try:
        return cipher.decrypt(envelope.nonce, envelope.ciphertext, context)
    except InvalidTag:
        reason = "it was changed, or encrypted for another part of a record"
        where = f" or for another topic than {topic}" if envelope.is_bound else ""
        raise EnvelopeError(f"the ciphertext is not authentic: {reason}{where}.") from None


def _context(head: bytes, part: str, topic: str | None) -> bytes:
    return b"\x00".join((head, part.encode(), b"" if topic is None else topic.encode()))
