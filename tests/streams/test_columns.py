"""The column form of a task gives the records of the record form: on random input, cut into random batches."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ottla.client.columns.schema import arrow_schema
from ottla.streams import (
    Consumed,
    EmitStrategy,
    Produced,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    columns,
)
from ottla.streams.columnar import ColumnTask, Input, NotInColumnsError, column_task, records_of
from ottla.streams.columnar.order import order_of_two, processing_order
from ottla.streams.columnar.rows import Column
from ottla.streams.machine import InputRecord, StreamTask, TaskSettings
from ottla.streams.machine.handlers import Handlers, ProductionExceptionHandler
from ottla.streams.state import window
from ottla.streams.state.session import SessionStore
from tests.streams.column_topologies import (
    BYTES,
    CHAINS,
    LONG,
    NUMBERED,
    TEXT,
    by_columns,
    counted_text,
    text_stream,
    total_windows,
    upper,
)

Records = list[InputRecord]
Poll = list[tuple[str, Records]]

# Both forms side by side.


def topology_of(build: Callable[[StreamsBuilder], None]) -> Topology:
    builder = StreamsBuilder()
    build(builder)
    return builder.build()


def new_task(topology: Topology, names: Sequence[str] | None = None) -> StreamTask:
    return StreamTask(topology, topology.nodes if names is None else names, TaskSettings())


class Output(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[Any, ...]


class Twins:
    """One task that processes record by record, and one by columns where it can."""

    def __init__(self, topology: Topology, names: Sequence[str]) -> None:
        self.record, self.column = new_task(topology, names), new_task(topology, names)
        form = column_task(topology, tuple(names), self.column)
        assert form is not None
        self.form: ColumnTask = form
        self.expected: list[Output] = []
        self.outputs: list[Output] = []
        self.changes: dict[Any, Any] = {}
        self.expected_changes: dict[Any, Any] = {}
        self.batches = 0

    def poll(self, poll: Poll, *, by_columns: bool = True) -> None:
        by_records(self.record, poll, self.expected, self.expected_changes)
        try:
            if not by_columns:
                raise NotInColumnsError
            inputs = [Input(topic, 0, batch_of(topic, records)) for topic, records in poll]
            for topic, rows in self.form.process(inputs):
                self.outputs += outputs_of(topic, rows)
            self.batches += 1
        except NotInColumnsError:
            by_records(self.column, poll, self.outputs, self.changes)
        for changed in self.column.take_changelog_columns():
            for key, value, timestamp in changed.rows():
                self.changes[changed.store, key] = (value, timestamp)

    def check(self) -> None:
        for topic in {output.topic for output in self.expected + self.outputs}:
            assert of_topic(self.outputs, topic) == of_topic(self.expected, topic)
        assert self.changes == self.expected_changes
        assert self.column.stream_time == self.record.stream_time
        assert times_of(self.column) == times_of(self.record)
        assert self.column.dropped == self.record.dropped
        for name, store in self.record.stores.items():
            assert rows_of(self.column.stores[name]) == rows_of(store)


def times_of(task: StreamTask) -> dict[Any, int]:
    return {place: time for place, time in task.partition_times.items() if time >= 0}


def rows_of(store: Any) -> list[Any]:
    return list(store.find_ended(0, 1 << 60) if isinstance(store, SessionStore) else store.all())


def of_topic(outputs: list[Output], topic: str) -> list[Output]:
    return [output for output in outputs if output.topic == topic]


def by_records(task: StreamTask, poll: Poll, collected: list[Output], changes: dict[Any, Any]) -> None:
    for topic, records in poll:
        task.enqueue(topic, 0, records)
    task.run()
    outputs, changelog = task.take_outputs()
    collected += [
        Output(output.topic, output.key, output.value, output.timestamp, output.headers) for output in outputs
    ]
    for change in changelog:
        changes[change.store, change.key] = (change.value, change.timestamp)


def outputs_of(topic: str, rows: pa.RecordBatch) -> list[Output]:
    times = [value // 1000 for value in rows.column("timestamp").cast(pa.int64()).to_pylist()]
    headers: list[tuple[Any, ...]] = [()] * rows.num_rows
    if "headers" in rows.schema.names:
        header_lists = rows.column("headers").to_pylist()
        headers = [
            tuple((header["key"], header["value"]) for header in headers_of_record or ())
            for headers_of_record in header_lists
        ]
    keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
    return [Output(topic, *row) for row in zip(keys, values, times, headers, strict=True)]


def random_records(random: Random, now: int, count: int, *, numbers: bool, nulls: bool) -> Records:
    words = [None, b"", b"a", b"bb", b"ccc", b"dddd", "äö".encode()]
    has_headers, records = random.random() < 0.3, []
    for offset in range(count):
        now += random.randint(-10, 12)
        headers = (("h", b"1"), ("g", None)) if has_headers and random.random() < 0.2 else ()
        value = struct.pack(">q", random.randint(-3, 5)) if numbers else random.choice(words)
        if numbers and nulls and random.random() < 0.05:
            value = None
        records.append(InputRecord(random.choice(words), value, max(-1, now), offset, headers))
    return records


def random_polls(random: Random, topics: Sequence[str], *, numbers: bool, nulls: bool) -> list[Poll]:
    now, polls = random.randint(0, 300), []
    for _ in range(random.randint(1, 6)):
        poll = []
        for topic in random.sample(topics, random.randint(1, len(topics))):
            poll.append((topic, random_records(random, now, random.randint(0, 40), numbers=numbers, nulls=nulls)))
            # Some inputs overlap in time, others come one after the other.
            now += random.choice([0, 100])
        polls.append(poll)
    return polls


def batch_of(topic: str, records: Records) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": record.key,
                "value": record.value,
                "topic": topic,
                "partition": 0,
                "offset": record.offset,
                "timestamp": record.timestamp * 1000,
                "timestampType": 0,
                "headers": [{"key": name, "value": content} for name, content in record.headers],
            }
            for record in records
        ],
        schema=arrow_schema(True),
    )


@pytest.mark.parametrize("build", CHAINS)
def test_both_forms_emit_the_same_records_and_leave_the_same_state(
    build: Callable[[StreamsBuilder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = topology_of(build)
    for names in topology.node_groups().values():
        topics = [
            f"application-{topic}" if topic in topology.internal_topics else topic
            for topic in topology.source_topics(names)
        ]
        batches = 0
        for seed in range(60):
            random = Random(seed)
            twins = Twins(topology, names)
            # Joined rows stay in runs until a record looks for them, or go into cells at once.
            monkeypatch.setattr(window, "_RUN_ROWS_MIN", seed % 2 * 100)
            for poll in random_polls(random, topics, numbers=build in NUMBERED, nulls=build is not total_windows):
                # Now and then the record form takes over.
                twins.poll(poll, by_columns=random.random() < 0.9)
            try:
                twins.check()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}") from error
            batches += twins.batches
        assert batches > 80


def test_the_order_of_inputs_is_that_of_a_task() -> None:
    for seed in range(200):
        random = Random(seed)
        inputs = [[random.randint(0, 5) for _ in range(random.randint(1, 12))] for _ in range(random.randint(2, 3))]
        if seed % 2:
            inputs = [sorted(times) for times in inputs]
        seen: list[int] = []
        builder = StreamsBuilder()
        for number in range(len(inputs)):
            builder.stream(f"in{number}").foreach(lambda *_, number=number, seen=seen: seen.append(number))
        topology = builder.build()
        task = new_task(topology)
        for number, times in enumerate(inputs):
            task.enqueue(f"in{number}", 0, [InputRecord(b"k", b"v", time, 0) for time in times])
        task.run()
        assert processing_order(inputs) == seen
        if len(inputs) == 2:
            assert order_of_two(*map(np.array, inputs)).tolist() == seen


def test_what_has_no_column_form_runs_record_by_record() -> None:
    def same_topic_twice(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        stream.to("out")
        stream.map_values(lambda value: value).to("out")

    def met_again(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        stream.map_values(lambda value: value).merge(stream).to("out")

    def own_table(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        stream.join(stream.to_table(), lambda value, _: value).to("out")

    def old_values(builder: StreamsBuilder) -> None:
        counts = builder.stream("in").group_by_key().count()
        counts.filter(lambda _, count: count > 1).to_stream().to("out", Produced.with_(BYTES, LONG))

    def when_closed(builder: StreamsBuilder) -> None:
        windows = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(5))
        windows.emit_strategy(EmitStrategy.on_window_close()).count().to_stream().to("out")

    for build in (same_topic_twice, met_again, own_table, old_values, when_closed):
        topology = topology_of(build)
        assert column_task(topology, tuple(topology.nodes), new_task(topology)) is None, build


def test_a_handler_for_production_sees_single_records() -> None:
    class Skipping(ProductionExceptionHandler):
        """Handles serialization errors of sinks."""

    topology = topology_of(counted_text)
    handlers = Handlers.from_properties({"production.exception.handler": Skipping})
    task = StreamTask(topology, topology.nodes, TaskSettings(handlers=handlers))
    assert column_task(topology, tuple(topology.nodes), task) is None


def test_counts_have_the_largest_timestamp_also_if_timestamps_are_far_apart() -> None:
    far = 1 << 52
    records = [
        InputRecord(str(number % 5_000).encode(), b"v", far * (number < 5_000), number) for number in range(10_000)
    ]
    topology = topology_of(counted_text)
    form = column_task(topology, tuple(topology.nodes), new_task(topology))
    assert form is not None
    ((topic, rows),) = form.process([Input("in", 0, batch_of("in", [*records, InputRecord(b"0", b"v", 0, 10_000)]))])
    assert {output.timestamp for output in outputs_of(topic, rows)} == {far}


def test_sums_beyond_64_bits_are_refused_by_the_serde() -> None:
    topology = topology_of(total_windows)
    form = column_task(topology, tuple(topology.nodes), new_task(topology))
    assert form is not None
    largest = InputRecord(b"a", struct.pack(">q", (1 << 63) - 1), 1)
    with pytest.raises(Exception, match="The long serde cannot write 9223372036854775808"):
        form.process([Input("in", 0, batch_of("in", [largest, InputRecord(b"a", struct.pack(">q", 1), 2, 1)]))])


def test_text_that_is_not_utf8_changes_nothing_before_the_error() -> None:
    topology = topology_of(counted_text)
    task = new_task(topology)
    form = column_task(topology, tuple(topology.nodes), task)
    assert form is not None
    batch = batch_of("in", [InputRecord(b"a", b"b", 1), InputRecord(b"\xff", b"b", 2, 1)])
    with pytest.raises(NotInColumnsError):
        form.process([Input("in", 0, batch)])
    assert not task.changelog_columns
    assert records_of(batch)[1] == InputRecord(b"\xff", b"b", 2, 1)


def test_a_value_that_does_not_fit_its_serde_is_named() -> None:
    def numbers(builder: StreamsBuilder) -> None:
        text_stream(builder).map_values(lambda value: value).to("out", Produced.with_(TEXT, LONG))

    topology = topology_of(numbers)
    form = column_task(topology, tuple(topology.nodes), new_task(topology))
    assert form is not None
    with pytest.raises(Exception, match="The long serde cannot write 'b'"):
        form.process([Input("in", 0, batch_of("in", [InputRecord(b"a", b"b", 1)]))])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [1, 2]),
        (pa.int64(), [1, None]),
        (pa.bool_(), [True, None]),
        (pa.string(), ["a", None]),
        (pa.binary(), [b"a", None]),
        (pa.list_(pa.int64()), [[1, 2], []]),
        (pa.list_(pa.list_(pa.string())), [[["a"], []], None]),
        (pa.timestamp("us", tz="UTC"), [datetime(2026, 1, 2, tzinfo=UTC)]),
        (pa.timestamp("ns", tz="UTC"), [datetime(2026, 1, 2, tzinfo=UTC)]),
    ],
    ids=str,
)
def test_values_of_arrays_are_those_of_single_records(kind: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, kind)
    # `repr`: 1 and 1.0, or a list and an array, are not the same.
    assert repr(Column(array=array).values) == repr([value.as_py() for value in array])


def test_a_column_function_gets_text_if_all_values_are_none() -> None:
    def emptied(builder: StreamsBuilder) -> None:
        text_stream(builder).map_values(lambda _: None).map_values(upper).to("out", Produced.with_(TEXT, TEXT))

    topology = topology_of(emptied)
    form = column_task(topology, tuple(topology.nodes), new_task(topology))
    assert form is not None
    ((topic, rows),) = form.process([Input("in", 0, batch_of("in", [InputRecord(b"a", b"b", 1)]))])
    assert outputs_of(topic, rows) == [Output("out", b"a", None, 1, ())]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("filter", []), ("map_values", [Output("out", b"a", None, 1, ())])],
)
def test_a_column_function_of_numbers_takes_a_batch_of_deletions(kind: str, expected: list[Output]) -> None:
    def of_numbers(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", Consumed.with_(TEXT, LONG))
        if kind == "filter":
            stream = stream.filter(columns(lambda _, value: pc.greater(value, 5)))
        else:
            stream = stream.map_values(columns(lambda value: pc.add(value, 1)))
        stream.to("out", Produced.with_(TEXT, LONG))

    topology = topology_of(of_numbers)
    task = new_task(topology)
    form = column_task(topology, tuple(topology.nodes), task)
    assert form is not None
    deletion = InputRecord(b"a", None, 1)
    outputs = form.process([Input("in", 0, batch_of("in", [deletion]))])
    assert [output for topic, rows in outputs for output in outputs_of(topic, rows)] == expected
    collected: list[Output] = []
    by_records(task, [("in", [deletion])], collected, {})
    assert collected == expected


@pytest.mark.parametrize("kind", ["filter", "filter_not"])
def test_a_column_function_may_know_of_no_row_whether_it_is_kept(kind: str) -> None:
    """An array of None alone has no type in Arrow."""

    def unknown(builder: StreamsBuilder) -> None:
        stream = getattr(text_stream(builder), kind)(columns(lambda _, value: pa.array([None] * len(value))))
        stream.to("out", Produced.with_(TEXT, TEXT))

    topology = topology_of(unknown)
    task = new_task(topology)
    form = column_task(topology, tuple(topology.nodes), task)
    assert form is not None
    record = InputRecord(b"a", b"b", 1)
    outputs = form.process([Input("in", 0, batch_of("in", [record]))])
    collected: list[Output] = []
    by_records(task, [("in", [record])], collected, {})
    assert [output for topic, rows in outputs for output in outputs_of(topic, rows)] == collected
    assert len(collected) == (kind == "filter_not")


def test_column_functions_work_in_the_test_driver() -> None:
    driver = TopologyTestDriver(topology_of(by_columns))
    topic = driver.create_input_topic("in", TEXT, TEXT)
    for value in ("a", "abc", None, "bc"):
        topic.pipe_input("k", value)
    assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["A", None, "BC"]
