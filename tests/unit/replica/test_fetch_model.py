"""The shortcuts of Fetch do not change responses, for random fetches and concurrent changes.

Nodes get the same random fetches of consumers and followers, appends, elections, deletions and time-outs. One is
as it is; one takes no shortcut for the usual fetches of followers; one looks at every partition each time, where the
others pass over those of which all is known; one works at every fetch in slices, as if it named very many partitions.
All answers have to be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import fetch
from ottla.broker.context import ConnectionContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import PendingResponse
from ottla.broker.statistics import NodeStatistics
from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.replica import fetch_serving, follower_serving, gathering, giant_fetch
from ottla.replica.fetch_serving import Fetch
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tests.support.data_path import LISTENER, DataPath, batch
from tests.support.shortcuts import UsualDispatcher

FETCH = 1
PARTITIONS = 3
REPLICAS = {"alone": (1,), "shared": (1, 2)}
AS_IT_IS, PLAIN, ATTENTIVE, SLICED = range(4)


class AttentiveFetch(Fetch):
    """A session that looks at every partition."""

    __slots__ = ()

    def _is_quiet_consumer(self, *_: Any) -> bool:
        return False

    def _is_quiet_follower(self, *_: Any) -> bool:
        return False


class Waiter:
    def response_ready(self) -> None:
        pass


class Node:
    def __init__(self, directory: str, kind: int) -> None:
        self.kind = kind
        self.path = DataPath(directory)
        broker: Any = SimpleNamespace(**vars(self.path.broker), statistics=NodeStatistics())
        self.dispatcher = (Dispatcher if kind == AS_IT_IS else UsualDispatcher)(broker)
        self.connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=50_000)
        self.answers: list[Any] = []
        self.waiting: list[int] = []

    def send(self, request: FetchRequest, version: int) -> None:
        parts = request_parts(FETCH, version, 7, "c", request)
        frame = b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as patched:
            if self.kind == ATTENTIVE:
                patched.setattr(fetch.handler, "Fetch", AttentiveFetch)
            elif self.kind == SLICED:
                patched.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 0)
            answer = self.dispatcher.dispatch(memoryview(bytearray(frame)), self.connection, Waiter())
        self.waiting.append(len(self.answers))
        self.answers.append((version, answer))

    def answer(self, number: int) -> FetchResponse | None:
        """The bytes that the client receives; None while the response is pending."""
        version, answer = self.answers[number]
        parts = answer.parts if isinstance(answer, PendingResponse) else answer
        if parts is None:
            return None
        data = b"".join(part.read() if isinstance(part, FileRegion) else bytes(part) for part in parts)
        return decode(FetchResponse, memoryview(data), version, 8 if version < 12 else 9)[0]

    def state(self) -> Any:
        self.path.virtual.scheduler.run()
        partitions = {
            str(partition): (
                partition.high_watermark,
                partition.log.log_end_offset,
                partition.log.log_start_offset,
                [
                    (progress.node_id, progress.log_end_offset, progress.log_start_offset, progress.replica_epoch)
                    for progress in (partition.leader_state.followers.values() if partition.leader_state else ())
                ],
                (partition.counters.fetches, partition.counters.replica_bytes_out, partition.counters.bytes_out),
            )
            for partition in self.path.replicas.partitions()
        }
        # The pending responses, and the responses of this step.
        waiting = self.waiting
        answers = {number: comparable(self.answer(number)) for number in waiting}
        self.waiting = [number for number in waiting if answers[number] is None]
        return answers, partitions


def comparable(response: FetchResponse | None) -> Any:
    """The response without the session's id and the partitions' order, which depends on when they were last served."""
    if response is None:
        return None
    partitions = [(topic.topic, str(topic.topic_id), data) for topic in response.responses for data in topic.partitions]
    for *_, data in partitions:
        data.records = bytes(data.records or b"")  # type: ignore[arg-type]
    return response.error_code, response.session_id > 0, sorted((*place, str(data)) for *place, data in partitions)


class Client:
    """A consumer or a follower whose requests are mostly valid."""

    # How often a follower repeats a request before its response arrives.
    haste = 0.0

    def __init__(self, *, version: int, replica_id: int = -1) -> None:
        self.version = version
        self.replica_id = replica_id
        # The session's id on each node: it depends on which of several fetches was answered first.
        self.session_ids = [0, 0, 0, 0]
        self.epoch = 0
        self.asked: int | None = None

    def send(self, random: Random, nodes: list[Node]) -> None:
        if self.asked is not None:
            self._hear(nodes)
        if self.asked is not None and self.replica_id >= 0 and random.random() >= self.haste:
            # A follower has one request under way at a time; consumers also ask out of turn here.
            return
        if self.asked is not None and self.haste:
            self.epoch += self.epoch > 0
        request = self._request(random, nodes[0])
        for node, session_id in zip(nodes, self.session_ids, strict=False):
            request.session_id = session_id
            node.send(request, self.version)

    def _request(self, random: Random, node: Node) -> FetchRequest:
        if random.random() < 0.05:
            self.epoch = random.choice((0, -1, self.epoch + 1))
        topics = node.path.image.topics.by_name
        names = [name for name in sorted(REPLICAS) if name in topics]
        wanted = FetchRequest(
            session_epoch=self.epoch,
            max_wait_ms=random.choice((0, 100, 300)),
            min_bytes=random.choice((1, 1, 1, 300)),
            max_bytes=1 << 20,
            isolation_level=0 if self.replica_id >= 0 else random.choice((0, 0, 1)),
        )
        if self.replica_id >= 0:
            wanted.replica_state = ReplicaState(replica_id=self.replica_id, replica_epoch=self._epoch(random))
        is_full = self.epoch <= 0
        for name in names:
            if self.replica_id >= 0 and self.replica_id not in REPLICAS[name]:
                continue
            topic_id = topics[name].topic_id if self.version >= 13 else Uuid.ZERO
            listed = FetchTopic(topic=name if self.version < 13 else "", topic_id=topic_id)
            forgotten = ForgottenTopic(topic=listed.topic, topic_id=topic_id)
            for index in range(PARTITIONS):
                fate = self._fate(random, node, name, index)
                if is_full or fate < 0.4:
                    listed.partitions.append(self._partition(random, node, name, index))
                elif fate < 0.45:
                    forgotten.partitions.append(index)
            if listed.partitions:
                wanted.topics.append(listed)
            if forgotten.partitions:
                wanted.forgotten_topics_data.append(forgotten)
        self.asked = len(node.answers)
        return wanted

    def _epoch(self, random: Random) -> int:
        return -1

    def _fate(self, random: Random, node: Node, name: str, index: int) -> float:
        """Below 0.4 the partition is listed, and a little above it is forgotten."""
        return random.random()

    def _partition(self, random: Random, node: Node, name: str, index: int) -> FetchPartition:
        partition = node.path.replicas.present(name, index)
        end = 0 if partition is None else partition.log.log_end_offset
        epoch = -1 if partition is None else partition.leader_epoch
        return FetchPartition(
            partition=index,
            fetch_offset=random.choice((end, end, end, max(0, end - 1), 0, end + 1)),
            # The first batch is always sent, and the nodes do not serve followers' partitions in the same order.
            partition_max_bytes=1 << 20 if self.replica_id >= 0 else random.choice((1, 200, 1 << 20)),
            current_leader_epoch=random.choice((-1, epoch, epoch, max(0, epoch - 1))),
            log_start_offset=-1 if self.replica_id < 0 else random.choice((0, 0, 1)),
        )

    def _hear(self, nodes: list[Node]) -> None:
        assert self.asked is not None
        responses = [response for node in nodes if (response := node.answer(self.asked)) is not None]
        if not responses:
            return
        was_open = self.epoch > 0 and any(self.session_ids)
        self.session_ids = [response.session_id for response in responses]
        if responses[0].error_code or not any(self.session_ids):
            self.epoch = 0
        else:
            self.epoch = self.epoch + 1 if was_open else 1
        self.asked = None


class Follower(Client):
    """A follower of the present version, whose log mostly agrees with the leader's."""

    haste = 0.05

    def __init__(self) -> None:
        super().__init__(version=18, replica_id=2)
        self.offsets: dict[tuple[str, int], int] = {}
        self.broker_epoch = 5

    def _epoch(self, random: Random) -> int:
        if random.random() < 0.03:
            self.broker_epoch += 1
        return self.broker_epoch - (random.random() < 0.05)

    def _fate(self, random: Random, node: Node, name: str, index: int) -> float:
        partition = node.path.replicas.present(name, index)
        if random.random() < 0.1 or partition is None:
            return random.random()
        return 0.0 if partition.log.log_end_offset != self.offsets.get((name, index)) else 1.0

    def _partition(self, random: Random, node: Node, name: str, index: int) -> FetchPartition:
        wanted = super()._partition(random, node, name, index)
        partition = node.path.replicas.present(name, index)
        if partition is not None and random.random() < 0.9:
            end = partition.log.log_end_offset
            wanted.fetch_offset = random.choice((end, end, end, max(partition.log.log_start_offset, end - 1)))
            wanted.current_leader_epoch = partition.leader_epoch
            # The previous epoch ends earlier, and the next epoch is unknown here: the logs diverge.
            wanted.last_fetched_epoch = partition.log.epochs.latest + random.choice((0, 0, 0, 0, 0, 0, -1, 1))
        self.offsets[name, index] = wanted.fetch_offset
        return wanted


