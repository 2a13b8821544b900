"""The settings of encryption by name, for properties files, Connect and Spark.

`encryption.key.name` is the key that encrypts; decryption needs no name, because each value contains it.
`encryption.key.service` is `file` (the default, with `encryption.key.file`), `vault` (with `encryption.vault.*`) or the
name of an installed entry point of `ottla.key_services`. docs/security.md lists all settings.

Services are named and never imported by a dotted name: a configuration may come from another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.encryption.keys import RECORDS_MAX, SECONDS_MAX, DataKeys, KeyService, KeyServiceError

__all__ = ["PREFIX", "EncryptionSettings", "make_keys", "make_service"]

PREFIX = "encryption."
ENTRY_POINTS = "ottla.key_services"

_NAMES = frozenset(
    (
        "key.name",
        "key.service",
        "key.file",
        "vault.url",
        "vault.token",
        "vault.mount",
        "vault.ca.file",
        "headers",
        "bind.topic",
        "bound.topic",
        "accept.plaintext",
        "data.key.records",
        "data.key.seconds",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionSettings:
    key_name: str = ""
    headers: tuple[str, ...] = ()
    binds_topic: bool = True
    bound_topic: str | None = None
    accepts_plaintext: bool = False
    records_max: int = RECORDS_MAX
    seconds_max: float = SECONDS_MAX
    service: str = "file"
    # All settings that begin with `encryption.`, without that prefix.
    given: Mapping[str, str]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> EncryptionSettings:
        """Raises ValueError for a setting that is unknown or has no valid value."""
        given = {key.removeprefix(PREFIX): str(text) for key, text in config.items() if key.startswith(PREFIX)}
        # A custom key service may have settings of its own.
        if given.get("key.service", "file") in ("file", "vault"):
            for name in given.keys() - _NAMES:
                raise ValueError(f"{PREFIX}{name} is not a setting; there are {', '.join(sorted(_NAMES))}.")
        return cls(
            key_name=given.get("key.name", ""),
            headers=tuple(name.strip() for name in given.get("headers", "").split(",") if name.strip()),
            binds_topic=_flag(given, "bind.topic", default=True),
            bound_topic=given.get("bound.topic") or None,
            accepts_plaintext=_flag(given, "accept.plaintext", default=False),
            records_max=_number(given, "data.key.records", RECORDS_MAX),
            seconds_max=_number(given, "data.key.seconds", int(SECONDS_MAX)),
            service=given.get("key.service", "file"),
            given=given,
        )

    def __repr__(self) -> str:
        """Without tokens."""
        return f"EncryptionSettings(key_name={self.key_name!r}, service={self.service!r})"


def make_keys(settings: EncryptionSettings) -> DataKeys:
    """Raises ValueError for a missing setting, and KeyServiceError."""
    return DataKeys(make_service(settings), records_max=settings.records_max, seconds_max=settings.seconds_max)


def make_service(settings: EncryptionSettings) -> KeyService:
    if settings.service == "file":
        from ottla.encryption.file_keys import FileKeyService

        return FileKeyService(_required(settings, "key.file"))
    if settings.service == "vault":
        from ottla.encryption.vault_keys import VaultKeyService

        return VaultKeyService(
            _required(settings, "vault.url"),
            _required(settings, "vault.token"),
            mount=settings.given.get("vault.mount", "transit"),
            ca_file=settings.given.get("vault.ca.file") or None,
        )
    from importlib.metadata import entry_points

    matches = entry_points(group=ENTRY_POINTS, name=settings.service)
    if not matches:
        raise KeyServiceError(
            f"There is no key service {settings.service!r}: use file or vault, or install a distribution with an entry "
            f"point of {ENTRY_POINTS}."
        )
    service: KeyService = next(iter(matches)).load()(dict(settings.given))
    return service


def _required(settings: EncryptionSettings, name: str) -> str:
    text = settings.given.get(name)
    if not text:
        raise ValueError(f"{PREFIX}{name} is missing; the key service {settings.service!r} needs it.")
    return text


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{PREFIX}{name} is {text!r}, neither true nor false.")
    return text == "true"


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default)).strip()
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{PREFIX}{name} is {text!r}, not a positive number.")
    return int(text)
