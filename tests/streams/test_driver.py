"""The test driver, and the Processor API."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from ottla.serdes import plain_serde
from ottla.streams import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    StoreNotFoundError,
    Stores,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TestRecord,
    TopologyTestDriver,
    ValueAndTimestamp,
)
from ottla.streams.machine import ProcessorContext

TEXT = Serdes.string()


def word_count() -> StreamsBuilder:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed.with_(TEXT, TEXT))
    words = lines.flat_map_values(lambda line: re.findall(r"\w+", line.lower()))
    counts = words.group_by(lambda _, word: word, Grouped.with_(TEXT, TEXT)).count(Materialized.as_("counts"))
    counts.to_stream().map_values(str).to("counts", Produced.with_(TEXT, TEXT))
    return builder


def test_words_are_counted() -> None:
    with TopologyTestDriver(word_count().build()) as driver:
        lines = driver.create_input_topic("lines", TEXT, TEXT)
        counts = driver.create_output_topic("counts", TEXT, TEXT)
        lines.pipe_input(None, "Hello world, hello", 5)
        assert counts.read_records() == [
            TestRecord("hello", "1", 5),
            TestRecord("world", "1", 5),
            TestRecord("hello", "2", 5),
        ]
        assert driver.get_state_store("counts").get("hello") == ValueAndTimestamp(2, 5)
        assert counts.is_empty()


def test_an_empty_store_is_a_store() -> None:
    builder = StreamsBuilder()
    wait = Suppressed.until_time_limit(timedelta(seconds=1), BufferConfig.unbounded()).with_name("wait")
    builder.table("a", Consumed.with_(TEXT, TEXT)).suppress(wait).to_stream().to("b")
    with TopologyTestDriver(builder.build()) as driver:
        (name,) = (name for name in driver.get_all_state_stores() if name.startswith("wait"))
        assert len(driver.get_state_store(name)) == 0


def test_bytes_are_the_default() -> None:
    builder = StreamsBuilder()
    builder.stream("a").map_values(bytes.upper).to("b")
    driver = TopologyTestDriver(builder.build())
    driver.create_input_topic("a").pipe_input(b"k", b"abc")
    driver.create_input_topic("a").pipe_input(None, b"x")
    assert driver.create_output_topic("b").read_key_values() == [(b"k", b"ABC"), (None, b"X")]


def test_a_topic_that_is_not_read_is_refused() -> None:
    driver = TopologyTestDriver(word_count().build())
    with pytest.raises(StreamsError, match="does not read elsewhere; it reads"):
        driver.create_input_topic("elsewhere")


def test_input_topics_have_a_clock() -> None:
    builder = StreamsBuilder()
    builder.stream("a").to("b")
    driver = TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("a", start_timestamp=100, auto_advance=timedelta(milliseconds=7))
    topic.pipe_value_list([b"1", b"2"])
    topic.advance_time(1000)
    topic.pipe_input(b"k", b"3")
    assert [record.timestamp for record in driver.create_output_topic("b").read_records()] == [100, 107, 1114]


def test_a_pattern_reads_all_topics_that_match() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*")).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.create_input_topic("in-1").pipe_input(b"a", b"1")
    driver.create_input_topic("in-2").pipe_input(b"b", b"2")
    assert driver.create_output_topic("out").read_values() == [b"1", b"2"]


class Remembering(Processor):
    """Forwards the previous value of a key, and all keys every 10 ms of stream time."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.get_state_store("last")
        self.handle = context.schedule(10, PunctuationType.STREAM_TIME, self.on_time)

    def process(self, record: Record) -> None:
        before = self.store.get(record.key)
        self.store.put(record.key, record.value)
        self.context.forward(record.with_value(before))

    def on_time(self, now_ms: int) -> None:
        assert self.context.record_metadata is None
        keys = ",".join(key for key, _ in self.store.all())
        self.context.forward(Record("all", keys, now_ms))
        if now_ms >= 40:
            self.handle.cancel()


def test_processors_have_stores_and_punctuations() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("last", TEXT, TEXT))
    builder.stream("a", Consumed.with_(TEXT, TEXT)).process(Remembering, "last").to("b", Produced.with_(TEXT, TEXT))
    driver = TopologyTestDriver(builder.build())
    topic, out = driver.create_input_topic("a", TEXT, TEXT), driver.create_output_topic("b", TEXT, TEXT)
    for timestamp, key in ((3, "x"), (9, "y"), (25, "x"), (41, "z"), (99, "z")):
        topic.pipe_input(key, f"{key}{timestamp}", timestamp)
    assert [tuple(record)[:3] for record in out.read_records()] == [
        ("x", None, 3),
        ("all", "x", 3),
        ("y", None, 9),
        ("x", "x3", 25),
        ("all", "x,y", 25),
        ("z", None, 41),
        ("all", "x,y,z", 41),
        ("z", "z41", 99),
    ]


def test_the_last_moment_of_all_punctuates_once() -> None:
    """CVE-2026-111496: a timestamp near the end of time must not make a punctuation due for ever."""
    last, called = (1 << 63) - 1, []

    class Punctual(Processor):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(10, PunctuationType.STREAM_TIME, called.append)

        def process(self, record: Record) -> None:
            pass

    builder = StreamsBuilder()
    builder.stream("a", Consumed.with_(TEXT, TEXT)).process(Punctual).to("b", Produced.with_(TEXT, TEXT))
    topic = TopologyTestDriver(builder.build()).create_input_topic("a", TEXT, TEXT)
    for timestamp in (3, last, last):
        topic.pipe_input("k", "v", timestamp)
    assert called == [3, last]


def test_a_store_that_is_not_connected_is_refused() -> None:
    class Greedy(Processor):
        def init(self, context: ProcessorContext) -> None:
            context.get_state_store("last")

    builder = StreamsBuilder()
    builder.stream("a").process(Greedy).to("b")
    with pytest.raises(StoreNotFoundError, match=r"has no store last.*process\(supplier, 'last'\)"):
        TopologyTestDriver(builder.build())


def test_timestamps_can_come_from_the_value_and_negative_ones_are_dropped() -> None:
    builder = StreamsBuilder()
    extracted = Consumed.with_(TEXT, TEXT).with_timestamp_extractor(lambda record, _: int(record.value))
    builder.stream("a", extracted).to("b", Produced.with_(TEXT, TEXT))
    driver = TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("a", TEXT, TEXT)
    topic.pipe_input("k", "77")
    topic.pipe_input("k", "-1")
    assert [record.timestamp for record in driver.create_output_topic("b", TEXT, TEXT).read_records()] == [77]
    assert driver.dropped_records() == {"negative timestamp": 1}


def test_headers_pass_through() -> None:
    builder = StreamsBuilder()
    builder.stream("a").filter(lambda *_: True).to("b")
    driver = TopologyTestDriver(builder.build())
    driver.create_input_topic("a").pipe_input(b"k", b"v", 1, (("trace", b"7"),))
    assert driver.create_output_topic("b").read_record().headers == (("trace", b"7"),)


def test_a_serde_of_ottla_serdes_fits_everywhere() -> None:
    text, number = plain_serde("string"), plain_serde("long")
    builder = StreamsBuilder()
    stream = builder.stream("a", Consumed.with_(text, text))
    counts = stream.group_by_key(Grouped.with_(text, text)).count(Materialized.with_(text, number))
    counts.to_stream().to("b", Produced.with_(text, number))
    driver = TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("a", text, text)
    topic.pipe_input("k", "x")
    topic.pipe_input("k", "y")
    assert driver.create_output_topic("b", text, number).read_key_values() == [("k", 1), ("k", 2)]
