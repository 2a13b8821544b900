"""Literals in configurations, and their types."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

from ottla.connect.api import schema

__all__ = ["parse_literal"]

INTEGER_BITS = (("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))


def parse_literal(text: str) -> tuple[Any, schema.Schema]:
    """A number of the smallest type that holds it, a boolean, a point in time, or else the text itself."""
    stripped = text.strip()
    if stripped == "null":
        return None, schema.Schema(type="string", optional=True)
    if stripped in ("true", "false"):
        return stripped == "true", schema.Schema(type="boolean")
    if re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?|[+-]?\.\d+([eE][+-]?\d+)?", stripped):
        return _number(decimal.Decimal(stripped))
    for pattern, name, kind in (
        (r"\d{4}-\d\d-\d\d", schema.DATE, "int32"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", schema.TIMESTAMP, "int64"),
    ):
        if re.fullmatch(pattern, stripped):
            moment = datetime.datetime.fromisoformat(stripped)
            value = moment.date() if name == schema.DATE else moment
            return value, schema.Schema(type=kind, name=name, version=1)
    return text, schema.Schema(type="string")


def _number(number: decimal.Decimal) -> tuple[Any, schema.Schema]:
    if number == number.to_integral_value():
        whole = int(number)
        for kind, bits in INTEGER_BITS:
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return whole, schema.Schema(type=kind)
    as_float = float(number)
    # 32 bits are enough where no digit is lost.
    import struct

    try:
        single = struct.unpack(">f", struct.pack(">f", as_float))[0]
    except OverflowError:
        single = None
    if single == as_float:
        return as_float, schema.Schema(type="float")
    return as_float, schema.Schema(type="double")
