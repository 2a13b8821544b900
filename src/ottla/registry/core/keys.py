"""The registry of keys (`/dek-registry/v1`): where clients keep the encrypted keys of encrypted fields.

A key encryption key (KEK) names a key of a key service. A data encryption key (DEK) belongs to a subject; clients
encrypt it with the KEK and store the result here. This registry never sees a key in the clear: KEKs that the registry
itself would have to use (`shared`) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import Record

__all__ = [
    "ALGORITHMS",
    "KeyState",
    "decide_delete",
    "decide_new_dek",
    "decide_new_kek",
    "decide_restore",
    "decide_update",
]

ALGORITHMS = ("AES256_GCM", "AES128_GCM", "AES256_SIV")
_TENANT = "default"
_NAME_MAX = 64
_VERSION_MAX = 2**31 - 1
_DIGITS_MAX = 20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class KeyState:
    """The KEKs and DEKs of the topic's records; only `replay` changes them."""

    def __init__(self) -> None:
        self._keks: dict[str, dict[str, Any]] = {}
        # (KEK, subject, algorithm, version) to the DEK.
        self._deks: dict[tuple[str, str, str, int], dict[str, Any]] = {}

    def replay(self, record: Record, timestamp_ms: int = 0) -> None:
        key, value = record.key, None if record.value is None else {**record.value, "ts": timestamp_ms}
        if value is not None:
            value.pop("type", None)
        kind = key.get("type", key.get("keytype"))
        if kind == "KEK":
            _put(self._keks, str(key["name"]), value)
        elif kind == "DEK":
            place = (str(key["kekName"]), str(key["subject"]), str(key["algorithm"]), int(key["version"]))
            _put(self._deks, place, value)

    def kek_names(self, *, with_deleted: bool = False) -> list[str]:
        return sorted(name for name, kek in self._keks.items() if with_deleted or not kek.get("deleted"))

    def kek(self, name: str, *, with_deleted: bool = False) -> dict[str, Any]:
        kek = self._keks.get(name)
        if kek is None or (kek.get("deleted") and not with_deleted):
            raise RegistryError(40470, f"Key '{name}' not found.")
        return kek

    def deks(self, kek: str, subject: str | None = None, *, with_deleted: bool = False) -> list[dict[str, Any]]:
        """The DEKs of a KEK in the order of their subjects and versions."""
        places = sorted(place for place in self._deks if place[0] == kek and subject in (None, place[1]))
        deks = [self._deks[place] for place in places]
        return [dek for dek in deks if with_deleted or not dek.get("deleted")]

    def dek(
        self, kek: str, subject: str, algorithm: str | None, version: str = "1", *, with_deleted: bool = False
    ) -> dict[str, Any]:
        self.kek(kek, with_deleted=with_deleted)
        wanted = algorithm or ALGORITHMS[0]
        deks = [dek for dek in self.deks(kek, subject, with_deleted=with_deleted) if dek["algorithm"] == wanted]
        if version not in ("latest", "-1"):
            if not version.isdecimal() or len(version) > _DIGITS_MAX:
                raise RegistryError.invalid_version(version)
            deks = [dek for dek in deks if dek["version"] == int(version)]
        if not deks:
            raise RegistryError(40470, f"Key '{subject}' not found.")
        return max(deks, key=lambda dek: int(dek["version"]))


def decide_new_kek(state: KeyState, body: Mapping[str, Any]) -> tuple[list[Record], dict[str, Any]]:
    name = body.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise RegistryError(42271, f"The name of a key has 1 to {_NAME_MAX} letters, digits, hyphens and underscores.")
    for field in ("kmsType", "kmsKeyId"):
        if not isinstance(body.get(field), str) or not body[field]:
            raise RegistryError(42271, f"{field} is missing.")
    if body.get("shared"):
        raise RegistryError(42271, "shared keys need a registry with access to the key service; this one has none.")
    kek = {
        "name": name,
        "kmsType": body["kmsType"],
        "kmsKeyId": body["kmsKeyId"],
        "kmsProps": body.get("kmsProps") or {},
        "doc": body.get("doc"),
        "shared": False,
        "deleted": False,
    }
    kek = {field: value for field, value in kek.items() if value is not None}
    if name in state.kek_names(with_deleted=True):
        known = state.kek(name, with_deleted=True)
        same = all(known.get(field) == kek.get(field) for field in ("kmsType", "kmsKeyId", "kmsProps", "doc", "shared"))
        if not same or known.get("deleted"):
            raise RegistryError(40971, f"Key '{name}' already exists")
        return [], known
    return [_kek_record(kek)], kek


