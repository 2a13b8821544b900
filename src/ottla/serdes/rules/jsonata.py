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

# The parts of an expression between two looks at the clock.
_PARTS_PER_LOOK = 1_000


def jsonata_executor() -> Executor:
    try:
        import jsonata
    except ImportError:
        raise RuleFailed("JSONATA needs jsonata-python: pip install 'ottla[rules]'") from None
    compiled: dict[str, Any] = {}

    def apply(rule: Rule, call: RuleCall, value: Any) -> Any:
        del call
        found = compiled.get(rule.expr)
        if found is None:
            found = compiled[rule.expr] = jsonata.Jsonata(rule.expr, linear_pattern)
        # Without a frame of its own, an evaluation sees the record and the variables of another one.
        frame = jsonata.Jsonata.Frame(None)
        frame.set_evaluate_entry_callback(_time_limit())
        return _plain(found.evaluate(value, frame))

    return apply


def _time_limit() -> Callable[..., None]:
    """A function that is called for each part of an expression. It raises RuleFailed when the time is over."""
    limit, parts = TimeLimit(), 0

    def check(*_: Any) -> None:
        nonlocal parts
        parts += 1
        if parts % _PARTS_PER_LOOK == 0:
            limit.check()

    return check


def _plain(value: Any) -> Any:
    """The library has lists of its own."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
