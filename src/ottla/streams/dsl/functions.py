"""User functions of different arity in one form: mappers get (key, value), joiners (key, left, right)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["ignored_key", "joiner_with_key", "with_key"]


def with_key(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A function of a value, or of a key and a value, as a function of both."""
    return function if _required(function) == 2 else _Valued(function)


def joiner_with_key(function: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    """A function of two values, or of a key and two values, as a function of three."""
    return function if _required(function) == 3 else _Paired(function)


def ignored_key(function: Any) -> Any:
    """The user's function of one value or two, if it takes no key; else None."""
    return function.inner if isinstance(function, _Valued | _Paired) else None


class _Valued:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.inner = function

    def __call__(self, key: Any, value: Any) -> Any:  # noqa: ARG002
        return self.inner(value)


class _Paired:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.inner = function

    def __call__(self, key: Any, left: Any, right: Any) -> Any:  # noqa: ARG002
        return self.inner(left, right)


def _required(function: Callable[..., Any]) -> int | None:
    """The number of positional parameters without a default; None for functions without a signature, as `str`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        1 for parameter in parameters if parameter.kind in kinds and parameter.default is inspect.Parameter.empty
    )
