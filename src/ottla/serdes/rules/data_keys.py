"""Data encryption keys (DEKs) of subjects, kept in the registry, and the key services that protect them.

`key.services` in the settings of a serializer maps a type of key service (`encrypt.kms.type` of a rule) to an object
with `wrap(key_name, data_key)` and `unwrap(key_name, wrapped_key)`: the services of `ottla.encryption` are of this
form. During an outage they raise a ConnectionError or a TimeoutError; other errors are problems of the record.
`local-kms` is Confluent's service for tests: its key comes from the setting `secret`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ottla.serdes.registry_client import RegistryClient, RegistryClientError, quoted
from ottla.serdes.rules.ciphers import new_material, seal, unseal
from ottla.serdes.rules.contracts import RuleFailed

__all__ = ["DataKey", "DataKeyRegistry", "KeyRequest", "KeyService"]

_MS_OF_DAY = 24 * 3600 * 1000
_LATEST = -1
# The time after which a writer requests the latest version of an expiring key again.
_LATEST_SECONDS = 300.0


class KeyService(Protocol):
    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        """Encrypts a data key with a key of the service."""

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        """Decrypts a data key that `wrap` has encrypted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """The parameters of a rule that encrypts."""

    kek: str
    subject: str
    algorithm: str
    expiry_days: int
    kms_type: str
    kms_key_id: str
    is_reading: bool


class DataKey(NamedTuple):
    version: int
    material: bytes
    created_ms: int


class DataKeyRegistry:
    """The data keys that a serializer has seen. Safe for threads."""

    def __init__(self, client: RegistryClient, config: Mapping[str, Any]) -> None:
        self._client = client
        self._services: dict[str, KeyService] = dict(config.get("key.services") or {})
        self._secret = config.get("secret")
        self._keys: dict[tuple[str, str, str, int], tuple[float, DataKey]] = {}
        self._lock = threading.Lock()

    def for_writing(self, request: KeyRequest) -> DataKey:
        """The subject's key, which is created if it is missing or has expired. Raises RuleFailed."""
        version = _LATEST if request.expiry_days else 1
        with self._lock:
            key = self._find(request, version)
            if key is not None and not _is_expired(key, request):
                return key
            new_key = self._create(request, 1 if key is None else key.version + 1)
            self._keys[*_cache_key(request), version] = (time.monotonic(), new_key)
            return new_key

    def for_reading(self, request: KeyRequest, version: int) -> DataKey:
        with self._lock:
            key = self._find(request, version)
        if key is None:
            raise RuleFailed(f"the registry has no data key {request.kek} of {request.subject}, version {version}")
        return key

    def _find(self, request: KeyRequest, version: int) -> DataKey | None:
        cached = self._keys.get((*_cache_key(request), version))
        if cached is not None and (version != _LATEST or time.monotonic() - cached[0] < _LATEST_SECONDS):
            return cached[1]
        kek = self._kek(request)
        path = f"/dek-registry/v1/keks/{quoted(request.kek)}/deks/{quoted(request.subject)}/versions/{version}"
        deleted = "&deleted=true" if request.is_reading else ""
        answer = self._answer("GET", f"{path}?algorithm={request.algorithm}{deleted}")
        if answer is None:
            return None
        key = self._unwrapped(kek, answer)
        self._keys[*_cache_key(request), version] = (time.monotonic(), key)
        return key

    def _create(self, request: KeyRequest, version: int) -> DataKey:
        kek = self._kek(request)
        material = new_material(request.algorithm)
        wrapped = self._service(kek).wrap(str(kek["kmsKeyId"]), material)
        body = {
            "subject": request.subject,
            "version": version,
            "algorithm": request.algorithm,
            "encryptedKeyMaterial": base64.b64encode(wrapped).decode(),
        }
        path = f"/dek-registry/v1/keks/{quoted(request.kek)}/deks"
        answer = self._answer("POST", path, body)
        if answer is None:
            # Another writer has created this version meanwhile.
            answer = self._answer(
                "GET", f"{path}/{quoted(request.subject)}/versions/{version}?algorithm={request.algorithm}"
            )
        if answer is None:
            raise RuleFailed(f"the registry does not store the data key {request.kek} of {request.subject}")
        return self._unwrapped(kek, answer)

    def _kek(self, request: KeyRequest) -> Mapping[str, Any]:
        path = f"/dek-registry/v1/keks/{quoted(request.kek)}"
        kek = self._answer("GET", path)
        if kek is None:
            if request.is_reading:
                raise RuleFailed(f"the registry has no key {request.kek}")
            if not request.kms_type or not request.kms_key_id:
                raise RuleFailed(f"the key {request.kek} needs encrypt.kms.type and encrypt.kms.key.id")
            body = {"name": request.kek, "kmsType": request.kms_type, "kmsKeyId": request.kms_key_id, "shared": False}
            kek = self._answer("POST", "/dek-registry/v1/keks", body) or self._answer("GET", path)
        if kek is None:
            raise RuleFailed(f"the registry does not store the key {request.kek}")
        for field, expected in (("kmsType", request.kms_type), ("kmsKeyId", request.kms_key_id)):
            if expected and kek.get(field) != expected:
                raise RuleFailed(f"the key {request.kek} has {field} {kek.get(field)}, but the rule says {expected}")
        return kek

    def _answer(self, method: str, path: str, body: Any = None) -> Any:
        """The registry's answer; None if the key does not exist (404), or exists already (409)."""
        try:
            return self._client.call(method, path, body)
        except RegistryClientError as error:
            if error.status in (404, 409):
                return None
            raise RuleFailed(f"the registry did not answer about keys: {error}") from error

    def _unwrapped(self, kek: Mapping[str, Any], dek: Mapping[str, Any]) -> DataKey:
        wrapped = base64.b64decode(str(dek["encryptedKeyMaterial"]))
        material = self._service(kek).unwrap(str(kek["kmsKeyId"]), wrapped)
        return DataKey(int(dek.get("version") or 1), material, int(dek.get("ts") or time.time() * 1000))

    def _service(self, kek: Mapping[str, Any]) -> KeyService:
        kind = str(kek["kmsType"])
        service = self._services.get(kind)
        if service is None:
            secret = self._secret or os.environ.get("LOCAL_SECRET")
            if kind != "local-kms" or not secret:
                missing = "secret" if kind == "local-kms" else f"key.services with an entry {kind}"
                raise RuleFailed(f"the key {kek['name']} is in the key service {kind}: set {missing}")
            service = self._services[kind] = _LocalService(str(secret))
        return service


class _LocalService:
    """A single key, derived from a secret with HKDF-SHA256 (RFC 5869). The names of keys are ignored."""

    def __init__(self, secret: str) -> None:
        extracted = hmac.digest(bytes(32), secret.encode(), hashlib.sha256)
        self._key = hmac.digest(extracted, b"\1", hashlib.sha256)[:16]

    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        return seal(self._key, data_key)

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        return unseal(self._key, wrapped_key)


def _cache_key(request: KeyRequest) -> tuple[str, str, str]:
    return (request.kek, request.subject, request.algorithm)


def _is_expired(key: DataKey, request: KeyRequest) -> bool:
    age_ms = time.time() * 1000 - key.created_ms
    return request.expiry_days > 0 and age_ms > request.expiry_days * _MS_OF_DAY
