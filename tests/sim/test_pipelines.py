"""Random pipelines of all APIs: the answers do not depend on whether the client waits for each of them.

Two clusters of the same seed get the same requests on one connection, in one cluster all at once, in the other one
after the other. Their answers must be equal except for times and random values.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from ottla.broker.apis import HANDLERS
from ottla.model.ids import Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.sim.cluster import ClusterLayout, SimCluster
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.network import Socket
from ottla.sim.process import Process
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message, Structure
from ottla.wire.primitives import skip_tags
from ottla.wire.schema import fields_at
from tests.wire.values import message_at

NAMES = ("t", "u", "g", "")
# The longest time until the answer of an API here.
WAIT_MS_MAX = 300
PIPELINE_SECONDS = 90

# Random values and times, which are not compared.
VARYING = frozenset(
    {
        "throttle_time_ms",
        "member_id",
        "leader",
        "members",
        "topic_id",
        "log_append_time_ms",
        "timestamp",
        "max_timestamp",
        "last_timestamp",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "transaction_start_time_ms",
        "usable_bytes",
        "total_bytes",
        "session_id",
        "producer_id",
        "user_data",
        "incarnation_id",
    }
)


class Client:
    """A connection to a cluster of one node."""

    def __init__(self, seed: int) -> None:
        self.kernel = Kernel(seed)
        settings = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
        self.cluster = SimCluster(self.kernel, ClusterLayout(nodes=1, controllers=1, settings=settings))
        self.cluster.start()
        self.kernel.run_until(120 * SECOND_US, lambda: self.cluster.all_serve)
        self.process = Process(self.kernel, "client", on_defect=self.cluster.report_defect)
        self.received = bytearray()
        self.is_closed = False
        self.socket: Socket | None = None
        endpoint = self.cluster.endpoints[0]
        self.cluster.network.connect(
            process=self.process,
            source="10.0.1.1",
            target=endpoint.host,
            port=endpoint.port,
            on_connected=self._on_connected,
            on_refused=lambda _: None,
        )
        self.run(lambda: self.socket is not None)

    def _on_connected(self, socket: Socket) -> None:
        self.socket = socket
        self._unsent = b""
        socket.take(on_readable=self._read, on_writable=self._write, on_closed=self._on_closed)

    def _on_closed(self, _reason: str) -> None:
        self.is_closed = True

    def _read(self) -> None:
        assert self.socket is not None
        buffer = bytearray(65536)
        self.received += buffer[: self.socket.recv_into(memoryview(buffer))]

    def _write(self) -> None:
        assert self.socket is not None
        while self._unsent and not self.socket.is_closed:
            try:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            except BlockingIOError:
                return

    def run(self, is_done: Any) -> None:
        self.kernel.run_until(self.kernel.now_us + PIPELINE_SECONDS * SECOND_US, is_done)

    def send(self, data: bytes) -> None:
        self._unsent += data
        self.process.run(self._write, ())

    def frames(self) -> list[bytes]:
        complete_frames, position = [], 0
        while len(self.received) - position >= 4:
            end = position + 4 + int.from_bytes(self.received[position : position + 4], "big")
            if end > len(self.received):
                break
            complete_frames.append(bytes(self.received[position + 4 : end]))
            position = end
        return complete_frames


def tame(structure: Structure, version: int, random: Random) -> None:
    """Changes a random message to one that a client could send: names that exist, and short waits."""
    for field in fields_at(type(structure), version):
        name = field.name
        value = getattr(structure, name) if field.present else None
        if isinstance(value, list):
            for element in value:
                if isinstance(element, Structure):
                    tame(element, version, random)
            if value and isinstance(value[0], str):
                setattr(structure, name, [random.choice(NAMES) for _ in value[:3]])
            elif value and isinstance(value[0], int):
                setattr(structure, name, [random.choice((0, 1)) for _ in value[:3]])
        elif isinstance(value, Structure):
            tame(value, version, random)
        elif isinstance(value, str):
            setattr(structure, name, random.choice(NAMES))
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int):
            setattr(structure, name, random.choice((0, 0, 1, 3) if field.kind.startswith("uint") else (-1, 0, 1, 3)))
        if not field.present:
            continue
        if "wait" in name or "timeout" in name or name.endswith("lifetime_ms"):
            setattr(structure, name, random.choice((0, WAIT_MS_MAX)))


def requests_of(random: Random, count: int) -> list[tuple[int, int, Message]]:
    requests = []
    for _ in range(count):
        api_key = random.choice(sorted(HANDLERS))
        spec, handler = API_SPECS[ApiKey(api_key)], HANDLERS[api_key]
        lowest = max(handler.min_version, spec.schema_min_version)
        version = random.randint(lowest, min(handler.max_version, spec.schema_max_version))
        request = message_at(spec.request_class, version, random)
        tame(request, version, random)
        if api_key == ApiKey.PRODUCE:
            request.acks = random.choice((1, -1))
            for topic in request.topic_data:
                for data in topic.partition_data:
                    data.records = memoryview(build_batch([Record(value=b"v", timestamp=1)]))
        requests.append((api_key, version, request))
    return requests


def encoded(requests: Sequence[tuple[int, int, Message]]) -> list[bytes]:
    frames = []
    for number, (api_key, version, request) in enumerate(requests):
        parts = request_parts(api_key, version, number, "client", request)
        frames.append(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]
    return frames


def shown(value: Any, version: int) -> Any:
    """A response as plain values, without the varying fields."""
    if isinstance(value, Structure):
        fields = [field.name for field in fields_at(type(value), version) if field.present]
        return {name: shown(getattr(value, name), version) for name in fields if name not in VARYING}
    if isinstance(value, list):
        return [shown(element, version) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return "an id" if isinstance(value, Uuid) and value != Uuid.ZERO else value


def answers(client: Client, requests: Sequence[tuple[int, int, Message]]) -> list[Any]:
    received = []
    for frame, (api_key, version, _) in zip(client.frames(), requests, strict=False):
        spec = API_SPECS[ApiKey(api_key)]
        view = memoryview(bytearray(frame))
        position = skip_tags(view, 5, view[4], len(view)) if spec.response_header_version(version) else 4
        response, _ = decode(spec.response_class, view, version, position)
        received.append((spec.name, int.from_bytes(frame[:4], "big"), shown(response, version)))
    return received


def first_requests() -> list[tuple[int, int, Message]]:
    """Topics and a group, so that random requests find something."""
    from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("t", "u")]
    return [(int(ApiKey.CREATE_TOPICS), 7, CreateTopicsRequest(topics=topics, timeout_ms=5000))]


def run(seed: int, *, is_pipelined: bool) -> list[Any]:
    random = Random(seed)
    client = Client(seed)
    requests = [*first_requests(), *requests_of(random, 40)]
    frames = encoded(requests)
    if is_pipelined:
        client.send(b"".join(frames))
        client.run(lambda: client.is_closed or len(client.frames()) == len(frames))
    else:
        for number, frame in enumerate(frames, 1):
            client.send(frame)
            client.run(lambda number=number: client.is_closed or len(client.frames()) == number)
            if client.is_closed:
                break
    assert not [finding for finding in client.cluster.findings if finding.rule != "no defects"], client.cluster.findings
    return answers(client, requests)


@pytest.mark.parametrize("seed", range(30))
def test_a_pipeline_is_answered_as_requests_one_by_one_are(seed: int) -> None:
    one_by_one, pipelined = run(seed, is_pipelined=False), run(seed, is_pipelined=True)
    for expected, answer in zip(one_by_one, pipelined, strict=False):
        assert answer == expected
    assert len(pipelined) == len(one_by_one)
