"""Judges the progress of a group in one partition by its last samples, as Burrow does.

A lag by itself means little: a healthy batch job can have a large lag, and a member that hangs a small lag. So the
movement over a window decides:

1. without lag: OK;
2. no member, and no progress in the window: STOPPED;
3. the offset went back and has not come up to where it was: REWIND;
4. without lag at some time in the window: OK;
5. members, and no progress in the window: STALLED;
6. the lag never became smaller: WARNING;
7. otherwise: OK.

Burrow infers from the times of commits whether a member hangs or has gone. This module asks the coordinator for the
members instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

__all__ = ["LagSample", "LagWindow", "Status", "judge", "worst"]

# Fewer samples do not show a movement.
SAMPLES_MIN = 3


class Status(IntEnum):
    """The judgements, from good to bad."""

    OK = 0
    WARNING = 1
    REWIND = 2
    STALLED = 3
    STOPPED = 4

    def __str__(self) -> str:
        return self.name


class LagSample(NamedTuple):
    at: float
    committed: int
    end: int
    has_members: bool

    @property
    def lag(self) -> int:
        return max(self.end - self.committed, 0)


class LagWindow:
    """The last samples of a partition."""

    def __init__(self, size: int) -> None:
        self.samples: deque[LagSample] = deque(maxlen=size)

    def add(self, sample: LagSample) -> Status:
        self.samples.append(sample)
        return judge(list(self.samples))


def judge(samples: Sequence[LagSample], allowed_lag: int = 0) -> Status:
    """The status after the last sample; the oldest sample is first."""
    if not samples or samples[-1].lag <= allowed_lag or len(samples) < SAMPLES_MIN:
        return Status.OK
    offsets = [sample.committed for sample in samples]
    stands_still = len(set(offsets)) == 1
    if stands_still and not any(sample.has_members for sample in samples):
        return Status.STOPPED
    if _is_rewound(offsets):
        return Status.REWIND
    if any(sample.lag <= allowed_lag for sample in samples):
        return Status.OK
    if stands_still:
        return Status.STALLED
    if all(later.lag >= earlier.lag for earlier, later in pairwise(samples)):
        return Status.WARNING
    return Status.OK


def worst(statuses: Iterable[Status]) -> Status:
    return max(statuses, default=Status.OK)


def _is_rewound(offsets: Sequence[int]) -> bool:
    highest = offsets[0]
    for earlier, later in pairwise(offsets):
        if later < earlier:
            highest = max(highest, earlier)
    return offsets[-1] < highest and any(later < earlier for earlier, later in pairwise(offsets))
