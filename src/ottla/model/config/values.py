"""Types of configuration values, and their text form as in Kafka.

All tables of keys use this module: those of brokers and topics (`keys`), and those of Connect's workers and plug-ins
(`ottla.connect.api`). The numbers of `ConfigType` are the protocol's; the names are Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from math import inf, isfinite
from typing import Final

__all__ = [
    "REQUIRED",
    "ConfigType",
    "Importance",
    "Password",
    "Required",
    "Setting",
    "ValueNotAllowed",
    "complaint",
    "format_value",
    "is_number",
    "parse_value",
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


class Password:
    """A secret value. Its text form hides it; `value` has to be read explicitly."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Required:
    """The type of `REQUIRED`, which stands for a missing default."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(required)"


REQUIRED: Final = Required()

# A typed value of a key.
Setting = bool | int | float | str | tuple[str, ...] | Password | None


class ValueNotAllowed(ValueError):
    """The text is not a value of its type. `allowed` completes the sentence "it must be ..."."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"it must be {allowed}.")
        self.allowed = allowed


def complaint(name: str, shown: str, allowed: str) -> str:
    """The message about a value that a key does not accept."""
    return f"{name} is {shown}, but it must be {allowed}."


_INTEGER_RANGES: Final[Mapping[ConfigType, tuple[int, str]]] = {
    ConfigType.INT: (31, "a whole number of 32 bits"),
    ConfigType.SHORT: (15, "a whole number of 16 bits"),
    ConfigType.LONG: (63, "a whole number of 64 bits"),
}
_DIGITS: Final = frozenset("0123456789")
_NUMBER_CHARACTERS: Final = frozenset("0123456789.+-eE")


def parse_value(kind: ConfigType, text: str) -> Setting:
    """Parses as Kafka does: trimmed, case-insensitive booleans, lists split at commas. Raises ValueNotAllowed."""
    trimmed = text.strip()
    if kind in _INTEGER_RANGES:
        return _parse_integer(kind, trimmed)
    if kind is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise ValueNotAllowed("true or false")
        return lowered == "true"
    if kind is ConfigType.LIST:
        return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
    if kind is ConfigType.DOUBLE:
        return _parse_double(trimmed)
    if kind is ConfigType.PASSWORD:
        return Password(trimmed)
    return trimmed


def _parse_integer(kind: ConfigType, text: str) -> int:
    bits, described = _INTEGER_RANGES[kind]
    digits = text[1:] if text[:1] in ("-", "+") else text
    # Python's int() would also accept underscores, blanks, digits of other scripts, and any length.
    if 0 < len(digits) <= 20 and _DIGITS.issuperset(digits):
        value = int(text)
        if -(1 << bits) <= value < 1 << bits:
            return value
    raise ValueNotAllowed(described)


def _parse_double(text: str) -> float:
    # Python's float() would also accept underscores, digits of other scripts, and "nan".
    try:
        value = float(text) if _NUMBER_CHARACTERS.issuperset(text) else inf
    except ValueError:
        value = inf
    if not isfinite(value):
        raise ValueNotAllowed("a number")
    return value


def is_number(text: str, *, at_most: int) -> bool:
    """True if the text consists of digits and its number is at most `at_most`; safe for texts of any length."""
    return 0 < len(text) <= 20 and _DIGITS.issuperset(text) and int(text) <= at_most


def format_value(value: Setting) -> str | None:
    """The text form of a value as in Kafka; None for a password."""
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
