"""Filters of records: a text, or an expression in CEL after `=`.

CEL has no loops but those over lists and maps of a record. Every step is counted, and a record that needs more steps
than the limit does not match. Regular expressions take time in proportion to the text (RE2). Nothing of Python can be
reached.
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
NAMES = ("key", "value", "headers", "partition", "offset", "timestamp", "size")


class FilterError(ValueError):
    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


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

        from ottla.console.cel_steps import StepsExceeded, counting_runner
    except ImportError:
        raise ApiError(
            404, "NOT_AVAILABLE", "Expressions need cel-python.", "Install the extra rules: pip install 'ottla[rules]'."
        ) from None

    environment = celpy.Environment(runner_class=counting_runner(STEPS_MAX))
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
            # A number of a record may be larger than those of CEL: such a record does not match either.
            known = {
                "key": celpy.json_to_cel(message["key"]["value"]),
                "value": celpy.json_to_cel(message["value"]["value"]),
                "headers": celpy.json_to_cel({one["name"]: one["value"]["value"] for one in message["headers"]}),
                **{name: celtypes.IntType(message[name]) for name in NAMES[3:]},
            }
            return bool(program.evaluate(known))
        except (CELEvalError, StepsExceeded, RecursionError, TypeError, ValueError, OverflowError):
            # A record without the field, or with another type of it, does not match.
            return False

    return matches
