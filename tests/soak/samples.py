"""Samples of the nodes: their processes' figures from the operating system, and the number of answered requests."""

from __future__ import annotations

import os
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.error import URLError

import ottla.testing
from bench.measure import cpu_seconds, resident_bytes
from tests.soak.jobs import Findings, Job
from tests.support.incidents import scraped

__all__ = ["ALL_NODES", "Sample", "Sampler", "series"]

ALL_NODES = 0

REQUESTS = re.compile(r"^kafka_network_requestmetrics_requests_total\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at one node."""

    tenth: int
    node_id: int
    pid: int
    resident_bytes: int
    descriptors: int
    threads: int
    cpu_s: float
    requests: float
    disk_bytes: int


class Sampler(Job):
    """Looks at every node that runs, at a steady interval."""

    def __init__(self, findings: Findings, cluster: ottla.testing.Cluster, *, interval_s: float) -> None:
        super().__init__(findings)
        self.pause_s = interval_s
        self._cluster = cluster
        # Set by the main thread.
        self.tenth = 0
        self.samples: list[Sample] = []

    def step(self) -> None:
        for node in self._cluster.nodes:
            try:
                self.samples.append(self._look(node))
            except (OSError, URLError, AssertionError, StopIteration, KeyError):
                # The node restarts.
                self.counts["looks at a node that was down"] += 1

    def _look(self, node: ottla.testing.Node) -> Sample:
        pid = node.pid
        assert node.metrics_url is not None
        process = Path(f"/proc/{pid}")
        requests = sum(map(float, REQUESTS.findall(scraped(node.metrics_url))))
        return Sample(
            tenth=self.tenth,
            node_id=node.node_id,
            pid=pid,
            resident_bytes=resident_bytes(pid),
            descriptors=len(os.listdir(process / "fd")),
            threads=len(os.listdir(process / "task")),
            cpu_s=cpu_seconds(pid),
            requests=requests,
            disk_bytes=_disk_bytes(node.directory / "data"),
        )


def series(samples: Sequence[Sample], tenths: int, *, node_kept: int) -> Mapping[tuple[int, str], list[float | None]]:
    """By node id and name of a measure: one value for every tenth, the median of its samples.

    A restarted node may be down for a whole tenth, whose value is None then. `node_kept` is not restarted. It is the
    only one whose threads are judged: a new process starts its workers when they have work.

    CPU per request comes from neighbouring samples of the same process, so that starts do not count. It is that of
    `ALL_NODES`: leaders need more than followers, and restarts move leaders.
    """
    by_node: defaultdict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_node[sample.node_id].append(sample)
    unseen = set(range(tenths)) - {sample.tenth for sample in by_node[node_kept]}
    assert not unseen, f"node {node_kept} was not seen in every tenth"
    values_of: dict[tuple[int, str], list[float | None]] = {}
    spent_s, requests = [0.0] * tenths, [0.0] * tenths
    for node_id, of_node in by_node.items():
        in_tenths = [[sample for sample in of_node if sample.tenth == tenth] for tenth in range(tenths)]
        for tenth, of_tenth in enumerate(in_tenths):
            for before, after in pairwise(of_tenth):
                if before.pid == after.pid:
                    spent_s[tenth] += after.cpu_s - before.cpu_s
                    requests[tenth] += after.requests - before.requests

        def medians(name: str, in_tenths: list[list[Sample]] = in_tenths) -> list[float | None]:
            return [
                statistics.median(float(getattr(sample, name)) for sample in of_tenth) if of_tenth else None
                for of_tenth in in_tenths
            ]

        values_of[node_id, "resident memory"] = medians("resident_bytes")
        values_of[node_id, "descriptors"] = medians("descriptors")
        values_of[node_id, "bytes on disk"] = medians("disk_bytes")
        if node_id == node_kept:
            values_of[node_id, "threads"] = medians("threads")
    values_of[ALL_NODES, "CPU per request"] = [
        cpu_s / max(count, 1.0) for cpu_s, count in zip(spent_s, requests, strict=True)
    ]
    return values_of


def _disk_bytes(directory: Path) -> int:
    """The allocated bytes of all files; files may vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total
