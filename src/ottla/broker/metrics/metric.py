"""What a metric is: its name, its kind, its labels, what it stands for in JMX, and how it is read.

`read` is called once per scrape. A metric without labels is read as a number; one with labels as rows, each the values
of its labels (None leaves one out) and a number; a histogram or a summary as rows of label values and a
`Distribution`. Rows may come from a generator: a scrape stops between them to let the node work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape

__all__ = ["COUNTER", "GAUGE", "HISTOGRAM", "SUMMARY", "Distribution", "Kind", "LabelValue", "Metric", "Row"]

LabelValue = str | int | None


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


COUNTER, GAUGE, HISTOGRAM, SUMMARY = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM, Kind.SUMMARY


class Distribution(NamedTuple):
    """Counts by the highest bit of a value (see `ottla.broker.statistics`), and the sum of all values.

    `unit` is what one of the counted units is of the unit that is told: 0.001 where microseconds are told as
    milliseconds. The quantiles of a summary are those of `recent`.
    """

    places: Sequence[int]
    total: float
    unit: float
    recent: Sequence[int] = ()


Row = tuple[tuple[LabelValue, ...], float]
DistributionRow = tuple[tuple[LabelValue, ...], Distribution]


class Metric(NamedTuple):
    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    # The object, and where it has several the attribute, of Apache Kafka that this stands for; empty for our own.
    jmx: str
    read: Callable[[Scrape], float | Iterable[Row] | Iterable[DistributionRow] | None]
