"""The order in which a task processes the records of several partitions: the smallest next timestamp first."""

from __future__ import annotations

import heapq
from typing import NamedTuple

__all__ = ["Run", "processing_order", "runs_of"]


class Run(NamedTuple):
    """Rows of one input that follow each other."""

    source: int
    first: int
    end: int


def processing_order(times: list[list[int]]) -> list[int]:
    """The inputs in the order in which their next records are processed, as in `StreamTask.run`."""
    if len(times) == 2:
        return _of_two(times[0], times[1])
    waiting = [(found[0], turn, turn) for turn, found in enumerate(times) if found]
    heapq.heapify(waiting)
    places = [0] * len(times)
    turn, order = len(times), []
    while waiting:
        source = heapq.heappop(waiting)[2]
        order.append(source)
        places[source] += 1
        if places[source] < len(times[source]):
            heapq.heappush(waiting, (times[source][places[source]], turn, source))
            turn += 1
    return order


def _of_two(left: list[int], right: list[int]) -> list[int]:
    order = []
    one = other = 0
    ends = len(left), len(right)
    # With equal timestamps it is the turn of the input that waits for longer.
    is_right_next = False
    while one < ends[0] and other < ends[1]:
        difference = left[one] - right[other]
        if difference < 0 or (difference == 0 and not is_right_next):
            order.append(0)
            one += 1
            is_right_next = True
        else:
            order.append(1)
            other += 1
            is_right_next = False
    order += [0] * (ends[0] - one)
    order += [1] * (ends[1] - other)
    return order


def runs_of(order: list[int]) -> list[Run]:
    found: list[Run] = []
    places: dict[int, int] = {}
    begin = 0
    for index in range(1, len(order) + 1):
        if index == len(order) or order[index] != order[begin]:
            source = order[begin]
            first = places.get(source, 0)
            places[source] = first + index - begin
            found.append(Run(source, first, places[source]))
            begin = index
    return found
