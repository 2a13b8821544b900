"""A usual fetch of a follower that meets something unusual is answered as any other fetch."""

from __future__ import annotations

import errno
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.fetch import shortcut
from ottla.broker.authorization import AllowAll
from ottla.broker.context import ConnectionContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import PendingResponse
from ottla.broker.statistics import NodeStatistics
from ottla.host.files import OsFile
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.replica import follower_serving
from ottla.replica.partition import Partition
from ottla.storage.log import PartitionLog
from ottla.wire.codec import decode
from ottla.wire.follower_fetch import ELEMENTS_MAX, VERSION, FollowerFetchRequest
from ottla.wire.framing import request_parts
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from tests.support.data_path import LISTENER, DataPath, values
from tests.support.shortcuts import UsualDispatcher

FETCH = 1
FOLLOWER_ID = 2


class Waiter:
    def response_ready(self) -> None:
        pass


class Follower:
    """Follows the topic `t` of a node. Its requests are of the usual shape."""

    def __init__(self, node: DataPath, dispatcher: type[Dispatcher], *, partitions: int) -> None:
        self.node = node
        self.topic_id = node.create_topic("t", partitions, replicas=(1, FOLLOWER_ID))
        broker: Any = SimpleNamespace(**vars(node.broker), statistics=NodeStatistics())
        self.dispatcher = dispatcher(broker)
        self.connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=2)
        self.session_id = self.epoch = 0

    def ask(self, offsets: dict[int, int], *, max_wait_ms: int = 500, min_bytes: int = 1) -> Any:
        wanted = [
            (index, 0, offset, self.node.partition("t", index).log.epochs.latest, 0, 1 << 20)
            for index, offset in offsets.items()
        ]
        topics = [(self.topic_id.bytes, wanted)] if wanted else []
        fields = (FOLLOWER_ID, -1, max_wait_ms, min_bytes, 1 << 20, self.session_id, self.epoch, topics)
        return self.send(FollowerFetchRequest(fields))

    def send(self, request: FollowerFetchRequest) -> Any:
        parts = request_parts(FETCH, VERSION, 7, "c", request)
        frame = b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]
        return self.dispatcher.dispatch(memoryview(bytearray(frame)), self.connection, Waiter())

    def read(self, answer: Any) -> FetchResponse:
        parts = answer.parts if isinstance(answer, PendingResponse) else answer
        assert parts is not None, "there is no answer yet"
        data = b"".join(part.read() if isinstance(part, FileRegion) else bytes(part) for part in parts)
        response, _ = decode(FetchResponse, memoryview(data), VERSION, 9)
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        return response

    def open_session(self) -> None:
        """Opens a session at the end of every partition, so that no partition has new records."""
        partitions = self.node.replicas.partitions()
        ends = {partition.index: partition.log.log_end_offset for partition in partitions}
        for offsets in (ends, ends, {}):
            self.read(self.ask(offsets, max_wait_ms=0))


@pytest.fixture(params=[Dispatcher, UsualDispatcher], ids=["shortcut", "handler"])
def dispatcher(request: pytest.FixtureRequest) -> type[Dispatcher]:
    dispatcher_type: type[Dispatcher] = request.param
    return dispatcher_type


