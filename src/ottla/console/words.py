"""Shapes that several answers share: settings, partitions, sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.client.admin.configs import ConfigEntry, ConfigSource
from ottla.console.answers import invalid
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["count_of", "partition_json", "partitions_of_body", "raise_first", "setting_json", "settings_json"]

_DEFAULTS = (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.UNKNOWN)


def setting_json(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": entry.source.name,
        "is_default": entry.source in _DEFAULTS,
        "is_sensitive": entry.is_sensitive,
        "is_read_only": entry.is_read_only,
        "documentation": entry.documentation,
        "synonyms": [
            {
                "name": synonym.name,
                "value": None if entry.is_sensitive else synonym.value,
                "source": synonym.source.name,
            }
            for synonym in entry.synonyms
        ],
    }


def settings_json(entries: Iterable[ConfigEntry]) -> list[dict[str, Any]]:
    return [setting_json(entry) for entry in sorted(entries, key=lambda entry: entry.name)]


def partition_json(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def partitions_of_body(value: object) -> list[TopicPartition]:
    """`[{"topic": "orders", "partition": 0}]`. Raises ApiError 400."""
    if not isinstance(value, list):
        raise invalid('Partitions must be a list like [{"topic": "orders", "partition": 0}].')
    partitions = []
    for partition in value:
        if (
            not isinstance(partition, dict)
            or not isinstance(partition.get("topic"), str)
            or type(partition.get("partition")) is not int
        ):
            raise invalid('A partition must look like {"topic": "orders", "partition": 0}.')
        partitions.append(TopicPartition(partition["topic"], partition["partition"]))
    return partitions


def raise_first(answers: Iterable[object]) -> None:
    """Raises the first error of answers about many objects."""
    for answer in answers:
        if isinstance(answer, KafkaError):
            raise answer


def count_of(number: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
