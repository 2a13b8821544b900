"""Spark's functions, imported on first use, because plug-ins are imported before there is a Spark session."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["arrow_function", "sql"]


class _Lazy:
    """A module that is imported when an attribute is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


# `pyspark.sql.functions`
sql: Any = _Lazy("pyspark.sql.functions")


def arrow_function(function: Any, result: Any) -> Any:
    """A column function from a function of Arrow arrays to an Arrow array. `result` is a Spark type."""
    import pyarrow
    from pyspark.sql.functions import arrow_udf

    # Spark evaluates the annotations, which are only names in our modules.
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    function.__annotations__ = {**dict.fromkeys(names, pyarrow.Array), "return": pyarrow.Array}
    return arrow_udf(function, result)
