"""Generators that do work in slices, run to their end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["finish"]

T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Runs all slices. Returns what the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
