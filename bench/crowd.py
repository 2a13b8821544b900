"""`python -m bench.crowd`: many connections to one broker, Ottla and Apache Kafka in turn in the same run.

Of 10,000 connections 5,000 produce one record per second, 1,000 are members of a group each (a heartbeat every three
seconds, a commit every five), and the rest are idle. Measured: the broker's memory per idle connection, the latency of
a produce from the time at which it was due to its answer, and the broker's CPU. The client is this process: one thread,
prebuilt frames and `epoll`; its own CPU is printed, because a busy client would be late itself.
"""

from __future__ import annotations

import argparse
import resource
import select
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.cases import Goal, Metrics
from bench.commits import commit_frame, percentile
from bench.measure import cpu_seconds, resident_bytes
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, as_result
from ottla.model.ports import FileRegion
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.brokers import ApacheKafka, Broker, OttlaNode
from tests.support.raw_client import RawClient

__all__ = ["SPECIALS", "main"]

GROUP = "many connections"
NAME = "10,000 connections, 5,000 producers of a record per second, 1,000 groups"
MEMORY, P99 = "KiB/idle connection", "produce p99 ms"
# Stands in for Apache Kafka if it does not survive.
BUDGET = {MEMORY: 4.0, P99: 10.0}

TOPIC = "crowd"
PARTITIONS = 100
RECORD_BYTES = 100
HEARTBEAT_S, COMMIT_S, PRODUCE_S = 3.0, 5.0, 1.0
WARM_UP_S = 3.0
# The answer to a produce, heartbeat or commit is shorter.
ANSWER_BYTES_MAX = 4096
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "connections.max.idle.ms": "600000",
    "num.partitions": "1",
}


class Sender:
    """One connection with a frame that it sends periodically, and the times at which it is due."""

    __slots__ = ("due", "frames", "index", "is_produce", "period_s", "sent_due", "socket")

    def __init__(self, connection: socket.socket, frames: list[bytes], period_s: float, *, is_produce: bool) -> None:
        self.socket = connection
        self.frames = frames
        self.period_s = period_s
        self.is_produce = is_produce
        self.index = 0
        self.due = 0.0
        self.sent_due = 0.0


class Crowd:
    """All connections of the client."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._bootstrap = bootstrap
        self.idle: list[socket.socket] = []
        self.senders: list[Sender] = []

    def connect(self, count: int) -> None:
        """Connections that have sent ApiVersions, as every client does, and nothing since."""
        hello = frame_of(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
        for start in range(0, count, 50):
            batch = [socket.create_connection(self._address, timeout=60) for _ in range(min(50, count - start))]
            for connection in batch:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(hello)
            for connection in batch:
                receive_frame(connection)
            self.idle += batch

    def add_producers(self, count: int) -> None:
        frames = [produce_frame(partition) for partition in range(PARTITIONS)]
        for number in range(count):
            frame = frames[number % PARTITIONS]
            self.senders.append(Sender(self.idle.pop(), [frame], PRODUCE_S, is_produce=True))

    def add_members(self, count: int) -> None:
        """Each joins its own group, and then sends heartbeats, with commits in between."""
        for number in range(count):
            group = f"group-{number}"
            member_id, generation = join(self._bootstrap, group)
            heartbeat = frame_of(
                HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id), version=4
            )
            commit = commit_frame(f"commits-{number}", TOPIC, [0], offset=number)
            self.senders.append(Sender(self.idle.pop(), [heartbeat], HEARTBEAT_S, is_produce=False))
            self.senders.append(Sender(self.idle.pop(), [commit], COMMIT_S, is_produce=False))

    def run(self, seconds: float) -> list[float]:
        """Sends what is due for some seconds; the latencies of the produces after a warm-up, in milliseconds."""
        began = time.monotonic()
        for number, sender in enumerate(self.senders):
            sender.socket.setblocking(False)
            sender.due = began + sender.period_s * (number * 0.618 % 1.0)
        latencies: list[float] = []
        epoll = select.epoll()
        by_descriptor = {sender.socket.fileno(): sender for sender in self.senders}
        for descriptor in by_descriptor:
            epoll.register(descriptor, select.EPOLLIN)
        schedule = Schedule(self.senders, began)
        while (now := time.monotonic()) < began + seconds:
            for sender in schedule.due_until(now):
                sender.sent_due = sender.due
                sender.due += sender.period_s
                sender.socket.send(sender.frames[0])
                schedule.add(sender)
            for descriptor, _ in epoll.poll(max(0.0, schedule.wait_s(time.monotonic()))):
                sender = by_descriptor[descriptor]
                if not sender.socket.recv(ANSWER_BYTES_MAX):
                    raise ConnectionError("the broker closed a connection")
                now = time.monotonic()
                if sender.is_produce and now > began + WARM_UP_S:
                    latencies.append((now - sender.sent_due) * 1000)
        epoll.close()
        return latencies

    def close(self) -> None:
        for connection in (*self.idle, *(sender.socket for sender in self.senders)):
            connection.close()


class Schedule:
    """Senders in buckets of a millisecond."""

    def __init__(self, senders: list[Sender], began: float) -> None:
        self._began = began
        self._next = 0
        self._buckets: dict[int, list[Sender]] = {}
        for sender in senders:
            self.add(sender)

    def add(self, sender: Sender) -> None:
        self._buckets.setdefault(int((sender.due - self._began) * 1000), []).append(sender)

    def due_until(self, now: float) -> Iterator[Sender]:
        while self._next < int((now - self._began) * 1000):
            yield from self._buckets.pop(self._next, ())
            self._next += 1

    def wait_s(self, now: float) -> float:
        return self._began + (self._next + 1) / 1000 - now


def frame_of(request: Message, version: int) -> bytes:
    parts = request_parts(request.API_KEY, version, 1, "bench", request)
    return b"".join(part for part in parts if not isinstance(part, FileRegion))


def produce_frame(partition: int) -> bytes:
    batch = build_batch([Record(value=b"x" * RECORD_BYTES, timestamp=int(time.time() * 1000))])
    data = TopicProduceData(
        name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=memoryview(batch))]
    )
    return frame_of(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), version=11)


def receive_frame(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("the broker closed a connection")
        data += piece
    return data


def join(bootstrap: str, group: str) -> tuple[str, int]:
    """A member that is alone in its group: its id and generation."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    with RawClient(bootstrap) as client:
        member_id = ""
        for _ in range(2):
            joined = client.call(
                JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=45_000,
                    rebalance_timeout_ms=60_000,
                    member_id=member_id,
                    protocol_type="consumer",
                    protocols=protocols,
                ),
                version=7,
            )
            member_id = joined.member_id
            if joined.error_code == 0:
                break
        assert joined.error_code == 0, joined
        assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"")
        synced = client.call(
            SyncGroupRequest(
                group_id=group, generation_id=joined.generation_id, member_id=member_id, assignments=[assignment]
            ),
            version=3,
        )
        assert synced.error_code == 0, synced
    return member_id, joined.generation_id


