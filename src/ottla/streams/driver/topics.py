"""Input and output topics of the test driver."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.streams.record import Headers
from ottla.streams.serdes import Serde

if TYPE_CHECKING:
    from ottla.streams.driver.driver import TopologyTestDriver

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord"]


class TestRecord(NamedTuple):
    key: Any
    value: Any
    timestamp: int | None = None
    headers: Headers = ()


# pytest would take the class for a test.
TestRecord.__test__ = False  # type: ignore[attr-defined]


class TestInputTopic:
    """Pipes records into a topology. Without a timestamp a record gets the clock of the topic, which then advances."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        topic: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        start_ms: int | None,
        advance_ms: int,
    ) -> None:
        self._driver = driver
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._now_ms = start_ms
        self._advance_ms = advance_ms

    def pipe_input(
        self, key: Any = None, value: Any = None, timestamp: int | None = None, headers: Headers = ()
    ) -> None:
        """Pipes a record, or a `TestRecord`, and processes all that follows from it."""
        if isinstance(key, TestRecord):
            key, value, timestamp, headers = key
        if timestamp is None:
            timestamp = self._driver.now_ms if self._now_ms is None else self._now_ms
            if self._now_ms is not None:
                self._now_ms += self._advance_ms
        self._driver.pipe(
            self._topic,
            None if key is None else self._key_serde.serialize(self._topic, key),
            None if value is None else self._value_serde.serialize(self._topic, value),
            timestamp,
            headers,
        )

    def pipe_record_list(self, records: Iterable[TestRecord]) -> None:
        for record in records:
            self.pipe_input(record)

    def pipe_key_value_list(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        for key, value in pairs:
            self.pipe_input(key, value)

    def pipe_value_list(self, values: Iterable[Any]) -> None:
        for value in values:
            self.pipe_input(None, value)

    def advance_time(self, duration: int | timedelta) -> None:
        """Advances the clock of the topic."""
        step = duration // timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration
        self._now_ms = (self._driver.now_ms if self._now_ms is None else self._now_ms) + step


class TestOutputTopic:
    """Reads what a topology wrote to a topic."""

    __test__ = False

    def __init__(self, driver: TopologyTestDriver, topic: str, key_serde: Serde, value_serde: Serde) -> None:
        self._driver = driver
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde

    def is_empty(self) -> bool:
        return self.get_queue_size() == 0

    def get_queue_size(self) -> int:
        return len(self._driver.written.get(self._topic, ()))

    def read_record(self) -> TestRecord:
        """The next record; raises LookupError if there is none."""
        waiting = self._driver.written.get(self._topic)
        if not waiting:
            raise LookupError(f"Topic {self._topic} has no more records.")
        record = waiting.popleft()
        return TestRecord(
            None if record.key is None else self._key_serde.deserialize(self._topic, record.key),
            None if record.value is None else self._value_serde.deserialize(self._topic, record.value),
            record.timestamp,
            record.headers,
        )

    def read_key_value(self) -> tuple[Any, Any]:
        record = self.read_record()
        return record.key, record.value

    def read_value(self) -> Any:
        return self.read_record().value

    def read_records(self) -> list[TestRecord]:
        """All records that have not been read yet."""
        return [self.read_record() for _ in range(self.get_queue_size())]

    def read_key_values(self) -> list[tuple[Any, Any]]:
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """The last value of every key."""
        return dict(self.read_key_values())

    def read_values(self) -> list[Any]:
        return [record.value for record in self.read_records()]
