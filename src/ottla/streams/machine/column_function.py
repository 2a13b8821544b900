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

        return self.apply(*(pa.array([value]) for value in values))[0].as_py()

    def apply(self, *arrays: Any) -> Any:
        """Calls the function. An array that has only None has no type, and few functions of text take it."""
        import pyarrow as pa

        typed = [array.cast(pa.string()) if pa.types.is_null(array.type) else array for array in arrays]
        try:
            return self.function(*typed)
        except pa.ArrowException:
            if not any(pa.types.is_null(array.type) for array in arrays):
                raise
            # A function of numbers takes no text, but an array without a type.
            return self.function(*arrays)


def columns(function: Callable[..., Any]) -> ColumnFunction:
    """`map_values(columns(pyarrow.compute.utf8_upper))`: one call for a batch of records."""
    return ColumnFunction(function)
