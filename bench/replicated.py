"""`python -m bench.replicated`: the CPU time of three brokers for one replicated record.

A client sends one record of 1 KiB at a time with acks=all to six partitions with three replicas, and waits for each
answer. So every record takes one produce, two fetches of followers and their appends, and a loaded machine does not
change how many there are. The figure is the CPU clock of the three processes per record; the best round is the one
with the least interference. With `--pause 2` the brokers sleep 2 ms between records, as at a low rate: after each
sleep their memory has to return to the processor's caches, which takes about half as much again.

With `--before DIRECTORY` (another checkout) two clusters take turns. With `--kafka` and `--floor`, Apache Kafka and
three minimal processes (`bench.replicated_floor`) take turns with Ottla: the floor shows what is left to be saved.
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
from bench.replicated_floor import FloorCluster
from ottla.wire.framing import request_parts
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.broker_clusters import BrokerCluster, KafkaCluster

__all__ = ["main"]

PARTITIONS = 6
RECORD_SIZE = 1024
# As many records go to one partition before the next one has its turn, as with Kafka's producer.
RUN = 16
WARM_UP_ROUNDS = 50
ROOT = Path(__file__).parent.parent


class Load:
    """Rounds of records for one cluster: the connections to the leaders of the partitions, and the processes."""

    def __init__(self, clients: list[Client], pids: Sequence[int], name: str) -> None:
        self._clients = clients
        self._pids = pids
        self._topic = name

    @classmethod
    def of_topic(cls, cluster: BrokerCluster, name: str) -> Load:
        metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(name, timeout=60)
        leaders = [metadata.topics[name].partitions[index].leader for index in range(PARTITIONS)]
        return cls([Client(metadata.brokers[leader].port) for leader in leaders], cluster.pids, name)

    def round(self, runs: int, pause_ms: float) -> tuple[float, list[float]]:
        """Microseconds of CPU per record, and the milliseconds that each record took."""
        frames_by_partition = [self._frames(index, runs * RUN) for index in range(PARTITIONS)]
        latencies_ms: list[float] = []
        before = self._cpu_ns()
        for start in range(0, runs * RUN, RUN):
            for client, frames in zip(self._clients, frames_by_partition, strict=True):
                for frame in frames[start : start + RUN]:
                    sent = time.perf_counter()
                    client.call(frame)
                    latencies_ms.append((time.perf_counter() - sent) * 1000)
                    if pause_ms:
                        time.sleep(pause_ms / 1000)
        return (self._cpu_ns() - before) / len(latencies_ms) / 1000, latencies_ms

    def _frames(self, index: int, count: int) -> list[bytes]:
        """The batches of one idempotent producer."""
        producer_id = self._new_producer_id(index)
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

    def _new_producer_id(self, index: int) -> int:
        request = request_parts(
            INIT_PRODUCER_ID, 4, 1, "replicated", InitProducerIdRequest(transaction_timeout_ms=60_000)
        )
        (producer_id,) = struct.unpack_from(">q", self._clients[index].call(joined(request)), 11)
        return int(producer_id)

    def _cpu_ns(self) -> int:
        return sum(map(cpu_ns, self._pids))


class FloorLoad(Load):
    """The same frames for `FloorCluster`, which has no producer ids."""

    def _new_producer_id(self, index: int) -> int:
        return index


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.replicated", description=__doc__)
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout, to be compared with this one")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka takes turns with Ottla")
    parser.add_argument("--floor", action="store_true", help="the minimal processes take turns with Ottla")
    parser.add_argument("--pause", type=float, default=0, metavar="MS", help="between two records (default: 0)")
    parser.add_argument("--rounds", type=int, default=10, help="of each cluster (default: 10)")
    parser.add_argument("--runs", type=int, default=8, help=f"runs of {RUN} records for each partition in a round")
    options = parser.parse_args(arguments)
    cpu: dict[str, list[float]] = {}
    latencies_ms: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="ottla-replicated-") as scratch, ExitStack() as stack:
        loads = started(options, Path(scratch), stack)
        for load in loads.values():
            load.round(options.runs, 0)
        for _ in range(options.rounds):
            for name, load in loads.items():
                spent, times = load.round(options.runs, options.pause)
                cpu.setdefault(name, []).append(spent)
                latencies_ms.setdefault(name, []).extend(times)
    for name, spent_in_rounds in cpu.items():
        print(
            f"{name:>7}: CPU per record {min(spent_in_rounds):6.1f} µs at best, "
            f"{median(spent_in_rounds):6.1f} µs median; latency {median(latencies_ms[name]):.3f} ms median"
        )
    if "before" in cpu:
        ratios = [ours / theirs for ours, theirs in zip(cpu["now"], cpu["before"], strict=True)]
        print(
            f"  ratio: CPU {min(cpu['now']) / min(cpu['before']):.3f} at best, {median(ratios):.3f} median of the pairs"
        )
    return 0


def started(options: argparse.Namespace, scratch: Path, stack: ExitStack) -> dict[str, Load]:
    """The clusters that take turns, each with a new topic."""
    clusters: dict[str, BrokerCluster] = {}
    if options.kafka:
        clusters["kafka"] = stack.enter_context(KafkaCluster(scratch / "kafka", {}))
    roots = {"now": ROOT} if options.before is None else {"before": options.before, "now": ROOT}
    for name, root in roots.items():
        cluster = stack.enter_context(earlier_cluster(root / "src")(scratch / name, {}))
        assert isinstance(cluster, BrokerCluster)
        clusters[name] = cluster
    loads: dict[str, Load] = {}
    if options.floor:
        floor = stack.enter_context(FloorCluster(scratch / "floor"))
        loads["floor"] = FloorLoad([Client(floor.port) for _ in range(PARTITIONS)], floor.pids, "floor")
    for name, cluster in clusters.items():
        used = stack.enter_context(topic(cluster, PARTITIONS))
        wait_in_sync(cluster.bootstrap, used, PARTITIONS)
        loads[name] = Load.of_topic(cluster, used)
    if options.kafka:
        # The JVMs of the brokers become faster for some ten thousand records.
        for _ in range(WARM_UP_ROUNDS):
            loads["kafka"].round(options.runs, 0)
    return loads


if __name__ == "__main__":
    sys.exit(main())
