"""Tasks of a sink without Spark: attempts that repeat, race, die and come back, on a real cluster."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla.client.blocking import BlockingConsumer
from ottla.client.consumer import ConsumerSettings
from ottla.client.errors import TimedOut
from ottla.client.producer import Producer
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.spark.sink import batch_writer, end_open_transactions, writers
from ottla.spark.sink import task as tasks
from ottla.spark.sink.client import SinkClient
from ottla.spark.sink.options import ExtraRecord, SinkOptions, extra_records_option, sink_options
from ottla.spark.sink.stream import SinkError
from ottla.spark.sink.task import TaskIdentity, Written, write_at_least_once, write_exactly_once
from tests.support.spark_topics import Topics

pytestmark = pytest.mark.spark


@pytest.fixture
def client(topics: Topics) -> Iterator[SinkClient]:
    """The client of a worker; `other` is the client of another worker."""
    sink_client = SinkClient(options_of(topics, "any").client)
    yield sink_client
    sink_client.close()


@pytest.fixture
def other(topics: Topics) -> Iterator[SinkClient]:
    sink_client = SinkClient(options_of(topics, "any").client)
    yield sink_client
    sink_client.close()


def options_of(topics: Topics, topic: str, **more: str) -> SinkOptions:
    properties = {"bootstrap.servers": topics.bootstrap, "topic": topic, "delivery": "exactly-once"}
    return sink_options({**properties, **{key.replace("_", "."): value for key, value in more.items()}}, streaming=True)


def task_of(query: str, batch_id: int, partition: int = 0, query_id: str = "one") -> TaskIdentity:
    return TaskIdentity(query_name=query, query_id=query_id, batch_id=batch_id, partition=partition)


def rows(*values: str) -> Iterator[pyarrow.RecordBatch]:
    for value in values:
        yield pyarrow.RecordBatch.from_pylist([{"value": value.encode()}])


def committed(topics: Topics, topic: str, partitions: int = 1) -> list[str]:
    """The values that a reader of committed records gets now."""
    settings = ConsumerSettings(read_committed=True)
    with BlockingConsumer(topics.settings, settings) as consumer:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        for place, offset in consumer.beginning_offsets(places).items():
            consumer.seek(place, offset)
        ends = consumer.end_offsets(places)
        values: list[str] = []
        while any(consumer.position(place) < ends[place] for place in places):
            values += [bytes(record.value or b"").decode() for record in consumer.poll(200)]
    return values


def test_a_batch_that_comes_again_is_written_once(topics: Topics, client: SinkClient, other: SinkClient) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)
    taken: list[str] = []

    def noted() -> Iterator[pyarrow.RecordBatch]:
        for number, batch in enumerate(rows("a", "b", "c")):
            taken.append(str(number))
            yield batch

    assert write_exactly_once(client, options, task_of(query, 0), rows("a", "b", "c")).records == 3
    again = write_exactly_once(other, options, task_of(query, 0), noted())
    assert again == Written(skipped=True)
    # State above the sink is stored only when its rows are taken.
    assert taken == ["0", "1", "2"]
    # The task moves back to the first worker, whose producer of batch 0 would be fenced by now.
    assert write_exactly_once(client, options, task_of(query, 1), rows("d")).records == 1
    assert write_exactly_once(other, options, task_of(query, 2), rows("e")).records == 1
    assert committed(topics, topic) == ["a", "b", "c", "d", "e"]


def test_tasks_are_told_apart_by_number_query_and_life(topics: Topics, client: SinkClient) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)
    for task in (
        task_of(query, 7),
        task_of(query, 7, partition=1),
        # More tasks than the markers' topic had partitions.
        task_of(query, 7, partition=40),
        task_of(query + "-1", 7),
        # The checkpoint was deleted: batches count from 0 again.
        task_of(query, 0, query_id="two"),
    ):
        assert write_exactly_once(client, options, task, rows("x")).records == 1
        assert write_exactly_once(client, options, task, rows("x")).skipped
    assert committed(topics, topic) == ["x"] * 5


def test_a_dead_attempts_open_transaction_ends_with_the_next_attempt(
    topics: Topics, client: SinkClient, other: SinkClient
) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)

    def die(step: str) -> None:
        # As a killed process, which does not close its producer.
        if step == "marked":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), patch.object(SinkClient, "close_producer"):
        write_exactly_once(client, options, task_of(query, 0), rows("a"), steps=die)
    assert open_transactions(topics, query) == [f"{query}-0"]
    assert committed(topics, topic) == []
    assert write_exactly_once(other, options, task_of(query, 0), rows("b")).records == 1
    assert open_transactions(topics, query) == []
    assert committed(topics, topic) == ["b"]


def test_the_driver_ends_what_no_attempt_will_end(topics: Topics, client: SinkClient, other: SinkClient) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)

    def die(step: str) -> None:
        if step == "written":
            raise KeyboardInterrupt

    for query_id, partition in ((query, 0), (query, 5), (query + "-x", 0)):
        with pytest.raises(KeyboardInterrupt), patch.object(SinkClient, "close_producer"):
            write_exactly_once(client, options, task_of(query_id, 0, partition), rows("a"), steps=die)
    ended = other.call(end_open_transactions(other.admin, query))
    assert ended == [f"{query}-0", f"{query}-5"]
    # Another query with a similar name is not affected.
    assert open_transactions(topics, query + "-x") == [f"{query}-x-0"]
    other.call(end_open_transactions(other.admin, query + "-x"))
    assert committed(topics, topic) == []


def test_of_two_attempts_at_once_one_writes_and_both_succeed(
    topics: Topics, client: SinkClient, other: SinkClient
) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)
    begun, fenced = threading.Event(), threading.Event()
    results: list[Written] = []

    def wait(step: str) -> None:
        if step == "written":
            begun.set()
            assert fenced.wait(120)

    slow = threading.Thread(
        target=lambda: results.append(write_exactly_once(client, options, task_of(query, 3), rows("slow"), steps=wait))
    )
    slow.start()
    assert begun.wait(120)

    def fence(step: str) -> None:
        if step == "begun":
            fenced.set()

    quick = write_exactly_once(other, options, task_of(query, 3), rows("quick"), steps=fence)
    slow.join(240)
    assert quick.records == 1
    assert results == [Written(skipped=True)]
    assert committed(topics, topic) == ["quick"]


def test_an_attempt_whose_transaction_ran_out_of_time_fails_in_words(
    topics: Topics, client: SinkClient, other: SinkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "RIVAL_SECONDS", 0.5)
    topic, query = topics.create(), topics.name("query")

    def late(step: str) -> None:
        if step == "written":
            other.call(end_open_transactions(other.admin, query))

    with pytest.raises(SinkError, match=r"was fenced .* transaction\.timeout\.ms \(300000\)"):
        write_exactly_once(client, options_of(topics, topic), task_of(query, 0), rows("a"), steps=late)
    assert committed(topics, topic) == []


def test_extra_records_share_the_fate_of_the_rows(topics: Topics, client: SinkClient) -> None:
    topic, offsets, query = topics.create(), topics.create(partitions=3), topics.name("query")
    extra = extra_records_option([ExtraRecord(offsets, b"task", b"17"), ExtraRecord(offsets, b"gone", None, 2)])
    options = options_of(topics, topic, extra_records=extra)

    def die(step: str) -> None:
        if step == "marked":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_exactly_once(client, options, task_of(query, 0), rows("a"), steps=die)
    assert write_exactly_once(client, options, task_of(query, 0), rows("a")).records == 1
    assert write_exactly_once(client, options, task_of(query, 0, partition=1), rows("b")).records == 1
    # A batch may be empty.
    assert write_exactly_once(client, options, task_of(query, 1), rows()).records == 0
    assert sorted(committed(topics, offsets, 3)) == ["", "", "17", "17"]
    assert committed(topics, topic) == ["a", "b"]


def test_a_task_that_had_rows_begins_while_it_waits_for_them(
    topics: Topics, client: SinkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)
    seen: list[str] = []
    begin = tasks._Transaction._begin

    def noted(transaction: tasks._Transaction) -> Coroutine[Any, Any, bool]:
        seen.append("begin")
        return begin(transaction)

    def waited_for(*values: str) -> Iterator[pyarrow.RecordBatch]:
        seen.append("rows")
        yield from rows(*values)

    def order(batch_id: int, *values: str, attempt: int = 0) -> list[str]:
        seen.clear()
        task = replace(task_of(query, batch_id), attempt=attempt)
        assert write_exactly_once(client, options, task, waited_for(*values)).records == len(values)
        return list(seen)

    monkeypatch.setattr(tasks._Transaction, "_begin", noted)
    assert order(0, "a") == ["rows", "begin"]
    assert order(1, "b") == ["begin", "rows"]
    assert order(2, "c", attempt=1) == ["rows", "begin"], "it may be speculative"
    # The transaction began without rows: it does not stay open, and the next batch without rows begins none.
    assert order(3) == ["begin", "rows"]
    assert order(4) == ["rows"]
    assert topics.admin.call(lambda admin: end_open_transactions(admin, query)) == []
    assert order(5, "d") == ["rows", "begin"]

    def broken() -> Iterator[pyarrow.RecordBatch]:
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        write_exactly_once(client, options, task_of(query, 6), broken())
    assert order(6, "e") == ["begin", "rows"]
    assert committed(topics, topic) == ["a", "b", "c", "d", "e"]


def test_an_empty_task_costs_nothing(topics: Topics, client: SinkClient) -> None:
    query = topics.name("query")
    assert write_exactly_once(client, options_of(topics, "unused"), task_of(query, 0), rows()) == Written()
    assert topics.admin.call(lambda admin: admin.groups.offsets(query)) == {}


def test_rows_that_a_topic_refuses_fail_the_task_and_leave_nothing(topics: Topics, client: SinkClient) -> None:
    topic, query = topics.create(max_message_bytes="2000"), topics.name("query")
    options = options_of(topics, topic)
    with pytest.raises(SinkError, match=r"task 0 of batch 0 of query .* Lower option batch\.size"):
        write_exactly_once(client, options, task_of(query, 0), rows("a", "x" * 5000))
    assert open_transactions(topics, query) == []
    with pytest.raises(SinkError, match="Rows could not be written"):
        write_at_least_once(client, options_of(topics, topic, delivery="at-least-once"), rows("x" * 5000))
    assert write_at_least_once(client, options_of(topics, topic, delivery="at-least-once"), rows("ok")).records == 1
    assert committed(topics, topic) == ["ok"]


def test_rows_go_to_the_topics_they_name(topics: Topics, client: SinkClient) -> None:
    first, second, query = topics.create(), topics.create(), topics.name("query")
    options = options_of(topics, "")
    batch = pyarrow.RecordBatch.from_pylist(
        [{"value": str(number).encode(), "topic": (first, second)[number % 2]} for number in range(6)]
    )
    assert write_exactly_once(client, options, task_of(query, 0), iter([batch])).records == 6
    assert committed(topics, first) == ["0", "2", "4"]
    assert committed(topics, second) == ["1", "3", "5"]
    nowhere = pyarrow.RecordBatch.from_pylist([{"value": b"a", "topic": None}, {"value": b"b", "topic": first}])
    with pytest.raises(SinkError, match="has no topic"):
        write_exactly_once(client, options, task_of(query, 1), iter([nowhere]))


def test_a_batch_write_without_a_name_is_remembered_for_a_while(
    topics: Topics, client: SinkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create()
    properties = {"bootstrap.servers": topics.bootstrap, "topic": topic, "delivery": "exactly-once"}
    writer = batch_writer(properties, StructType([StructField("value", BinaryType())]))
    name = writer.options.query_name
    assert name is not None
    task = task_of(name, 0, query_id=writer.options.query_id or "")
    assert write_exactly_once(client, writer.options, task, rows("a")).records == 1
    assert write_exactly_once(client, writer.options, task, rows("a")).skipped
    writer.commit([])
    # An attempt that Spark has given up may go on for a moment after the write is done.
    assert write_exactly_once(client, writer.options, task, rows("a")).skipped
    monkeypatch.setattr(writers, "_NAMELESS_KEPT_SECONDS", 0)
    writer.commit([])
    assert name not in [group.group_id for group in topics.admin.call(lambda admin: admin.groups.find())]
    assert committed(topics, topic) == ["a"]


def open_transactions(topics: Topics, query: str) -> list[str]:
    answer = topics.admin.call(lambda admin: admin.transactions.find(states=["Ongoing"]))
    return [
        transaction.transactional_id
        for transaction in answer
        if transaction.transactional_id.rpartition("-")[0] == query
    ]


# A transaction that has begun before its rows are there.


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The transactions that tasks have begun."""
    begun: list[Any] = []
    make = tasks._Transaction.__init__

    def noted(transaction: Any, *arguments: Any, **options: Any) -> None:
        make(transaction, *arguments, **options)
        begun.append(transaction)

    monkeypatch.setattr(tasks._Transaction, "__init__", noted)
    return begun


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_late_attempt_does_not_fence_the_next_batch(
    topics: Topics,
    client: SinkClient,
    other: SinkClient,
    transactions: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    attempt: int,
) -> None:
    monkeypatch.setattr(tasks, "RIVAL_SECONDS", 1.0)
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)
    assert write_exactly_once(client, options, task_of(query, 0), rows("a")).records == 1

    def meanwhile() -> Iterator[pyarrow.RecordBatch]:
        assert transactions[-1]._begun.result() is False
        late = replace(task_of(query, 0), attempt=attempt)
        assert write_exactly_once(other, options, late, rows("a")) == Written(skipped=True)
        yield from rows("b")

    assert write_exactly_once(client, options, task_of(query, 1), meanwhile()).records == 1
    assert committed(topics, topic) == ["a", "b"]


