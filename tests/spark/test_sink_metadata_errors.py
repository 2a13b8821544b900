"""Tasks of a sink while the metadata of their topic has an error: a task fails in time, and leaves nothing open."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow
import pytest

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.spark.sink.client import SinkClient
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.stream import SinkError
from ottla.spark.sink.task import write_exactly_once
from ottla.wire.messages.metadata import MetadataResponse
from tests.spark.test_sink_tasks import committed, open_transactions, options_of, rows, task_of
from tests.support.spark_topics import Topics

pytestmark = pytest.mark.spark

RETRIABLE = [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
FATAL = [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION]


class Trouble:
    """A client whose metadata of one topic has the error `code`, while it is set."""

    def __init__(self, topics: Topics, topic: str, *, timeout_ms: int) -> None:
        self.options: SinkOptions = options_of(
            topics,
            topic,
            delivery_timeout_ms=f"{timeout_ms}",
            request_timeout_ms=f"{min(timeout_ms, 30_000)}",
            # Enough for the end of the transaction on a slow machine.
            default_api_timeout_ms=f"{max(timeout_ms, 5_000)}",
        )
        self.client = SinkClient(self.options.client)
        self.topic = topic
        self.code: ErrorCode | None = None
        # Responses that may still have the error.
        self.left = 1_000_000
        self._update = self.client.cluster.metadata.update
        self.client.cluster.metadata.update = self.update  # type: ignore[method-assign]

    def update(self, response: MetadataResponse, *, all_topics: bool) -> None:
        for topic in response.topics:
            if self.code is not None and self.left > 0 and topic.name == self.topic:
                self.left -= 1
                topic.error_code, topic.partitions = int(self.code), []
        self._update(response, all_topics=all_topics)

    def learn(self) -> None:
        """Refreshes the metadata, so that the client has the error."""

        async def refresh() -> None:
            await self.client.cluster.refresh([self.topic])

        self.client.call(refresh())

    def lose_leader(self) -> None:
        """Forgets the leader, so that the next batch gets the error when it looks for its leader."""
        self.client.cluster.metadata.forget_leader(TopicPartition(self.topic, 0))


@pytest.fixture
def trouble(topics: Topics) -> Iterator[Trouble]:
    new_trouble = Trouble(topics, topics.create(), timeout_ms=1_500)
    yield new_trouble
    new_trouble.client.close()


@pytest.fixture
def patient(topics: Topics, trouble: Trouble) -> Iterator[Trouble]:
    """A client with a time-out of a minute, for calls that must succeed."""
    new_trouble = Trouble(topics, trouble.topic, timeout_ms=60_000)
    yield new_trouble
    new_trouble.client.close()


def large_rows() -> pyarrow.RecordBatch:
    """More than one record batch, so that the first is sent at once."""
    return pyarrow.RecordBatch.from_pylist([{"value": b"x" * 300_000} for _ in range(2)])


BEGINNINGS: dict[str, Callable[[Trouble], None]] = {
    "before the first row": lambda trouble: None,
    "between rows": Trouble.learn,
    "while rows are sent": Trouble.lose_leader,
}


@pytest.mark.parametrize("code", [*RETRIABLE, *FATAL])
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_the_task_fails_in_time_and_the_next_attempt_writes(
    topics: Topics, trouble: Trouble, patient: Trouble, code: ErrorCode, beginning: str
) -> None:
    query = topics.name("query")

    def troubled() -> Iterator[pyarrow.RecordBatch]:
        if beginning == "before the first row":
            trouble.code = code
        yield large_rows()
        trouble.code = code
        BEGINNINGS[beginning](trouble)
        yield large_rows()

    with pytest.raises(SinkError, match=r"task 0 of batch 0 .* could not be written"):
        write_exactly_once(trouble.client, trouble.options, task_of(query, 0), troubled())
    assert open_transactions(topics, query) == []
    assert write_exactly_once(patient.client, patient.options, task_of(query, 0), rows("again")).records == 1
    assert committed(topics, trouble.topic) == ["again"]
    assert open_transactions(topics, query) == []


@pytest.mark.parametrize("code", RETRIABLE)
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_an_error_that_passes_is_waited_for(topics: Topics, patient: Trouble, code: ErrorCode, beginning: str) -> None:
    query = topics.name("query")

    def troubled() -> Iterator[pyarrow.RecordBatch]:
        patient.code, patient.left = code, 2
        BEGINNINGS[beginning](patient)
        yield from rows("a", "b")

    assert write_exactly_once(patient.client, patient.options, task_of(query, 0), troubled()).records == 2
    assert committed(topics, patient.topic) == ["a", "b"]
