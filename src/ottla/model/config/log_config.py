"""The configuration of a partition's log: the topic's values and the broker's defaults, typed and immutable.

It is built once per topic and configuration change and read on every append, so the values are in slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.model.config.broker_config import BrokerConfig
from ottla.model.config.keys import ConfigError
from ottla.model.config.topic_keys import REMOVED_TOPIC_KEYS, TOPIC_KEYS
from ottla.model.config.values import Setting

__all__ = ["LogConfig", "topic_defaults", "validate_topic_overrides"]


class LogConfig:
    """All topic keys as attributes; `segment.bytes` is `segment_bytes`."""

    __slots__ = (*(key.attribute for key in TOPIC_KEYS.values()), "overridden")

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    confluent_key_schema_validation: bool
    confluent_key_subject_name_strategy: str
    confluent_value_schema_validation: bool
    confluent_value_subject_name_strategy: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    internal_segment_bytes: int | None
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    ottla_lake_mode: str
    ottla_lake_partition_by: str
    ottla_mirror_name: str
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    # The keys that the topic sets itself.
    overridden: frozenset[str]

    def __init__(self, values: Mapping[str, Setting], overridden: frozenset[str] = frozenset()) -> None:
        place = object.__setattr__
        for name, key in TOPIC_KEYS.items():
            value = values[name]
            place(self, key.attribute, frozenset(value) if name == "cleanup.policy" else value)  # type: ignore[arg-type]
        if self.internal_segment_bytes is not None:
            place(self, "segment_bytes", self.internal_segment_bytes)
        place(self, "overridden", overridden)

    @classmethod
    def from_overrides(cls, broker_config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
        """The topic's effective configuration. Unknown keys are ignored, invalid values raise ConfigError."""
        values = topic_defaults(broker_config)
        names = frozenset(overrides.keys() & TOPIC_KEYS.keys())
        for name in names:
            values[name] = TOPIC_KEYS[name].parse(overrides[name])
        return cls(values, names)

    @classmethod
    def from_stored(
        cls, broker_config: BrokerConfig, overrides: Mapping[str, str]
    ) -> tuple[LogConfig, tuple[str, ...]]:
        """Like `from_overrides` for values in the metadata log; returns a message for each value that is invalid here.

        Such a value was accepted when it was set, perhaps by another release. Only this value is ignored: without all
        of its settings, a compacted topic would delete its records after a week.
        """
        values = topic_defaults(broker_config)
        names: set[str] = set()
        problems: list[str] = []
        for name in sorted(overrides.keys() & TOPIC_KEYS.keys()):
            try:
                values[name] = TOPIC_KEYS[name].parse(overrides[name])
            except ConfigError as error:
                problems.append(error.message)
            else:
                names.add(name)
        return cls(values, frozenset(names)), tuple(problems)

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def uses_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: a LogConfig is replaced as a whole")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogConfig) and all(
            getattr(self, slot) == getattr(other, slot) for slot in LogConfig.__slots__
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, slot) for slot in LogConfig.__slots__))

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={getattr(self, TOPIC_KEYS[name].attribute)!r}" for name in sorted(self.overridden))
        return f"LogConfig({own})"


def topic_defaults(broker_config: BrokerConfig) -> dict[str, Setting]:
    """The configuration of a topic without overrides on this broker, by topic key."""
    resolved: Mapping[str, Any] = vars(broker_config)
    return {
        name: resolved[key.synonyms[0].replace(".", "_")] if key.synonyms else key.default  # type: ignore[misc]
        for name, key in TOPIC_KEYS.items()
    }


def validate_topic_overrides(
    broker_config: BrokerConfig, overrides: Mapping[str, str], *, unchanged: Mapping[str, str] | None = None
) -> LogConfig:
    """Checks the settings in a client's request. Raises ConfigError with the message for the response.

    A setting that the topic already has (`unchanged`) may be removed or refused in this release: it may come from a
    data directory of another release.
    """
    before = unchanged or {}
    for name, text in overrides.items():
        if before.get(name) == text:
            continue
        if name in REMOVED_TOPIC_KEYS:
            raise ConfigError(f"{name} is not a topic configuration: {REMOVED_TOPIC_KEYS[name]}.", key=name)
        if name not in TOPIC_KEYS:
            raise ConfigError(f"There is no topic configuration named {name}{_hint(name)}.", key=name)
        key = TOPIC_KEYS[name]
        key.check_supported(key.parse(text))
    # New values have been parsed above.
    config, _ = LogConfig.from_stored(broker_config, overrides)
    _check_together(config)
    return config


def _hint(name: str) -> str:
    """A hint for the broker's name of a topic key, which is a common mistake."""
    meant = [key.name for key in TOPIC_KEYS.values() if name in key.synonyms]
    return f"; for one topic it is {meant[0]}" if meant else ""


def _check_together(config: LogConfig) -> None:
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"min.compaction.lag.ms is {config.min_compaction_lag_ms}, but it must not be greater than "
            f"max.compaction.lag.ms, which is {config.max_compaction_lag_ms}."
        )