def test_an_outage_that_is_over_when_the_rows_come(
    topics: Topics, client: SinkClient, transactions: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)
    assert write_exactly_once(client, options, task_of(query, 0), rows("a")).records == 1

    async def initialise(*_: Any, **__: Any) -> None:
        raise TimedOut("The cluster did not answer in time.")

    def after_the_outage() -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(transactions[-1]._begun.exception(), TimedOut)
        outage.undo()
        yield from rows("b")

    with monkeypatch.context() as outage:
        outage.setattr(Producer, "init_transactions", initialise)
        assert write_exactly_once(client, options, task_of(query, 1), after_the_outage()).records == 1
    assert committed(topics, topic) == ["a", "b"]


def test_a_task_without_rows_does_not_create_the_topic(
    topics: Topics, client: SinkClient, transactions: list[Any]
) -> None:
    topic, query = topics.create(), topics.name("query")
    options = options_of(topics, topic)
    assert write_exactly_once(client, options, task_of(query, 0), rows("a")).records == 1
    topics.admin.call(lambda admin: admin.topics.delete([topic]))

    def no_batches() -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(transactions[-1].stream._requested[1].exception(), KafkaError)
        yield from ()

    assert write_exactly_once(client, options, task_of(query, 1), no_batches()) == Written()
    assert topic not in topics.admin.call(lambda admin: admin.topics.names())
