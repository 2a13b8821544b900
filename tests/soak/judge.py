"""Is a series flat? The verdict about resources of nodes over the tenths of a soak.

The first tenth is warm-up: caches fill, and every node is restarted once. Over the other tenths a line is fitted by the
median of the slopes of all pairs (Theil and Sen), which a few disturbed tenths do not move. A series is flat if that
line grows over the whole run by no more than the tolerance: a share of the median, or an absolute amount, whichever is
larger. A series that falls is flat: buffers of a busy minute that are given back are no leak.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tests.soak.samples import ALL_NODES

__all__ = ["MEASURES", "Measure", "Verdict", "growth_of", "judge"]

WARM_UP_TENTHS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measurement of a node, its presentation, and the growth over a run that still counts as flat."""

    name: str
    unit: str
    # One shown unit in the unit of the samples.
    scale: float = 1.0
    digits: int = 0
    share_max: float
    absolute_max: float


MEASURES = (
    Measure(name="resident memory", unit="MB", scale=1e6, digits=1, share_max=0.05, absolute_max=4e6),
    Measure(name="descriptors", unit="", share_max=0.05, absolute_max=10),
    # Workers are started when they are first needed, up to a bound.
    Measure(name="threads", unit="", share_max=0.0, absolute_max=2),
    # The machine's other work makes the same request dearer: caches and clock rates are shared.
    Measure(name="CPU per request", unit="µs", scale=1e-6, digits=1, share_max=0.15, absolute_max=2e-6),
    Measure(name="bytes on disk", unit="MB", scale=1e6, digits=1, share_max=0.20, absolute_max=8e6),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One measure of one node, or of all together."""

    node_id: int
    measure: Measure
    # One value for each tenth; None if the node was down.
    values: Sequence[float | None]
    growth: float
    growth_max: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.growth_max

    @property
    def owner(self) -> str:
        return "all nodes" if self.node_id == ALL_NODES else f"node {self.node_id}"

    def __str__(self) -> str:
        measure = self.measure
        grown, allowed = self.growth / measure.scale, self.growth_max / measure.scale
        word = "flat" if self.is_flat else "GROWS"
        return (
            f"{measure.name} of {self.owner}: {word}, "
            f"{grown:+.{measure.digits}f} {measure.unit} over the run, at most {allowed:.{measure.digits}f} allowed"
        ).replace("  ", " ")


def growth_of(values: Sequence[float | None]) -> float:
    """The growth of the fitted line from the first value to the last."""
    seen = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(seen) < 2:
        return 0.0
    slopes = [
        (after - before) / (place_after - place) for (place, before), (place_after, after) in combinations(seen, 2)
    ]
    return statistics.median(slopes) * (len(values) - 1)


def judge(values_of: Mapping[tuple[int, str], Sequence[float | None]]) -> list[Verdict]:
    """From the values of the tenths by node id and name of a measure."""
    verdicts = []
    for measure in MEASURES:
        for (node_id, name), values in sorted(values_of.items()):
            if name != measure.name:
                continue
            judged = values[WARM_UP_TENTHS:]
            seen = [value for value in judged if value is not None]
            level = statistics.median(seen) if seen else 0.0
            allowed = max(measure.share_max * level, measure.absolute_max)
            verdicts.append(
                Verdict(node_id=node_id, measure=measure, values=values, growth=growth_of(judged), growth_max=allowed)
            )
    return verdicts
