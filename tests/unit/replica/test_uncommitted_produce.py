"""A produce request that the shortcut has appended and that waits for followers: see `apis/produce/uncommitted`.

The same request with an unknown tagged field is left to the handler. It goes to a topic of its own, and the two answers
have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.produce.uncommitted import UncommittedProduce
from ottla.broker.context import ConnectionContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import PendingResponse
from ottla.broker.statistics import NodeStatistics
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.replica.producing import WaitingProduce
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.data_path import LISTENER, DataPath, batch
from tests.unit.replica.test_produce import register_another_broker

PRODUCE = 0
TIMEOUT_MS = 500
NO_TAGS, A_TAG = b"\x00", b"\x01\x63\x01x"
QUICK, USUAL = "quick", "usual"


class Waiter:
    times = 0

    def response_ready(self) -> None:
        self.times += 1


class Pair:
    """Two topics with followers: a request to the one takes the shortcut, a request to the other does not."""

    def __init__(self, node: DataPath, version: int) -> None:
        self.node = node
        self.version = version
        broker: Any = SimpleNamespace(**vars(node.broker), statistics=NodeStatistics())
        self.dispatcher = Dispatcher(broker)
        self.frames: dict[str, bytearray] = {}
        self.topic_ids = {
            topic: node.create_topic(topic, 2, replicas=(1, 2, 3), min_insync_replicas="2") for topic in (QUICK, USUAL)
        }

    def produce(self, *indexes: int) -> dict[str, PendingResponse]:
        """To both partitions, or to those named."""
        tags_of = {QUICK: NO_TAGS, USUAL: A_TAG}
        return {topic: self._send(topic, tags, indexes or (0, 1)) for topic, tags in tags_of.items()}

    def _send(self, topic: str, tags: bytes, indexes: tuple[int, ...]) -> PendingResponse:
        data = TopicProduceData(
            name=topic if self.version < 13 else "",
            topic_id=self.topic_ids[topic] if self.version >= 13 else Uuid.ZERO,
            partition_data=[PartitionProduceData(index=index, records=batch("a", "b")) for index in indexes],
        )
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        parts = request_parts(PRODUCE, self.version, 7, "test", request)
        frame = self.frames[topic] = bytearray(b"".join(bytes(part) for part in parts)[4:-1] + tags)  # type: ignore[arg-type]
        connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=50_000)
        pending = self.dispatcher.dispatch(memoryview(frame), connection, Waiter())
        assert isinstance(pending, PendingResponse)
        return pending

    def fetched(self, index: int, offset: int = 2) -> None:
        """Moves both followers to the offset."""
        for topic in self.topic_ids:
            for follower in (2, 3):
                self.node.partition(topic, index).on_follower_fetch(
                    follower, fetch_offset=offset, log_start_offset=0, now_ms=1
                )
        self.node.virtual.scheduler.run()

    def change(self, index: int, **changes: Any) -> None:
        for topic_id in self.topic_ids.values():
            self.node.commit(r.PartitionChangeRecord(partition_id=index, topic_id=topic_id, **changes))

    def answers(self, pending: dict[str, PendingResponse]) -> tuple[list[ErrorCode], ProduceResponse]:
        """The codes, once both have answered the same bytes but for the topic's name or id."""
        received = []
        for topic, pending_response in pending.items():
            assert pending_response.parts is not None
            name = topic.encode() if self.version < 13 else self.topic_ids[topic].bytes
            frame = b"".join(bytes(part) for part in pending_response.parts)  # type: ignore[arg-type]
            assert name in frame
            # Error messages contain the topic's name, too.
            received.append(frame.replace(name, b"topic").replace(topic.encode(), b"topic"))
            response, _ = decode(ProduceResponse, memoryview(frame), self.version, 9)
        assert received[0] == received[1]
        return [ErrorCode(partition.error_code) for partition in response.responses[0].partition_responses], response

    def is_left(self) -> bool:
        """No request waits for a partition any more."""
        partitions = [self.node.partition(topic, index) for topic in self.topic_ids for index in range(2)]
        return not any(partition.parked_produces for partition in partitions)


