"""The store of statuses of connectors and tasks, and of the topics that they use, as records of the status topic.

Kafka Connect's own records: `status-connector-<name>`, `status-task-<name>-<n>`,
`status-topic-<topic>:connector-<name>`. Every worker reads all records, so it can answer for the whole cluster. A
worker that gives up a task writes UNASSIGNED only if no other worker has reported about the task since (`safe`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.client.consumer import ConsumedRecord
from ottla.connect.control.states import ConnectorState, State, TaskId, TopicUse
from ottla.connect.control.stores.topic_log import TopicLog, count_of, record_value

__all__ = ["MemoryStatusStore", "StatusStore", "TopicStatusStore"]

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

_TASK, _CONNECTOR, _TOPIC, _USED_BY = "status-task-", "status-connector-", "status-topic-", ":connector-"


class StatusStore:
    """Writes and reads statuses. Subclasses store the records."""

    def __init__(self) -> None:
        self._connectors: dict[str, ConnectorState] = {}
        self._tasks: dict[str, dict[int, ConnectorState]] = {}
        self._topics: dict[str, dict[str, TopicUse]] = {}

    async def start(self) -> None:
        """Returns when all stored records have been read."""

    async def stop(self) -> None:
        """Stops reading."""

    async def write(self, records: Sequence[tuple[str, dict[str, Any] | None]]) -> None:
        """Stores and replays records."""
        raise NotImplementedError

    # Reading.

    def connector(self, name: str) -> ConnectorState | None:
        return self._connectors.get(name)

    def connectors(self) -> list[str]:
        """The connectors with a status, with a task that has one, or with a used topic."""
        return list({**self._connectors, **self._tasks, **self._topics})

    def task(self, task: TaskId) -> ConnectorState | None:
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, connector: str) -> dict[int, ConnectorState]:
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def topics(self, connector: str) -> list[str]:
        return sorted(self._topics.get(connector, {}))

    # Writing.

    async def put(self, subject: str | TaskId, state: ConnectorState, *, safe: bool = False) -> None:
        """Stores the status of a connector (a name) or a task."""
        known = self.connector(subject) if isinstance(subject, str) else self.task(subject)
        if safe and known is not None and not _may_replace(known, state):
            return
        key = _CONNECTOR + subject if isinstance(subject, str) else f"{_TASK}{subject}"
        await self.write([(key, None if state.state is State.DESTROYED else _value(state))])

    async def remove(self, connector: str) -> None:
        """Removes the statuses of a connector and its tasks."""
        records: list[tuple[str, dict[str, Any] | None]] = [
            (f"{_TASK}{connector}-{number}", None) for number in self.tasks(connector)
        ]
        await self.write([*records, (_CONNECTOR + connector, None)])

    async def remove_tasks(self, tasks: Sequence[TaskId]) -> None:
        if tasks:
            await self.write([(f"{_TASK}{task}", None) for task in tasks])

    async def put_topic(self, use: TopicUse) -> None:
        if use.topic in self._topics.get(use.connector, {}):
            return
        value = {
            "topic": {
                "name": use.topic,
                "connector": use.connector,
                "task": use.task,
                "discoverTimestamp": use.discovered_ms,
            }
        }
        await self.write([(f"{_TOPIC}{use.topic}{_USED_BY}{use.connector}", value)])

    async def reset_topics(self, connector: str) -> None:
        topics = self.topics(connector)
        if topics:
            await self.write([(f"{_TOPIC}{topic}{_USED_BY}{connector}", None) for topic in topics])

    def _replay(self, key: str, value: dict[str, Any] | None) -> None:
        if key.startswith(_CONNECTOR):
            name = key.removeprefix(_CONNECTOR)
            if value is None:
                # Statuses of tasks have tombstones of their own. They are in other partitions, so the statuses read
                # before this record may be newer.
                self._connectors.pop(name, None)
            else:
                self._connectors[name] = _state(value)
        elif key.startswith(_TASK):
            connector, _, number = key.removeprefix(_TASK).rpartition("-")
            if value is None:
                _forget(self._tasks, connector, int(number))
            else:
                task, state = int(number), _state(value)
                self._tasks.setdefault(connector, {})[task] = state
        elif key.startswith(_TOPIC):
            topic, _, connector = key.removeprefix(_TOPIC).partition(_USED_BY)
            if value is None:
                _forget(self._topics, connector, topic)
            else:
                self._topics.setdefault(connector, {})[topic] = _use(topic, connector, value)


def _forget(known: dict[str, dict[K, V]], connector: str, key: K) -> None:
    """Removes an entry, and the connector with its last entry: its name may never come back."""
    entries = known.get(connector, {})
    entries.pop(key, None)
    if not entries:
        known.pop(connector, None)


class MemoryStatusStore(StatusStore):
    async def write(self, records: Sequence[tuple[str, dict[str, Any] | None]]) -> None:
        for key, value in records:
            self._replay(key, value)


class TopicStatusStore(StatusStore):
    def __init__(self, log: Callable[[Callable[[ConsumedRecord], None]], TopicLog]) -> None:
        super().__init__()
        self._log = log(self._on_record)

    async def start(self) -> None:
        await self._log.start()

    async def stop(self) -> None:
        await self._log.stop()

    async def write(self, records: Sequence[tuple[str, dict[str, Any] | None]]) -> None:
        # Own records are applied at once; records of other workers are applied in the order of the topic.
        for key, value in records:
            self._replay(key, value)
        await self._log.send(
            [
                (key.encode(), None if value is None else json.dumps(value, separators=(",", ":")).encode())
                for key, value in records
            ]
        )

    def _on_record(self, record: ConsumedRecord) -> None:
        try:
            self._replay((record.key or b"").decode(), record_value(record))
        except (ValueError, RecursionError) as error:
            # An error would end the reader, and this worker would see no later status.
            logger.warning("The record at offset %d of the status topic is skipped: %s", record.offset, error)


def _may_replace(known: ConnectorState, state: ConnectorState) -> bool:
    return known.worker_id == state.worker_id or known.generation <= state.generation


def _value(state: ConnectorState) -> dict[str, Any]:
    return {
        "state": state.state.value,
        "trace": state.trace,
        "worker_id": state.worker_id,
        "generation": state.generation,
        "version": state.version,
    }


def _state(value: dict[str, Any]) -> ConnectorState:
    """Decodes the value of a status record. Raises ValueError."""
    trace, worker_id, version = value.get("trace"), value.get("worker_id"), value.get("version")
    if not isinstance(worker_id, str) or not isinstance(trace, str | None) or not isinstance(version, str | None):
        raise ValueError("its worker, trace or version is not a text")
    return ConnectorState(
        state=State(value.get("state")),
        trace=trace,
        worker_id=worker_id,
        generation=count_of(value, "generation"),
        version=version,
    )


def _use(topic: str, connector: str, value: dict[str, Any]) -> TopicUse:
    """Decodes the value of a record of a used topic. Raises ValueError."""
    content = value.get("topic")
    if not isinstance(content, dict):
        raise ValueError("its topic is not an object")
    return TopicUse(topic, connector, count_of(content, "task"), count_of(content, "discoverTimestamp"))
