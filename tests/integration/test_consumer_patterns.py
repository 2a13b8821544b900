"""Patterns of applications with a consumer: repeatable sinks, failing records, state, and long work.

None of these patterns is a feature of a broker; all of them depend on exact offsets, and on partitions that can be
paused without an effect on the group.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition

import ottla.testing
from tests.integration.group_members import ConfluentMember, closing, create_topic, drive, fill, unique

EACH = 30

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "5",
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.cluster(settings=SETTINGS) as running:
        yield running.bootstrap


def member_of(bootstrap: str, group: str, *topics: str, **settings: Any) -> ConfluentMember:
    return ConfluentMember(bootstrap, "member", group, **settings).subscribe(*topics)


def read(member: ConfluentMember, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        batch = member.consumer.consume(count - len(messages), timeout=60)
        assert batch, f"only {len(messages)} of {count} records came"
        assert all(message.error() is None for message in batch)
        messages += batch
    return messages


def test_a_sink_with_the_place_as_its_key_may_be_written_twice(bootstrap: str) -> None:
    topic, group = create_topic(bootstrap, 2), unique("group")
    fill(bootstrap, topic, [EACH, EACH])
    sink = sqlite3.connect(":memory:")
    columns = "topic text, part integer, place integer, value blob"
    sink.execute(f"create table rows ({columns}, primary key (topic, part, place))")
    written = 0
    # All records are read twice, because the first reader dies before it commits.
    for _ in range(2):
        with closing(member := member_of(bootstrap, group, topic)):
            for message in read(member, 2 * EACH):
                row = (message.topic(), message.partition(), message.offset(), message.value())
                sink.execute("insert or replace into rows values (?, ?, ?, ?)", row)
                written += 1
    values = sorted(value for (value,) in sink.execute("select value from rows"))
    sink.close()
    assert written == 4 * EACH
    assert values == sorted(b"%d:%d" % (index, number) for index in (0, 1) for number in range(EACH))


def test_a_record_that_fails_holds_the_commit_back(bootstrap: str) -> None:
    """Later records wait in a buffer; the partition is paused, and polling continues."""
    topic, group = create_topic(bootstrap, 1), unique("group")
    fill(bootstrap, topic, [EACH])
    place = [TopicPartition(topic, 0)]
    with closing(member := member_of(bootstrap, group, topic)):
        buffered = deque(read(member, EACH))
        failures_left, written = 5, []
        while buffered:
            if buffered[0].offset() == 10 and failures_left:
                failures_left -= 1
                member.consumer.pause(place)
                member.consumer.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
                # More records arrive meanwhile, and are not returned while the partition is paused.
                fill(bootstrap, topic, [1], start=EACH + failures_left)
                assert member.consumer.consume(10, timeout=0.1) == []
                assert member.committed((topic, 0)) == {(topic, 0): 10}
                continue
            written.append(buffered.popleft().offset())
        member.consumer.resume(place)
        written += [message.offset() for message in read(member, 5)]
        member.consumer.commit(asynchronous=False)
        assert written == list(range(EACH + 5))
        assert member.committed((topic, 0)) == {(topic, 0): EACH + 5}


def test_a_record_that_fails_goes_to_a_topic_of_its_own(bootstrap: str) -> None:
    topic, retries, group = create_topic(bootstrap, 1), create_topic(bootstrap, 1), unique("group")
    fill(bootstrap, topic, [EACH])
    producer = Producer({"bootstrap.servers": bootstrap})
    first, later = [], []
    with closing(member := member_of(bootstrap, group, topic)):
        for message in read(member, EACH):
            if message.offset() % 10 == 3:
                whence = [("topic", topic.encode()), ("offset", b"%d" % message.offset())]
                producer.produce(retries, message.value(), headers=whence)
            else:
                first.append(message.value())
        # The record is stored in the other topic before its offset is committed.
        assert producer.flush(60) == 0
        member.consumer.commit(asynchronous=False)
    with closing(member := member_of(bootstrap, unique("retry"), retries)):
        for message in read(member, EACH // 10):
            assert dict(message.headers() or [])["topic"] == topic.encode()
            later.append(message.value())
    assert sorted(first + later) == sorted(b"0:%d" % number for number in range(EACH))
    assert [dict([value.split(b":")])[b"0"] for value in later] == [b"3", b"13", b"23"]


def test_state_is_found_again_in_the_topic_of_results(bootstrap: str) -> None:
    """A running sum, written together with its offset; after a crash the reader continues from the last sum."""
    topic, results = create_topic(bootstrap, 1), create_topic(bootstrap, 1)
    fill(bootstrap, topic, [EACH])
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def last_result() -> dict[str, int]:
        with closing(looker := ConfluentMember(bootstrap, "looker", unique("looker"))):
            place = TopicPartition(results, 0)
            low, high = looker.consumer.get_watermark_offsets(place, timeout=30)
            if low == high:
                return {"next": 0, "sum": 0}
            looker.consumer.assign([TopicPartition(results, 0, high - 1)])
            stored_state: dict[str, int] = json.loads(read(looker, 1)[0].value() or b"")
            return stored_state

    for stops_after in (7, 11, EACH - 18):
        state = last_result()
        with closing(member := ConfluentMember(bootstrap, "worker", unique("worker"))):
            member.consumer.assign([TopicPartition(topic, 0, state["next"])])
            for message in read(member, stops_after):
                number = int((message.value() or b"").split(b":")[1])
                state = {"next": (message.offset() or 0) + 1, "sum": state["sum"] + number}
                producer.produce(results, json.dumps(state))
            assert producer.flush(60) == 0
    assert last_result() == {"next": EACH, "sum": sum(range(EACH))}


def test_long_work_in_a_thread_while_the_consumer_polls_on(bootstrap: str) -> None:
    """A member that pauses and polls keeps its partitions during work far beyond max.poll.interval.ms."""
    topic, group = create_topic(bootstrap, 1), unique("group")
    fill(bootstrap, topic, [EACH])
    settings = {"session.timeout.ms": 2000, "max.poll.interval.ms": 2000}
    finish = Event()
    with (
        ThreadPoolExecutor(1) as pool,
        closing(member := member_of(bootstrap, group, topic, **settings)),
    ):
        messages = read(member, EACH)
        member.consumer.pause(member.consumer.assignment())
        work = pool.submit(lambda: finish.wait(90) and len(messages))
        enough = time.monotonic() + 4.5
        drive([member], lambda: time.monotonic() > enough, "the work took longer than two intervals")
        finish.set()
        assert work.result(60) == EACH
        member.consumer.commit(message=messages[-1], asynchronous=False)
        assert member.committed((topic, 0)) == {(topic, 0): EACH}
        assert (member.events("lost"), member.events("revoked"), member.errors) == ([], [], [])
