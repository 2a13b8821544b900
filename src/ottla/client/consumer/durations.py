"""Durations of ISO 8601, such as P1DT2H30M: the form that `auto.offset.reset=by_duration:` takes (KIP-1106)."""

from __future__ import annotations

import re

__all__ = ["parse_duration_ms"]

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_UNITS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration that is not negative; raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    parts = {} if match is None else {unit: value for unit, value in match.groupdict().items() if value is not None}
    if not parts or text.strip().upper().endswith("T"):
        raise ValueError(f"{text!r} is not a duration such as P1D or PT2H30M")
    return int(sum(float(value) * _UNITS_MS[unit] for unit, value in parts.items()))
