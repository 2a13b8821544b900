"""A step of a column form: the form of one processor, or of several processors that share their stores."""

from __future__ import annotations

from typing import Any, Protocol

from ottla.streams.columnar.rows import Rows
from ottla.streams.machine.processor import Processor

__all__ = ["Step", "null_mask", "without_nulls"]


class Step(Protocol):
    def run(self, rows: Rows) -> Rows:
        """The rows that the node forwards. Called with at least one row."""
        ...


def without_nulls(rows: Rows, processor: Processor, reason: str, *, values: bool) -> Rows:
    """Drops and counts rows without a key; with `values`, also rows without a value."""
    mask = null_mask(rows.key, rows.value if values else None)
    if mask is None:
        return rows
    kept = rows.compressed(mask)
    processor.context.drop(reason, len(rows) - len(kept))
    return kept


def null_mask(key: Any, value: Any) -> list[bool] | None:
    """True for rows to keep; None if all are kept."""
    keys = _has_none(key)
    values = value is not None and _has_none(value)
    if not keys and not values:
        return None
    if value is None:
        return [row_key is not None for row_key in key.values]
    return [
        row_key is not None and row_value is not None
        for row_key, row_value in zip(key.values, value.values, strict=True)
    ]


def _has_none(column: Any) -> bool:
    array = column.known_array
    return bool(array.null_count) if array is not None else None in column.values
