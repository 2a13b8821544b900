"""The lag of groups over time, in memory: a ring of points for every group that a page shows."""

from __future__ import annotations

from collections import OrderedDict, deque

__all__ = ["LagHistory"]

POINTS_MAX = 720
GROUPS_MAX = 2_000
# A point that follows the last point sooner than this is dropped.
SPACING_MS_MIN = 900


class LagHistory:
    def __init__(self) -> None:
        self._rings: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()

    def add(self, group_id: str, time_ms: int, lag: int) -> None:
        ring = self._rings.get(group_id)
        if ring is None:
            ring = self._rings[group_id] = deque(maxlen=POINTS_MAX)
            if len(self._rings) > GROUPS_MAX:
                self._rings.popitem(last=False)
        self._rings.move_to_end(group_id)
        if ring and time_ms - ring[-1][0] < SPACING_MS_MIN:
            return
        ring.append((time_ms, lag))

    def of(self, group_id: str) -> list[tuple[int, int]]:
        return list(self._rings.get(group_id, ()))