@pytest.fixture(params=[9, 10, 12, 13])
def pair(node: DataPath, request: pytest.FixtureRequest) -> Pair:
    return Pair(node, request.param)


def test_the_two_ways_are_taken(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[object] = []
    make: Callable[..., None] = UncommittedProduce.__init__

    def on_made(written: UncommittedProduce, *args: Any, **options: Any) -> None:
        created.append(written)
        make(written, *args, **options)

    monkeypatch.setattr(UncommittedProduce, "__init__", on_made)
    pair.produce()
    assert len(created) == 1


def test_the_frame_is_let_go_at_once(pair: Pair) -> None:
    pair.produce()
    # It cannot be resized while a view of it exists.
    pair.frames[QUICK].append(0)
    with pytest.raises(BufferError):
        pair.frames[USUAL].append(0)


def test_answered_when_every_partition_is_committed(pair: Pair) -> None:
    timers = pair.node.virtual.scheduler.timers
    pending = pair.produce()
    pair.fetched(0)
    pair.fetched(1, offset=1)
    assert not any(request.ready for request in pending.values())
    pair.fetched(1)
    codes, response = pair.answers(pending)
    assert codes == [ErrorCode.NONE] * 2
    assert [partition.base_offset for partition in response.responses[0].partition_responses] == [0, 0]
    assert pair.is_left()
    assert pair.node.virtual.scheduler.timers == timers


def test_what_is_not_committed_in_time_is_told(pair: Pair) -> None:
    pending = pair.produce()
    pair.fetched(0)
    pair.node.virtual.scheduler.advance(TIMEOUT_MS)
    codes, _ = pair.answers(pending)
    assert codes == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert pair.is_left()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_partition_that_is_named_twice(pair: Pair, is_late: bool) -> None:
    pending = pair.produce(0, 0)
    # The first batch is committed before the second one.
    pair.fetched(0, offset=2)
    assert not any(request.ready for request in pending.values())
    if is_late:
        pair.node.virtual.scheduler.advance(TIMEOUT_MS)
    else:
        pair.fetched(0, offset=4)
    codes, response = pair.answers(pending)
    assert codes == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT if is_late else ErrorCode.NONE]
    assert [partition.base_offset for partition in response.responses[0].partition_responses] == [
        0,
        -1 if is_late else 2,
    ]
    assert pair.is_left()


def test_a_lost_lead_is_told_with_the_others(pair: Pair) -> None:
    pending = pair.produce()
    register_another_broker(pair.node)
    pair.change(1, leader=2, isr=[2, 3])
    pair.node.virtual.scheduler.run()
    assert not any(request.ready for request in pending.values())
    pair.fetched(0)
    codes, response = pair.answers(pending)
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    # The response names the new leader (KIP-951).
    assert [point.node_id for point in response.node_endpoints] == ([2] if pair.version >= 10 else [])


def test_too_few_in_sync_once_it_is_written(pair: Pair) -> None:
    pending = pair.produce()
    pair.fetched(0)
    for topic in pair.topic_ids:
        # The high watermark has passed the records when the followers that fetched them leave the in-sync set.
        for follower in (2, 3):
            pair.node.partition(topic, 1).on_follower_fetch(follower, fetch_offset=2, log_start_offset=0, now_ms=1)
    pair.change(1, isr=[1])
    pair.node.virtual.scheduler.run()
    codes, _ = pair.answers(pending)
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_too_few_in_sync_from_the_start(pair: Pair) -> None:
    pair.change(1, isr=[1])
    pending = pair.produce()
    pair.fetched(0)
    codes, _ = pair.answers(pending)
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_defect_is_answered_for_every_partition(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(_: object) -> None:
        raise ArithmeticError

    pending = pair.produce()
    monkeypatch.setattr(WaitingProduce, "retry", defect)
    pair.fetched(0)
    codes, _ = pair.answers(pending)
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert pair.is_left()
