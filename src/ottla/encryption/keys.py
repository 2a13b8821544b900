"""Key services, and the data keys that they protect.

A key service holds key-encryption keys, and encrypts and decrypts data keys with them. A key-encryption key never
leaves the service. `DataKeys` makes data keys and caches those that it has seen, so the service gets few requests.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["DATA_KEY_BYTES", "DataKey", "DataKeys", "KeyService", "KeyServiceError", "KeyServiceUnavailable"]

DATA_KEY_BYTES = 32
# Random nonces of 96 bits allow 2^32 messages under one key (NIST SP 800-38D, 8.3); this limit is far below.
RECORDS_MAX = 1_000_000
SECONDS_MAX = 3600.0
# The number of cached data keys of other producers.
REMEMBERED_MAX = 1024


class KeyServiceError(Exception):
    """The key service lacks the key, refuses the request, or cannot be reached."""


class KeyServiceUnavailable(KeyServiceError, ConnectionError):
    """The key service gave no answer about the key. The record may be good, so the request is worth repeating."""


class KeyService(Protocol):
    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        """Encrypts a data key under the current version of the key.

        Raises KeyServiceUnavailable during an outage of the service, and KeyServiceError for a wrong key.
        """

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        """Decrypts a data key that `wrap` has encrypted under any version of the key. Raises as `wrap` does."""

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
        # By the name of the key: the data key in use, the number of records that may still use it, and its expiry.
        self._current: dict[str, tuple[DataKey, int, float]] = {}
        self._ciphers: OrderedDict[tuple[str, bytes], AESGCM] = OrderedDict()

    def for_next_record(self, key_name: str) -> DataKey:
        """A data key to encrypt one record with. Raises KeyServiceError."""
        with self._lock:
            key, records_left, expires_at = self._current.get(key_name) or self._new(key_name)
            if records_left < 1 or self._clock() >= expires_at:
                key, records_left, expires_at = self._new(key_name)
            self._current[key_name] = (key, records_left - 1, expires_at)
            return key

    def of_record(self, key_name: str, wrapped_key: bytes) -> AESGCM:
        """The cipher of a record's data key. Raises KeyServiceError."""
        cache_key = (key_name, wrapped_key)
        with self._lock:
            cipher = self._ciphers.get(cache_key)
            if cipher is None:
                cipher = self._ciphers[cache_key] = _cipher(self.service.unwrap(key_name, wrapped_key))
                if len(self._ciphers) > REMEMBERED_MAX:
                    self._ciphers.popitem(last=False)
            else:
                self._ciphers.move_to_end(cache_key)
            return cipher

    def forget(self) -> None:
        """Drops the data keys in use; later records get new ones, under the current versions of the keys."""
        with self._lock:
            self._current.clear()

    def _new(self, key_name: str) -> tuple[DataKey, int, float]:
        data_key = os.urandom(DATA_KEY_BYTES)
        key = DataKey(AESGCM(data_key), self.service.wrap(key_name, data_key))
        return key, self._records_max, self._clock() + self._seconds_max


def _cipher(data_key: bytes) -> AESGCM:
    # A producer can send another ciphertext of the key service in place of a wrapped data key.
    if len(data_key) != DATA_KEY_BYTES:
        raise KeyServiceError(f"The data key of the record has not {DATA_KEY_BYTES * 8} bits.")
    return AESGCM(data_key)
