"""Keys in a file, for one machine or for files that a secret store distributes.

    {"orders": {"current": 2, "versions": {"1": "BASE64", "2": "BASE64"}}}

Keys are 256 bits. The file is read again when it has changed, so a rotation needs no restart. Files that every user of
the machine can read are refused.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import os
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ottla.encryption.keys import DATA_KEY_BYTES, KeyServiceError, KeyServiceUnavailable

__all__ = ["FileKeyService", "Key", "KeyFile"]

NONCE_BYTES = 12
_VERSION = struct.Struct(">I")


class Key(NamedTuple):
    """A key-encryption key with all its versions."""

    current: int
    versions: dict[int, bytes]


class KeyFile:
    """Reads and changes a file of keys. Processes may read it during a change; a lock serialises changes."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> dict[str, Key]:
        """Raises KeyServiceUnavailable: a file that cannot be used says nothing about a key."""
        try:
            with open(self.path, encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & stat.S_IRWXO:
                    raise KeyServiceUnavailable(
                        f"{self.path} is open to every user of the machine: chmod 600 {self.path}"
                    )
                return _parsed(json.load(file))
        except KeyServiceUnavailable:
            raise
        except OSError as error:
            raise KeyServiceUnavailable(f"The key file {self.path} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            # No cause is attached: its text may contain a part of the file.
            raise KeyServiceUnavailable(f"{self.path} is not a file of keys; 'ottla keys create' makes one.") from None

    def create(self, name: str) -> None:
        """Adds a key. Raises KeyServiceError if it exists."""
        if not name or len(name.encode()) > 255:
            raise KeyServiceError("The name of a key has 1 to 255 bytes.")
        with self._changing():
            keys = self.read() if os.path.exists(self.path) else {}
            if name in keys:
                raise KeyServiceError(f"The key {name} exists already in {self.path}; 'ottla keys rotate' renews it.")
            keys[name] = Key(1, {1: os.urandom(DATA_KEY_BYTES)})
            self._write(keys)

    def rotate(self, name: str) -> int:
        """Adds a version, which encrypts from now on; earlier versions only decrypt. Returns the new version."""
        with self._changing():
            keys = self.read()
            key = self.named(keys, name)
            version = max(key.versions) + 1
            keys[name] = Key(version, {**key.versions, version: os.urandom(DATA_KEY_BYTES)})
            self._write(keys)
            return version

    def retire(self, name: str, version: int) -> None:
        """Removes a version. Data keys that it encrypted can never be decrypted again."""
        with self._changing():
            keys = self.read()
            key = self.named(keys, name)
            if version == key.current:
                raise KeyServiceError(f"Version {version} of {name} is the current one; rotate the key first.")
            if version not in key.versions:
                raise KeyServiceError(f"The key {name} has no version {version}.")
            keys[name] = Key(
                key.current, {number: key_bytes for number, key_bytes in key.versions.items() if number != version}
            )
            self._write(keys)

    def named(self, keys: dict[str, Key], name: str) -> Key:
        if name not in keys:
            raise KeyServiceError(f"There is no key {name} in {self.path}; there are: {', '.join(sorted(keys))}.")
        return keys[name]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Holds a lock: two changes that read the same file would each write it without the key of the other.

        The lock is on the directory, because every change replaces the file.
        """
        try:
            descriptor = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
        except OSError as error:
            raise KeyServiceError(f"The key file {self.path} cannot be written: {error.strerror}.") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, keys: dict[str, Key]) -> None:
        """Replaces the file as a whole. Other users cannot read it at any moment."""
        content = {
            name: {
                "current": key.current,
                "versions": {
                    str(number): base64.b64encode(key_bytes).decode() for number, key_bytes in key.versions.items()
                },
            }
            for name, key in keys.items()
        }
        temporary = f"{self.path}.{os.getpid()}"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.write("\n")
                file.flush()
                # The file may be the only copy of a key: it must survive a loss of power.
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
            _sync_directory(os.path.dirname(os.path.abspath(self.path)))
        except OSError as error:
            raise KeyServiceError(f"The key file {self.path} cannot be written: {error.strerror}.") from None


def _sync_directory(path: str) -> None:
    """Makes the rename durable: the new file keeps its name after a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileKeyService:
    def __init__(self, path: str) -> None:
        self._file = KeyFile(path)
        self._lock = threading.Lock()
        self._keys: dict[str, Key] = {}
        self._loaded_state: tuple[int, int, int] | None = None

    def __reduce__(self) -> tuple[type[FileKeyService], tuple[str]]:
        """A copy in another process, such as an executor of Spark, reads the file there."""
        return FileKeyService, (self._file.path,)

    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        key = self._key(key_name)
        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(key.versions[key.current]).encrypt(nonce, data_key, _context(key_name, key.current))
        return _VERSION.pack(key.current) + nonce + sealed

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        if len(wrapped_key) < _VERSION.size + NONCE_BYTES:
            raise KeyServiceError("The wrapped data key is too short.")
        (version,) = _VERSION.unpack_from(wrapped_key)
        key = self._key(key_name)
        if version not in key.versions:
            raise KeyServiceError(f"Version {version} of the key {key_name} is not in {self._file.path}.")
        nonce, sealed = wrapped_key[4 : 4 + NONCE_BYTES], wrapped_key[4 + NONCE_BYTES :]
        try:
            return AESGCM(key.versions[version]).decrypt(nonce, sealed, _context(key_name, version))
        except InvalidTag:
            raise KeyServiceError(
                f"The data key was not encrypted by version {version} of the key {key_name} in {self._file.path}."
            ) from None

    def close(self) -> None:
        """Nothing to release."""

    def _key(self, name: str) -> Key:
        with self._lock:
            try:
                status = os.stat(self._file.path)
                state = (status.st_ino, status.st_mtime_ns, status.st_size)
            except OSError:
                state = None
            if state is None or state != self._loaded_state:
                self._keys = self._file.read()
                self._loaded_state = state
            return self._file.named(self._keys, name)


def _parsed(content: dict[str, dict[str, object]]) -> dict[str, Key]:
    keys: dict[str, Key] = {}
    for name, entry in content.items():
        versions = {int(number): _bytes(text) for number, text in entry["versions"].items()}  # type: ignore[attr-defined]
        current = entry["current"]
        if not isinstance(current, int) or current not in versions:
            raise ValueError(name)
        keys[name] = Key(current, versions)
    return keys


def _bytes(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if len(key) != DATA_KEY_BYTES:
        raise ValueError("not 256 bits")
    return key


def _context(key_name: str, version: int) -> bytes:
    return f"{key_name}:{version}".encode()
