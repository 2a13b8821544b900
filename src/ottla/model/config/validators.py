"""Validators of configuration values, which also describe the allowed values."""

from __future__ import annotations

from typing import Protocol

__all__ = [
    "AnyList",
    "NonEmpty",
    "OffsetReset",
    "OneOf",
    "Range",
    "SomeOf",
    "ThrottledReplicas",
    "Validator",
    "at_least",
    "between",
]


class Validator(Protocol):
    @property
    def allowed(self) -> str:
        """Completes the sentence "it must be ..."."""

    def accepts(self, value: object) -> bool: ...


class Range:
    """A number between two inclusive bounds; `or_else` is an additional value outside them."""

    __slots__ = ("maximum", "minimum", "or_else")

    def __init__(self, minimum: float, maximum: float | None = None, *, or_else: int | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.or_else = or_else

    @property
    def allowed(self) -> str:
        text = f"at least {self.minimum}" if self.maximum is None else f"between {self.minimum} and {self.maximum}"
        return text if self.or_else is None else f"{text}, or {self.or_else}"

    def accepts(self, value: object) -> bool:
        if value is None:
            return True
        assert isinstance(value, int | float)
        if value == self.or_else:
            return True
        return value >= self.minimum and (self.maximum is None or value <= self.maximum)


def at_least(minimum: float) -> Range:
    return Range(minimum)


def between(minimum: float, maximum: float, *, or_else: int | None = None) -> Range:
    return Range(minimum, maximum, or_else=or_else)


class OneOf:
    __slots__ = ("any_case", "values")

    def __init__(self, *values: str, any_case: bool = False) -> None:
        self.values = values
        self.any_case = any_case

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(self.values)}"

    def accepts(self, value: object) -> bool:
        assert isinstance(value, str)
        return value in self.values or (self.any_case and value.upper() in {allowed.upper() for allowed in self.values})


class AnyList:
    """A list without blank entries."""

    __slots__ = ("may_be_empty",)

    def __init__(self, *, may_be_empty: bool = True) -> None:
        self.may_be_empty = may_be_empty

    @property
    def allowed(self) -> str:
        size = "a list" if self.may_be_empty else "a list of at least one entry"
        return f"{size} in which no entry is blank"

    def accepts(self, value: object) -> bool:
        if value is None:
            return True
        assert isinstance(value, tuple)
        return "" not in value and (self.may_be_empty or bool(value))


class SomeOf:
    """A list of known values."""

    __slots__ = ("may_be_empty", "values")

    def __init__(self, *values: str, may_be_empty: bool = False) -> None:
        self.values = values
        self.may_be_empty = may_be_empty

    @property
    def allowed(self) -> str:
        return f"a list of {', '.join(self.values)}" + (" (or empty)" if self.may_be_empty else "")

    def accepts(self, value: object) -> bool:
        assert isinstance(value, tuple)
        if not value:
            return self.may_be_empty
        return all(part in self.values for part in value)


class NonEmpty:
    """A text or a list."""

    __slots__ = ()

    allowed = "a text that is not empty"

    def accepts(self, value: object) -> bool:
        return value is None or value not in ("", ())


class OffsetReset:
    """`earliest`, `latest`, or `by_duration:` with an ISO 8601 duration that is not negative (KIP-932, KIP-1106)."""

    __slots__ = ()

    allowed = "earliest, latest, or by_duration: with a duration such as P1DT2H30M"

    def accepts(self, value: object) -> bool:
        assert isinstance(value, str)
        if value in ("earliest", "latest"):
            return True
        return value.startswith("by_duration:") and _is_duration(value[len("by_duration:") :])


class ThrottledReplicas:
    """`*`, or a list of partition:broker pairs."""

    __slots__ = ()

    allowed = "* or a list of partition:broker pairs such as 0:1,1:2"

    def accepts(self, value: object) -> bool:
        assert isinstance(value, tuple)
        if value in ((), ("*",)):
            return True
        return all(_is_pair_of_numbers(part) for part in value)


def _is_duration(text: str) -> bool:
    """Days, hours, minutes and seconds in this order: PnDTnHnMn.nS."""
    days, separator, time = text.upper().partition("T")
    if not days.startswith("P") or (separator and not time):
        return False
    parts = _units(days[1:], "D"), _units(time, "HMS")
    return None not in parts and any(parts)


def _units(text: str, order: str) -> bool | None:
    """True if the text has a number with a unit, False if it is empty; None if it has other content."""
    remaining = text
    for unit in order:
        number, separator, rest = remaining.partition(unit)
        if separator:
            whole, point, fraction = number.partition(".")
            if not (whole.isascii() and whole.isdecimal()) or (point and (unit != "S" or not fraction.isdecimal())):
                return None
            remaining = rest
    return None if remaining else bool(text)


def _is_pair_of_numbers(text: str) -> bool:
    first, _, right = text.partition(":")
    return first.isascii() and first.isdecimal() and right.isascii() and right.isdecimal()
