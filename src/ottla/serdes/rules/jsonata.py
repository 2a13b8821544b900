"""Rules of type JSONATA, mostly migrations between versions that are not compatible."""

from __future__ import annotations

from typing import Any

from ottla.serdes.rules.contracts import Rule, RuleCall, RuleFailed
from ottla.serdes.rules.engine import Executor

__all__ = ["jsonata_executor"]


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
            found = compiled[rule.expr] = jsonata.Jsonata(rule.expr)
        return _plain(found.evaluate(value))

    return apply


def _plain(value: Any) -> Any:
    """The library has lists of its own."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