def happen(random: Random, nodes: list[Node], *, is_calm: bool) -> None:
    """Something other than a fetch, the same on all nodes. In calm times that is mostly an append."""
    kind, name, index = random.random(), random.choice(sorted(REPLICAS)), random.randrange(PARTITIONS)
    if is_calm and random.random() < 0.85:
        kind, name = kind * 0.55, "shared"
    leads, isr, size, ms = random.random() < 0.7, random.choice(([1], [1, 2])), random.choice((1, 100)), 100
    for node in nodes:
        path = node.path
        partition = path.replicas.present(name, index)
        topic = path.image.topics.by_name.get(name)
        if kind < 0.5:
            path.produce(name, batch("x" * size), index=index)
        elif kind < 0.75:
            path.virtual.scheduler.advance(ms)
        elif kind < 0.82:
            if partition is not None and partition.is_leader and partition.high_watermark:
                partition.delete_records_before(partition.high_watermark - 1)
        elif topic is None:
            path.create_topic(name, PARTITIONS, replicas=REPLICAS[name])
        elif kind < 0.95:
            change = r.PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
            if len(REPLICAS[name]) > 1:
                change.isr, change.leader = isr, 1 if leads else 2
                path.commit(change)
        else:
            path.commit(r.RemoveTopicRecord(topic_id=topic.topic_id))


