"""Processors behind a buffer see where a record came from that waited there, not the record that made it leave."""

from __future__ import annotations

from typing import Any

from ottla.streams import (
    BufferConfig,
    Consumed,
    Joined,
    KStream,
    Materialized,
    Serdes,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from ottla.streams.driver import TopologyTestDriver
from ottla.streams.machine.processor import Processor
from ottla.streams.record import Record

TEXT = Serdes.string()


def offsets_seen_behind(stream: KStream) -> list[Any]:
    """Collects the keys and offsets of the records that a stream emits."""
    seen: list[Any] = []

    class Look(Processor):
        def process(self, record: Record) -> None:
            metadata = self.context.record_metadata
            seen.append((record.key, None if metadata is None else metadata.offset))

    stream.process(Look)
    return seen


def test_the_offset_of_an_emitted_update() -> None:
    builder = StreamsBuilder()
    windows = (
        builder.stream("in", Consumed.with_(TEXT, TEXT))
        .group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(100))
    )
    counts = windows.count().suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    seen = offsets_seen_behind(counts.to_stream())
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for key, time in (("a", 0), ("b", 1), ("a", 2), ("c", 500)):
            topic.pipe_input(key, "x", timestamp=time)
    assert sorted((key.key, offset) for key, offset in seen) == [("a", 2), ("b", 1)]


def test_the_offset_of_a_record_that_waited_for_a_versioned_table() -> None:
    builder = StreamsBuilder()
    table = builder.table(
        "rows", Consumed.with_(TEXT, TEXT), Materialized.as_(Stores.versioned_key_value("rows-store", 1_000))
    )
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    joined = stream.join(table, lambda value, row: value + row, Joined(TEXT, TEXT, TEXT, grace_ms=100))
    seen = offsets_seen_behind(joined)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("rows", TEXT, TEXT).pipe_input("a", "row", timestamp=0)
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for time in (5, 10, 500):
            topic.pipe_input("a", "x", timestamp=time)
    assert seen == [("a", 0), ("a", 1)]
