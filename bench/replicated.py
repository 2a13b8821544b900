"""`python -m bench.replicated`: the CPU time of three brokers for one replicated record.

A client sends one record of 1 KiB at a time with acks=all to six partitions with three replicas, and waits for each
answer. So every record takes one produce, two fetches of followers and their appends, and a loaded machine does not
change how many there are. The figure is the CPU clock of the three processes per record; the best round is the one
with the least interference. With `--pause 2` the brokers sleep 2 ms between records, as at a low rate: after each
sleep their memory has to return to the processor's caches, which takes about half as much again.

With `--before DIRECTORY` (another checkout) two clusters take turns.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient

from bench.before import earlier_cluster
from bench.cases import topic
from bench.curve import wait_in_sync
from bench.measure import cpu_ns
from bench.micro import INIT_PRODUCER_ID, Client, batch_of, joined, produce_frame
from ottla.wire.framing import request_parts
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.broker_clusters import BrokerCluster

__all__ = ["main"]

PARTITIONS = 6
RECORD_SIZE = 1024
# As many records go to one partition before the next one has its turn, as with Kafka's producer.
RUN = 16
ROOT = Path(__file__).parent.parent


class Load:
    """The connections to the leaders of a new topic."""

    def __init__(self, cluster: BrokerCluster, name: str) -> None:
        self._pids = cluster.pids
        self._topic = name
        found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(name, timeout=60)
        leaders = [found.topics[name].partitions[index].leader for index in range(PARTITIONS)]
        self._clients = [Client(found.brokers[leader].port) for leader in leaders]

    def round(self, runs: int, pause_ms: float) -> tuple[float, list[float]]:
        """Microseconds of CPU per record, and the milliseconds that each record took."""
        made = [self._frames(index, runs * RUN) for index in range(PARTITIONS)]
        took: list[float] = []
        before = self._cpu_ns()
        for start in range(0, runs * RUN, RUN):
            for client, frames in zip(self._clients, made, strict=True):
                for frame in frames[start : start + RUN]:
                    sent = time.perf_counter()
                    client.call(frame)
                    took.append((time.perf_counter() - sent) * 1000)
                    if pause_ms:
                        time.sleep(pause_ms / 1000)
        return (self._cpu_ns() - before) / len(took) / 1000, took

    def _frames(self, index: int, count: int) -> list[bytes]:
        """The batches of one idempotent producer."""
        asked = request_parts(
            INIT_PRODUCER_ID, 4, 1, "replicated", InitProducerIdRequest(transaction_timeout_ms=60_000)
        )
        (producer_id,) = struct.unpack_from(">q", self._clients[index].call(joined(asked)), 11)
        partition = range(index, index + 1)
        return [
            produce_frame(
                self._topic,
                batch_of(1, RECORD_SIZE, producer_id=producer_id, sequence=sequence),
                acks=-1,
                partitions=partition,
            )
            for sequence in range(count)
        ]

    def _cpu_ns(self) -> int:
        return sum(map(cpu_ns, self._pids))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.replicated", description=__doc__)
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout, to be compared with this one")
    parser.add_argument("--pause", type=float, default=0, metavar="MS", help="between two records (default: 0)")
    parser.add_argument("--rounds", type=int, default=10, help="of each cluster (default: 10)")
    parser.add_argument("--runs", type=int, default=8, help=f"runs of {RUN} records for each partition in a round")
    options = parser.parse_args(arguments)
    roots = {"now": ROOT} if options.before is None else {"before": options.before, "now": ROOT}
    cpu: dict[str, list[float]] = {name: [] for name in roots}
    took: dict[str, list[float]] = {name: [] for name in roots}
    with tempfile.TemporaryDirectory(prefix="ottla-replicated-") as scratch, ExitStack() as stack:
        loads: dict[str, Load] = {}
        for name, root in roots.items():
            cluster = stack.enter_context(earlier_cluster(root / "src")(Path(scratch) / name, {}))
            assert isinstance(cluster, BrokerCluster)
            used = stack.enter_context(topic(cluster, PARTITIONS))
            wait_in_sync(cluster.bootstrap, used, PARTITIONS)
            loads[name] = Load(cluster, used)
            loads[name].round(options.runs, 0)
        for _ in range(options.rounds):
            for name, load in loads.items():
                spent, times = load.round(options.runs, options.pause)
                cpu[name].append(spent)
                took[name] += times
    for name, spent_in_rounds in cpu.items():
        print(
            f"{name:>7}: CPU per record {min(spent_in_rounds):6.1f} µs at best, "
            f"{median(spent_in_rounds):6.1f} µs median; latency {median(took[name]):.3f} ms median"
        )
    if "before" in cpu:
        ratios = [ours / theirs for ours, theirs in zip(cpu["now"], cpu["before"], strict=True)]
        print(
            f"  ratio: CPU {min(cpu['now']) / min(cpu['before']):.3f} at best, {median(ratios):.3f} median of the pairs"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
