"""The order in which batches of one partition leave."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.errors import ConnectionLost
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.queue import PartitionQueue
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.compression import Codec


def batch(*, sequence: int = -1) -> ProducerBatch:
    done: asyncio.Future[tuple[int, int]] = asyncio.Future(loop=asyncio.new_event_loop())
    done.get_loop().close()
    producer_batch = ProducerBatch(
        TopicPartition("t", 0), limit=100, codec=Codec.NONE, level=None, created=5.0, done=done
    )
    producer_batch.base_sequence = sequence
    return producer_batch


def test_what_comes_back_goes_before_what_is_younger() -> None:
    queue = PartitionQueue()
    # All of the same time, by a coarse clock; the second has lost its sequence number.
    first, second, third = batch(sequence=0), batch(), batch(sequence=7)
    waiting = [batch(), batch()]
    queue.closed.extend(waiting)
    queue.put_back(second)
    queue.put_back(third)
    queue.put_back(first)
    assert list(queue.closed) == [first, second, third, *waiting]


@pytest.mark.parametrize(
    ("in_flight", "retrying", "known", "waits"),
    [(0, False, -1, False), (1, False, -1, True), (1, False, 9, False), (1, True, 9, True), (0, True, 9, False)],
)
def test_the_first_batch_goes_alone(in_flight: int, retrying: bool, known: int, waits: bool) -> None:
    queue = PartitionQueue()
    queue.in_flight, queue.retrying, queue.known_producer_id, queue.sent_epoch = in_flight, retrying, known, 0
    assert queue.must_wait((9, 0)) is waits


def test_batches_of_an_older_epoch_are_answered_first() -> None:
    queue = PartitionQueue()
    queue.in_flight, queue.known_producer_id, queue.sent_epoch = 1, 9, 0
    assert queue.must_wait((9, 1))
    queue.in_flight = 0
    assert not queue.must_wait((9, 1))


def test_without_a_producer_id_nothing_waits() -> None:
    queue = PartitionQueue()
    queue.in_flight = 1
    assert not queue.must_wait((-1, -1))


def test_what_may_be_sent_again() -> None:
    queue = PartitionQueue()
    out_of_order = KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "")
    assert not queue.may_repeat(out_of_order)
    queue.in_flight = 1
    assert queue.may_repeat(out_of_order)
    assert queue.may_repeat(ConnectionLost("gone"))
    assert not queue.may_repeat(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, ""))
