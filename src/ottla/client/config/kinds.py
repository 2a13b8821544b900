"""A kind of client: its keys, and how they become its typed settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ottla.client.config.reading import ConfigurationError, Key, apply_keys, refuse_unknown, text
from ottla.client.config.shared import SHARED_KEYS, client_settings
from ottla.client.settings import ClientSettings

__all__ = ["ClientKind"]

S = TypeVar("S")


def _nothing(_config: Mapping[str, Any], _fields: dict[str, Any]) -> None:
    return


@dataclass(frozen=True, slots=True)
class ClientKind(Generic[S]):
    """Producers, consumers and share consumers are read the same way; what differs is in these fields."""

    # The name in error messages.
    name: str
    # The typed settings, made of the fields that the own keys set.
    settings: Callable[..., S]
    own: Mapping[str, Key]
    # Keys that set fields of the connections, beside those that all clients have.
    connection: Mapping[str, Key] = field(default_factory=dict)
    # Sets fields that depend on several keys.
    complete: Callable[[Mapping[str, Any], dict[str, Any]], None] = _nothing

    @property
    def keys(self) -> Mapping[str, Key]:
        """Every key of this kind of client."""
        return {"bootstrap.servers": Key(text), **SHARED_KEYS, **self.own}

    def fields(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the typed settings that the configuration sets. Raises ConfigurationError."""
        refuse_unknown(config, self.keys, client=self.name)
        fields = apply_keys(config, self.own)
        self.complete(config, fields)
        return fields

    def read(self, config: Mapping[str, Any]) -> tuple[ClientSettings, S]:
        """The settings of a client and of its connections. Raises ConfigurationError."""
        fields = self.fields(config)
        try:
            settings = self.settings(**fields)
        except ValueError as error:
            raise ConfigurationError(f"{str(error)[0].upper()}{str(error)[1:]}.") from None
        return client_settings(config, {**SHARED_KEYS, **self.connection}), settings
