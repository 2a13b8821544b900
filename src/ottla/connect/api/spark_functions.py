"""Spark's functions, imported when first used: modules of plug-ins are imported only to be listed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["arrow_function", "sql"]


class _Lazy:
    """A module by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


# `pyspark.sql.functions`
sql: Any = _Lazy("pyspark.sql.functions")


def arrow_function(function: Any, result: Any) -> Any:
    """A function from Arrow arrays to one Arrow array, for columns. `result` is a Spark type."""
    import pyarrow
    from pyspark.sql.functions import arrow_udf

    # Spark wants to see real types, and our modules have only their names.
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    function.__annotations__ = {**dict.fromkeys(names, pyarrow.Array), "return": pyarrow.Array}
    return arrow_udf(function, result)
