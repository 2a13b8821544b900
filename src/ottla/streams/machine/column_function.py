"""`columns`: marks a function that works on whole Arrow arrays instead of single values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ColumnFunction", "columns"]


class ColumnFunction:
    """A function of Arrow arrays of equal length that returns an array of that length.

    Called with single values it works on arrays of length one, so every operator takes it; operators with a column form
    call it once for a batch.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *values: Any) -> Any:
        import pyarrow as pa

        arrays = (pa.array([value], pa.string() if value is None else None) for value in values)
        return self.function(*arrays)[0].as_py()


def columns(function: Callable[..., Any]) -> ColumnFunction:
    """`map_values(columns(pyarrow.compute.utf8_upper))`: one call for a batch of records."""
    return ColumnFunction(function)
