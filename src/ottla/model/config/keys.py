"""A configuration key of a broker or topic: its type, default and validator, and whether this node honours it.

The tables in the neighbouring modules consist of `ConfigKey`s. Parsing, validation, DescribeConfigs and
`docs/configuration.md` all use the same entry.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from ottla.model.config.validators import Validator
from ottla.model.config.values import (
    ConfigType,
    Importance,
    Required,
    Setting,
    ValueNotAllowed,
    complaint,
    format_value,
    parse_value,
)
from ottla.model.errors import ErrorCode, KafkaError

__all__ = [
    "HONOURED",
    "ConfigError",
    "ConfigKey",
    "Standing",
    "Status",
    "UpdateMode",
    "inert",
    "refused",
]


class UpdateMode(Enum):
    """How a broker key may change while the node runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Standing(Enum):
    HONOURED = "honoured"
    INERT = "inert"
    REFUSED = "refused"


class Status(NamedTuple):
    """Whether this node honours the key, and the reason if it does not."""

    standing: Standing
    reason: str


HONOURED: Final = Status(Standing.HONOURED, "")


def inert(reason: str) -> Status:
    """The key is accepted and has no effect."""
    return Status(Standing.INERT, reason)


def refused(reason: str) -> Status:
    """Values other than the default are refused, because the feature is not available."""
    return Status(Standing.REFUSED, reason)


class ConfigError(KafkaError):
    """An invalid configuration. The message names the key, the value and the allowed values."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)
        self.key = key


class ConfigKey(NamedTuple):
    name: str
    type: ConfigType
    default: Setting | Required
    validator: Validator | None
    importance: Importance
    update_mode: UpdateMode
    status: Status
    documentation: str
    internal: bool = False
    # For a topic key: the broker keys that provide its default, in the order of precedence.
    synonyms: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def is_read_only(self) -> bool:
        return self.update_mode is UpdateMode.READ_ONLY

    def parse(self, text: str) -> Setting:
        """Parses and validates the text. Raises ConfigError."""
        try:
            value = parse_value(self.type, text)
        except ValueNotAllowed as error:
            shown = repr(text.strip()[:40])
            raise ConfigError(complaint(self.name, shown, error.allowed), key=self.name) from None
        if isinstance(value, tuple):
            # A repeated entry counts once (KIP-1161).
            value = tuple(dict.fromkeys(value))
        self.check(value)
        return value

    def check(self, value: Setting) -> None:
        if self.validator is not None and not self.validator.accepts(value):
            raise ConfigError(complaint(self.name, _shown(self, value), self.validator.allowed), key=self.name)

    def check_supported(self, value: Setting) -> None:
        """Raises ConfigError if the value requires a feature that is not available."""
        # An empty list requires nothing.
        if self.status.standing is Standing.REFUSED and value not in (self.default, ()):
            raise ConfigError(
                f"{self.name} cannot be set to {_shown(self, value)}: {self.status.reason}.", key=self.name
            )


def _shown(key: ConfigKey, value: Setting) -> str:
    if key.is_sensitive:
        return "[hidden]"
    return "empty" if value in ("", ()) else f"{format_value(value)}"
