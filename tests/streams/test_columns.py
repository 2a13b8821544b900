"""The column form of a task gives the records of the record form: on random input, cut into random batches."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ottla.client.columns.schema import arrow_schema
from ottla.streams import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    columns,
)
from ottla.streams.machine import InputRecord, StreamTask, TaskSettings
from ottla.streams.runtime.columns import ColumnTask, column_task, records_of

TEXT, LONG, BYTES = Serdes.string(), Serdes.long(), Serdes.bytes_()

longer = columns(lambda _, value: pc.greater(pc.utf8_length(value), 2))
upper = columns(pc.utf8_upper)


def counted_text(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    stream.count(Materialized.as_("counts")).to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def counted_numbers(builder: StreamsBuilder) -> None:
    counts = builder.stream("in", Consumed.with_(BYTES, TEXT)).filter(longer).group_by_key().count()
    counts.to_stream().to("out", Produced.with_(BYTES, LONG))


def stateless(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    stream.filter_not(longer).map_values(upper).to("out", Produced.with_(TEXT, TEXT))


CHAINS = [counted_text, counted_numbers, stateless]


def topology_of(build: Callable[[StreamsBuilder], None]) -> Topology:
    builder = StreamsBuilder()
    build(builder)
    return builder.build()


def new_task(topology: Topology) -> StreamTask:
    return StreamTask(topology, topology.nodes, TaskSettings())


def random_records(random: Random) -> list[InputRecord]:
    words = [None, b"a", b"bb", b"ccc", b"dddd", "äö".encode()]
    now, records = random.randint(0, 1000), []
    for offset in range(random.randint(0, 80)):
        now += random.randint(-10, 20)
        headers = (("h", b"1"),) if random.random() < 0.2 else ()
        timestamp = max(-1, now)
        records.append(InputRecord(random.choice(words), random.choice(words), timestamp, offset, headers))
    return records


def batch_of(records: list[InputRecord]) -> pa.RecordBatch:
    names = arrow_schema(True)
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": record.key,
                "value": record.value,
                "topic": "in",
                "partition": 0,
                "offset": record.offset,
                "timestamp": record.timestamp * 1000,
                "timestampType": 0,
                "headers": [{"key": name, "value": content} for name, content in record.headers],
            }
            for record in records
        ],
        schema=names,
    )


def cut(random: Random, records: list[InputRecord]) -> list[list[InputRecord]]:
    pieces = []
    while records:
        size = random.randint(1, 20)
        pieces.append(records[:size])
        records = records[size:]
    return pieces


def by_columns(form: ColumnTask, pieces: list[list[InputRecord]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for piece in pieces:
        result = form.process(batch_of(piece))
        if result is None:
            continue
        topic, rows = result
        times = [value // 1000 for value in rows.column("timestamp").cast(pa.int64()).to_pylist()]
        headers = [
            tuple((one["key"], one["value"]) for one in some or ()) for some in rows.column("headers").to_pylist()
        ]
        found += [
            (topic, *row)
            for row in zip(
                rows.column("key").to_pylist(), rows.column("value").to_pylist(), times, headers, strict=True
            )
        ]
    return found


def last_changes(task: StreamTask) -> dict[tuple[str, bytes], tuple[bytes | None, int]]:
    return {(change.store, change.key): (change.value, change.timestamp) for change in task.changelog}


@pytest.mark.parametrize("build", CHAINS)
def test_both_forms_emit_the_same_records_and_leave_the_same_state(build: Callable[[StreamsBuilder], None]) -> None:
    topology = topology_of(build)
    for seed in range(150):
        random = Random(seed)
        records = random_records(random)
        one, other = new_task(topology), new_task(topology)
        one.enqueue("in", 0, records)
        one.run()
        form = column_task(topology, tuple(topology.nodes), other)
        assert form is not None
        expected = [(out.topic, out.key, out.value, out.timestamp, out.headers) for out in one.outputs]
        assert by_columns(form, cut(random, records)) == expected, seed
        assert last_changes(other) == last_changes(one)
        assert other.stream_time == one.stream_time
        for name in one.stores:
            assert list(other.stores[name].all()) == list(one.stores[name].all())  # type: ignore[attr-defined]


def test_both_forms_may_take_turns() -> None:
    topology = topology_of(counted_text)
    random = Random(7)
    one, other = new_task(topology), new_task(topology)
    form = column_task(topology, tuple(topology.nodes), other)
    assert form is not None
    found: list[tuple[Any, ...]] = []
    for turn in range(10):
        records = random_records(random)
        one.enqueue("in", 0, records)
        one.run()
        if turn % 2:
            found += by_columns(form, cut(random, records))
        else:
            other.enqueue("in", 0, records)
            other.run()
            found += [(out.topic, out.key, out.value, out.timestamp, out.headers) for out in other.take_outputs()[0]]
    assert found == [(out.topic, out.key, out.value, out.timestamp, out.headers) for out in one.outputs]


def test_what_has_no_column_form_runs_record_by_record() -> None:
    def by_function(builder: StreamsBuilder) -> None:
        builder.stream("in").map_values(lambda value: value).to("out")

    def two_sinks(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        stream.to("out")
        stream.to("more")

    def reduced(builder: StreamsBuilder) -> None:
        builder.stream("in").group_by_key().reduce(max).to_stream().to("out")

    def old_values(builder: StreamsBuilder) -> None:
        counts = builder.stream("in").group_by_key().count()
        counts.filter(lambda _, count: count > 1).to_stream().to("out", Produced.with_(BYTES, LONG))

    for build in (by_function, two_sinks, reduced, old_values):
        topology = topology_of(build)
        assert column_task(topology, tuple(topology.nodes), new_task(topology)) is None


def test_text_that_is_not_utf8_changes_nothing_before_the_error() -> None:
    topology = topology_of(counted_text)
    task = new_task(topology)
    form = column_task(topology, tuple(topology.nodes), task)
    assert form is not None
    batch = batch_of([InputRecord(b"a", b"b", 1), InputRecord(b"\xff", b"b", 2, 1)])
    with pytest.raises(pa.ArrowInvalid):
        form.process(batch)
    assert not task.changelog
    assert records_of(batch)[1] == InputRecord(b"\xff", b"b", 2, 1)


def test_column_functions_work_in_the_test_driver() -> None:
    driver = TopologyTestDriver(topology_of(stateless))
    topic = driver.create_input_topic("in", TEXT, TEXT)
    for value in ("a", "abc", None, "bc"):
        topic.pipe_input("k", value)
    assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["A", None, "BC"]
