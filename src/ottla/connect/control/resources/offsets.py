"""`/connectors/{name}/offsets`: source offsets in the offset store, sink offsets in the connector's consumer group."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.cluster import Cluster
from ottla.connect.api import ConnectError, Connector
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.local_tasks import Resolver, transactional_id
from ottla.connect.control.request_errors import RequestError, bad_request
from ottla.connect.control.resources.connectors import Connectors
from ottla.connect.control.routing import Routing
from ottla.connect.control.states import TargetState, TaskId
from ottla.connect.control.stores import Stores
from ottla.connect.plugins import Plugins
from ottla.connect.work.engine import Engine
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["ConnectorOffsets"]

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_PARTITION_MAX, _OFFSET_MAX = 2**31 - 1, 2**63 - 1
# A connector that does not override `alter_offsets` cannot confirm the change.
_UNCHECKED = ", as far as the worker knows: the connector itself did not check."


class ConnectorOffsets:
    def __init__(
        self,
        stores: Stores,
        *,
        connectors: Connectors,
        plugins: Plugins,
        routing: Routing,
        cluster: Cluster,
        resolve: Resolver,
        engine: Engine,
        config: WorkerConfig,
    ) -> None:
        self._store = stores.config
        self._source_offsets = stores.source_offsets
        self._connectors = connectors
        self._plugins = plugins
        self._routing = routing
        self._groups = Groups(cluster)
        self._resolve = resolve
        self._engine = engine
        self._worker_config = config

    async def describe(self, name: str) -> dict[str, Any]:
        self._connectors.require_known(name)
        if not self._is_sink(name):
            await self._source_offsets.refresh()
            offsets = self._source_offsets.of(name)
            return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]}
        committed = await self._groups.offsets(self._group_id(name))
        return {
            "offsets": [
                {
                    "partition": {_PARTITION: partition.partition, _TOPIC: partition.topic},
                    "offset": {_OFFSET: offset.offset},
                }
                for partition, offset in committed.items()
            ]
        }

    async def alter(self, name: str, offsets: list[dict[str, Any]]) -> dict[str, Any]:
        self._require_stopped(name)
        pairs = [(entry["partition"], entry.get("offset")) for entry in offsets]
        sink_offsets = _parse_sink_offsets(pairs) if self._is_sink(name) else {}
        await self._fence_tasks(name)
        is_checked = await self._ask_connector(name, pairs)
        if self._is_sink(name):
            await self._alter_group(name, sink_offsets)
        else:
            await self._source_offsets.refresh()
            await self._source_offsets.put(name, pairs)
        return {"message": "The offsets were altered" + ("." if is_checked else _UNCHECKED)}

    async def reset(self, name: str) -> dict[str, Any]:
        self._require_stopped(name)
        await self._fence_tasks(name)
        current = (await self.describe(name))["offsets"]
        pairs = [(entry["partition"], None) for entry in current]
        is_checked = await self._ask_connector(name, pairs)
        if self._is_sink(name):
            group_id = self._group_id(name)
            error = (await self._groups.delete([group_id]))[group_id]
            if error is not None and error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise RequestError(500, f"The offsets of {group_id} cannot be removed: {error}")
        else:
            await self._source_offsets.put(name, pairs)
        return {"message": "The offsets were reset" + ("." if is_checked else _UNCHECKED)}

    def _require_stopped(self, name: str) -> None:
        self._routing.require_leader()
        self._connectors.require_known(name)
        state = self._store.state
        if state.target(name) is not TargetState.STOPPED or state.tasks.get(name):
            raise bad_request(f"The offsets of {name} can be changed when it is stopped: PUT /connectors/{name}/stop.")

    async def _fence_tasks(self, name: str) -> None:
        """Fences tasks that have not stopped yet: the offsets of their last batch would replace the change."""
        count = int(self._config(name).get("tasks.max", "1")) if self._is_sink(name) else 0
        count = max(count, self._store.state.fencing.get(name, 0))
        tasks = [TaskId(name, number) for number in range(count)]
        await self._engine.fence([transactional_id(self._worker_config, task) for task in tasks])
        # Fencing may take long, and tasks that were resumed meanwhile have read the former offsets.
        self._require_stopped(name)

    def _is_sink(self, name: str) -> bool:
        return self._connectors.type(name) == "sink"

    def _config(self, name: str) -> dict[str, str]:
        return self._resolve(self._store.state.config(name))

    def _group_id(self, name: str) -> str:
        return self._config(name).get("consumer.override.group.id", f"connect-{name}")

    async def _ask_connector(self, name: str, pairs: list[tuple[Any, Any]]) -> bool:
        """Lets the connector check or refuse the change; returns True if the connector has checked it."""
        config = self._config(name)
        connector: Connector = self._plugins.connector(config["connector.class"])()
        try:
            return await asyncio.to_thread(connector.alter_offsets, config, pairs)
        except ConnectError as error:
            raise bad_request(str(error)) from None

    async def _alter_group(self, name: str, offsets: dict[TopicPartition, int | None]) -> None:
        group_id = self._group_id(name)
        changed = {partition: CommittedOffset(offset) for partition, offset in offsets.items() if offset is not None}
        removed = [partition for partition, offset in offsets.items() if offset is None]
        results: list[KafkaError | None] = []
        if changed:
            results += (await self._groups.alter_offsets(group_id, changed)).values()
        if removed:
            results += (await self._groups.delete_offsets(group_id, removed)).values()
        errors = [error for error in results if error is not None]
        if errors:
            raise RequestError(500, f"The offsets of {group_id} cannot be changed: {errors[0]}")


def _parse_sink_offsets(pairs: list[tuple[Any, Any]]) -> dict[TopicPartition, int | None]:
    parsed: dict[TopicPartition, int | None] = {}
    for partition, offset in pairs:
        if not isinstance(partition, dict) or _TOPIC not in partition or _PARTITION not in partition:
            raise bad_request(f"The partition of a sink's offset has the fields {_TOPIC} and {_PARTITION}.")
        if offset is not None and (not isinstance(offset, dict) or _OFFSET not in offset):
            raise bad_request(f"A sink's offset has the field {_OFFSET}.")
        try:
            number = int(partition[_PARTITION])
            value = None if offset is None else int(offset[_OFFSET])
        except (TypeError, ValueError, OverflowError):
            raise bad_request("Partitions and offsets of topics are numbers.") from None
        if value is not None and value < 0:
            raise bad_request("The offset of a topic is not negative.")
        if not 0 <= number <= _PARTITION_MAX or (value or 0) > _OFFSET_MAX:
            raise bad_request("No topic has such a partition or offset.")
        parsed[TopicPartition(str(partition[_TOPIC]), number)] = value
    return parsed
