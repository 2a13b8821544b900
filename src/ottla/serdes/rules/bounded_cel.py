"""CEL evaluated within a budget: an expression cannot take all time or memory of its process.

Every evaluation of an inner expression is a step: a macro such as `map` makes a step for each element. Every text, list
or map that the expression makes counts with its whole size, as if its elements were copied: a list that holds the same
list many times needs little memory, but its text form and its comparison need much.
"""

from __future__ import annotations

import operator
from typing import Any, Protocol

import celpy
from celpy.evaluation import Evaluator

__all__ = ["Budget", "evaluate_bounded"]

# What an element of a list or map counts, beside its content: about the memory of a small object.
ELEMENT_SIZE = 64

# The other primary expressions are names, literals and parentheses.
_MAKING_PRIMARIES = frozenset({"list_lit", "map_lit", "ident_arg"})


class Budget(Protocol):
    """Both methods raise an exception of the caller when the budget is used up. CEL does not catch it, unless it is a
    ValueError, TypeError, OverflowError or AttributeError."""

    def on_step(self) -> None: ...

    def on_made(self, size: int) -> None:
        """The expression makes, or is about to make, a value of so many characters or bytes."""


def evaluate_bounded(program: celpy.Runner, known: dict[str, Any], budget: Budget) -> Any:
    """The result of a program of `celpy.Environment.program`. Raises CELEvalError, and what the budget raises."""
    activation = program.new_activation()

    def add(left: Any, right: Any) -> Any:
        """Counts the result before it exists: repeated doubling of a text would fill the memory."""
        if isinstance(left, str | bytes) and isinstance(right, str | bytes):
            budget.on_made(len(left) + len(right))
        elif isinstance(left, list) and isinstance(right, list):
            budget.on_made(ELEMENT_SIZE * (len(left) + len(right)))
        return operator.add(left, right)

    activation.functions = activation.functions.new_child({"_+_": add, "_%_": _modulo})
    return _BoundedEvaluator(program.ast, activation, budget).evaluate(known)


class _BoundedEvaluator(Evaluator):
    """Evaluators of inner expressions share the budget."""

    def __init__(self, ast: Any, activation: Any, budget: Budget) -> None:
        super().__init__(ast, activation)
        self._budget = budget

    def visit(self, tree: Any) -> Any:
        self._budget.on_step()
        return super().visit(tree)

    def primary(self, tree: Any) -> Any:
        created = super().primary(tree)
        if tree.children[0].data in _MAKING_PRIMARIES:
            _count(created, self._budget)
        return created

    def member_dot_arg(self, tree: Any) -> Any:
        created = super().member_dot_arg(tree)
        _count(created, self._budget)
        return created

    def member_object(self, tree: Any) -> Any:
        created = super().member_object(tree)
        _count(created, self._budget)
        return created

    def sub_evaluator(self, ast: Any) -> Evaluator:
        return _BoundedEvaluator(ast, self.activation, self._budget)


def _modulo(left: Any, right: Any) -> Any:
    """Refuses texts: Python's `%` formats a text at any width (`'%999999999d' % 1`). CEL has no such operator."""
    if isinstance(left, str | bytes):
        raise TypeError("a text has no remainder")
    return operator.mod(left, right)


def _count(value: Any, budget: Budget) -> None:
    values = [value]
    while values:
        match values.pop():
            case str() | bytes() as text:
                budget.on_made(len(text))
            case list() as elements:
                budget.on_made(ELEMENT_SIZE * len(elements))
                values.extend(elements)
            case dict() as entries:
                budget.on_made(ELEMENT_SIZE * len(entries))
                values.extend(entries)
                values.extend(entries.values())
