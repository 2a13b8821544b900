"""The store of connectors, task configurations and target states, as records of the config topic.

The records are Kafka Connect's own, key and JSON value: `connector-<name>`, `task-<name>-<n>`, `commit-<name>` (which
commits the task configurations before it), `target-state-<name>`, `restart-connector-<name>`,
`tasks-fencing-<name>` and `logger-cluster-<name>`. Only `replay` changes the state, also for a worker's own writes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ottla.client.consumer import ConsumedRecord
from ottla.connect.control.states import ConfigState, RestartRequest, TargetState
from ottla.connect.control.stores.topic_log import TopicLog, count_of, record_value

__all__ = ["ConfigStore", "MemoryConfigStore", "TopicConfigStore", "replay"]

logger = logging.getLogger(__name__)

Record = tuple[str, dict[str, Any] | None]


class ConfigListener(Protocol):
    """Receives changes of the config topic after the start of the worker."""

    def on_change(self, connector: str) -> None:
        """A connector was created, reconfigured or deleted, or its target state or tasks changed."""

    def on_restart(self, request: RestartRequest) -> None:
        """A request asks every worker to restart its parts of a connector."""

    def on_logger(self, name: str, level: str) -> None:
        """A request asks every worker to set the level of a logger."""


class ConfigStore:
    """Writes configurations as records. Subclasses store the records."""

    def __init__(self) -> None:
        self.state = ConfigState()
        self.listener: ConfigListener | None = None
        self._pending: dict[str, dict[int, dict[str, str]]] = {}

    async def start(self) -> None:
        """Returns when all stored records have been replayed."""

    async def stop(self) -> None:
        """Stops reading."""

    async def refresh(self, timeout_ms: int = 30_000) -> None:
        """Returns when all records that are stored by now have been replayed."""

    async def write(self, records: Sequence[Record]) -> None:
        """Stores records and replays them before it returns."""
        raise NotImplementedError

    async def put_connector(
        self, connector: str, config: Mapping[str, str | None], target: TargetState | None = None
    ) -> None:
        records: list[Record] = []
        if target is not None:
            records.append((f"target-state-{connector}", _target_value(target)))
        records.append((f"connector-{connector}", {"properties": dict(config)}))
        await self.write(records)

    async def remove_connector(self, connector: str) -> None:
        await self.write([(f"connector-{connector}", None), (f"target-state-{connector}", None)])

    async def put_tasks(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        records: list[Record] = [
            (f"task-{connector}-{number}", {"properties": dict(config)}) for number, config in enumerate(configs)
        ]
        await self.write([*records, (f"commit-{connector}", {"tasks": len(configs)})])

    async def put_target(self, connector: str, target: TargetState) -> None:
        await self.write([(f"target-state-{connector}", _target_value(target))])

    async def put_restart(self, request: RestartRequest) -> None:
        value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
        await self.write([(f"restart-connector-{request.connector}", value)])

    async def put_fencing(self, connector: str, count: int) -> None:
        await self.write([(f"tasks-fencing-{connector}", {"task-count": count})])

    async def put_logger(self, name: str, level: str) -> None:
        await self.write([(f"logger-cluster-{name}", {"level": level})])

    def _replay(self, key: str, value: dict[str, Any] | None, offset: int) -> None:
        replay(self.state, self._pending, key, value, offset)
        if self.listener is None:
            return
        kind, name = _kind_of(key)
        if kind in ("connector", "target-state", "commit"):
            self.listener.on_change(name)
        elif kind == "restart-connector" and value is not None:
            self.listener.on_restart(
                RestartRequest(name, bool(value.get("include-tasks")), bool(value.get("only-failed")))
            )
        elif kind == "logger-cluster" and value is not None:
            self.listener.on_logger(name, str(value.get("level")))


class MemoryConfigStore(ConfigStore):
    """The store of a standalone worker: configurations live as long as the worker."""

    async def write(self, records: Sequence[Record]) -> None:
        for key, value in records:
            self._replay(key, value, self.state.offset + 1)


class TopicConfigStore(ConfigStore):
    def __init__(self, log: Callable[[Callable[[ConsumedRecord], None]], TopicLog]) -> None:
        super().__init__()
        self._log = log(self._on_record)

    async def start(self) -> None:
        await self._log.start()
        # Compaction removes the tombstone of a deleted connector, but not its tasks. A new connector of the same name
        # must not get them.
        for name in self.state.tasks.keys() - self.state.connectors.keys():
            del self.state.tasks[name]

    async def stop(self) -> None:
        await self._log.stop()

    async def refresh(self, timeout_ms: int = 30_000) -> None:
        await self._log.read_to_end(timeout_ms)

    async def write(self, records: Sequence[Record]) -> None:
        await self._log.send(
            [
                (key.encode(), None if value is None else json.dumps(value, separators=(",", ":")).encode())
                for key, value in records
            ]
        )
        await self._log.read_to_end()

    def _on_record(self, record: ConsumedRecord) -> None:
        try:
            self._replay((record.key or b"").decode(), record_value(record), record.offset)
        except (ValueError, RecursionError) as error:
            # An error would end the reader, and this worker would see no later change.
            logger.warning("The record at offset %d of the config topic is skipped: %s", record.offset, error)
            self.state.offset = record.offset


_KINDS = ("connector", "target-state", "commit", "task", "tasks-fencing", "restart-connector", "logger-cluster")


def _kind_of(key: str) -> tuple[str, str]:
    """`connector-a` → (connector, a). The longest kind wins, because names and kinds may contain dashes."""
    fitting = [kind for kind in _KINDS if key.startswith(kind + "-")]
    if not fitting:
        return "", key
    kind = max(fitting, key=len)
    return kind, key[len(kind) + 1 :]


def replay(
    state: ConfigState,
    pending: dict[str, dict[int, dict[str, str]]],
    key: str,
    value: dict[str, Any] | None,
    offset: int,
) -> None:
    """Applies a record. `pending` holds task configurations whose commit record has not come yet.

    A record of another form raises ValueError and changes only the offset.
    """
    state.offset = offset
    kind, name = _kind_of(key)
    if kind == "connector":
        if value is None:
            for known in (state.connectors, state.tasks, pending):
                known.pop(name, None)
        else:
            state.connectors[name] = _properties(value)
    elif kind == "target-state":
        if value is None:
            state.targets.pop(name, None)
        else:
            state.targets[name] = TargetState(value.get("state.v2") or value.get("state"))
    elif kind == "task" and value is not None:
        connector, _, number = name.rpartition("-")
        task, config = int(number), _task_properties(value)
        pending.setdefault(connector, {})[task] = config
    elif kind == "commit" and value is not None:
        _replay_commit(state, pending, name, count_of(value, "tasks"))
    elif kind == "tasks-fencing" and value is not None:
        state.fencing[name] = count_of(value, "task-count")


def _properties(value: dict[str, Any]) -> dict[str, str | None]:
    properties = value.get("properties")
    if not isinstance(properties, dict) or not all(isinstance(text, str | None) for text in properties.values()):
        raise ValueError("its properties are not an object of texts")
    return properties


def _task_properties(value: dict[str, Any]) -> dict[str, str]:
    return {name: text for name, text in _properties(value).items() if text is not None}


def _replay_commit(
    state: ConfigState, pending: dict[str, dict[int, dict[str, str]]], connector: str, count: int
) -> None:
    configs = dict(enumerate(state.tasks.get(connector, [])))
    configs.update(pending.pop(connector, {}))
    if any(number not in configs for number in range(count)):
        # Compaction has removed some configurations: the connector has no tasks until it is planned again.
        logger.warning("Tasks of connector %s are missing in the config topic; it is planned again", connector)
        state.tasks[connector] = []
        return
    state.tasks[connector] = [configs[number] for number in range(count)]


def _target_value(target: TargetState) -> dict[str, str]:
    # Older workers, which do not support STOPPED, read the older field.
    older = TargetState.PAUSED if target is TargetState.STOPPED else target
    return {"state": older.value, "state.v2": target.value}