def decide_update(state: KeyState, name: str, body: Mapping[str, Any]) -> tuple[list[Record], dict[str, Any]]:
    if body.get("shared"):
        raise RegistryError(42271, "shared keys need a registry with access to the key service; this one has none.")
    changes = {field: body[field] for field in ("kmsProps", "doc") if body.get(field) is not None}
    kek = _without_time(state.kek(name)) | changes
    return [_kek_record(kek)], kek


def decide_new_dek(state: KeyState, kek_name: str, body: Mapping[str, Any]) -> tuple[list[Record], dict[str, Any]]:
    kek = state.kek(kek_name)
    subject, algorithm = body.get("subject"), body.get("algorithm") or ALGORITHMS[0]
    material, version = body.get("encryptedKeyMaterial"), body.get("version") or 1
    is_number = isinstance(version, int) and not isinstance(version, bool) and 1 <= version <= _VERSION_MAX
    if not isinstance(subject, str) or not subject or not is_number:
        raise RegistryError(42271, "A key needs a subject, and a version between 1 and 2^31-1.")
    if algorithm not in ALGORITHMS:
        raise RegistryError(42271, f"algorithm must be one of {', '.join(ALGORITHMS)}.")
    if not isinstance(material, str) or not material:
        raise RegistryError(42271, "encryptedKeyMaterial is missing; this registry cannot make keys.")
    dek = {
        "kekName": kek["name"],
        "subject": subject,
        "version": version,
        "algorithm": algorithm,
        "encryptedKeyMaterial": material,
        "deleted": False,
    }
    known = [
        stored
        for stored in state.deks(kek_name, subject, with_deleted=True)
        if stored["algorithm"] == algorithm and stored["version"] == version
    ]
    if known:
        if known[0].get("deleted") or known[0]["encryptedKeyMaterial"] != material:
            raise RegistryError(40971, f"Key '{subject}' already exists")
        return [], known[0]
    return [_dek_record(dek)], dek


def decide_delete(state: KeyState, keys: list[dict[str, Any]], *, is_permanent: bool) -> tuple[list[Record], None]:
    """`keys` is a single KEK, or DEKs of a subject."""
    records = []
    for key in keys:
        name = key.get("subject") or key["name"]
        if "subject" not in key and state.deks(name, with_deleted=is_permanent):
            raise RegistryError(40370, f"Key '{name}' is used by other keys")
        if is_permanent and not key.get("deleted"):
            raise RegistryError(40471, f"Key '{name}' was not deleted first before being permanently deleted")
        if not is_permanent and key.get("deleted"):
            continue
        record = _record(key, _without_time(key) | {"deleted": True})
        records += _tombstones(record) if is_permanent else [record]
    return records, None


def decide_restore(keys: list[dict[str, Any]]) -> tuple[list[Record], None]:
    return [_record(key, _without_time(key) | {"deleted": False}) for key in keys if key.get("deleted")], None


def _put(table: dict[Any, dict[str, Any]], key: Any, value: dict[str, Any] | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _without_time(key: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in key.items() if field != "ts"}


def _record(key: Mapping[str, Any], value: Mapping[str, Any]) -> Record:
    return _dek_record(value) if "subject" in key else _kek_record(value)


def _tombstones(record: Record) -> list[Record]:
    """Tombstones for the key in its current form, and in the form from before Confluent's form was adopted."""
    former = {"keytype": record.key["type"], **record.key}
    del former["type"]
    return [Record(record.key, None), Record(former, None)]


def _kek_record(kek: Mapping[str, Any]) -> Record:
    return Record({"tenant": _TENANT, "name": kek["name"], "type": "KEK"}, {**kek, "type": "KEK"})


def _dek_record(dek: Mapping[str, Any]) -> Record:
    key = {
        "tenant": _TENANT,
        "kekName": dek["kekName"],
        "subject": dek["subject"],
        "algorithm": dek["algorithm"],
        "version": dek["version"],
        "type": "DEK",
    }
    order = ("kekName", "subject", "algorithm", "version", "encryptedKeyMaterial", "deleted")
    return Record(key, {name: dek[name] for name in order if name in dek} | {"type": "DEK"})
