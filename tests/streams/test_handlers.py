"""Exception handlers: records that cannot be read, processed or written, and their dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.streams import (
    Consumed,
    ErrorHandlerContext,
    FailedProcessingError,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    Processor,
    ProcessorContext,
    Produced,
    ProductionExceptionHandler,
    PunctuationType,
    Record,
    Response,
    Serdes,
    SerializationExceptionOrigin,
    StreamsBuilder,
    StreamsError,
    TopologyTestDriver,
)

TEXT, NUMBER = Serdes.string(), Serdes.integer()
LETTERS = "errors.dead.letter.queue.topic.name"


def driver_of(function: Callable[[int], Any], **properties: Any) -> TopologyTestDriver:
    """Reads numbers and writes text; writes each number unchanged to a second topic, too."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, NUMBER))
    stream.map_values(function).to("out", Produced.with_(TEXT, TEXT))
    stream.to("copy", Produced.with_(TEXT, NUMBER))
    return TopologyTestDriver(builder.build(), {key.replace("_", "."): value for key, value in properties.items()})


def results(driver: TopologyTestDriver, topic: str = "out") -> list[Any]:
    return driver.create_output_topic(topic, TEXT, TEXT if topic == "out" else NUMBER).read_values()


def invert(number: int) -> str:
    return str(100 // number)


def test_an_unreadable_record_fails_by_default_and_says_what_to_set() -> None:
    driver = driver_of(invert)
    with pytest.raises(FailedProcessingError, match=r"in-0 at offset 0.*deserialization\.exception\.handler"):
        driver.pipe("in", b"k", b"abc", 1)


@pytest.mark.parametrize(
    "handler",
    [
        LogAndContinueExceptionHandler,
        LogAndContinueExceptionHandler(),
        "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
        "LogAndContinueExceptionHandler",
    ],
)
def test_unreadable_records_are_skipped_and_counted(handler: Any) -> None:
    driver = driver_of(invert, deserialization_exception_handler=handler)
    for value in (b"\0\0\0\5", b"abc", b"\0\0\0\4"):
        driver.pipe("in", b"k", value, 1)
    assert results(driver) == ["20", "25"]
    assert list(driver.dropped_records().values()) == [1]


def test_a_processing_error_drops_the_record_at_its_node_only() -> None:
    driver = driver_of(invert, processing_exception_handler=LogAndContinueProcessingExceptionHandler)
    for value in (b"\0\0\0\5", b"\0\0\0\0", b"\0\0\0\4"):
        driver.pipe("in", b"k", value, 1)
    assert results(driver) == ["20", "25"]
    assert results(driver, "copy") == [5, 0, 4]


def test_an_error_says_where_it_happened() -> None:
    driver = driver_of(invert)
    with pytest.raises(ZeroDivisionError) as caught:
        driver.pipe("in", b"k", b"\0\0\0\0", 1)
    assert caught.value.__notes__ == ["Task 0_0, in-0 at offset 0."]


def test_dead_letters_are_source_records_with_kafkas_headers() -> None:
    driver = driver_of(
        invert,
        deserialization_exception_handler=LogAndContinueExceptionHandler,
        processing_exception_handler=LogAndContinueProcessingExceptionHandler,
        **{LETTERS: "letters"},
    )
    driver.pipe("in", b"k", b"abc", 7, (("trace", b"1"),))
    driver.pipe("in", b"k", b"\0\0\0\0", 8)
    letters = driver.create_output_topic("letters").read_records()
    assert [(letter.key, letter.value, letter.timestamp) for letter in letters] == [
        (b"k", b"abc", 7),
        (b"k", b"\0\0\0\0", 8),
    ]
    names = ["exception", "message", "stacktrace", "topic", "partition", "offset"]
    assert [name for name, _ in letters[0].headers] == [f"__streams.errors.{name}" for name in names]
    error_headers = {name.removeprefix("__streams.errors."): content for name, content in letters[1].headers}
    assert error_headers["exception"].startswith(b"builtins.ZeroDivisionError: ")
    assert b"in invert" in error_headers["stacktrace"]
    assert (error_headers["topic"], error_headers["partition"], error_headers["offset"]) == (b"in", b"0", b"1")


class Continue(ProductionExceptionHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, SerializationExceptionOrigin]] = []

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: Record, error: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        self.seen.append((record.value, origin))
        return Response.resume(self.dead_letters(context, error))


def test_records_that_cannot_be_written_are_skipped_if_the_handler_says_so() -> None:
    handler = Continue()
    driver = driver_of(
        lambda number: number if number == 3 else str(number),
        production_exception_handler=handler,
        **{LETTERS: "letters"},
    )
    driver.pipe("in", b"k", b"\0\0\0\3", 1)
    driver.pipe("in", b"k", b"\0\0\0\4", 1)
    assert results(driver) == ["4"]
    assert handler.seen == [(3, SerializationExceptionOrigin.VALUE)]
    assert driver.create_output_topic("letters").read_values() == [b"\0\0\0\3"]
    with pytest.raises(FailedProcessingError, match="cannot be serialized for topic out"):
        driver_of(lambda number: number).pipe("in", b"k", b"\0\0\0\3", 1)


class Failing(Processor):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.on_time)

    def process(self, record: Record) -> None:
        self.context.forward(record)

    def on_time(self, now_ms: int) -> None:
        raise RuntimeError(f"not at {now_ms}")


def test_errors_of_punctuations_have_no_record() -> None:
    seen: list[tuple[Record | None, str | None]] = []

    class Handler(LogAndContinueProcessingExceptionHandler):
        def handle_error(self, context: ErrorHandlerContext, record: Record | None, error: Exception) -> Response:
            seen.append((record, context.topic))
            return super().handle_error(context, record, error)

    builder = StreamsBuilder()
    builder.stream("in").process(Failing).to("out")
    driver = TopologyTestDriver(builder.build(), {"processing.exception.handler": Handler})
    driver.advance_wall_clock_time(10)
    assert seen == [(None, None)]


def test_a_handler_that_fails_or_answers_nonsense_is_fatal() -> None:
    class Broken(LogAndContinueExceptionHandler):
        def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
            raise KeyError("no")

    class Silent(LogAndContinueExceptionHandler):
        def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
            return None  # type: ignore[return-value]

    for handler, message in ((Broken, "handler has failed"), (Silent, "returned None")):
        with pytest.raises(FailedProcessingError, match=message):
            driver_of(invert, deserialization_exception_handler=handler).pipe("in", b"k", b"abc", 1)
    with pytest.raises(StreamsError, match="is no DeserializationExceptionHandler"):
        driver_of(invert, deserialization_exception_handler="com.example.Mine")
