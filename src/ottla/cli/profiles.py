"""Profiles: the addresses and client properties of clusters, by name.

A profile is a properties file of a Java client, which `--command-config` reads as well, with two keys of our own for
the addresses of the schema registry and of Kafka Connect. Profiles are kept under `$XDG_CONFIG_HOME/ottla/profiles`,
and the name of the current one in `$XDG_CONFIG_HOME/ottla/profile`. They may contain passwords: only their owner can
read them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ottla.cli.failures import Failure, suggestion

__all__ = ["CONNECT_KEY", "OWN_PREFIX", "REGISTRY_KEY", "Profiles", "is_secret"]

OWN_PREFIX = "ottla."
REGISTRY_KEY = "ottla.registry.url"
CONNECT_KEY = "ottla.connect.url"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECRET = re.compile(r"password|secret|jaas|token|basic\.auth\.user\.info", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Whether the value of a key is hidden in output."""
    return _SECRET.search(key) is not None


class Profiles:
    """The profiles of this user."""

    def __init__(self) -> None:
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        self.directory = Path(base) / "ottla"

    def names(self) -> list[str]:
        try:
            files = os.listdir(self.directory / "profiles")
        except FileNotFoundError:
            return []
        return sorted(name.removesuffix(".properties") for name in files if name.endswith(".properties"))

    def current(self) -> str | None:
        """The name of the profile of commands that name no cluster."""
        try:
            return (self.directory / "profile").read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None

    def path(self, name: str) -> Path:
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not the name of a profile: use letters, digits, '.', '_' and '-'.")
        return self.directory / "profiles" / f"{name}.properties"

    def read(self, name: str) -> dict[str, str]:
        from ottla.model.config.parse import decode_properties, parse_properties

        try:
            content = self.path(name).read_bytes()
        except FileNotFoundError:
            hint = suggestion(name, self.names()) or " 'ottla profile list' shows all profiles."
            raise Failure(f"There is no profile {name!r}.{hint}") from None
        return parse_properties(decode_properties(content))

    def write(self, name: str, properties: Mapping[str, str]) -> None:
        from ottla.model.config.parse import format_properties

        self._write(self.path(name), format_properties(properties))

    def use(self, name: str | None) -> None:
        """Makes a profile the current one, or none."""
        if name is not None:
            self._write(self.directory / "profile", f"{name}\n")
        else:
            (self.directory / "profile").unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        self.read(name)
        self.path(name).unlink()
        if self.current() == name:
            self.use(None)

    def _write(self, path: Path, text: str) -> None:
        """Replaces a file as a whole. It is never readable for others, not even for a moment."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
