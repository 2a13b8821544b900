from __future__ import annotations

import pytest

from ottla.model.config import BrokerConfig, ConfigError, LogConfig, validate_topic_overrides

BROKER = BrokerConfig.embedded()


def test_a_topic_that_sets_nothing_follows_the_broker() -> None:
    broker = BrokerConfig.embedded(
        {"log.retention.hours": "1", "message.max.bytes": "77", "log.cleanup.policy": "compact,delete"}
    )
    settings = LogConfig.from_overrides(broker, {})
    assert settings.retention_ms == 3_600_000
    assert settings.max_message_bytes == 77
    assert settings.cleanup_policy == frozenset(("compact", "delete"))
    assert settings.compacts
    assert settings.deletes
    assert settings.overridden == frozenset()


def test_a_topics_own_values_win() -> None:
    settings = LogConfig.from_overrides(BROKER, {"retention.ms": "5", "message.timestamp.type": "LogAppendTime"})
    assert settings.retention_ms == 5
    assert settings.uses_append_time
    assert settings.overridden == {"retention.ms", "message.timestamp.type"}
    assert settings.segment_bytes == 1 << 30


def test_settings_are_equal_by_value_and_cannot_change() -> None:
    settings = LogConfig.from_overrides(BROKER, {"retention.ms": "5"})
    assert settings == LogConfig.from_overrides(BROKER, {"retention.ms": "5"})
    assert hash(settings) == hash(LogConfig.from_overrides(BROKER, {"retention.ms": "5"}))
    assert settings != LogConfig.from_overrides(BROKER, {"retention.ms": "6"})
    with pytest.raises(AttributeError):
        settings.retention_ms = 7


def test_tests_may_have_small_segments() -> None:
    assert LogConfig.from_overrides(BROKER, {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_keys_of_other_releases_in_the_log_are_passed_over() -> None:
    stored = {"message.format.version": "2.0", "remote.storage.enable": "true", "no.such.key": "1"}
    assert LogConfig.from_overrides(BROKER, stored).overridden == {"remote.storage.enable"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("no.such.key", "1", "There is no topic configuration named no.such.key."),
        ("message.format.version", "2.0", "message.format.version is not a topic configuration: since 4.0"),
        ("log.retention.hours", "1", "named log.retention.hours; for one topic it is retention.ms."),
        ("leader.replication.throttled.replica", "*", "its name is leader.replication.throttled.replicas"),
        ("message.downconversion.enable", "true", "since 4.0"),
        ("message.timestamp.difference.max.ms", "1", "message.timestamp.before.max.ms"),
        ("segment.bytes", "1", "segment.bytes is 1, but it must be at least 1048576."),
        ("cleanup.policy", "compact,forget", "it must be a list of compact, delete"),
        ("min.cleanable.dirty.ratio", "1.1", "it must be between 0 and 1"),
        ("remote.storage.enable", "true", "remote.storage.enable cannot be set to true: tiered storage is not"),
        ("leader.replication.throttled.replicas", "0:1,x", "partition:broker pairs"),
        ("max.compaction.lag.ms", "1", "min.compaction.lag.ms is 10, but it must not be greater than"),
    ],
)
def test_a_client_is_told_what_it_cannot_set(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        validate_topic_overrides(BROKER, {"min.compaction.lag.ms": "10", name: value})
    assert message in refusal.value.message


def test_what_was_there_before_is_not_held_against_a_change() -> None:
    before = {"message.format.version": "2.0"}
    changed = validate_topic_overrides(BROKER, {**before, "retention.ms": "1"}, unchanged=before)
    assert changed.retention_ms == 1


def test_duplicates_in_a_list_count_once() -> None:
    assert validate_topic_overrides(BROKER, {"cleanup.policy": "delete,delete"}).cleanup_policy == {"delete"}


def test_a_stored_value_that_is_not_taken_any_more_costs_only_itself() -> None:
    # Segments that small were allowed before 4.0.
    stored = {"segment.bytes": "16384", "cleanup.policy": "compact", "retention.ms": "-1"}
    settings, problems = LogConfig.from_stored(BROKER, stored)
    assert (settings.cleanup_policy, settings.retention_ms) == ({"compact"}, -1)
    assert settings.segment_bytes == BROKER.log_segment_bytes
    assert settings.overridden == {"cleanup.policy", "retention.ms"}
    assert problems == ("segment.bytes is 16384, but it must be at least 1048576.",)
    assert validate_topic_overrides(BROKER, {**stored, "retention.ms": "1"}, unchanged=stored).retention_ms == 1
