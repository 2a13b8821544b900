"""MirrorMaker 2's three connectors, by their names in Apache Kafka, with the copying of `ottla mirror`.

A configuration for Apache Kafka works as it is. The tasks read and write by themselves: batches travel encoded, so
transforms and converters have no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from ottla.connect.api import (
    ConfigDefinitions,
    ConfigType,
    ConfigValue,
    ConnectError,
    Delivery,
    DeliveryClaim,
    Importance,
    NonEmpty,
    SourceConnector,
    Task,
    TaskWorker,
)

__all__ = ["MirrorCheckpointConnector", "MirrorHeartbeatConnector", "MirrorSourceConnector"]

JAVA = "org.apache.kafka.connect.mirror"

Work = Callable[[Callable[[], bool]], Awaitable[None]]


class _MirrorConnector(SourceConnector):
    """The base of the three connectors: two clusters and a flow."""

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("source.cluster.alias", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The name of the source cluster.")
            .define("target.cluster.alias", ConfigType.STRING, default="target", importance=Importance.HIGH,
                    documentation="The name of the target cluster.")
            .define("source.cluster.bootstrap.servers", ConfigType.STRING, default=None, importance=Importance.HIGH,
                    documentation="The source. Other keys of clients follow source.cluster. in the same way.")
            .define("target.cluster.bootstrap.servers", ConfigType.STRING, default=None, importance=Importance.HIGH,
                    documentation="The target, which is the cluster of the worker. Other keys as with the source.")
        )  # fmt: skip

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        return [dict(config)]

    def validate(self, config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
        from ottla.client.errors import ClientError
        from ottla.mirror.connector_tasks import flow_of_connector
        from ottla.mirror.settings import MirrorError

        try:
            flow_of_connector(config)
        except (MirrorError, ClientError) as error:
            values["source.cluster.alias"].errors.append(str(error))


class MirrorSourceConnector(_MirrorConnector):
    """Copies topics of another cluster, with settings, rights and an exact map of offsets."""

    aliases = (f"{JAVA}.MirrorSourceConnector",)
    claim = DeliveryClaim(Delivery.EXACTLY_ONCE, "the worker's cluster is the target")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            super().config_definitions()
            .define("topics", ConfigType.STRING, default=".*", importance=Importance.HIGH,
                    documentation="Names and patterns of topics, with commas. docs/mirror.md has the other keys.")
            .define("offset-syncs.topic.location", ConfigType.STRING, default="source", importance=Importance.LOW,
                    documentation="Where MirrorMaker's pairs of offsets are written: source or target.")
        )  # fmt: skip

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        # Every task copies the partitions whose names hash to its number.
        return [dict(config) for _ in range(max_tasks)]

    def worker(self, task: Task, transactional_id: str) -> TaskWorker | None:
        from ottla.mirror.connector_tasks import copy_records, flow_of_connector

        async def work(should_stop: Callable[[], bool]) -> None:
            await copy_records(
                flow_of_connector(task.config),
                task.number,
                task.count,
                transactional_id,
                syncs_at=task.config.get("offset-syncs.topic.location", "source"),
                should_stop=should_stop,
            )

        return _AsyncWorker(work)


class MirrorCheckpointConnector(_MirrorConnector):
    """Writes checkpoints of consumer groups, and moves the offsets of idle groups at the target."""

    aliases = (f"{JAVA}.MirrorCheckpointConnector",)
    claim = DeliveryClaim(Delivery.AT_LEAST_ONCE, "a checkpoint that is written twice is the same")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            super().config_definitions()
            .define("groups", ConfigType.STRING, default=".*", importance=Importance.HIGH,
                    documentation="Names and patterns of groups, with commas. docs/mirror.md has the other keys.")
        )  # fmt: skip

    def worker(self, task: Task, transactional_id: str) -> TaskWorker | None:
        del transactional_id
        from ottla.mirror.connector_tasks import flow_of_connector, write_checkpoints

        return _AsyncWorker(lambda should_stop: write_checkpoints(flow_of_connector(task.config), should_stop))


class MirrorHeartbeatConnector(_MirrorConnector):
    """Writes a heartbeat every second, whose copies prove that flows work."""

    aliases = (f"{JAVA}.MirrorHeartbeatConnector",)
    claim = DeliveryClaim(Delivery.AT_LEAST_ONCE, "the last heartbeat counts")

    def worker(self, task: Task, transactional_id: str) -> TaskWorker | None:
        del transactional_id
        from ottla.mirror.connector_tasks import flow_of_connector, write_heartbeats

        return _AsyncWorker(lambda should_stop: write_heartbeats(flow_of_connector(task.config), should_stop))


class _AsyncWorker(TaskWorker):
    def __init__(self, work: Work) -> None:
        self._work = work

    def run(self, should_stop: Callable[[], bool]) -> None:
        from ottla.mirror.settings import MirrorError

        async def work() -> None:
            await self._work(should_stop)

        try:
            asyncio.run(work())
        except MirrorError as error:
            raise ConnectError(str(error)) from error
