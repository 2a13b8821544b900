"""The configuration of an application, with Kafka Streams' keys: each is honoured, or refused with a sentence."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ottla.client.config.consumer import read_consumer
from ottla.client.config.producer import read_producer
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.producer.settings import ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.streams.errors import StreamsError
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.runtime.keys import sort_keys
from ottla.streams.runtime.query_access import QueryAccess
from ottla.streams.state.specification import StoreType

__all__ = ["ApplicationConfig"]

# Bytes of fetched records that wait. With more of them a commit would come late, and brokers would idle until then.
_FETCHED_BYTES = 2 * 1024 * 1024
_BUFFER_BYTES = 128 * 1024 * 1024
# If the worker has caught up: the most commits in an interval, and the shortest time between two commits.
_EARLY_COMMITS = 5
_EARLY_COMMIT_MS = 20
_EXACTLY_ONCE = ("exactly_once", "exactly_once_v2", "exactly_once_beta")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationConfig:
    application_id: str
    client: ClientSettings
    # Of the workers as members of the group; they add group, identity and assignor.
    consumer: ConsumerSettings
    # Of the workers; they add the transactional id.
    producer: ProducerSettings
    tasks: TaskSettings
    is_exactly_once: bool
    commit_interval_ms: int
    # The shortest time between two commits of a worker that has caught up.
    commit_interval_min_ms: int
    workers: int
    offset_reset: str
    replication_factor: int
    purge_interval_ms: int
    transaction_timeout_ms: int
    # Of internal topics, beside Kafka Streams' own.
    topic_configs: Mapping[str, str]
    # The longest wait for records.
    poll_ms: int
    # What changelogs of windows keep beyond the retention of their store.
    additional_retention_ms: int
    # How long a task waits for rows of a partition that has none, so that the order of timestamps is right.
    task_idle_ms: int
    # How long failures of the cluster are retried.
    task_timeout_ms: int
    # Workers append their numbers; empty: the id of the process.
    instance_name: str
    state_directory: str
    # State directories that no worker has used for this time are removed.
    cleanup_delay_ms: int
    # Of all stores of a worker that are on disk.
    state_memory_bytes: int
    persists_stores: bool
    # Of the record caches of all workers; 0: every update is forwarded.
    cache_bytes: int
    # application.server, host:port: where interactive queries are answered; empty: only in this process.
    server: str
    # Login and TLS of interactive queries.
    access: QueryAccess
    # Copies of the state of every task in other instances.
    standbys: int
    # True if stores may start empty after a change of the topology.
    accepts_change: bool

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> ApplicationConfig:
        """Raises StreamsError for keys that are missing, unknown or not supported."""
        for key in ("application.id", "bootstrap.servers"):
            if not properties.get(key):
                raise StreamsError(f"{key} is missing; every streams application needs it.")
        clients = sort_keys(properties)
        server = _server(str(properties.get("application.server") or ""))
        guarantee = str(properties.get("processing.guarantee", "at_least_once"))
        if guarantee not in (*_EXACTLY_ONCE, "at_least_once"):
            raise StreamsError(f"processing.guarantee={guarantee!r} is not at_least_once or exactly_once_v2.")
        is_exactly_once = guarantee in _EXACTLY_ONCE
        interval_ms = _number(properties, "commit.interval.ms", 100 if is_exactly_once else 30_000)
        cache_bytes = _number(properties, "statestore.cache.max.bytes", 0)
        connection = {
            "bootstrap.servers": properties["bootstrap.servers"],
            "client.id": properties.get("client.id", properties["application.id"]),
        }
        try:
            client, consumer = read_consumer(
                {"auto.offset.reset": "earliest", **connection, **clients.consumer, "group.protocol": "classic"}
            )
            _, producer = read_producer(
                {"linger.ms": 0, "buffer.memory": _BUFFER_BYTES, **connection, **clients.producer}
            )
        except ClientError as error:
            raise StreamsError(str(error)) from error
        return cls(
            application_id=str(properties["application.id"]),
            client=client,
            consumer=_for_tasks(consumer),
            producer=producer,
            tasks=TaskSettings.from_properties(properties),
            is_exactly_once=is_exactly_once,
            commit_interval_ms=interval_ms,
            commit_interval_min_ms=_shortest_interval(
                properties, interval_ms, is_exactly_once=is_exactly_once, is_cached=cache_bytes > 0
            ),
            workers=_number(properties, "num.stream.threads", 1, least=1),
            offset_reset=consumer.auto_offset_reset,
            replication_factor=_number(properties, "replication.factor", -1, least=-1),
            purge_interval_ms=_number(properties, "repartition.purge.interval.ms", 30_000),
            transaction_timeout_ms=_number(properties, "transaction.timeout.ms", 10_000, least=1),
            topic_configs=clients.topic,
            poll_ms=_number(properties, "poll.ms", 100, least=1),
            additional_retention_ms=_number(
                properties, "windowstore.changelog.additional.retention.ms", 24 * 60 * 60 * 1000
            ),
            task_idle_ms=_number(properties, "max.task.idle.ms", 0, least=-1),
            task_timeout_ms=_number(properties, "task.timeout.ms", 300_000),
            instance_name=consumer.group_instance_id or "",
            state_directory=str(properties.get("state.dir") or Path(tempfile.gettempdir()) / "ottla-streams"),
            accepts_change=_change(str(properties.get("topology.change", "refuse"))),
            standbys=_number(properties, "num.standby.replicas", 0),
            server=server,
            access=QueryAccess.from_properties(properties, server),
            cache_bytes=cache_bytes,
            cleanup_delay_ms=_number(properties, "state.cleanup.delay.ms", 600_000),
            state_memory_bytes=_number(properties, "state.memory.max.bytes", 256 << 20),
            persists_stores=_store_type(str(properties.get("default.dsl.store", StoreType.ROCKS_DB.value))),
        )


def _for_tasks(consumer: ConsumerSettings) -> ConsumerSettings:
    return replace(
        consumer,
        auto_commit=False,
        read_committed=True,
        allow_auto_create=False,
        buffer_bytes=min(consumer.buffer_bytes, _FETCHED_BYTES),
    )


def _number(properties: Mapping[str, Any], key: str, default: int, *, least: int = 0) -> int:
    try:
        value = int(properties.get(key, default))
    except (TypeError, ValueError):
        raise StreamsError(f"{key}={properties[key]!r} is not a number.") from None
    if value < least:
        raise StreamsError(f"{key}={value} is less than {least}.")
    return value


def _shortest_interval(
    properties: Mapping[str, Any], interval_ms: int, *, is_exactly_once: bool, is_cached: bool
) -> int:
    """Early commits help where results wait for the commit. A record cache gathers updates for the whole interval."""
    default = interval_ms
    if is_exactly_once and not is_cached:
        default = min(interval_ms, max(interval_ms // _EARLY_COMMITS, _EARLY_COMMIT_MS))
    return _number(properties, "commit.interval.min.ms", default)


def _change(text: str) -> bool:
    if text not in ("refuse", "accept"):
        raise StreamsError(f"topology.change={text!r} is not refuse or accept.")
    return text == "accept"


def _server(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text and (not host or not port.isdigit()):
        raise StreamsError(f"application.server={text!r} is not host:port.")
    return text


def _store_type(name: str) -> bool:
    if name not in (StoreType.ROCKS_DB.value, StoreType.IN_MEMORY.value):
        raise StreamsError(f"default.dsl.store={name!r} is not rocksDB (stores on disk) or in_memory.")
    return name == StoreType.ROCKS_DB.value
