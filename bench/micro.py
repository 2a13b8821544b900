"""`python -m bench.micro`: a node's CPU time per request, for one kind of request at a time.

The client sends frames that were built beforehand and keeps a fixed number of them in flight, so that the broker does
nearly all the work. The figure is the CPU clock of the node's process (user and system, all threads, in nanoseconds)
over a fixed number of requests; the best of several rounds is the one with the least interference.

With `--before DIRECTORY` (another checkout) two nodes take turns, and each case shows both and their ratio.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import cpu_ns, touch_memory
from ottla.model.ports import FileRegion
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.framing import request_parts
from ottla.wire.message import Part
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["main"]

PRODUCE, FETCH, FIND_COORDINATOR, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 10, 19, 22
PRODUCE_VERSION, FETCH_VERSION = 12, 12
PARTITIONS = 6
PARTITIONS_MANY = 1000


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    # The frames to send; some need an answer of the node first.
    frames: Callable[[Client], Iterator[bytes]]
    requests: int
    in_flight: int


class Client:
    """A connection that speaks whole frames."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb", buffering=1 << 18)

    def call(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        return self._answer()

    def drive(self, frames: list[bytes], *, in_flight: int) -> None:
        """Sends all frames with a fixed number of unanswered requests."""
        for start in range(in_flight):
            self._socket.sendall(frames[start])
        for frame in frames[in_flight:]:
            self._answer()
            self._socket.sendall(frame)
        for _ in range(in_flight):
            self._answer()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def _answer(self) -> bytes:
        (size,) = struct.unpack(">i", self._answers.read(4))
        return bytes(self._answers.read(size))


def joined(parts: list[Part]) -> bytes:
    return b"".join(part for part in parts if not isinstance(part, FileRegion))


def produce_frame(
    topic: str, batch: bytes, *, acks: int, partitions: range = range(1), transactional_id: str | None = None
) -> bytes:
    data = [PartitionProduceData(index=index, records=memoryview(batch)) for index in partitions]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    return joined(request_parts(PRODUCE, PRODUCE_VERSION, 1, "micro", request))


def batch_of(
    count: int, value_bytes: int, *, producer_id: int = -1, sequence: int = -1, is_transactional: bool = False
) -> bytes:
    now_ms = int(time.time() * 1000)
    records = [Record(offset=n, timestamp=now_ms, key=None, value=os.urandom(value_bytes)) for n in range(count)]
    epoch = 0 if producer_id >= 0 else -1
    return bytes(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


def produce(count: int, value_bytes: int, *, acks: int = 1, partitions: int = 1) -> Callable[[Client], Iterator[bytes]]:
    def frames(client: Client) -> Iterator[bytes]:  # noqa: ARG001
        frame = produce_frame("micro", batch_of(count, value_bytes), acks=acks, partitions=range(partitions))
        while True:
            yield frame

    return frames


def produce_idempotent(count: int, value_bytes: int) -> Callable[[Client], Iterator[bytes]]:
    def frames(client: Client) -> Iterator[bytes]:
        parts = request_parts(INIT_PRODUCER_ID, 4, 1, "micro", InitProducerIdRequest(transaction_timeout_ms=60_000))
        (producer_id,) = struct.unpack_from(">q", client.call(joined(parts)), 11)
        sequence = 0
        while True:
            batch = batch_of(count, value_bytes, producer_id=producer_id, sequence=sequence)
            yield produce_frame("micro", batch, acks=-1)
            sequence += count

    return frames


def produce_in_transaction(count: int, value_bytes: int) -> Callable[[Client], Iterator[bytes]]:
    """One open transaction of a separate producer."""

    def frames(client: Client) -> Iterator[bytes]:
        transactional_id = f"micro-{time.monotonic_ns()}"
        find_coordinator = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        client.call(joined(request_parts(FIND_COORDINATOR, 4, 1, "micro", find_coordinator)))
        begin = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=900_000)
        error, producer_id = -1, -1
        while error:
            answer = client.call(joined(request_parts(INIT_PRODUCER_ID, 4, 1, "micro", begin)))
            error, producer_id = struct.unpack_from(">hq", answer, 9)
        sequence = 0
        while True:
            batch = batch_of(count, value_bytes, producer_id=producer_id, sequence=sequence, is_transactional=True)
            yield produce_frame("micro", batch, acks=-1, transactional_id=transactional_id)
            sequence += count

    return frames


def fetch(topic: str, max_bytes: int, *, partitions: int = 1, step: int = 1) -> Callable[[Client], Iterator[bytes]]:
    def frames(client: Client) -> Iterator[bytes]:  # noqa: ARG001
        offset = 0
        while True:
            fetched = [
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
                for index in range(partitions)
            ]
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=50 << 20,
                session_epoch=-1,
                topics=[FetchTopic(topic=topic, partitions=fetched)],
            )
            yield joined(request_parts(FETCH, FETCH_VERSION, 1, "micro", request))
            offset = (offset + step) % 1000

    return frames