def prepare(bootstrap: str) -> None:
    """The topic, and the topic of the groups."""
    with RawClient(bootstrap) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version=7)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            response = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["group-0"]), version=4)
            if response.coordinators[0].error_code == 0:
                return
            time.sleep(0.1)
    raise TimeoutError("no coordinator")


@dataclass(frozen=True)
class Size:
    connections: int = 10_000
    producers: int = 5_000
    groups: int = 1_000
    seconds: float = 15.0


def measure(broker: Broker, size: Size) -> Metrics:
    connections, seconds = size.connections, size.seconds
    prepare(broker.bootstrap)
    crowd = Crowd(broker.bootstrap)
    try:
        # The first connections pay for what a broker loads on first use.
        crowd.connect(connections // 10)
        memory = resident_bytes(broker.pid)
        began = time.monotonic()
        crowd.connect(connections - connections // 10)
        metrics: Metrics = {
            "connecting s": time.monotonic() - began,
            MEMORY: (resident_bytes(broker.pid) - memory) / (connections * 0.9) / 1024,
        }
        crowd.add_producers(size.producers)
        crowd.add_members(size.groups)
        broker_cpu_s, client_cpu_s = cpu_seconds(broker.pid), time.process_time()
        latencies = crowd.run(seconds)
        metrics["produce p50 ms"] = statistics.median(latencies)
        metrics[P99] = percentile(latencies, 0.99)
        metrics["longest ms"] = max(latencies)
        metrics["records/s"] = len(latencies) / (seconds - WARM_UP_S)
        metrics["broker CPU %"] = (cpu_seconds(broker.pid) - broker_cpu_s) / seconds * 100
        metrics["client CPU %"] = (time.process_time() - client_cpu_s) / seconds * 100
        metrics["RSS MB"] = resident_bytes(broker.pid) / 1e6
        return metrics
    finally:
        crowd.close()


def measure_fresh(make: Callable[[Path], Broker], size: Size, directory: Path) -> Metrics:
    """A new broker; without figures if it does not survive."""
    with make(directory) as broker:
        try:
            return measure(broker, size)
        except (OSError, TimeoutError) as error:
            print(f"{broker.name} failed: {error}", flush=True)
            return {}


def ottla_node(directory: Path) -> Broker:
    return OttlaNode(directory, SETTINGS)


def apache_kafka(directory: Path) -> Broker:
    return ApacheKafka(directory, SETTINGS)


def measure_special(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    allow_open_files(Size().connections)
    figures: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    for run in range(runs):
        for side, make in ((PEER, apache_kafka), (OURS, ottla_node)):
            data = directory / f"crowd-{side}-{run}"
            data.mkdir(parents=True)
            metrics = measure_fresh(make, Size(), data)
            assert metrics or side == PEER, "Ottla did not survive"
            figures[side].append(metrics or dict(BUDGET))
    return as_result(GROUP, NAME, dict.fromkeys(BUDGET, Goal(ratio=1.0)), figures)


SPECIALS: tuple[Special, ...] = ((f"{GROUP}: {NAME}", 90.0, measure_special),)


def allow_open_files(connections: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert hard > connections + 100, f"at most {hard} open files"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=Size.connections)
    parser.add_argument("--producers", type=int, default=Size.producers)
    parser.add_argument("--groups", type=int, default=Size.groups)
    parser.add_argument("--seconds", type=float, default=Size.seconds)
    parser.add_argument("--without-kafka", action="store_true")
    options = parser.parse_args()
    size = Size(options.connections, options.producers, options.groups, options.seconds)
    allow_open_files(size.connections)
    for make in [ottla_node] if options.without_kafka else [ottla_node, apache_kafka]:
        with tempfile.TemporaryDirectory() as directory:
            metrics = measure_fresh(make, size, Path(directory))
        print(f"{make.__name__}: " + "  ".join(f"{name} {value:.2f}" for name, value in metrics.items()), flush=True)


if __name__ == "__main__":
    main()
