"""The text of a scrape in portions. This module and all tables are imported with the first scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics.scrape import HostFigures, Recent, Scrape
from ottla.broker.metrics.table import METRICS
from ottla.broker.metrics.text import render

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["MetricsReader"]


class MetricsReader:
    """Renders scrapes. One object serves all scrapes of a node, because it keeps the counts of recent ones."""

    def __init__(self, broker: Broker, figures: Callable[[], HostFigures]) -> None:
        self._broker = broker
        self._figures = figures
        self._recent = Recent(broker.world.clock.monotonic())

    def portions(self) -> Iterator[str]:
        """The whole text. The caller may let the node work between two portions."""
        scrape = Scrape(self._broker, self._figures(), self._recent)
        yield from scrape.prepare()
        yield from render(METRICS, scrape)
        self._recent.end_scrape(self._broker.world.clock.monotonic())
