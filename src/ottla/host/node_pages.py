"""The HTTP pages of a node: combines the figures of `host` with those of the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.broker.statistics import TIME_PLACES
from ottla.host.loop_watch import LoopWatch
from ottla.host.process_figures import START_TIME_SECONDS, process_figures

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.metrics.reader import MetricsReader
    from ottla.broker.metrics.scrape import HostFigures
    from ottla.host.listener import Listener
    from ottla.host.tls_listener import TlsListener
    from ottla.host.workers import ThreadWorkers

__all__ = ["NodePages"]


class NodePages:
    """The pages. The tables of metrics are imported with the first scrape, so that other nodes do not load them."""

    def __init__(
        self,
        *,
        watch: LoopWatch,
        workers: ThreadWorkers,
        listeners: Callable[[], Iterable[Listener]],
        tls: Callable[[], Mapping[str, TlsListener]] = dict,
    ) -> None:
        self._watch = watch
        self._workers = workers
        self._listeners = listeners
        self._tls = tls
        self._reader: MetricsReader | None = None
        self._step_times = [0] * TIME_PLACES
        self._step_seconds = 0.0
        # Set as soon as the broker exists, which may be before clients are admitted.
        self.broker: Broker | None = None
        self.not_ready: str | None = "the node is starting"

    def metrics(self) -> tuple[str, Iterator[str]] | None:
        if self.broker is None:
            return None
        from ottla.broker.metrics.reader import MetricsReader
        from ottla.broker.metrics.text import CONTENT_TYPE

        if self._reader is None:
            self._reader = MetricsReader(self.broker, self._figures)
        return CONTENT_TYPE, self._reader.portions()

    def count_scrape_step(self, seconds: float) -> None:
        self._step_seconds += seconds
        self._step_times[int(seconds * 1e6).bit_length()] += 1

    def unready(self) -> str | None:
        return self.not_ready

    def _figures(self) -> HostFigures:
        from ottla.broker.metrics.scrape import HostFigures

        process, watch = process_figures(), self._watch
        return HostFigures(
            connections={listener.info.name: listener.connections for listener in self._listeners()},
            certificate_ends={name: tls.expires_seconds for name, tls in self._tls().items()},
            loop_delays=watch.delays,
            loop_delay_seconds=watch.delay_seconds,
            scrape_steps=self._step_times,
            scrape_step_seconds=self._step_seconds,
            loop_idle_ratio=watch.idle_ratio(),
            worker_tasks=self._workers.outstanding,
            worker_threads=self._workers.threads,
            cpu_seconds=process.cpu_seconds,
            resident_bytes=process.resident_bytes,
            virtual_bytes=process.virtual_bytes,
            open_files=process.open_files,
            open_files_max=process.open_files_max,
            threads=process.threads,
            start_time_seconds=START_TIME_SECONDS,
            garbage_collections=process.garbage_collections,
        )
