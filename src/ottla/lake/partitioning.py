"""Partition specs from words: `day(timestamp), bucket(16, key), country`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.lake.errors import LakeError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

__all__ = ["partition_spec"]

_FIELD = re.compile(r"(?:(\w+)\(\s*(?:(\d+)\s*,\s*)?([\w.]+)\s*\)|([\w.]+))")
_TIMES = ("year", "month", "day", "hour")


def partition_spec(fields: Sequence[str], schema: Schema) -> PartitionSpec:
    """The spec of a new table. Raises LakeError for a field that the schema or the format does not have."""
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
    from pyiceberg.transforms import parse_transform

    partition_fields = []
    names = [field.name for field in schema.fields]
    for number, text in enumerate(fields):
        match = _FIELD.fullmatch(text)
        if match is None:
            raise LakeError(f"partition.by has {text!r}; fields look like day(timestamp), bucket(16, key) or country.")
        kind, count, column = match[1] or "identity", match[2], match[3] or match[4]
        if kind in ("bucket", "truncate"):
            if count is None:
                raise LakeError(f"partition.by has {text!r}, which lacks a number: {kind}(16, {column}).")
            kind = f"{kind}[{count}]"
        elif kind not in (*_TIMES, "identity") or count is not None:
            raise LakeError(f"partition.by has {text!r}; its functions are {', '.join(_TIMES)}, bucket and truncate.")
        # Typed tables have an underscore before the columns that describe the record.
        if column not in names and f"_{column}" in names:
            column = f"_{column}"
        try:
            field = schema.find_field(column)
        except ValueError:
            known = ", ".join(names)
            raise LakeError(f"partition.by names the column {column!r}; the table has {known}.") from None
        transform = parse_transform(kind)
        if not transform.can_transform(field.field_type):
            raise LakeError(f"partition.by has {text!r}, but {column} is a {field.field_type}.")
        name = column.replace(".", "_") + ("" if kind == "identity" else "_" + kind.partition("[")[0])
        partition_fields.append(
            PartitionField(
                source_id=field.field_id, field_id=PARTITION_FIELD_ID_START + number, transform=transform, name=name
            )
        )
    return PartitionSpec(*partition_fields)
