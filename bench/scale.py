"""`python -m bench.scale 500 1000 2000 5000`: what partitions cost one node; the numbers of docs/scale.md.

For each count a fresh node: a topic with this many partitions is created while another connection repeats ApiVersions
requests (the longest wait shows the longest stall of the loop, or other work of the machine); then the node is stopped
in order and started again.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla.testing
from bench.measure import cpu_seconds, resident_bytes
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import RawClient

__all__ = ["main"]

TOPIC = "t"
TIMEOUT_S = 300.0
IDLE_S = 5.0


class Witness:
    """Repeats a small request and records the longest wait."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_stopped = False
        self.longest_s = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_stopped = True
            thread.join()

    def _run(self) -> None:
        question = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        with RawClient(self._address, timeout_seconds=TIMEOUT_S) as client:
            while not self._is_stopped:
                asked = time.monotonic()
                client.call(question, 3)
                self.longest_s = max(self.longest_s, time.monotonic() - asked)
                time.sleep(0.002)


def measure(count: int) -> dict[str, float]:
    with ottla.testing.cluster() as cluster:
        node = cluster.node(1)
        data = node.directory / "data"
        memory = resident_bytes(node.pid)
        cpu_s = cpu_seconds(node.pid)
        witness = Witness(node.address)
        with witness.watching():
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            admin.create_topics([NewTopic(TOPIC, count, 1)], request_timeout=TIMEOUT_S)[TOPIC].result(TIMEOUT_S)
            while sum(1 for _ in data.glob(f"{TOPIC}-*/*.log")) < count:
                time.sleep(0.05)
            time.sleep(0.5)
        del admin
        created_cpu_s = cpu_seconds(node.pid) - cpu_s
        created_memory = resident_bytes(node.pid)
        node.stop()
        node.start()
        started_cpu_s = cpu_seconds(node.pid)
        time.sleep(IDLE_S)
        return {
            "partitions": count,
            "creation CPU s": created_cpu_s,
            "longest wait ms": witness.longest_s * 1000,
            "RSS grown MB": (created_memory - memory) / 1e6,
            "start CPU s": started_cpu_s,
            "RSS after start MB": resident_bytes(node.pid) / 1e6,
            "idle CPU %": (cpu_seconds(node.pid) - started_cpu_s) / IDLE_S * 100,
            "metadata log KB": sum(segment.stat().st_size for segment in data.glob("__cluster_metadata-0/*.log")) / 1e3,
        }


def main(arguments: list[str]) -> None:
    for count in map(int, arguments or ["500", "1000", "2000", "5000"]):
        print("  ".join(f"{name} {value:.2f}" for name, value in measure(count).items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
