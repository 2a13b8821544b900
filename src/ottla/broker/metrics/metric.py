"""The definition of a metric: its name, kind, labels and help, its counterpart in JMX, and how it is read.

`read` is called once per scrape. A metric without labels is read as a number. A metric with labels is read as rows of
label values (None omits a label) and a number. A histogram or summary is read as rows of label values and a
`Distribution`. Rows may come from a generator: a scrape pauses between them to let the node work. A generator that
looks at many objects for few rows yields None where the scrape may pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape

__all__ = [
    "COUNTER",
    "GAUGE",
    "HISTOGRAM",
    "PARTITIONS_PER_STEP",
    "SUMMARY",
    "Distribution",
    "DistributionRow",
    "Kind",
    "LabelValue",
    "Metric",
    "Row",
]

LabelValue = str | int | None

# The number of partitions that a scrape reads before it pauses for other work of the node.
PARTITIONS_PER_STEP = 1_000


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


COUNTER, GAUGE, HISTOGRAM, SUMMARY = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM, Kind.SUMMARY


class Distribution(NamedTuple):
    """Counts by the highest bit of a value (see `ottla.broker.statistics`), and the sum of all values.

    `unit` converts a counted value to the reported unit: 0.001 if microseconds are reported as milliseconds. The
    quantiles of a summary are those of `recent`.
    """

    places: Sequence[int]
    total: float
    unit: float
    recent: Sequence[int] = ()


# None is no row, but a pause.
Row = tuple[tuple[LabelValue, ...], float] | None
DistributionRow = tuple[tuple[LabelValue, ...], Distribution]


class Metric(NamedTuple):
    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    # The counterpart in Apache Kafka's JMX: the object and, if it has several, the attribute. Empty if there is none.
    jmx: str
    read: Callable[[Scrape], float | Iterable[Row] | Iterable[DistributionRow] | None]
