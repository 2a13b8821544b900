"""Requests that are read in slices, from the frame to the answer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import route
from ottla.broker.apis import fetch
from ottla.broker.context import ConnectionContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import PendingResponse
from ottla.broker.statistics import NodeStatistics
from ottla.model.errors import ErrorCode
from ottla.wire import codec
from ottla.wire.framing import request_parts
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from tests.support.data_path import LISTENER, DataPath, values

FETCH = 1
VERSION = 12
PARTITIONS = 20


class Waiter:
    def __init__(self) -> None:
        self.times = 0

    def response_ready(self) -> None:
        self.times += 1


class Node(DataPath):
    def start(self) -> None:
        super().start()
        broker = SimpleNamespace(**vars(self.broker), statistics=NodeStatistics())
        self.broker = broker
        self.dispatcher = Dispatcher(broker)
        self.connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=2)

    def send(self, request: FetchRequest, *, version: int = VERSION, cut: int = 0) -> tuple[Any, Waiter]:
        data = b"".join(request_parts(FETCH, version, 9, "me", request))  # type: ignore[arg-type]
        waiter = Waiter()
        frame = memoryview(bytearray(data))[4 : len(data) - cut]
        return self.dispatcher.dispatch(frame, self.connection, waiter), waiter


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(route, "SLICED_BYTES_MIN", 400)
    monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 5)
    with tempfile.TemporaryDirectory() as directory:
        path = Node(directory)
        yield path
        path.stop()


def decoded(parts: list[Any], version: int = VERSION) -> FetchResponse:
    data = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    response, end = codec.decode(FetchResponse, memoryview(data), version, 9)
    assert end == len(data)
    return response


def test_a_giant_fetch_has_its_answer_later(node: Node) -> None:
    node.create_topic("t", PARTITIONS)
    node.append("t", "a", index=7)
    pending, waiter = node.send(node.fetch_request("t", dict.fromkeys(range(PARTITIONS), 0)))
    assert isinstance(pending, PendingResponse)
    assert not pending.ready
    node.virtual.scheduler.run()
    assert (pending.ready, pending.close_reason, waiter.times) == (True, None, 1)
    assert pending.parts is not None
    (topic,) = decoded(pending.parts).responses
    assert [data.partition_index for data in topic.partitions] == list(range(PARTITIONS))
    assert values(topic.partitions[7].records) == ["a"]
    statistics = node.broker.statistics.api(FETCH)
    assert (statistics.requests, statistics.requests_timed, sum(statistics.request_sizes)) == (1, 1, 1)


def test_a_giant_one_is_no_measure_for_others(node: Node) -> None:
    statistics = node.broker.statistics.api(FETCH)
    statistics.requests, statistics.requests_timed = 50, 20
    node.send(node.fetch_request("t", dict.fromkeys(range(PARTITIONS), 0)))
    node.virtual.scheduler.run()
    assert (statistics.requests, statistics.requests_timed, sum(statistics.request_sizes)) == (51, 21, 1)


def test_a_small_one_has_it_at_once(node: Node) -> None:
    node.create_topic("t", PARTITIONS)
    parts, _ = node.send(node.fetch_request("t", {0: 0, 1: 0}))
    assert len(decoded(parts).responses[0].partitions) == 2


def test_followers_are_counted_apart(node: Node) -> None:
    topic_id = node.create_topic("t", PARTITIONS, replicas=(1, 2))
    request = node.fetch_request("", dict.fromkeys(range(PARTITIONS), 0), topic_id=topic_id)
    request.replica_state = ReplicaState(replica_id=2)
    pending, _ = node.send(request, version=17)
    node.virtual.scheduler.run()
    assert {data.error_code for data in decoded(pending.parts, 17).responses[0].partitions} == {0}
    assert node.broker.statistics.api_for_brokers(FETCH).requests == 1
    assert node.broker.statistics.api(FETCH).requests == 0


def test_what_cannot_be_read_ends_the_connection(node: Node) -> None:
    pending, waiter = node.send(node.fetch_request("t", dict.fromkeys(range(PARTITIONS), 0)), cut=100)
    node.virtual.scheduler.run()
    assert (pending.ready, pending.parts, waiter.times) == (True, None, 1)
    assert "a malformed Fetch version 12 request" in pending.close_reason


def test_a_defect_is_an_answer(node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(fetch.handler, "find_targets", fail)
    pending, _ = node.send(node.fetch_request("t", dict.fromkeys(range(PARTITIONS), 0)))
    node.virtual.scheduler.run()
    assert decoded(pending.parts).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "handling Fetch version 12" in caplog.text
    assert node.replicas.parking.parked == 0
