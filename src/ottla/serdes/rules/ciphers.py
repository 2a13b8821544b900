"""The ciphers of encrypted fields, in the forms of Tink, which Confluent's clients use.

Key material is a Protobuf message of Tink with the key in one field. A ciphertext of AES-GCM is nonce, ciphertext and
tag. A ciphertext of AES-SIV, which is equal for equal plaintexts, is tag and ciphertext.
"""

from __future__ import annotations

import os

from ottla.serdes.rules.contracts import RuleFailed

__all__ = ["decrypt", "encrypt", "new_material", "seal", "unseal"]

_NONCE_BYTES = 12
# The number of bytes of a key, and the tag of the field that holds it (AesGcmKey.key_value, AesSivKey.key_value).
_FORMS = {"AES128_GCM": (16, 0x1A), "AES256_GCM": (32, 0x1A), "AES256_SIV": (64, 0x12)}


def new_material(algorithm: str) -> bytes:
    size, tag = _form(algorithm)
    return bytes([tag, size]) + os.urandom(size)


def encrypt(algorithm: str, material: bytes, content: bytes) -> bytes:
    key = _key(algorithm, material)
    return _siv(key, content, is_sealed=False) if algorithm == "AES256_SIV" else seal(key, content)


def decrypt(algorithm: str, material: bytes, content: bytes) -> bytes:
    """Raises RuleFailed for anything that was not encrypted with this key."""
    key = _key(algorithm, material)
    return _siv(key, content, is_sealed=True) if algorithm == "AES256_SIV" else unseal(key, content)


def seal(key: bytes, content: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, b"")


def unseal(key: bytes, content: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], b"")
    except (InvalidTag, ValueError):
        raise RuleFailed("a ciphertext is not authentic: it was changed, or encrypted with another key") from None


def _siv(key: bytes, content: bytes, *, is_sealed: bool) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    # Tink always authenticates the associated data, even if they are empty.
    cipher = AESSIV(key)
    try:
        return cipher.decrypt(content, [b""]) if is_sealed else cipher.encrypt(content, [b""])
    except (InvalidTag, ValueError):
        raise RuleFailed("a ciphertext is not authentic: it was changed, or encrypted with another key") from None


def _key(algorithm: str, material: bytes) -> bytes:
    """The key within the message, whose only version is 0."""
    size, tag = _form(algorithm)
    if len(material) != size + 2 or material[0] != tag or material[1] != size:
        raise RuleFailed(f"the data key is not one of {algorithm}")
    return material[2:]


def _form(algorithm: str) -> tuple[int, int]:
    if algorithm not in _FORMS:
        raise RuleFailed(f"encrypt.dek.algorithm={algorithm} is not one of {', '.join(_FORMS)}")
    return _FORMS[algorithm]