def fetch_session(client: Client) -> Iterator[bytes]:
    """An incremental session over many idle partitions: the cost of a waiting consumer of a wide topic."""
    fetched = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(PARTITIONS_MANY)]
    topics = [FetchTopic(topic="micro-many", partitions=fetched)]
    opening = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, session_epoch=0, topics=topics)
    answer = client.call(joined(request_parts(FETCH, FETCH_VERSION, 1, "micro", opening)))
    (session_id,) = struct.unpack_from(">i", answer, 11)
    epoch = 1
    while True:
        following = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, session_id=session_id, session_epoch=epoch
        )
        yield joined(request_parts(FETCH, FETCH_VERSION, 1, "micro", following))
        epoch += 1


CASES = [
    Case("produce 1x100B, 1 in flight", produce(1, 100), 3000, 1),
    Case("produce 1x100B, 5 in flight", produce(1, 100), 6000, 5),
    Case("produce 1x100B, 5 in flight, idempotent, all", produce_idempotent(1, 100), 6000, 5),
    Case("produce 16 KiB, 5 in flight", produce(16, 1000), 6000, 5),
    Case("produce 16 KiB, 5 in flight, idempotent, all", produce_idempotent(16, 1000), 3000, 5),
    Case("produce 16 KiB, 5 in flight, transactional", produce_in_transaction(16, 1000), 3000, 5),
    Case("produce 6 x 16 KiB, 5 in flight", produce(16, 1000, partitions=6), 1500, 5),
    Case("produce 128 KiB, 5 in flight", produce(128, 1000), 1000, 5),
    Case("fetch one 16 KiB batch", fetch("micro-read", 1024), 4000, 1),
    Case("fetch 48 KiB", fetch("micro-read", 50_000), 3000, 1),
    Case("fetch 112 KiB", fetch("micro-read", 115_000), 2000, 1),
    Case("fetch 1 MiB", fetch("micro-read", 1 << 20), 1000, 1),
    Case("fetch one 100 B record", fetch("micro-small", 100), 4000, 1),
    Case("fetch session of 1000 idle partitions", fetch_session, 300, 1),
]


@contextmanager
def node(root: Path, settings: Mapping[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """A node of that checkout: its process id and port."""
    own = [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory(prefix="ottla-micro-") as directory:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from ottla.cli.main import main; main()",
                "up",
                "--port",
                "0",
                "--data",
                directory,
                *own,
            ],
            env={**os.environ, "PYTHONPATH": str(root / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if line.startswith("ready"))
            match = re.search(r":(\d+)", line)
            assert match is not None, line
            yield process.pid, int(match[1])
        finally:
            process.terminate()
            process.wait()


def prepare(port: int) -> None:
    client = Client(port)
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name, partitions in (
            ("micro", PARTITIONS),
            ("micro-read", 1),
            ("micro-small", 1),
            ("micro-many", PARTITIONS_MANY),
        )
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=60_000)
    client.call(joined(request_parts(CREATE_TOPICS, 7, 1, "micro", request)))
    for topic, count, value_bytes in (("micro-read", 16, 1000), ("micro-small", 1, 100)):
        frame = produce_frame(topic, batch_of(count, value_bytes), acks=1)
        client.drive([frame] * 2000, in_flight=5)
    client.close()


def measure(case: Case, pid: int, port: int) -> float:
    """Microseconds of the node's CPU time per request."""
    client = Client(port)
    frames_of_case = case.frames(client)
    frames = [next(frames_of_case) for _ in range(case.requests)]
    touch_memory(Path(tempfile.gettempdir()), sum(map(len, frames)) * 5 // 4)
    before = cpu_ns(pid)
    client.drive(frames, in_flight=case.in_flight)
    spent = cpu_ns(pid) - before
    client.close()
    return spent / case.requests / 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout, to be compared with this one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name matches this pattern")
    arguments = parser.parse_args()
    roots = [Path(__file__).parent.parent, *([arguments.before] if arguments.before else [])]
    with ExitStack() as stack:
        nodes = [stack.enter_context(node(root)) for root in roots]
        for _, port in nodes:
            prepare(port)
        for case in CASES:
            if not re.search(arguments.only, case.name):
                continue
            rounds = [[measure(case, pid, port) for pid, port in nodes] for _ in range(arguments.rounds)]
            best = [min(column) for column in zip(*rounds, strict=True)]
            ratio = f"   before {best[1]:7.1f} µs   ratio {best[0] / best[1]:.3f}" if len(best) > 1 else ""
            print(f"{case.name:48} {best[0]:7.1f} µs{ratio}", flush=True)


if __name__ == "__main__":
    main()
