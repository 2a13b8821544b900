"""CEL programs that count their steps: an expression over a long list cannot stop the console."""

from __future__ import annotations

from typing import Any

import celpy
from celpy.evaluation import Evaluator

__all__ = ["StepsExceeded", "counting_runner"]


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

    def sub_evaluator(self, ast: Any) -> Evaluator:
        return _CountingEvaluator(ast, self.activation, self._steps)


def counting_runner(limit: int) -> type[Any]:
    class Runner(celpy.InterpretedRunner):
        def evaluate(self, context: Any) -> Any:
            return _CountingEvaluator(self.ast, self.new_activation(), _Steps(limit)).evaluate(context)

    return Runner
