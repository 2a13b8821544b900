"""Options of operators: names, serdes and stores. Options are values; `with_...` returns a changed copy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ottla.streams.dsl.windows import Duration, milliseconds
from ottla.streams.errors import TopologyError
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreKind, StoreSpecification, StoreType, checked_time_to_live
from ottla.streams.topology.topology import TimestampExtractor, check_name

__all__ = [
    "Branched",
    "BufferConfig",
    "Consumed",
    "Grouped",
    "Joined",
    "Materialized",
    "Named",
    "Printed",
    "Produced",
    "Repartitioned",
    "StreamJoined",
    "Suppressed",
    "TableJoined",
]

Partitioner = Callable[[str, Any, Any, int], int | None]


class Named:
    """The name of an operator; a plain string works as well."""

    @staticmethod
    def as_(name: str) -> str:
        return check_name(name, "The name")


@dataclass(frozen=True, slots=True)
class Consumed:
    """How a topic is read."""

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    name: str | None = None

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Consumed:
        return cls(key_serde, value_serde)

    @classmethod
    def as_(cls, name: str) -> Consumed:
        return cls(name=check_name(name, "The name"))

    def with_timestamp_extractor(self, extractor: TimestampExtractor) -> Consumed:
        """The extractor gets the record and the largest timestamp of its partition so far."""
        return replace(self, timestamp_extractor=extractor)

    def with_offset_reset_policy(self, policy: str) -> Consumed:
        return replace(self, offset_reset=policy)

    def with_name(self, name: str) -> Consumed:
        return replace(self, name=check_name(name, "The name"))


@dataclass(frozen=True, slots=True)
class Produced:
    """How a topic is written."""

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    partitioner: Partitioner | None = None
    name: str | None = None

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Produced:
        return cls(key_serde, value_serde)

    @classmethod
    def as_(cls, name: str) -> Produced:
        return cls(name=check_name(name, "The name"))

    def with_stream_partitioner(self, partitioner: Partitioner) -> Produced:
        return replace(self, partitioner=partitioner)

    def with_name(self, name: str) -> Produced:
        return replace(self, name=check_name(name, "The name"))


@dataclass(frozen=True, slots=True)
class Grouped:
    """How a stream or table is grouped; the name is that of the repartition topic."""

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    name: str | None = None

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Grouped:
        return cls(key_serde, value_serde)

    @classmethod
    def as_(cls, name: str) -> Grouped:
        return cls(name=check_name(name, "The name"))

    def with_name(self, name: str) -> Grouped:
        return replace(self, name=check_name(name, "The name"))

    def with_key_serde(self, serde: Serde) -> Grouped:
        return replace(self, key_serde=serde)

    def with_value_serde(self, serde: Serde) -> Grouped:
        return replace(self, value_serde=serde)


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """How a stream is repartitioned; the name is that of the topic."""

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    name: str | None = None
    partitions: int | None = None
    partitioner: Partitioner | None = None

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Repartitioned:
        return cls(key_serde, value_serde)

    @classmethod
    def as_(cls, name: str) -> Repartitioned:
        return cls(name=check_name(name, "The name"))

    @classmethod
    def number_of_partitions(cls, partitions: int) -> Repartitioned:
        return cls().with_number_of_partitions(partitions)

    def with_name(self, name: str) -> Repartitioned:
        return replace(self, name=check_name(name, "The name"))

    def with_serdes(self, key_serde: Serde | None, value_serde: Serde | None) -> Repartitioned:
        return replace(self, key_serde=key_serde, value_serde=value_serde)

    def with_number_of_partitions(self, partitions: int) -> Repartitioned:
        if partitions < 1:
            raise TopologyError(f"A topic has at least one partition, not {partitions}.")
        return replace(self, partitions=partitions)

    def with_stream_partitioner(self, partitioner: Partitioner) -> Repartitioned:
        return replace(self, partitioner=partitioner)


@dataclass(frozen=True, slots=True)
class Materialized:
    """How the store of a table is called and what it holds."""

    store_name: str | None = None
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    is_logged: bool = True
    log_config: tuple[tuple[str, str], ...] = ()
    retention_ms: int | None = None
    specification: StoreSpecification | None = None
    # None: the type of `default.dsl.store`.
    is_persistent: bool | None = None
    # True if the record cache may hold updates back; it has no effect while the cache has no bytes.
    is_cached: bool = True
    # 0: rows do not expire.
    time_to_live_ms: int = 0

    @classmethod
    def as_(cls, store: str | StoreSpecification) -> Materialized:
        """A store by its name, or by a specification as `Stores.versioned_key_value(...)` gives it."""
        if isinstance(store, StoreSpecification):
            return cls(
                store.name,
                store.key_serde,
                store.value_serde,
                store.is_logged,
                specification=store,
                is_persistent=store.is_persistent,
            )
        return cls(check_name(store, "The name of the store"))

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Materialized:
        return cls(None, key_serde, value_serde)

    def with_key_serde(self, serde: Serde | None) -> Materialized:
        return replace(self, key_serde=serde)

    def with_value_serde(self, serde: Serde | None) -> Materialized:
        return replace(self, value_serde=serde)

    def with_logging_disabled(self) -> Materialized:
        return replace(self, is_logged=False, log_config=())

    def with_logging_enabled(self, config: dict[str, str] | None = None) -> Materialized:
        return replace(self, is_logged=True, log_config=tuple((config or {}).items()))

    def with_retention(self, retention: Duration) -> Materialized:
        return replace(self, retention_ms=milliseconds(retention))

    def with_time_to_live(self, duration: Duration) -> Materialized:
        """Rows of a table without windows expire this long after their last update, without a change downstream."""
        return replace(self, time_to_live_ms=checked_time_to_live(self.store_name or "of the table", duration))

    def with_store_type(self, kind: StoreType) -> Materialized:
        return replace(self, is_persistent=kind is not StoreType.IN_MEMORY)

    def with_caching_enabled(self) -> Materialized:
        return replace(self, is_cached=True)

    def with_caching_disabled(self) -> Materialized:
        """Every update is forwarded at once, whatever the size of the record cache."""
        return replace(self, is_cached=False)

    @property
    def is_versioned(self) -> bool:
        return self.specification is not None and self.specification.kind is StoreKind.VERSIONED


@dataclass(frozen=True, slots=True)
class Joined:
    """How a stream is joined with a table."""

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    other_value_serde: Serde | None = None
    name: str | None = None
    grace_ms: int | None = None

    @classmethod
    def with_(
        cls, key_serde: Serde | None = None, value_serde: Serde | None = None, other_value_serde: Serde | None = None
    ) -> Joined:
        return cls(key_serde, value_serde, other_value_serde)

    @classmethod
    def as_(cls, name: str) -> Joined:
        return cls(name=check_name(name, "The name"))

    def with_name(self, name: str) -> Joined:
        return replace(self, name=check_name(name, "The name"))

    def with_grace_period(self, grace: Duration) -> Joined:
        """Stream records wait this long for the table, which must be versioned."""
        return replace(self, grace_ms=milliseconds(grace))


@dataclass(frozen=True, slots=True)
class StreamJoined:
    """How two streams are joined."""

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    other_value_serde: Serde | None = None
    name: str | None = None
    store_name: str | None = None
    is_logged: bool = True

    @classmethod
    def with_(
        cls, key_serde: Serde | None = None, value_serde: Serde | None = None, other_value_serde: Serde | None = None
    ) -> StreamJoined:
        return cls(key_serde, value_serde, other_value_serde)

    @classmethod
    def as_(cls, store_name: str) -> StreamJoined:
        return cls(store_name=check_name(store_name, "The name of the store"))

    def with_name(self, name: str) -> StreamJoined:
        return replace(self, name=check_name(name, "The name"))

    def with_store_name(self, name: str) -> StreamJoined:
        return replace(self, store_name=check_name(name, "The name of the store"))

    def with_logging_disabled(self) -> StreamJoined:
        return replace(self, is_logged=False)


@dataclass(frozen=True, slots=True)
class TableJoined:
    """How two tables are joined by a foreign key."""

    partitioner: Partitioner | None = None
    other_partitioner: Partitioner | None = None
    name: str | None = None

    @classmethod
    def with_(cls, partitioner: Partitioner | None, other_partitioner: Partitioner | None) -> TableJoined:
        return cls(partitioner, other_partitioner)

    @classmethod
    def as_(cls, name: str) -> TableJoined:
        return cls(name=check_name(name, "The name"))

    def with_name(self, name: str) -> TableJoined:
        return replace(self, name=check_name(name, "The name"))


@dataclass(frozen=True, slots=True)
class Branched:
    """The name of a branch, and the function or consumer that gets its stream."""

    name: str | None = None
    function: Callable[[Any], Any] | None = None
    consumer: Callable[[Any], object] | None = None

    @classmethod
    def as_(cls, name: str) -> Branched:
        return cls(check_name(name, "The name"))

    @classmethod
    def with_function(cls, function: Callable[[Any], Any], name: str | None = None) -> Branched:
        """The branch in the result is what the function returns; None leaves it out."""
        return cls(name, function=function)

    @classmethod
    def with_consumer(cls, consumer: Callable[[Any], object], name: str | None = None) -> Branched:
        return cls(name, consumer=consumer)


@dataclass(frozen=True, slots=True)
class Printed:
    """Where `print` writes to."""

    write: Callable[[str], object]
    label: str | None = None
    mapper: Callable[[Any, Any], str] | None = None
    name: str | None = None

    @classmethod
    def to_sys_out(cls) -> Printed:
        return cls(lambda line: sys.stdout.write(f"{line}\n"))

    @classmethod
    def to_file(cls, path: str) -> Printed:
        def append(line: str) -> None:
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")

        return cls(append)

    def with_label(self, label: str) -> Printed:
        return replace(self, label=label)

    def with_key_value_mapper(self, mapper: Callable[[Any, Any], str]) -> Printed:
        return replace(self, mapper=mapper)

    def with_name(self, name: str) -> Printed:
        return replace(self, name=check_name(name, "The name"))


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """Bounds of a suppression buffer, and what happens when it is full."""

    records_max: int | None = None
    bytes_max: int | None = None
    emits_early: bool = False
    is_logged: bool = True

    @classmethod
    def unbounded(cls) -> BufferConfig:
        return cls()

    @classmethod
    def max_records(cls, records: int) -> BufferConfig:
        return cls(records_max=records, emits_early=True)

    @classmethod
    def max_bytes(cls, size: int) -> BufferConfig:
        return cls(bytes_max=size, emits_early=True)

    def with_max_records(self, records: int) -> BufferConfig:
        return replace(self, records_max=records)

    def with_max_bytes(self, size: int) -> BufferConfig:
        return replace(self, bytes_max=size)

    def emit_early_when_full(self) -> BufferConfig:
        return replace(self, emits_early=True)

    def shut_down_when_full(self) -> BufferConfig:
        return replace(self, emits_early=False)

    def with_logging_disabled(self) -> BufferConfig:
        return replace(self, is_logged=False)


@dataclass(frozen=True, slots=True)
class Suppressed:
    """How long updates of a table wait."""

    buffer: BufferConfig
    # None: until the window is closed.
    wait_ms: int | None
    name: str | None = None

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig) -> Suppressed:
        if buffer.emits_early:
            raise TopologyError(
                "Final results of windows cannot be emitted early; use BufferConfig.unbounded() or "
                "shut_down_when_full()."
            )
        return cls(buffer, None)

    @classmethod
    def until_time_limit(cls, wait: Duration, buffer: BufferConfig) -> Suppressed:
        return cls(buffer, milliseconds(wait))

    def with_name(self, name: str) -> Suppressed:
        return replace(self, name=check_name(name, "The name"))
