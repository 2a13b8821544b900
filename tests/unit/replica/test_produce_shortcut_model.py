"""The shortcut of Produce gives the same results as the handler, for random requests and concurrent changes.

Two nodes get the same random requests (whole, odd and damaged ones), followers' fetches, elections and time-outs, and
changes of access rules and quotas; one of them takes no shortcut. After every step answers, logs and the times for
which the connection was muted have to be equal, byte by byte.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.produce import shortcut
from ottla.broker.authorization import ResourceType
from ottla.broker.context import CloseConnection, ConnectionContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import PendingResponse
from ottla.broker.request_log import REQUEST_LOGGER
from ottla.broker.statistics import NodeStatistics
from ottla.host.files import OsFile
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.replica.markers import EndMarker, append_marker
from ottla.replica.transactional import TransactionalAppends
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.data_path import LISTENER, DataPath, batch
from tests.support.shortcuts import ChangingQuotas, RuleAuthorizer, UsualDispatcher, WorkingClock

PRODUCE = 0
PARTITIONS = 3
TOPICS: dict[str, dict[str, Any]] = {
    "plain": {},
    "three": {"replicas": (1, 2, 3), "min_insync_replicas": "2"},
    "two": {"replicas": (1, 2)},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "small": {"max_message_bytes": "150"},
    "flushed": {"flush_messages": "1"},
    "compact": {"cleanup_policy": "compact"},
    "packed": {"compression_type": "gzip"},
}
PRODUCERS = (1, 2)


class Waiter:
    def response_ready(self) -> None:
        pass


class Verifier:
    """A coordinator that confirms every transaction except those with an odd epoch."""

    is_enabled = True

    def ask(self, *_: Any, producer_epoch: int, **__: Any) -> Deferred[ErrorCode]:
        return Deferred.resolved(ErrorCode.INVALID_TXN_STATE if producer_epoch % 2 else ErrorCode.NONE)


class Node:
    def __init__(self, directory: str, dispatcher: type[Dispatcher]) -> None:
        self.path = DataPath(directory, properties={"log.dirs": f"{directory}/one,{directory}/two"})
        virtual = self.path.virtual
        self.clock = WorkingClock(virtual.clock)
        broker: Any = SimpleNamespace(
            **vars(self.path.broker),
            statistics=NodeStatistics(),
            transactional_appends=TransactionalAppends(Verifier(), virtual.world.workers),
        )
        broker.world = virtual.world.replaced(clock=self.clock)
        self.dispatcher = dispatcher(broker)
        self.authorizer = RuleAuthorizer()
        self.quotas = ChangingQuotas(self.clock)
        self.muted: list[float] = []
        self.connection = ConnectionContext(
            listener=LISTENER,
            client_host="127.0.0.1",
            client_port=50_000,
            authorizer=self.authorizer,
            quota=self.quotas,
        )
        self.connection.mute = self.muted.append
        self.answers: list[Any] = []

    def send(self, frame: bytes, work_seconds: float = 0.0) -> None:
        self.clock.begin(work_seconds)
        try:
            self.answers.append(self.dispatcher.dispatch(memoryview(bytearray(frame)), self.connection, Waiter()))
        except CloseConnection as order:
            self.answers.append(str(order))

    def state(self) -> Any:
        """Everything that a client or a restart can observe."""
        self.path.virtual.scheduler.run()
        self.path.virtual.workers.run_all()
        self.path.virtual.scheduler.run()
        answers = [
            (answer.parts or answer.close_reason) if isinstance(answer, PendingResponse) else answer
            for answer in self.answers
        ]
        partitions = {
            str(partition): (
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log.log_end_offset,
                len(partition.parked_produces),
                *(getattr(partition.counters, name) for name in partition.counters.__slots__),
                [[str(getattr(entry, name)) for name in entry.__slots__] for entry in partition.log.active_producers()],
            )
            for partition in self.path.replicas.partitions()
        }
        statistics = self.dispatcher._broker.statistics.api(PRODUCE)
        counted = [getattr(statistics, name) for name in ("requests", "errors", "error_codes", "response_bytes")]
        return answers, partitions, self.muted, counted, statistics.throttle_times

    def files(self) -> dict[str, bytes]:
        paths = Path(self.path.directory).rglob("*.log")
        return {os.path.relpath(file, self.path.directory): file.read_bytes().rstrip(b"\0") for file in paths}


def odd_batch(random: Random, sequences: dict[Any, int], place: tuple[str, int]) -> memoryview | None:
    texts = [random.choice("abc") * random.choice((1, 10, 100)) for _ in range(random.randint(1, 3))]
    options: dict[str, Any] = {"keys": random.random() < 0.7}
    if random.random() < 0.6:
        producer_id, epoch = random.choice(PRODUCERS), random.choice((0, 0, 0, 0, 1, 2))
        key = (place, producer_id, epoch)
        sequence = sequences.get(key, 0)
        if random.random() < 0.2:
            sequence = max(0, sequence + random.choice((-2, -1, 1)))
        sequences[key] = sequence + len(texts)
        options.update(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        options["is_transactional"] = random.random() < 0.6
    built = bytearray(batch(*texts, **options))
    fate = random.random()
    if fate < 0.04:
        return None
    if fate < 0.08:
        del built[random.randrange(len(built)) :]
    elif fate < 0.14:
        built[random.randrange(len(built))] ^= 1 << random.randrange(8)
    elif fate < 0.16:
        built += batch("second")
    return memoryview(built)


def usual_frame(random: Random, node: Node) -> bytes:
    """A request of the shape that the shortcut is for, to a topic whose rules may forbid it all the same."""
    name, version = random.choice(("plain", "three", "two", "small", "flushed")), random.choice((9, 12, 13))
    image = node.path.image.topics.by_name.get(name)
    indexes = random.sample(range(PARTITIONS), random.choice((1, 1, 3)))
    data = [PartitionProduceData(index=index, records=batch(random.choice("ab") * 9)) for index in indexes]
    topic_id = Uuid.ZERO if image is None or version < 13 else image.topic_id
    request = ProduceRequest(
        transactional_id=random.choice((None, "mine")),
        acks=random.choice((1, -1)),
        timeout_ms=random.choice((100, 1_000)),
        topic_data=[
            TopicProduceData(name=name if version < 13 else "", topic_id=topic_id, partition_data=data),
        ],
    )
    parts = request_parts(PRODUCE, version, 7, "c", request)
    return b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]


def request_frame(random: Random, node: Node, sequences: dict[Any, int]) -> bytes:
    if random.random() < 0.5:
        return usual_frame(random, node)
    version = random.choice((3, 8, 9, 10, 11, 12, 12, 13, 13))
    topics = []
    for _ in range(1 if random.random() < 0.85 else random.choice((0, 2))):
        name = random.choice(list(TOPICS))
        image = node.path.image.topics.by_name.get(name)
        count = random.choice((0, 1, 1, 2, 3))
        indexes = [random.randrange(PARTITIONS + (random.random() < 0.1)) for _ in range(count)]
        data = [
            PartitionProduceData(index=index, records=odd_batch(random, sequences, (name, index))) for index in indexes
        ]
        topic_id = Uuid.ZERO if image is None or version < 13 else image.topic_id
        topics.append(TopicProduceData(name=name if version < 13 else "", topic_id=topic_id, partition_data=data))
    request = ProduceRequest(
        transactional_id=random.choice((None, None, "", "mine", "mine")),
        acks=random.choice((1, 1, 1, -1, -1, -1, 0, 2)),
        timeout_ms=random.choice((0, 100, 1_000)),
        topic_data=topics,
    )
    frame = bytearray(b"".join(bytes(part) for part in request_parts(PRODUCE, version, 7, "c", request))[4:])  # type: ignore[arg-type]
    fate = random.random()
    if fate < 0.03:
        del frame[random.randrange(9, len(frame)) :]
    elif fate < 0.08:
        frame[random.randrange(8, min(len(frame), 60))] = random.choice((0, 1, 2, 127, 128, 255))
    elif fate < 0.1:
        frame += b"more"
    return bytes(frame)


def happen(random: Random, nodes: list[Node]) -> None:
    """Something other than a request, the same on both nodes."""
    kind, name, index = random.random(), random.choice(list(TOPICS)), random.randrange(PARTITIONS)
    other, producer_id, epoch = random.choice((2, 3)), random.choice(PRODUCERS), random.choice((0, 0, 2))
    behind, leads, isr = random.choice((0, 0, 0, 1, 5)), random.random() < 0.7, random.choice(([1], [1, 2], [1, 2, 3]))
    for node in nodes:
        path = node.path
        partition = path.replicas.present(name, index)
        topic = path.image.topics.by_name.get(name)
        if kind < 0.5:
            if partition is not None and other in (partition.leader_state.followers if partition.leader_state else ()):
                offset = max(0, partition.log.log_end_offset - behind)
                partition.on_follower_fetch(other, fetch_offset=offset, log_start_offset=0, now_ms=1)
        elif kind < 0.65:
            if partition is not None and partition.is_leader:
                marker = EndMarker(producer_id, epoch, 0, is_commit=leads)
                try:
                    append_marker(partition, marker, now_ms=path.virtual.clock.now_ms())
                except Exception as error:  # noqa: BLE001 - refused on both
                    node.answers.append(str(error))
        elif kind < 0.8:
            path.virtual.scheduler.advance(200)
        elif topic is not None and kind < 0.95:
            replicas = TOPICS[name].get("replicas", (1,))
            change = r.PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
            if len(replicas) > 1:
                change.isr = [replica_id for replica_id in isr if replica_id in replicas]
                change.leader = 1 if leads else 2
                path.commit(change)
        elif topic is not None:
            path.commit(r.RemoveTopicRecord(topic_id=topic.topic_id))
        else:
            path.create_topic(name, PARTITIONS, **TOPICS[name])


@pytest.fixture
def nodes(log_directory: str) -> Iterator[list[Node]]:
    new_nodes = [
        Node(f"{log_directory}/{dispatcher_type.__name__}", dispatcher_type)
        for dispatcher_type in (Dispatcher, UsualDispatcher)
    ]
    for node in new_nodes:
        for name, options in TOPICS.items():
            node.path.create_topic(name, PARTITIONS, **options)
    yield new_nodes
    for node in new_nodes:
        node.path.stop()


def change_rules(random: Random, nodes: list[Node]) -> None:
    resources = [*((ResourceType.TOPIC, name) for name in TOPICS), (ResourceType.TRANSACTIONAL_ID, "mine")]
    denied = random.sample(resources, random.choice((0, 1, 4)))
    for node in nodes:
        node.authorizer.deny(*denied)


def change_quotas(random: Random, nodes: list[Node]) -> None:
    quotas = {
        "producer_byte_rate": random.choice((None, 10.0, 1e3)),
        "request_percentage": random.choice((None, 0.1, 50.0)),
    }
    for node in nodes:
        node.quotas.set(quotas)


@pytest.mark.parametrize("changes", [(), (change_rules,), (change_quotas,), (change_rules, change_quotas)])
@pytest.mark.parametrize("seed", range(4))
def test_the_shortcut_does_what_the_handler_does(
    nodes: list[Node], seed: int, changes: tuple[Callable[..., None], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    sequences: dict[Any, int] = {}
    quick, usual = nodes
    shortened = 0
    append = shortcut._append

    def count(*arguments: Any) -> Any:
        nonlocal shortened
        shortened += 1
        return append(*arguments)

    monkeypatch.setattr(shortcut, "_append", count)
    for _ in range(120):
        if random.random() < 0.7:
            frame, work_seconds = request_frame(random, quick, sequences), random.choice((0.0, 0.001, 0.5))
            for node in nodes:
                node.send(frame, work_seconds)
        elif changes and random.random() < 0.3:
            random.choice(changes)(random, nodes)
        else:
            happen(random, nodes)
        for node in nodes:
            node.path.replicas.invariants()
        assert quick.state() == usual.state()
    assert shortened > 10
    if change_quotas in changes:
        assert quick.muted
    for node in nodes:
        node.path.virtual.scheduler.advance(5_000)
    assert quick.state() == usual.state()
    assert quick.files() == usual.files()


@pytest.mark.parametrize("topic", ["plain", "three"])
@pytest.mark.parametrize("version", [12, 13])
def test_a_disk_that_fails_under_a_batch(
    nodes: list[Node], topic: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the batch before fails with it, and the batch behind is on another disk.

    No partition may get the outcome of a batch that was never written.
    """
    append, codes = OsFile.append, []
    for node in nodes:
        path = node.path
        directories = [path.logs.directory_of(path.partition(topic, index).topic_partition) for index in range(3)]
        failing = next(directory for directory in directories if directories.count(directory) == 2)
        order = sorted(range(3), key=lambda index: directories[index] is not failing)
        data = [PartitionProduceData(index=index, records=batch("a")) for index in order]
        image = path.image.topics.by_name[topic]
        topic_id = Uuid.ZERO if version < 13 else image.topic_id
        wanted = TopicProduceData(name=topic if version < 13 else "", topic_id=topic_id, partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[wanted])
        frame = b"".join(bytes(part) for part in request_parts(PRODUCE, version, 7, "c", request))[4:]  # type: ignore[arg-type]
        calls = iter(range(3))

        def fail_once(*arguments: Any, calls: Iterator[int] = calls) -> Any:
            if next(calls) == 1:
                raise OSError(errno.EIO, "Input/output error")
            return append(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(OsFile, "append", fail_once)
            node.send(frame)
        kept = path.partition(topic, order[-1])
        assert kept.log.log_end_offset == 1
        for follower in kept.leader_state.followers if kept.leader_state else ():
            kept.on_follower_fetch(follower, fetch_offset=1, log_start_offset=0, now_ms=1)
        (answer,) = node.state()[0]
        response, _ = decode(ProduceResponse, memoryview(b"".join(answer)), version, 9)
        codes.append([ErrorCode(partition.error_code) for partition in response.responses[0].partition_responses])
    before = ErrorCode.NONE if topic == "plain" else ErrorCode.KAFKA_STORAGE_ERROR
    assert codes == [[before, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]] * 2


def test_a_transactional_id_that_is_denied_later(nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    appended: list[Any] = []
    append = shortcut._append
    monkeypatch.setattr(shortcut, "_append", lambda *arguments: appended.append(arguments) or append(*arguments))
    codes = []
    for node in nodes:
        for sequence in range(4):
            if sequence == 3:
                node.authorizer.deny((ResourceType.TRANSACTIONAL_ID, "mine"))
            records = batch("a", producer_id=1, producer_epoch=0, base_sequence=sequence, is_transactional=True)
            wanted = TopicProduceData(name="plain", partition_data=[PartitionProduceData(index=0, records=records)])
            request = ProduceRequest(transactional_id="mine", acks=1, timeout_ms=100, topic_data=[wanted])
            node.send(b"".join(bytes(part) for part in request_parts(PRODUCE, 12, 7, "c", request))[4:])  # type: ignore[arg-type]
            node.state()
        for answer in node.state()[0]:
            response, _ = decode(ProduceResponse, memoryview(b"".join(answer)), 12, 9)
            codes.append(response.responses[0].partition_responses[0].error_code)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes == [0, 0, 0, refused] * 2
    # The first batch begins the transaction and waits for its coordinator; the next two take the shortcut.
    assert len(appended) == 2


def test_a_request_that_takes_the_shortcut_is_in_the_request_log(
    nodes: list[Node], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(REQUEST_LOGGER, "level", logging.DEBUG)
    wanted = TopicProduceData(name="plain", partition_data=[PartitionProduceData(index=0, records=batch("a"))])
    request = ProduceRequest(acks=1, timeout_ms=100, topic_data=[wanted])
    for node in nodes:
        node.send(b"".join(bytes(part) for part in request_parts(PRODUCE, 12, 7, "c", request))[4:])  # type: ignore[arg-type]
    shortened, usual = caplog.messages
    assert shortened == usual
    assert shortened.startswith("request=Produce version=12 correlation=7 client=c")
