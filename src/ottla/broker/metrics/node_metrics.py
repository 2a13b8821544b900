"""Metrics of the process, under the names that Prometheus' own clients use, and of its event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Distribution, DistributionRow, Metric, Row

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape

__all__ = ["NODE_METRICS"]


def _loop_delays(scrape: Scrape) -> Iterator[DistributionRow]:
    yield (), Distribution(scrape.host.loop_delays, scrape.host.loop_delay_seconds, 1e-6)


def _scrape_steps(scrape: Scrape) -> Iterator[DistributionRow]:
    yield (), Distribution(scrape.host.scrape_steps, scrape.host.scrape_step_seconds, 1e-6)


def _collections(scrape: Scrape) -> Iterator[Row]:
    return iter([((generation,), count) for generation, count in enumerate(scrape.host.garbage_collections)])


def _build(scrape: Scrape) -> Iterator[Row]:
    broker = scrape.broker
    roles = "+".join(broker.config.process_roles)
    yield (broker.cluster_id, broker.node_id, roles, broker.config.broker_rack), 1


# fmt: off
NODE_METRICS: Final = (
    Metric("ottla_event_loop_delay_seconds", HISTOGRAM, (),
           "Delay of timers on the event loop: the time that a request may have to wait for the loop.", "",
           _loop_delays),
    Metric("ottla_scrape_step_seconds", HISTOGRAM, (),
           "Duration of the steps of a scrape, each of which blocks the event loop.", "",
           _scrape_steps),
    Metric("ottla_worker_tasks", GAUGE, (), "Unfinished tasks of worker threads.", "",
           lambda scrape: scrape.host.worker_tasks),
    Metric("ottla_worker_threads", GAUGE, (), "Worker threads.", "", lambda scrape: scrape.host.worker_threads),
    Metric("process_cpu_seconds_total", COUNTER, (), "CPU time of the process, user and system.",
           "java.lang:type=OperatingSystem; ProcessCpuTime", lambda scrape: scrape.host.cpu_seconds),
    Metric("process_resident_memory_bytes", GAUGE, (), "Resident memory of the process.", "java.lang:type=Memory",
           lambda scrape: scrape.host.resident_bytes),
    Metric("process_virtual_memory_bytes", GAUGE, (), "Address space of the process.", "",
           lambda scrape: scrape.host.virtual_bytes),
    Metric("process_open_fds", GAUGE, (), "Open file descriptors.",
           "java.lang:type=OperatingSystem; OpenFileDescriptorCount", lambda scrape: scrape.host.open_files),
    Metric("process_max_fds", GAUGE, (), "Maximum number of open file descriptors.",
           "java.lang:type=OperatingSystem; MaxFileDescriptorCount", lambda scrape: scrape.host.open_files_max),
    Metric("process_threads", GAUGE, (), "Threads of the process.", "java.lang:type=Threading; ThreadCount",
           lambda scrape: scrape.host.threads),
    Metric("process_start_time_seconds", GAUGE, (), "Start time of the process, in seconds since 1970.",
           "java.lang:type=Runtime; StartTime", lambda scrape: scrape.host.start_time_seconds),
    Metric("python_gc_collections_total", COUNTER, ("generation",), "Collections of the garbage collector.",
           "java.lang:type=GarbageCollector,name=*; CollectionCount", _collections),
    Metric("ottla_node_info", GAUGE, ("cluster", "node", "roles", "rack"),
           "Always 1; the labels identify this node.",
           "kafka.server:type=KafkaServer,name=ClusterId and BrokerState", _build),
)
# fmt: on
