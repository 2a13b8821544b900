"""How much work a piece of Python is: the instructions that it runs, whatever else the machine does meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["steps_of"]


def steps_of(work: Callable[[], object]) -> int:
    """Instructions of the interpreter that `work` takes; the same number each time, on every machine.

    What is done by functions in C counts as one, so this is about loops and calls in Python.
    """
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps
