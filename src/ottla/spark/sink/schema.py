"""The check of a sink's columns, in the driver before any task runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["check_schema"]

# Columns of a source that a sink ignores.
_IGNORED = {"offset", "timestampType"}

_WANTED = {
    "key": ("binary", "string", "void"),
    "value": ("binary", "string", "void"),
    "topic": ("string",),
    "partition": ("int", "void"),
    "timestamp": ("timestamp", "timestamp_ntz", "void"),
    "headers": ("array<struct<key:string,value:binary>>", "void"),
}


def check_schema(schema: StructType, *, topic: str | None) -> None:
    """Raises OptionError if rows of this schema cannot be records."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise OptionError("The column 'value' is missing. Rename the column with the records' values by `AS value`.")
    if "topic" not in types and topic is None:
        raise OptionError("There is no topic to write to: set the option 'topic' or add a column 'topic'.")
    for name, kind in types.items():
        if name in _IGNORED:
            continue
        if name not in _WANTED:
            raise OptionError(
                f"A record has no {name!r}: drop the column, or put it into value, key or headers. "
                f"Columns are {', '.join(_WANTED)}."
            )
        if kind not in _WANTED[name]:
            wanted = " or ".join(type_name for type_name in _WANTED[name] if type_name != "void")
            raise OptionError(f"The column {name!r} is {kind}; it must be {wanted}. Convert it with CAST or to_json.")
