"""CEL programs that count their steps: an expression over a long list cannot stop the console."""

from __future__ import annotations

from typing import Any

import celpy
from celpy.evaluation import Evaluator

__all__ = ["StepsExceeded", "counting_runner"]


# A text or list that an expression makes counts as so many steps, and is at most this long.
CHARACTERS_OF_A_STEP = 100
LENGTH_MAX = 1_000_000


class StepsExceeded(Exception):
    """The expression needs more steps for this record than the limit."""


class _Steps:
    def __init__(self, limit: int) -> None:
        self.left = limit


class _CountingEvaluator(Evaluator):
    """Evaluators of inner expressions share the counter."""

    def __init__(self, ast: Any, activation: Any, steps: _Steps) -> None:
        super().__init__(ast, activation)
        self._steps = steps

    def visit(self, tree: Any) -> Any:
        self._steps.left -= 1
        if self._steps.left < 0:
            raise StepsExceeded
        return super().visit(tree)

    def addition(self, tree: Any) -> Any:
        """The sum of two texts or lists is as long as both: doubling again and again would fill the memory."""
        found = super().addition(tree)
        if len(tree.children) > 1 and isinstance(found, str | bytes | list):
            self._steps.left -= len(found) // CHARACTERS_OF_A_STEP
            if self._steps.left < 0 or len(found) > LENGTH_MAX:
                raise StepsExceeded
        return found

    def sub_evaluator(self, ast: Any) -> Evaluator:
        return _CountingEvaluator(ast, self.activation, self._steps)


def counting_runner(limit: int) -> type[Any]:
    class Runner(celpy.InterpretedRunner):
        def evaluate(self, context: Any) -> Any:
            return _CountingEvaluator(self.ast, self.new_activation(), _Steps(limit)).evaluate(context)

    return Runner
