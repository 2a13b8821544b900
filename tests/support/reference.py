"""A unit of CPU time for limits that have to hold on slower and on busy machines."""

from __future__ import annotations

from time import thread_time

__all__ = ["TURN_MAX", "reference_seconds"]

REFERENCE_LOOPS = 25_000
# The longest turn of a node's loop, in units of `reference_seconds`: about 50 ms.
TURN_MAX = 10.0


def reference_seconds() -> float:
    """The CPU time of a fixed piece of work: about 5 ms on a machine of 2024."""
    started = thread_time()
    for number in range(REFERENCE_LOOPS):
        str([number, number + 1])
    return thread_time() - started
