"""Rules of type JSONATA, mostly migrations between versions that are not compatible.

An expression can loop without end, so its time is limited, and its regular expressions are those of RE2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.serdes.rules.contracts import Rule, RuleCall, RuleFailed
from ottla.serdes.rules.engine import Executor
from ottla.serdes.rules.limits import TimeLimit, linear_pattern

__all__ = ["jsonata_executor"]

# The number of evaluated parts of an expression between two checks of the time.
_PARTS_PER_CHECK = 1_000


def jsonata_executor() -> Executor:
    try:
        import jsonata
    except ImportError:
        raise RuleFailed("JSONATA needs jsonata-python: pip install 'ottla[rules]'") from None
    compiled: dict[str, Any] = {}

    def apply(rule: Rule, call: RuleCall, value: Any) -> Any:
        del call
        expression = compiled.get(rule.expr)
        if expression is None:
            expression = compiled[rule.expr] = jsonata.Jsonata(rule.expr, linear_pattern)
        # Without its own frame, an evaluation would see the record and the variables of another evaluation.
        frame = jsonata.Jsonata.Frame(None)
        frame.set_evaluate_entry_callback(_time_limit())
        return _plain(expression.evaluate(value, frame))

    return apply


def _time_limit() -> Callable[..., None]:
    """A callback for each evaluated part of an expression. It raises RuleFailed when the time is over."""
    limit, parts = TimeLimit(), 0

    def check(*_: Any) -> None:
        nonlocal parts
        parts += 1
        if parts % _PARTS_PER_CHECK == 0:
            limit.check()

    return check


def _plain(value: Any) -> Any:
    """The value with Python's own lists in place of the library's."""
    if isinstance(value, dict):
        return {str(key): _plain(content) for key, content in value.items()}
    return [_plain(element) for element in value] if isinstance(value, list) else value
