"""The order in which a task processes the records of several partitions: the smallest next timestamp first."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Run", "order_of_two", "processing_order", "runs_of"]


class Run(NamedTuple):
    """Consecutive rows of one input."""

    source: int
    first: int
    end: int


def processing_order(times: list[list[int]]) -> list[int]:
    """The inputs in the order in which their next records are processed, as in `StreamTask.run`."""
    if len(times) == 2:
        return _of_two(times[0], times[1])
    waiting = [(timestamps[0], turn, turn) for turn, timestamps in enumerate(times) if timestamps]
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


def order_of_two(left: Any, right: Any) -> Any:
    """As `processing_order` for two inputs, with arrays of numbers."""
    if not len(left) or not len(right):
        return np.r_[np.zeros(len(left), np.int64), np.ones(len(right), np.int64)]
    if (np.diff(left) < 0).any() or (np.diff(right) < 0).any():
        return np.array(_of_two(left.tolist(), right.tolist()))
    times = np.unique(np.r_[left, right])
    # The numbers of left and of right records for every timestamp.
    lefts = np.diff(np.searchsorted(left, np.r_[times, times[-1] + 1]))
    rights = np.diff(np.searchsorted(right, np.r_[times, times[-1] + 1]))
    # With equal timestamps the inputs take turns. Equal numbers of records leave the turn unchanged.
    last: Any = np.where(lefts > rights, 0, 1)
    decided = np.maximum.accumulate(np.where(lefts != rights, np.arange(len(times)), -1))
    before = np.r_[-1, decided[:-1]]
    begins_right = np.where(before < 0, False, last[before] == 0)
    turns = []
    for counts, begins_late in ((lefts, begins_right), (rights, ~begins_right)):
        groups: Any = np.repeat(np.arange(len(times)), counts)
        number = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
        turns.append((groups, 2 * number + begins_late[groups]))
    (left_groups, left_turns), (right_groups, right_turns) = turns
    span = 2 * max(len(left), len(right)) + 2
    places = np.argsort(np.r_[left_groups * span + left_turns, right_groups * span + right_turns], kind="stable")
    return (places >= len(left)).astype(np.int64)


def _of_two(left: list[int], right: list[int]) -> list[int]:
    order = []
    left_index = right_index = 0
    ends = len(left), len(right)
    # With equal timestamps the input that has waited longer goes first.
    is_right_next = False
    while left_index < ends[0] and right_index < ends[1]:
        difference = left[left_index] - right[right_index]
        if difference < 0 or (difference == 0 and not is_right_next):
            order.append(0)
            left_index += 1
            is_right_next = True
        else:
            order.append(1)
            right_index += 1
            is_right_next = False
    order += [0] * (ends[0] - left_index)
    order += [1] * (ends[1] - right_index)
    return order


def runs_of(order: list[int]) -> list[Run]:
    runs: list[Run] = []
    places: dict[int, int] = {}
    begin = 0
    for index in range(1, len(order) + 1):
        if index == len(order) or order[index] != order[begin]:
            source = order[begin]
            first = places.get(source, 0)
            places[source] = first + index - begin
            runs.append(Run(source, first, places[source]))
            begin = index
    return runs
