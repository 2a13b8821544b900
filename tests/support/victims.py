"""The order of killed processes: all of them once in random order, and again while there is time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

__all__ = ["victims"]


def victims(chance: random.Random, kinds: Sequence[str], *, seconds: float) -> Iterator[str]:
    end = time.monotonic() + seconds
    yield from chance.sample(kinds, len(kinds))
    while True:
        for kind in chance.sample(kinds, len(kinds)):
            if time.monotonic() >= end:
                return
            yield kind
