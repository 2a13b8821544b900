"""The text format of Prometheus (version 0.0.4), made in portions.

Each step of `render` yields at most some hundred lines, so that the sender can let the node work in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import isnan
from typing import TYPE_CHECKING, Any

from ottla.broker.metrics.metric import Distribution, Kind, LabelValue, Metric, Row

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape

__all__ = ["CONTENT_TYPE", "PLACES", "QUANTILES", "escaped", "quantile", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# The quantiles of the JMX exporter, by their label.
QUANTILES = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}

LINES_PER_PORTION = 250

# The buckets of every histogram: every second power of two from 64 microseconds to 17 seconds. All histograms have the
# same buckets, so that they can be added.
PLACES = range(6, 26, 2)


def render(metrics: Iterable[Metric], scrape: Scrape) -> Iterator[str]:
    """All metrics that have a value now."""
    for metric in metrics:
        value: Any = metric.read(scrape)
        if value is None:
            continue
        head = f"# HELP {metric.name} {_help(metric.help)}\n# TYPE {metric.name} {metric.kind.value}\n"
        if not metric.labels and metric.kind in (Kind.COUNTER, Kind.GAUGE):
            yield f"{head}{metric.name} {_number(value)}\n"
        elif metric.kind is Kind.HISTOGRAM:
            yield from _portions(head, _histogram_lines(metric, value))
        elif metric.kind is Kind.SUMMARY:
            yield from _portions(head, _summary_lines(metric, value))
        else:
            yield from _portions(head, _lines(metric, value))


def _portions(head: str, lines: Iterable[str]) -> Iterator[str]:
    """The lines in portions, with the head before the first. A metric without rows has no head either.

    An empty line is a pause: an empty portion.
    """
    collected = [head]
    for line in lines:
        if not line:
            yield ""
            continue
        collected.append(line)
        if len(collected) >= LINES_PER_PORTION:
            yield "".join(collected)
            collected = [""]
    if collected != [head]:
        yield "".join(collected)


def _lines(metric: Metric, rows: Iterable[Row]) -> Iterator[str]:
    name, labels = metric.name, metric.labels
    for row in rows:
        yield "" if row is None else f"{name}{_labels(labels, row[0])} {_number(row[1])}\n"


def _histogram_lines(metric: Metric, rows: Iterable[tuple[tuple[LabelValue, ...], Distribution]]) -> Iterator[str]:
    name = metric.name
    for values, distribution in rows:
        sums = list(accumulate(distribution.places))
        count = sums[-1]
        for place in PLACES:
            labels = _labels((*metric.labels, "le"), (*values, _number((1 << place) * distribution.unit)))
            yield f"{name}_bucket{labels} {sums[place]}\n"
        yield f"{name}_bucket{_labels((*metric.labels, 'le'), (*values, '+Inf'))} {count}\n"
        labels = _labels(metric.labels, values)
        yield f"{name}_sum{labels} {_number(distribution.total)}\n{name}_count{labels} {count}\n"


def _summary_lines(metric: Metric, rows: Iterable[tuple[tuple[LabelValue, ...], Distribution]]) -> Iterator[str]:
    name = metric.name
    for values, distribution in rows:
        for label, probability in QUANTILES.items():
            labels = _labels((*metric.labels, "quantile"), (*values, label))
            yield f"{name}{labels} {_number(quantile(distribution.recent, probability) * distribution.unit)}\n"
        labels = _labels(metric.labels, values)
        yield f"{name}_sum{labels} {_number(distribution.total)}\n{name}_count{labels} {sum(distribution.places)}\n"


def quantile(places: Sequence[int], probability: float) -> float:
    """The quantile of a histogram, if values are evenly spread within a place; nan for an empty histogram."""
    count = sum(places)
    if not count:
        return float("nan")
    remaining = probability * count
    for place, number in enumerate(places):
        if number and remaining <= number:
            low = (1 << place) >> 1
            return low + ((1 << place) - low) * remaining / number
        remaining -= number
    return float(1 << (len(places) - 1))


def _labels(names: Sequence[str], values: Sequence[LabelValue]) -> str:
    pairs = [
        f'{name}="{escaped(value) if type(value) is str else value}"'
        for name, value in zip(names, values, strict=True)
        if value is not None
    ]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def escaped(text: str) -> str:
    """The text escaped for use as a label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if type(value) is int:
        return str(value)
    if isnan(value):
        return "NaN"
    return f"{value:.9g}" if abs(value) < 1e9 else repr(float(value))
