"""The figures of a run: as values, and as text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.monitor.latencies import Latencies, LatencySummary
from ottla.monitor.ledger import PartitionLedger
from ottla.monitor.probe import Probe

__all__ = ["BOUNDS", "MonitorReport", "PartitionReport", "prometheus_text", "report"]

# The bounds of histograms, in seconds. The threshold of a latency objective is one of these bounds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    partition: int
    leader: int
    produced: int
    consumed: int
    failed: int
    lost: int
    duplicated: int
    reordered: int
    latency: LatencySummary
    produce_latency: LatencySummary


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorReport:
    seconds: float
    produced: int
    consumed: int
    lost: int
    duplicated: int
    reordered: int
    # Sends that ended with an error. The availability is 1 minus their share of all sends.
    failed: int
    availability: float
    # How often partitions did not accept records or could not be read, and for how long in total.
    outages: int
    outage_seconds: float
    # From the send to the read of a record.
    latency: LatencySummary
    produce_latency: LatencySummary
    commit_latency: LatencySummary
    commits_failed: int
    partitions: tuple[PartitionReport, ...]

    @property
    def is_clean(self) -> bool:
        """Whether every acknowledged record was read exactly once, in order."""
        return not (self.lost or self.duplicated or self.reordered)


def report(probe: Probe, now: float) -> MonitorReport:
    partitions = tuple(
        _of_partition(number, probe.leaders.get(number, -1), ledger) for number, ledger in sorted(probe.ledgers.items())
    )
    produced = sum(partition.produced for partition in partitions)
    failed = sum(partition.failed for partition in partitions)
    answered = produced + failed
    return MonitorReport(
        seconds=round(now - probe.began_at, 1),
        produced=produced,
        consumed=sum(partition.consumed for partition in partitions),
        lost=sum(partition.lost for partition in partitions),
        duplicated=sum(partition.duplicated for partition in partitions),
        reordered=sum(partition.reordered for partition in partitions),
        failed=failed,
        availability=round(produced / answered, 6) if answered else 0.0,
        outages=probe.outages.count,
        outage_seconds=round(probe.outages.seconds(now), 1),
        latency=merged(ledger.latency for ledger in probe.ledgers.values()).summary(),
        produce_latency=merged(ledger.produce_latency for ledger in probe.ledgers.values()).summary(),
        commit_latency=probe.commit_latency.summary(),
        commits_failed=probe.commits_failed,
        partitions=partitions,
    )


def merged(histograms: Iterator[Latencies]) -> Latencies:
    total = Latencies()
    for histogram in histograms:
        total.include(histogram)
    return total


def _of_partition(number: int, leader: int, ledger: PartitionLedger) -> PartitionReport:
    return PartitionReport(
        partition=number,
        leader=leader,
        produced=ledger.produced,
        consumed=ledger.consumed,
        failed=ledger.failed,
        lost=ledger.lost,
        duplicated=ledger.duplicated,
        reordered=ledger.reordered,
        latency=ledger.latency.summary(),
        produce_latency=ledger.produce_latency.summary(),
    )


_COUNTERS = (
    ("records_produced_total", "produced", "Probes that the cluster acknowledged."),
    ("records_consumed_total", "consumed", "Probes that were read back."),
    ("produce_errors_total", "failed", "Probes whose send failed."),
    ("records_duplicated_total", "duplicated", "Probes that were read more than once."),
    ("records_reordered_total", "reordered", "Probes that were read after a later one."),
)


def prometheus_text(probe: Probe, now: float) -> Iterator[str]:
    """The text format of Prometheus, metric by metric."""
    ledgers = sorted(probe.ledgers.items())

    def labels(partition: int) -> str:
        return f'partition="{partition}",broker="{probe.leaders.get(partition, -1)}"'

    for name, attribute, text in _COUNTERS:
        yield _head(name, "counter", text)
        yield "".join(f"ottla_monitor_{name}{{{labels(n)}}} {getattr(ledger, attribute)}\n" for n, ledger in ledgers)
    yield _head("records_lost", "gauge", "Acknowledged probes that could not be read so far.")
    yield "".join(f"ottla_monitor_records_lost{{{labels(n)}}} {ledger.lost}\n" for n, ledger in ledgers)
    yield _head("partition_up", "gauge", "1 if the partition takes records and gives them back.")
    out = {partition for partition, _ in probe.outages.ongoing}
    yield "".join(f"ottla_monitor_partition_up{{{labels(n)}}} {int(n not in out)}\n" for n, _ in ledgers)
    for name, attribute, text in (
        ("latency_seconds", "latency", "From the send of a probe to its read."),
        ("produce_latency_seconds", "produce_latency", "From the send of a probe to its acknowledgement."),
    ):
        yield _head(name, "histogram", text)
        yield "".join(_histogram(name, getattr(ledger, attribute), labels(n)) for n, ledger in ledgers)
    yield _head("commit_latency_seconds", "histogram", "Commits of offsets.")
    yield _histogram("commit_latency_seconds", probe.commit_latency, "")
    for name, value, text in (
        ("commit_errors_total", probe.commits_failed, "Commits of offsets that failed."),
        ("consume_errors_total", probe.reads_failed, "Polls that failed."),
        ("outages_total", probe.outages.count, "Outages of partitions."),
        ("outage_seconds_total", round(probe.outages.seconds(now), 3), "Time of all outages together."),
    ):
        yield _head(name, "counter", text) + f"ottla_monitor_{name} {value}\n"


def _head(name: str, kind: str, text: str) -> str:
    return f"# HELP ottla_monitor_{name} {text}\n# TYPE ottla_monitor_{name} {kind}\n"


def _histogram(name: str, latencies: Latencies, labels: str) -> str:
    full = f"ottla_monitor_{name}"
    comma = "," if labels else ""
    braces = f"{{{labels}}}" if labels else ""
    counts = [(str(bound), latencies.at_most(bound * 1000)) for bound in BOUNDS] + [("+Inf", latencies.count)]
    rows = [f'{full}_bucket{{{labels}{comma}le="{bound}"}} {count}\n' for bound, count in counts]
    return f"{''.join(rows)}{full}_sum{braces} {latencies.sum_ms / 1000:.6f}\n{full}_count{braces} {latencies.count}\n"
