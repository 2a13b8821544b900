"""What a configuration key is: its type, its default, what it accepts, and whether this node does what it says.

The tables in the neighbouring modules are made of `ConfigKey`s and nothing else: parsing, validation, DescribeConfigs
and `docs/configuration.md` all read the same entry. Numbers of `ConfigType` are the protocol's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from math import inf, isfinite
from typing import Final, NamedTuple

from ottla.model.config.validators import Validator
from ottla.model.errors import ErrorCode, KafkaError

__all__ = [
    "HONOURED",
    "REQUIRED",
    "ConfigError",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Password",
    "Standing",
    "Status",
    "UpdateMode",
    "format_value",
    "inert",
    "is_number",
    "parse_value",
    "refused",
]


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


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
    """Whether this node does what the key says, and if not, why."""

    standing: Standing
    reason: str


HONOURED: Final = Status(Standing.HONOURED, "")


def inert(reason: str) -> Status:
    """The key is accepted and changes nothing."""
    return Status(Standing.INERT, reason)


def refused(reason: str) -> Status:
    """Any value but the default is refused, because what it asks for is not there."""
    return Status(Standing.REFUSED, reason)


class Password:
    """A value that must not be shown; it can only be read on purpose."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class _Required:
    """The default of a key that has none."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(required)"


REQUIRED: Final = _Required()

ConfigValue = bool | int | float | str | tuple[str, ...] | Password | None


class ConfigError(KafkaError):
    """A configuration that cannot be; the message is one sentence that names the key, the value and what is allowed."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)
        self.key = key


class ConfigKey(NamedTuple):
    name: str
    type: ConfigType
    default: ConfigValue | _Required
    validator: Validator | None
    importance: Importance
    update_mode: UpdateMode
    status: Status
    documentation: str
    internal: bool = False
    # For a topic key: the broker keys its default comes from, the one that wins first.
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

    def parse(self, text: str) -> ConfigValue:
        """The typed value, validated; raises ConfigError."""
        value = parse_value(self.name, self.type, text)
        self.check(value)
        return value

    def check(self, value: ConfigValue) -> None:
        if self.validator is not None and not self.validator.accepts(value):
            raise ConfigError(
                f"{self.name} is {_shown(self, value)}, but it must be {self.validator.allowed}.", key=self.name
            )

    def check_supported(self, value: ConfigValue) -> None:
        """Raises ConfigError when this node cannot do what the value asks for."""
        # An empty list asks for nothing.
        if self.status.standing is Standing.REFUSED and value not in (self.default, ()):
            raise ConfigError(
                f"{self.name} cannot be set to {_shown(self, value)}: {self.status.reason}.", key=self.name
            )


_INTEGER_RANGES: Final[Mapping[ConfigType, tuple[int, str]]] = {
    ConfigType.INT: (31, "a whole number of 32 bits"),
    ConfigType.SHORT: (15, "a whole number of 16 bits"),
    ConfigType.LONG: (63, "a whole number of 64 bits"),
}
_DIGITS: Final = frozenset("0123456789")
_NUMBER_CHARACTERS: Final = frozenset("0123456789.+-eE")


def parse_value(name: str, kind: ConfigType, text: str) -> ConfigValue:
    """Text to value as Kafka reads it: trimmed, booleans in any case, lists split at commas."""
    trimmed = text.strip()
    if kind in _INTEGER_RANGES:
        return _parse_integer(name, kind, trimmed)
    if kind is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise ConfigError(f"{name} is {text!r}, but it must be true or false.", key=name)
        return lowered == "true"
    if kind is ConfigType.LIST:
        # A repeated entry counts once (KIP-1161).
        return tuple(dict.fromkeys(part.strip() for part in trimmed.split(","))) if trimmed else ()
    if kind is ConfigType.DOUBLE:
        return _parse_double(name, trimmed)
    if kind is ConfigType.PASSWORD:
        return Password(trimmed)
    return trimmed


def _parse_integer(name: str, kind: ConfigType, text: str) -> int:
    bits, described = _INTEGER_RANGES[kind]
    digits = text[1:] if text[:1] in ("-", "+") else text
    # Python's int() would also take underscores, blanks and other scripts' digits, and any length.
    if 0 < len(digits) <= 20 and _DIGITS.issuperset(digits):
        value = int(text)
        if -(1 << bits) <= value < 1 << bits:
            return value
    raise ConfigError(f"{name} is {text[:40]!r}, but it must be {described}.", key=name)


def _parse_double(name: str, text: str) -> float:
    # Python's float() would also take underscores, other scripts' digits, and what one cannot count with, as "nan".
    try:
        value = float(text) if _NUMBER_CHARACTERS.issuperset(text) else inf
    except ValueError:
        value = inf
    if not isfinite(value):
        raise ConfigError(f"{name} is {text[:40]!r}, but it must be a number.", key=name)
    return value


def is_number(text: str, *, at_most: int) -> bool:
    """Whether these are plain digits of a number within the bound, so that `int` takes them, however long they are."""
    return 0 < len(text) <= 20 and _DIGITS.issuperset(text) and int(text) <= at_most


def format_value(value: ConfigValue) -> str | None:
    """Value to text as Kafka shows it in DescribeConfigs; a password is never shown."""
    if value is None or isinstance(value, Password):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _format_double(value)
    return str(value)


def _format_double(value: float) -> str:
    text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
    return text


def _shown(key: ConfigKey, value: ConfigValue) -> str:
    if key.is_sensitive:
        return "[hidden]"
    return "empty" if value in ("", ()) else f"{format_value(value)}"