def partitions_of(response: FetchResponse) -> dict[int, PartitionData]:
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def break_first(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Makes a method of partition 0 raise an exception as a defect does; other partitions work."""
    whole = getattr(owner, name)

    def broken(self: Any, *arguments: Any, **named: Any) -> Any:
        if (self.index if owner is Partition else self.topic_partition.partition) == 0:
            raise ZeroDivisionError("a defect")
        return whole(self, *arguments, **named)

    monkeypatch.setattr(owner, name, broken)


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[str]:
    """Grows with every call of a function of the module."""
    calls: list[str] = []
    whole = getattr(module, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(name)
        return whole(*arguments, **named)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_the_end_of_a_closed_segment_does_not_wait_for_more(node: DataPath, dispatcher: type[Dispatcher]) -> None:
    """A read ends with its segment: however long the fetch waits, there is no more to join these records."""
    follower = Follower(node, dispatcher, partitions=1)
    node.append("t", "a")
    node.partition("t").log.roll()
    node.append("t", "b")
    follower.open_session()
    answer = follower.ask({0: 0}, min_bytes=1_000)
    assert values(partitions_of(follower.read(answer))[0].records) == ["a"]


def test_few_records_of_the_active_segment_wait_for_more(node: DataPath, dispatcher: type[Dispatcher]) -> None:
    follower = Follower(node, dispatcher, partitions=1)
    node.append("t", "a")
    follower.open_session()
    answer = follower.ask({0: 0}, min_bytes=1_000)
    assert not answer.ready
    node.append("t", "b" * 1_000)
    node.virtual.scheduler.run()
    assert values(partitions_of(follower.read(answer))[0].records) == ["a", "b" * 1_000]


@pytest.mark.parametrize(("owner", "name"), [(PartitionLog, "read"), (Partition, "on_follower_fetch")])
def test_a_defect_of_a_partition_is_told_of_that_one_alone(
    node: DataPath, dispatcher: type[Dispatcher], monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    follower = Follower(node, dispatcher, partitions=2)
    follower.open_session()
    for index in (0, 1):
        node.append("t", "a", index=index)
    break_first(monkeypatch, owner, name)
    partitions = partitions_of(follower.read(follower.ask({0: 0, 1: 0})))
    assert [partitions[index].error_code for index in (0, 1)] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert values(partitions[1].records) == ["a"]
    # The progress of the other partition counts, and the session goes on.
    partitions = partitions_of(follower.read(follower.ask({1: 1})))
    assert node.partition("t", 1).high_watermark == partitions[1].high_watermark == 1


def test_a_defect_that_a_parked_fetch_meets_is_told_of_that_partition_alone(
    node: DataPath, dispatcher: type[Dispatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(node, dispatcher, partitions=2)
    for index in (0, 1):
        node.append("t", "z", index=index)
    follower.open_session()
    answer = follower.ask({})
    assert not answer.ready
    break_first(monkeypatch, PartitionLog, "read")
    for index in (0, 1):
        node.append("t", "a", index=index)
    node.virtual.scheduler.run()
    partitions = partitions_of(follower.read(answer))
    assert [partitions[index].error_code for index in (0, 1)] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert values(partitions[1].records) == ["a"]


class BrokenAuthorizer(AllowAll):
    """A class of an operator with a defect."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def authorize(self, *_: Any) -> bool:
        raise self.error("a defect")


@pytest.mark.parametrize("error", [ZeroDivisionError, IndexError])
def test_a_defect_of_the_authorizer_is_an_answer(
    node: DataPath, dispatcher: type[Dispatcher], error: type[Exception]
) -> None:
    follower = Follower(node, dispatcher, partitions=1)
    follower.open_session()
    node.append("t", "a")
    follower.connection.authorizer = BrokenAuthorizer(error)
    assert follower.read(follower.ask({0: 0})).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_request_with_too_many_partitions_is_not_read_in_one_turn(
    node: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may name 15,876 of them in the usual shape. It is decoded in slices, as other long requests are."""
    follower = Follower(node, Dispatcher, partitions=1)
    read = count_calls(monkeypatch, shortcut, "read_request")
    wanted = [(index, 0, 0, 0, 0, 1) for index in range(ELEMENTS_MAX)]
    for topics, is_read in ((ELEMENTS_MAX, False), (2, False), (1, True)):
        ids = [Uuid.random(node.virtual.random).bytes for _ in range(topics)]
        read.clear()
        fields = (FOLLOWER_ID, -1, 0, 1, 1, 5, 5, [(topic_id, wanted) for topic_id in ids])
        answer = follower.send(FollowerFetchRequest(fields))
        node.virtual.scheduler.run()
        assert follower.read(answer).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert bool(read) == is_read


def test_the_most_topics_of_one_partition_each_are_usual(node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(node, Dispatcher, partitions=1)
    ids = [node.create_topic(f"t{number}", replicas=(1, FOLLOWER_ID)).bytes for number in range(ELEMENTS_MAX)]
    planned = count_calls(monkeypatch, shortcut, "plan_usual")
    topics = [(topic_id, [(0, 0, 0, -1, 0, 1 << 20)]) for topic_id in ids]
    follower.send(FollowerFetchRequest((FOLLOWER_ID, -1, 0, 1, 1 << 20, 5, 5, topics)))
    assert planned


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("fate", ["cold", "short", "broken"])
def test_records_that_cannot_be_read_at_once_are_sent_from_the_file(
    node: DataPath, monkeypatch: pytest.MonkeyPatch, fate: str, partitions: int
) -> None:
    follower = Follower(node, Dispatcher, partitions=partitions)
    follower.open_session()
    for index in range(partitions):
        node.append("t", "a", index=index)
    in_memory, read = follower_serving._in_memory, OsFile.read_nowait

    def unlucky_read(file: OsFile, position: int, length: int) -> bytes | bytearray | None:
        if fate == "broken":
            raise OSError(errno.EIO, "Input/output error")
        return None if fate == "cold" else (read(file, position, length) or b"")[:-1]

    def unlucky(region: FileRegion) -> Any:
        # Only here: the lookup of the records reads, too.
        with monkeypatch.context() as patched:
            patched.setattr(OsFile, "read_nowait", unlucky_read)
            return in_memory(region)

    monkeypatch.setattr(follower_serving, "_in_memory", unlucky)
    answer = follower.ask(dict.fromkeys(range(partitions), 0))
    assert sum(isinstance(part, FileRegion) for part in answer) == partitions
    responses = partitions_of(follower.read(answer))
    assert [values(responses[index].records) for index in range(partitions)] == [["a"]] * partitions
