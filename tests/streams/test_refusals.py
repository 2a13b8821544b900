"""Batches that a broker refuses: split if they are too large, or handed to the production handler record by record."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ottla.client.admin.topics import NewTopic
from ottla.streams import (
    Application,
    Consumed,
    ErrorHandlerContext,
    FailedProcessingError,
    Produced,
    ProductionExceptionHandler,
    Response,
    Serdes,
    StreamsBuilder,
    Topology,
)
from tests.streams.live import Live, eventually

TEXT = Serdes.string()
LIMIT_BYTES = 2_000
_numbers = itertools.count()


@pytest.fixture
def name(live: Live) -> str:
    """An application's name; its topics are NAME-in, NAME-letters, and NAME-out, which takes batches of LIMIT_BYTES."""
    chosen = f"refused{next(_numbers)}"
    live.create(f"{chosen}-in", f"{chosen}-letters", partitions=1)
    small = NewTopic(name=f"{chosen}-out", partitions=1, configs={"max.message.bytes": str(LIMIT_BYTES)})
    live.admin.call(lambda admin: admin.topics.create([small]))
    return chosen


class Skip(ProductionExceptionHandler):
    """Writes the source record to the dead-letter topic and goes on."""

    seen: list[ErrorHandlerContext]

    def __init__(self) -> None:
        self.seen = []

    def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
        self.seen.append(context)
        return Response.resume(self.dead_letters(context, error))


def topology(name: str) -> Topology:
    """Every number becomes a text with this number of letters."""
    builder = StreamsBuilder()
    stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT))
    stream.map_values(lambda value: int(value) * "x").to(f"{name}-out", Produced.with_(TEXT, TEXT))
    return builder.build()


def application_of(live: Live, name: str, guarantee: str = "exactly_once_v2", **properties: Any) -> Application:
    settings = {
        "application.id": name,
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 20,
        "state.dir": live.state_directory,
        **{key.replace("_", "."): value for key, value in properties.items()},
    }
    return Application(topology(name), settings, runs_on="threads")


def test_batches_become_as_small_as_the_topic_wants(live: Live, name: str) -> None:
    live.write(f"{name}-in", [("k", "500")] * 40)
    with application_of(live, name):
        eventually(lambda: live.lag(name) == 0)
    assert [len(value or "") for _, value in live.read(f"{name}-out")] == [500] * 40


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_handler_skips_a_record_that_no_batch_can_hold(live: Live, name: str, guarantee: str) -> None:
    handler = Skip()
    live.write(f"{name}-in", [("k", str(size)) for size in (1, 5_000, 2, 6_000, 3)])
    letters = {"errors_dead_letter_queue_topic_name": f"{name}-letters"}
    with application_of(live, name, guarantee, production_exception_handler=handler, **letters):
        eventually(lambda: live.lag(name) == 0)
    written = [len(value or "") for _, value in live.read(f"{name}-out")]
    assert written == [1, 2, 3] if guarantee == "exactly_once_v2" else set(written) == {1, 2, 3}
    dead = live.read(f"{name}-letters")
    assert dead == [("k", "5000"), ("k", "6000")] if guarantee == "exactly_once_v2" else len(dead) >= 2
    assert {(record.topic, record.offset) for record in handler.seen} == {(f"{name}-in", 1), (f"{name}-in", 3)}
    assert handler.seen[0].task_id == "0_0"


def test_without_a_handler_the_worker_ends_and_says_why(live: Live, name: str) -> None:
    live.write(f"{name}-in", [("k", "5000")])
    application = application_of(live, name)
    application.start()
    with pytest.raises(FailedProcessingError, match=rf"{name}-out .* 5001 bytes.*production\.exception\.handler"):
        application.wait(60)
