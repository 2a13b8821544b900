"""PostgreSQL's types by their OIDs, which are constant for built-in types.

Types that Connect does not have come as text, in PostgreSQL's notation: uuid, json, arrays, intervals, enums, and
numeric without a precision, which no decimal type can hold. Times before the year 1 and after 9999, including infinity,
become a time of the first or last day of that range.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from ottla.connect.api.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema
from ottla.connect.plugins.connectors.databases import columns
from ottla.connect.plugins.connectors.databases.columns import Column

__all__ = ["BOUNDS", "column_of_type", "numeric_modifier", "text_parser"]

PRIMITIVES = {
    16: "boolean",
    17: "bytes",
    20: "int64",
    21: "int16",
    23: "int32",
    26: "int64",
    700: "float",
    701: "double",
    25: "string",
    1042: "string",
    1043: "string",
}
NUMERIC, DATES, TIMES, TIMESTAMP_TYPES = 1700, 1082, 1083, (1114, 1184)
PRECISION_MAX = 38
# The replacements of times before the year 1 and after 9999, which Python does not have; in range in every time zone.
BOUNDS: Mapping[str, tuple[str, str]] = {
    DATE: ("0001-01-01", "9999-12-31"),
    TIMESTAMP: ("0001-01-02 00:00:00", "9999-12-31 00:00:00"),
}
UTC = datetime.UTC


def column_of_type(name: str, oid: int, modifier: int, *, optional: bool, is_key: bool = False) -> Column:
    schema = _schema(oid, modifier, optional=optional)
    return Column(
        name=name,
        schema=schema or columns.primitive("string", optional=optional),
        is_key=is_key,
        as_text=schema is None,
    )


def numeric_modifier(precision: int, scale: int) -> int:
    """The modifier of numeric(precision, scale)."""
    return ((precision << 16) | (scale & 0x7FF)) + 4


def text_parser(schema: Schema) -> Callable[[str], Any] | None:
    """Parses PostgreSQL's text (ISO dates, UTC, hex bytes) for Arrow; None keeps the text."""
    if schema.name in LOGICAL:
        return LOGICAL[schema.name]
    return PARSERS.get(schema.type)


def _schema(oid: int, modifier: int, *, optional: bool) -> Schema | None:
    if oid in PRIMITIVES:
        return columns.primitive(PRIMITIVES[oid], optional=optional)
    if oid == NUMERIC and modifier >= 4:
        precision = ((modifier - 4) >> 16) & 0xFFFF
        scale = (((modifier - 4) & 0x7FF) ^ 1024) - 1024
        if precision <= PRECISION_MAX and 0 <= scale <= precision:
            return columns.decimal(precision, scale, optional=optional)
    if oid == DATES:
        return columns.date(optional=optional)
    if oid == TIMES:
        return columns.time(optional=optional)
    if oid in TIMESTAMP_TYPES:
        return columns.timestamp(optional=optional)
    return None


def _moment(text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.datetime.fromisoformat(_bound(text, TIMESTAMP))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return datetime.date.fromisoformat(_bound(text, DATE))


def _bound(text: str, kind: str) -> str:
    """The replacement of a time out of range, such as infinity."""
    return BOUNDS[kind][0 if text.startswith("-") or text.endswith("BC") else 1]


LOGICAL: dict[str | None, Callable[[str], Any]] = {
    DECIMAL: Decimal,
    DATE: _date,
    # PostgreSQL has 24:00:00 for the end of the day.
    TIME: lambda text: datetime.time.fromisoformat(text.replace("24:00:00", "00:00:00")),
    TIMESTAMP: _moment,
}
PARSERS: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: text == "t",
    "bytes": lambda text: bytes.fromhex(text[2:]),
    "int16": int,
    "int32": int,
    "int64": int,
    "float": float,
    "double": float,
}
