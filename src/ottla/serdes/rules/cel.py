"""Rules of type CEL, on whole records, and CEL_FIELD, on single fields, by cel-python.

`guard ; expression`: the expression is evaluated only if the guard is true. The expression of a record has the variable
`message`; that of a field also has `value`, `name`, `fullName`, `typeName` and `tags`. Both have `now`.

Every expression ends, but nested loops over a long list may take years, and repeated doubling of a text may fill any
memory. So time and memory are limited.
"""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from ottla.serdes.rules.contracts import Field, FieldKind, Rule, RuleCall, RuleFailed, transform_fields
from ottla.serdes.rules.engine import Executor
from ottla.serdes.rules.limits import RuleBudget

__all__ = ["cel_executors"]

_EPOCH_DAYS = datetime.date(1970, 1, 1).toordinal()
_WITHOUT_VALUE = (FieldKind.ENUM, FieldKind.FIXED)


def cel_executors() -> dict[str, Executor]:
    try:
        import celpy  # noqa: F401
    except ImportError:
        raise RuleFailed("CEL needs cel-python: pip install 'ottla[rules]'") from None
    expressions = _Expressions()
    return {"CEL": expressions.on_record, "CEL_FIELD": expressions.on_fields}


class _Expressions:
    def __init__(self) -> None:
        import celpy

        from ottla.serdes.rules.cel_functions import CEL_FUNCTIONS

        self._environment = celpy.Environment()
        self._functions = {name: _as_cel(function) for name, function in CEL_FUNCTIONS.items()}
        self._programs: dict[str, Any] = {}
        self._lock = threading.Lock()

    def on_record(self, rule: Rule, call: RuleCall, value: Any) -> Any:
        result = self._result(rule, {"message": _to_cel(value)}, value, RuleBudget())
        if rule.is_condition or not hasattr(value, "DESCRIPTOR"):
            return result
        from ottla.serdes.protobuf_fields import message_of

        return result if result is value else message_of(type(value), result)

    def on_fields(self, rule: Rule, call: RuleCall, value: Any) -> Any:
        limit = RuleBudget()

        def transform(field: Field, content: Any) -> Any:
            if field.kind in _WITHOUT_VALUE:
                return content
            variables = {
                "value": _to_cel(content),
                "name": _to_cel(field.name),
                "fullName": _to_cel(field.full_name),
                "typeName": _to_cel(str(field.kind)),
                "tags": _to_cel(sorted(field.tags)),
                "message": _to_cel(field.message),
            }
            return self._result(rule, variables, content, limit)

        changed = transform_fields(rule, call, value, transform)
        return True if rule.is_condition else changed

    def _result(self, rule: Rule, variables: dict[str, Any], unchanged: Any, limit: RuleBudget) -> Any:
        """The result of the expression. If its guard is false: True for a condition, else the unchanged value."""
        guard, separator, expression = rule.expr.partition(";")
        if not separator:
            guard, expression = "", guard
        if guard.strip() and not self._evaluate(guard, variables, limit):
            return True if rule.is_condition else unchanged
        return self._evaluate(expression, variables, limit)

    def _evaluate(self, expression: str, variables: dict[str, Any], limit: RuleBudget) -> Any:
        from celpy import celtypes
        from celpy.celparser import CELParseError
        from celpy.evaluation import CELEvalError

        from ottla.serdes.rules.bounded_cel import evaluate_bounded

        if "now" in expression and "now" not in variables:
            variables["now"] = celtypes.TimestampType(datetime.datetime.now(tz=datetime.UTC))
        try:
            return _from_cel(evaluate_bounded(self._program(expression), variables, limit))
        except CELEvalError as error:
            # The library appends all known names to its message.
            raise RuleFailed(f"{expression.strip()}: {str(error.args[0]).partition(' (in activation')[0]}") from error
        except CELParseError as error:
            raise RuleFailed(f"{expression.strip()} is not CEL") from error

    def _program(self, expression: str) -> Any:
        with self._lock:
            program = self._programs.get(expression)
            if program is None:
                tree = self._environment.compile(expression.strip())
                program = self._programs[expression] = self._environment.program(tree, functions=self._functions)
            return program


def _as_cel(function: Any) -> Any:
    from celpy import celtypes

    return lambda text: celtypes.BoolType(function(str(text)))


def _to_cel(value: Any) -> Any:
    from celpy import celtypes

    if hasattr(value, "DESCRIPTOR"):
        from ottla.serdes.protobuf_fields import plain_message

        value = plain_message(value)
    if isinstance(value, Mapping):
        return celtypes.MapType({celtypes.StringType(key): _to_cel(content) for key, content in value.items()})
    if isinstance(value, list):
        return celtypes.ListType([_to_cel(element) for element in value])
    # A boolean is an int, and a datetime is a date: the order matters.
    kinds: tuple[tuple[type, Any], ...] = (
        (bool, celtypes.BoolType),
        (int, celtypes.IntType),
        (float, celtypes.DoubleType),
        (str, celtypes.StringType),
        (bytes, celtypes.BytesType),
        (datetime.datetime, celtypes.TimestampType),
        (datetime.timedelta, celtypes.DurationType),
        (datetime.date, lambda day: celtypes.IntType(day.toordinal() - _EPOCH_DAYS)),
        (uuid.UUID, lambda identifier: celtypes.StringType(str(identifier))),
    )
    return next((make(value) for kind, make in kinds if isinstance(value, kind)), value)


def _from_cel(value: Any) -> Any:
    """The value as Python's own types: not every serializer accepts the library's subclasses of them."""
    from celpy import celtypes

    if isinstance(value, dict):
        return {str(key): _from_cel(content) for key, content in value.items()}
    if isinstance(value, list):
        return [_from_cel(element) for element in value]
    if isinstance(value, celtypes.BoolType):
        return bool(value)
    for kind in (int, float, str, bytes):
        if isinstance(value, kind) and not isinstance(value, bool):
            plain: Any = kind
            return plain(value)
    if isinstance(value, datetime.datetime):
        return datetime.datetime.fromtimestamp(value.timestamp(), tz=datetime.UTC)
    return value
