"""The column form of a task gives the records of the record form: on random input, cut into random batches."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ottla.client.columns.schema import arrow_schema
from ottla.streams import (
    Branched,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
    columns,
)
from ottla.streams.columnar import ColumnTask, Input, NotInColumnsError, column_task, records_of
from ottla.streams.columnar.order import order_of_two, processing_order
from ottla.streams.machine import InputRecord, StreamTask, TaskSettings
from ottla.streams.machine.handlers import Handlers, ProductionExceptionHandler
from ottla.streams.state import window
from ottla.streams.state.session import SessionStore

TEXT, LONG, BYTES, FLOAT, JSON = Serdes.string(), Serdes.long(), Serdes.bytes_(), Serdes.float_(), Serdes.json()
Records = list[InputRecord]
Poll = list[tuple[str, Records]]

longer = columns(lambda _, value: pc.greater(pc.utf8_length(value), 2))
upper = columns(pc.utf8_upper)


# Topologies that have a column form.


def text_stream(builder: StreamsBuilder, topic: str = "in") -> KStream:
    return builder.stream(topic, Consumed.with_(TEXT, TEXT))


def counted_text(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    stream.count(Materialized.as_("counts")).to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def counted_numbers(builder: StreamsBuilder) -> None:
    counts = builder.stream("in", Consumed.with_(BYTES, TEXT)).filter(longer).group_by_key().count()
    counts.to_stream().to("out", Produced.with_(BYTES, LONG))


def by_columns(builder: StreamsBuilder) -> None:
    text_stream(builder).filter_not(longer).map_values(upper).to("out", Produced.with_(TEXT, TEXT))


def by_functions(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).filter(lambda _, value: value is not None).map_values(lambda value: value + "!")
    stream = stream.map(lambda key, value: (value, key)).map_values(lambda key, value: f"{key}{value}")
    stream.peek(lambda *_: None).flat_map(lambda key, value: [(value, key)] * (len(value) % 3)).to(
        "out", Produced.with_(TEXT, TEXT)
    )


def words(builder: StreamsBuilder) -> None:
    split = text_stream(builder).flat_map_values(lambda line: list(line or ""))
    counts = split.group_by(lambda _, word: word, Grouped.with_(TEXT, TEXT)).count(Materialized.with_(TEXT, LONG))
    counts.to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def two_sinks(builder: StreamsBuilder) -> None:
    stream = text_stream(builder)
    stream.to("out", Produced.with_(TEXT, TEXT))
    stream.select_key(lambda _, value: value).to("more", Produced.with_(TEXT, TEXT))


def branches(builder: StreamsBuilder) -> None:
    found = text_stream(builder).split("by-").branch(lambda key, _: key == "a", Branched.as_("a"))
    by_name = found.branch(lambda _, value: value == "bb", Branched.as_("b")).default_branch(Branched.as_("rest"))
    for name, stream in by_name.items():
        stream.map_values(lambda value, name=name: f"{name}{value}").to(f"out-{name}", Produced.with_(TEXT, TEXT))


def reduced(builder: StreamsBuilder) -> None:
    rows = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT)).reduce(max, Materialized.with_(TEXT, TEXT))
    rows.to_stream().to("out", Produced.with_(TEXT, TEXT))


def listed(builder: StreamsBuilder) -> None:
    """The aggregate is changed in place, and sometimes deleted."""

    def add(key: str, value: str, found: list[str]) -> list[str] | None:
        found.append(key + value)
        return None if len(found) == 3 else found

    rows = (
        text_stream(builder)
        .group_by_key(Grouped.with_(TEXT, TEXT))
        .aggregate(list, add, Materialized.with_(TEXT, JSON))
    )
    rows.to_stream().to("out", Produced.with_(TEXT, JSON))


def rounded(builder: StreamsBuilder) -> None:
    """A float loses digits in four bytes."""
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    rows = stream.aggregate(float, lambda _, value, total: total + len(value) / 3, Materialized.with_(TEXT, FLOAT))
    rows.to_stream().to("out", Produced.with_(TEXT, Serdes.double()))


def summed_windows(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", Consumed.with_(TEXT, LONG)).group_by_key(Grouped.with_(TEXT, LONG))
    sums = stream.windowed_by(TimeWindows.of_size_and_grace(30, 10)).reduce(
        lambda total, value: None if value is None or total + value > 8 else total + value,
        Materialized.with_(TEXT, LONG),
    )
    sums.to_stream().to("out", Produced.with_(None, LONG))


def total_windows(builder: StreamsBuilder) -> None:
    """Sums that need no loop."""
    stream = builder.stream("in", Consumed.with_(TEXT, LONG)).group_by_key(Grouped.with_(TEXT, LONG))
    windows = stream.windowed_by(TimeWindows.of_size_and_grace(30, 10).advance_by(20))
    sums = windows.reduce(operator.add, Materialized.with_(TEXT, LONG))
    sums.to_stream(start_of).to("out", Produced.with_(TEXT, LONG))


def hopping_counts(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    counts = stream.windowed_by(TimeWindows.of_size_and_grace(30, 5).advance_by(7)).count()
    counts.to_stream(start_of).map_values(str).to("out", Produced.with_(TEXT, TEXT))


def hopping_lists(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    windows = stream.windowed_by(TimeWindows.of_size_with_no_grace(20).advance_by(9))
    rows = windows.aggregate(list, lambda _, value, found: [*found, value], Materialized.with_(TEXT, JSON))
    rows.to_stream(start_of).to("out", Produced.with_(TEXT, JSON))


def session_counts(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    counts = stream.windowed_by(SessionWindows.of_inactivity_gap_and_grace(9, 20)).count()
    counts.to_stream().to("out")


def session_texts(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    windows = stream.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(6))
    rows = windows.aggregate(
        str,
        lambda _, value, found: f"{found}{value}",
        lambda _, one, other: one + other,
        Materialized.with_(TEXT, TEXT),
    )
    rows.to_stream(start_of).to("out", Produced.with_(TEXT, TEXT))


def looked_up(builder: StreamsBuilder) -> None:
    table = builder.table("rows", Consumed.with_(TEXT, TEXT))
    text_stream(builder).join(table, lambda value, row: f"{value}+{row}", Joined.with_(TEXT, TEXT, TEXT)).to(
        "out", Produced.with_(TEXT, TEXT)
    )


def looked_up_through_a_view(builder: StreamsBuilder) -> None:
    table = builder.table("rows", Consumed.with_(TEXT, TEXT), Materialized.as_("kept"))
    text_stream(builder).left_join(table, lambda key, value, row: f"{key}{value}+{row}").to(
        "out", Produced.with_(TEXT, TEXT)
    )


def merged(builder: StreamsBuilder) -> None:
    both = text_stream(builder).map_values(upper).merge(text_stream(builder, "rows"))
    both.group_by_key(Grouped.with_(TEXT, TEXT)).count(Materialized.as_("counts")).to_stream().to("out")


def paired(builder: StreamsBuilder) -> None:
    left = text_stream(builder).filter(lambda _, value: value != "ccc")
    left.join(
        text_stream(builder, "rows"),
        lambda key, one, other: f"{key}:{one}+{other}",
        JoinWindows.of_time_difference_and_grace(12, 5).before(4),
        StreamJoined.with_(TEXT, TEXT, TEXT),
    ).map_values(lambda value: value + ".").to("out", Produced.with_(TEXT, TEXT))


def start_of(key: Windowed, _: object) -> str:
    return f"{key.key}@{key.window.start}"


CHAINS = [
    counted_text,
    counted_numbers,
    by_columns,
    by_functions,
    words,
    two_sinks,
    branches,
    reduced,
    listed,
    rounded,
    summed_windows,
    total_windows,
    hopping_counts,
    hopping_lists,
    session_counts,
    session_texts,
    looked_up,
    looked_up_through_a_view,
    merged,
    paired,
]


NUMBERED = (summed_windows, total_windows)


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
        self.found: list[Output] = []
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
                self.found += outputs_of(topic, rows)
            self.batches += 1
        except NotInColumnsError:
            by_records(self.column, poll, self.found, self.changes)
        for some in self.column.take_changelog_columns():
            for key, value, timestamp in some.rows():
                self.changes[some.store, key] = (value, timestamp)

    def check(self) -> None:
        for topic in {one.topic for one in self.expected + self.found}:
            assert of_topic(self.found, topic) == of_topic(self.expected, topic)
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
    return [one for one in outputs if one.topic == topic]


def by_records(task: StreamTask, poll: Poll, found: list[Output], changes: dict[Any, Any]) -> None:
    for topic, records in poll:
        task.enqueue(topic, 0, records)
    task.run()
    outputs, changelog = task.take_outputs()
    found += [Output(one.topic, one.key, one.value, one.timestamp, one.headers) for one in outputs]
    for change in changelog:
        changes[change.store, change.key] = (change.value, change.timestamp)


def outputs_of(topic: str, rows: pa.RecordBatch) -> list[Output]:
    times = [value // 1000 for value in rows.column("timestamp").cast(pa.int64()).to_pylist()]
    headers: list[tuple[Any, ...]] = [()] * rows.num_rows
    if "headers" in rows.schema.names:
        found = rows.column("headers").to_pylist()
        headers = [tuple((one["key"], one["value"]) for one in some or ()) for some in found]
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
        stream.join(stream.to_table(), lambda one, _: one).to("out")

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
        """Serialization errors of a sink are its business."""

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


def test_column_functions_work_in_the_test_driver() -> None:
    driver = TopologyTestDriver(topology_of(by_columns))
    topic = driver.create_input_topic("in", TEXT, TEXT)
    for value in ("a", "abc", None, "bc"):
        topic.pipe_input("k", value)
    assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["A", None, "BC"]
