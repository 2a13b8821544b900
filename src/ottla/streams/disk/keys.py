"""Keys of tables. LMDB takes keys of 1 to 511 bytes; keys of records may be empty or longer.

A key gets one byte in front. A long key is cut, and its hash follows; the row then begins with the whole key.
"""

from __future__ import annotations

import hashlib
import struct

__all__ = ["CUT_BYTES", "KEY_PREFIX", "LONG_KEY_BYTES", "SHORT_KEY_BYTES_MAX", "stored_key", "unstored_row", "with_key"]

KEY_PREFIX = b"k"
# The longest key that is stored as it is, and the length of the stored form of longer ones.
SHORT_KEY_BYTES_MAX = 499
LONG_KEY_BYTES = 501
# Stored keys that begin with the same bytes, up to here, may be out of order if long keys are among them.
CUT_BYTES = LONG_KEY_BYTES - 32

_INT = struct.Struct(">i")


def stored_key(key: bytes) -> bytes:
    if len(key) <= SHORT_KEY_BYTES_MAX:
        return KEY_PREFIX + key
    return KEY_PREFIX + key[: CUT_BYTES - 1] + hashlib.sha256(key).digest()


def with_key(key: bytes, content: bytes) -> bytes:
    """The row of a key."""
    return content if len(key) <= SHORT_KEY_BYTES_MAX else _INT.pack(len(key)) + key + content


def unstored_row(stored: bytes, content: bytes) -> tuple[bytes, bytes]:
    """The key and the content of a row."""
    if len(stored) != LONG_KEY_BYTES:
        return stored[1:], content
    (length,) = _INT.unpack_from(content)
    return content[4 : 4 + length], content[4 + length :]
