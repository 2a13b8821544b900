"""Filters of records: a text, or an expression in CEL after `=`.

CEL loops only over lists and maps of a record. A budget limits the steps, and the size of all texts and lists that the
expression makes. A record that needs more than the budget does not match. Regular expressions take time in proportion
to the text (RE2). An expression has no access to Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.console.answers import ApiError
from ottla.console.fields import text_of

__all__ = ["FilterError", "MessageFilter", "make_message_filter"]

MessageFilter = Callable[[dict[str, Any]], bool]

LENGTH_MAX = 2_000
STEPS_MAX = 5_000
SIZE_MAX = 500_000
NAMES = ("key", "value", "headers", "partition", "offset", "timestamp", "size")


class FilterError(ValueError):
    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class _BudgetUsedUp(Exception):
    pass


class _Budget:
    """The steps and the size that an expression may use for a record."""

    __slots__ = ("_size", "_steps")

    def __init__(self) -> None:
        self._steps = STEPS_MAX
        self._size = SIZE_MAX

    def on_step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise _BudgetUsedUp

    def on_made(self, size: int) -> None:
        self._size -= size
        if self._size < 0:
            raise _BudgetUsedUp


def make_message_filter(text: str) -> MessageFilter | None:
    """None for an empty filter. Raises FilterError."""
    stripped = text.strip()
    if not stripped:
        return None
    if len(stripped) > LENGTH_MAX:
        raise FilterError(f"A filter has at most {LENGTH_MAX} characters.")
    if stripped.startswith("="):
        return _expression(stripped[1:], len(text) - len(text.lstrip()) + 1)
    return _plain(stripped)


def _plain(text: str) -> MessageFilter:
    wanted = text.casefold()

    def matches(message: dict[str, Any]) -> bool:
        if wanted in text_of(message["key"]).casefold() or wanted in text_of(message["value"]).casefold():
            return True
        return any(
            wanted in header["name"].casefold() or wanted in text_of(header["value"]).casefold()
            for header in message["headers"]
        )

    return matches


def _expression(text: str, shift: int) -> MessageFilter:
    try:
        import celpy
        from celpy import celtypes
        from celpy.celparser import CELParseError
        from celpy.evaluation import CELEvalError, CELUnsupportedError

        from ottla.serdes.rules.bounded_cel import evaluate_bounded
    except ImportError:
        raise ApiError(
            404, "NOT_AVAILABLE", "Expressions need cel-python.", "Install the extra rules: pip install 'ottla[rules]'."
        ) from None

    environment = celpy.Environment()
    try:
        program = environment.program(environment.compile(text))
    except (CELParseError, CELUnsupportedError, RecursionError) as error:
        column = getattr(error, "column", None)
        position = None if column is None else int(column) - 1 + shift
        raise FilterError(
            f"This is no expression: {(str(error).splitlines() or ['too deep'])[0][:200]}", position
        ) from None

    def matches(message: dict[str, Any]) -> bool:
        try:
            # A record whose numbers are too large for CEL does not match, either.
            variables = {
                "key": celpy.json_to_cel(message["key"]["value"]),
                "value": celpy.json_to_cel(message["value"]["value"]),
                "headers": celpy.json_to_cel(
                    {header["name"]: header["value"]["value"] for header in message["headers"]}
                ),
                **{name: celtypes.IntType(message[name]) for name in NAMES[3:]},
            }
            return bool(evaluate_bounded(program, variables, _Budget()))
        except (CELEvalError, _BudgetUsedUp, RecursionError, TypeError, ValueError, OverflowError):
            # A record without the field, or with a field of another type, does not match.
            return False

    return matches
