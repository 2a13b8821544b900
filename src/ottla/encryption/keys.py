"""Key services, and the data keys that they protect.

A key service holds key-encryption keys, and encrypts and decrypts data keys with them. A key-encryption key never
leaves it. `DataKeys` makes data keys and remembers those that it has seen, so that the service is asked rarely.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["DATA_KEY_BYTES", "DataKey", "DataKeys", "KeyService", "KeyServiceError"]

DATA_KEY_BYTES = 32
# Random nonces of 96 bits allow 2^32 messages under one key (NIST SP 800-38D, 8.3); this is far below.
RECORDS_MAX = 1_000_000
SECONDS_MAX = 3600.0
# The number of data keys of other producers that are remembered.
REMEMBERED_MAX = 1024


class KeyServiceError(Exception):
    """The key service does not have a key, refuses it, or cannot be reached."""


class KeyService(Protocol):
    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        """The data key, encrypted by the current version of a key. Raises KeyServiceError."""

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        """The data key of bytes from `wrap`, by any version of the key. Raises KeyServiceError."""

    def close(self) -> None:
        """Releases connections."""


class DataKey(NamedTuple):
    cipher: AESGCM
    wrapped: bytes


class DataKeys:
    """The data keys of one process. Safe for threads."""

    def __init__(
        self,
        service: KeyService,
        *,
        records_max: int = RECORDS_MAX,
        seconds_max: float = SECONDS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.service = service
        self._records_max = records_max
        self._seconds_max = seconds_max
        self._clock = clock
        self._lock = threading.Lock()
        # By the name of the key: the data key in use, the records that may still use it, and the end of its time.
        self._current: dict[str, tuple[DataKey, int, float]] = {}
        self._seen: OrderedDict[tuple[str, bytes], AESGCM] = OrderedDict()

    def for_next_record(self, key_name: str) -> DataKey:
        """A data key to encrypt one record with. Raises KeyServiceError."""
        with self._lock:
            key, left, end = self._current.get(key_name) or self._new(key_name)
            if left < 1 or self._clock() >= end:
                key, left, end = self._new(key_name)
            self._current[key_name] = (key, left - 1, end)
            return key

    def of_record(self, key_name: str, wrapped_key: bytes) -> AESGCM:
        """The cipher of a record's data key. Raises KeyServiceError."""
        place = (key_name, wrapped_key)
        with self._lock:
            cipher = self._seen.get(place)
            if cipher is None:
                cipher = self._seen[place] = _cipher(self.service.unwrap(key_name, wrapped_key))
                if len(self._seen) > REMEMBERED_MAX:
                    self._seen.popitem(last=False)
            else:
                self._seen.move_to_end(place)
            return cipher

    def forget(self) -> None:
        """Makes new data keys from now on, under the current versions of the keys."""
        with self._lock:
            self._current.clear()

    def _new(self, key_name: str) -> tuple[DataKey, int, float]:
        data_key = os.urandom(DATA_KEY_BYTES)
        key = DataKey(AESGCM(data_key), self.service.wrap(key_name, data_key))
        return key, self._records_max, self._clock() + self._seconds_max


def _cipher(data_key: bytes) -> AESGCM:
    # Everybody who may write records can name something else that the service has encrypted.
    if len(data_key) != DATA_KEY_BYTES:
        raise KeyServiceError(f"The data key of the record has not {DATA_KEY_BYTES * 8} bits.")
    return AESGCM(data_key)