@pytest.fixture
def nodes(log_directory: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[list[Node]]:
    monkeypatch.setattr(giant_fetch, "PARTITIONS_PER_SLICE", 2)
    new_nodes = [Node(f"{log_directory}/{kind}", kind) for kind in request.param]
    for node in new_nodes:
        for name, replicas in REPLICAS.items():
            node.path.create_topic(name, PARTITIONS, replicas=replicas)
    yield new_nodes
    for node in new_nodes:
        node.path.stop()


@pytest.fixture
def shortcuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every response that was packed."""
    packed: list[int] = []
    pack = follower_serving.pack_response
    monkeypatch.setattr(follower_serving, "pack_response", lambda *arguments: (packed.append(1), pack(*arguments))[1])
    return packed


@pytest.mark.parametrize("nodes", [(AS_IT_IS, ATTENTIVE, SLICED)], indirect=True, ids=[""])
@pytest.mark.parametrize("seed", range(6))
def test_all_ways_are_one(nodes: list[Node], seed: int) -> None:
    random = Random(seed)
    clients = [Client(version=11), Client(version=12), Client(version=17), Client(version=17, replica_id=2)]
    run(random, nodes, clients, steps=120, is_calm=False)


@pytest.mark.parametrize("nodes", [(AS_IT_IS, PLAIN)], indirect=True, ids=[""])
@pytest.mark.parametrize("seed", range(119, 133))
def test_the_shortcut_of_followers_is_no_other_way(nodes: list[Node], seed: int, shortcuts: list[int]) -> None:
    run(Random(seed), nodes, [Follower(), Client(version=17)], steps=300, is_calm=True)
    assert shortcuts, "no fetch has taken the shortcut"


@pytest.mark.parametrize("nodes", [(AS_IT_IS, PLAIN)], indirect=True, ids=[""])
@pytest.mark.parametrize("seed", range(119, 125))
def test_the_shortcut_leaves_large_fetches_and_those_that_gather(
    nodes: list[Node], seed: int, shortcuts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of this test has some 70 or 170 bytes: two of them may gather, and three are no shortcut."""
    for module in (fetch_serving, gathering):
        monkeypatch.setattr(module, "GATHERED_BYTES_MIN", 200)
    monkeypatch.setattr(gathering, "BUSY_BYTES_PER_MS", 1)
    monkeypatch.setattr(follower_serving, "COPIED_BYTES_MAX", 400)
    run(Random(seed), nodes, [Follower(), Client(version=17)], steps=300, is_calm=True)
    assert shortcuts, "no fetch has taken the shortcut"


def run(random: Random, nodes: list[Node], clients: list[Client], *, steps: int, is_calm: bool) -> None:
    for _ in range(steps):
        if random.random() < 0.6:
            random.choice(clients).send(random, nodes)
        else:
            happen(random, nodes, is_calm=is_calm)
        for node in nodes:
            node.path.replicas.invariants()
        as_it_is, *others = (node.state() for node in nodes)
        for other in others:
            assert as_it_is == other
