"""Points in time as Kafka's tools write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ottla.client.admin.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP

__all__ = ["parse_datetime", "parse_duration", "parse_moment", "parse_time"]

_NAMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
}
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d)(?::(\d\d)(?:[.:](\d{1,3}))?)?(Z|[+-]\d\d(?::?\d\d)?)?")
_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)

# `90s`, `10m`, `1h30m`, `2d`.
_SHORT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.IGNORECASE)
_SHORT_MS = (86_400_000, 3_600_000, 60_000, 1_000, 1)
_ENDS = {"beginning": EARLIEST, "start": EARLIEST, "end": LATEST}


def parse_moment(text: str, *, now_ms: int) -> int:
    """A point in time for people: what `parse_time` reads, beginning, end, a date, or a duration before now."""
    word = text.strip()
    if word.lower() in _ENDS:
        return _ENDS[word.lower()]
    short = _SHORT.fullmatch(word)
    if word and short is not None:
        return now_ms - sum(int(count or 0) * unit for count, unit in zip(short.groups(), _SHORT_MS, strict=True))
    if re.match(r"[+-]?P", word, re.IGNORECASE):
        return now_ms - abs(parse_duration(word))
    if re.fullmatch(r"\d{4}-\d\d-\d\d", word):
        return parse_datetime(f"{word}T00:00")
    try:
        return parse_time(word.replace(" ", "T", 1))
    except ValueError:
        raise ValueError(
            f"{text!r} is no point in time: use earliest, latest, a duration like 10m or 1h30m, a date like "
            "2026-05-31T12:00 (UTC without a zone), or milliseconds since 1970."
        ) from None


def parse_time(text: str) -> int:
    """A name, one of Kafka's negative numbers, milliseconds since 1970, or a date and time."""
    if text.lower() in _NAMES:
        return _NAMES[text.lower()]
    if re.fullmatch(r"-?\d+", text):
        number = int(text)
        if number < min(_NAMES.values()):
            raise ValueError(f"{text} is no time; the special ones are {', '.join(_NAMES)}.")
        return number
    if _DATETIME.fullmatch(text):
        return parse_datetime(text)
    raise ValueError(f"{text!r} is no time: use {', '.join(_NAMES)}, or milliseconds since 1970.")


def parse_datetime(text: str) -> int:
    """`2024-06-01T12:00[:00[.000]][Z|+02:00]` in milliseconds since 1970; without a zone it is UTC."""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no date like 2024-06-01T12:00:00.000.")
    minutes, seconds, milliseconds, zone = match.groups()
    if zone is not None and zone != "Z" and len(zone) == 3:
        zone += "00"
    try:
        parsed = datetime.fromisoformat(f"{minutes}:{seconds or '00'}{zone or 'Z'}")
    except ValueError as error:
        raise ValueError(f"{text!r} is no date: {error}.") from None
    return int(parsed.astimezone(UTC).timestamp()) * 1000 + int((milliseconds or "0").ljust(3, "0"))


def parse_duration(text: str) -> int:
    """`PnDTnHnMnS` in milliseconds."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match[name] for name in ("days", "hours", "minutes", "seconds")):
        raise ValueError(f"{text!r} is no duration like P1DT2H30M.")
    total = (
        int(match["days"] or 0) * 86_400_000
        + int(match["hours"] or 0) * 3_600_000
        + int(match["minutes"] or 0) * 60_000
        + int(float(match["seconds"] or 0) * 1000)
    )
    return -total if match["sign"] == "-" else total
