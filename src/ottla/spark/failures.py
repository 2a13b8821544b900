"""Failures with an explaining message reach the user without the traceback of the Python process.

Spark reports an exception of a data source as text, the traceback first. Where the message says what to do (an option
that is missing, a cluster that cannot be reached), frames of this package add nothing. Other exceptions keep their
traceback, and `OTTLA_TRACEBACK=1` keeps all.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError

__all__ = ["in_one_sentence"]

P = ParamSpec("P")
T = TypeVar("T")

# PySpark reads this variable when it reports an exception. The process ends then, or the next call resets it.
_HIDE = "SPARK_HIDE_TRACEBACK"


def in_one_sentence(method: Callable[P, T]) -> Callable[P, T]:
    """Decorates a method that Spark calls."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        os.environ.pop(_HIDE, None)
        try:
            result = method(*args, **kwargs)
        except Exception as error:
            _hide_if_explained(error)
            raise
        if isinstance(result, Iterator):
            watched: Any = _watched(result)
            return watched
        return result

    return call


def _watched(rows: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except Exception as error:
        _hide_if_explained(error)
        raise


def _hide_if_explained(error: Exception) -> None:
    own = type(error).__module__.startswith("ottla.spark.")
    if (own or isinstance(error, ClientError | KafkaError)) and not os.environ.get("OTTLA_TRACEBACK"):
        os.environ[_HIDE] = "1"
