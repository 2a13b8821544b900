"""The configuration of an application, with Kafka Streams' keys: each is honoured, or refused with a sentence."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties
from ottla.streams.errors import StreamsError
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.state.specification import StoreType

__all__ = ["ApplicationConfig"]

_EXACTLY_ONCE = ("exactly_once", "exactly_once_v2", "exactly_once_beta")
# Keys that tasks and topologies read.
_TASK_KEYS = {
    "application.id",
    "bootstrap.servers",
    "default.key.serde",
    "default.value.serde",
    "topology.optimization",
    "deserialization.exception.handler",
    "default.deserialization.exception.handler",
    "processing.exception.handler",
    "processing.exception.handler.global.enabled",
    "production.exception.handler",
    "default.production.exception.handler",
    "errors.dead.letter.queue.topic.name",
    "__emit.interval.ms.kstreams.windowed.aggregation__",
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__",
}
_OWN_KEYS = {
    "processing.guarantee",
    "commit.interval.ms",
    "num.stream.threads",
    "auto.offset.reset",
    "replication.factor",
    "repartition.purge.interval.ms",
    "statestore.cache.max.bytes",
    "transaction.timeout.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "group.instance.id",
    "task.timeout.ms",
    "state.dir",
    "state.cleanup.delay.ms",
    "state.memory.max.bytes",
    "default.dsl.store",
}
_CLIENT_KEYS = {
    "client.id",
    "request.timeout.ms",
    "default.api.timeout.ms",
    "max.block.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "metadata.max.age.ms",
    "socket.connection.setup.timeout.max.ms",
    "security.protocol",
}
_CLIENT_PREFIXES = ("sasl.", "ssl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationConfig:
    application_id: str
    client: ClientSettings
    tasks: TaskSettings
    is_exactly_once: bool
    commit_interval_ms: int
    workers: int
    offset_reset: str
    replication_factor: int
    purge_interval_ms: int
    transaction_timeout_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    # Failures of the cluster are survived for this time.
    task_timeout_ms: int
    # Workers append their numbers; empty: the id of the process.
    instance_name: str
    state_directory: str
    # State directories that no worker has used for this time are removed.
    cleanup_delay_ms: int
    # Of all stores of a worker that are on disk.
    state_memory_bytes: int
    persists_stores: bool

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> ApplicationConfig:
        """Raises StreamsError for keys that are missing, unknown or not supported."""
        for key in ("application.id", "bootstrap.servers"):
            if not properties.get(key):
                raise StreamsError(f"{key} is missing; every streams application needs it.")
        for key in properties:
            if key not in _TASK_KEYS | _OWN_KEYS | _CLIENT_KEYS and not key.startswith(_CLIENT_PREFIXES):
                raise StreamsError(f"{key} is not supported; remove it, or see docs/streams.md for what is.")
        if int(properties.get("statestore.cache.max.bytes", 0)):
            raise StreamsError(
                "statestore.cache.max.bytes must be 0: every update is forwarded, no cache holds updates back. "
                "Use suppress() to see fewer of them."
            )
        guarantee = str(properties.get("processing.guarantee", "at_least_once"))
        if guarantee not in (*_EXACTLY_ONCE, "at_least_once"):
            raise StreamsError(f"processing.guarantee={guarantee!r} is not at_least_once or exactly_once_v2.")
        is_exactly_once = guarantee in _EXACTLY_ONCE
        client = ClientSettings(
            bootstrap_servers=parse_bootstrap(str(properties["bootstrap.servers"]), option="bootstrap.servers"),
            client_id=str(properties.get("client.id", properties["application.id"])),
        )
        connection = {
            key: str(value)
            for key, value in properties.items()
            if key in _CLIENT_KEYS or key.startswith(_CLIENT_PREFIXES)
        }
        return cls(
            application_id=str(properties["application.id"]),
            client=settings_from_properties(client, connection),
            tasks=TaskSettings.from_properties(properties),
            is_exactly_once=is_exactly_once,
            commit_interval_ms=_number(properties, "commit.interval.ms", 100 if is_exactly_once else 30_000),
            workers=_number(properties, "num.stream.threads", 1, least=1),
            offset_reset=_reset(str(properties.get("auto.offset.reset", "earliest"))),
            replication_factor=_number(properties, "replication.factor", -1, least=-1),
            purge_interval_ms=_number(properties, "repartition.purge.interval.ms", 30_000),
            transaction_timeout_ms=_number(properties, "transaction.timeout.ms", 10_000, least=1),
            session_timeout_ms=_number(properties, "session.timeout.ms", 45_000, least=1),
            heartbeat_interval_ms=_number(properties, "heartbeat.interval.ms", 3_000, least=1),
            max_poll_interval_ms=_number(properties, "max.poll.interval.ms", 300_000, least=1),
            task_timeout_ms=_number(properties, "task.timeout.ms", 300_000),
            instance_name=str(properties.get("group.instance.id", "")),
            state_directory=str(properties.get("state.dir") or Path(tempfile.gettempdir()) / "ottla-streams"),
            cleanup_delay_ms=_number(properties, "state.cleanup.delay.ms", 600_000),
            state_memory_bytes=_number(properties, "state.memory.max.bytes", 256 << 20),
            persists_stores=_store_type(str(properties.get("default.dsl.store", StoreType.ROCKS_DB.value))),
        )


def _number(properties: Mapping[str, Any], key: str, default: int, *, least: int = 0) -> int:
    try:
        value = int(properties.get(key, default))
    except (TypeError, ValueError):
        raise StreamsError(f"{key}={properties[key]!r} is not a number.") from None
    if value < least:
        raise StreamsError(f"{key}={value} is less than {least}.")
    return value


def _store_type(name: str) -> bool:
    if name not in (StoreType.ROCKS_DB.value, StoreType.IN_MEMORY.value):
        raise StreamsError(f"default.dsl.store={name!r} is not rocksDB (stores on disk) or in_memory.")
    return name == StoreType.ROCKS_DB.value


def _reset(policy: str) -> str:
    if policy not in ("earliest", "latest", "none"):
        raise StreamsError(f"auto.offset.reset={policy!r} is not earliest, latest or none.")
    return policy
