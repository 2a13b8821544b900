"""The settings of tasks, from the configuration of their application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.streams.errors import StreamsError
from ottla.streams.machine.handlers import Handlers
from ottla.streams.serdes import Serde, Serdes, resolve

__all__ = ["TaskSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    application_id: str = "application"
    key_serde: Serde = field(default_factory=Serdes.bytes_)
    value_serde: Serde = field(default_factory=Serdes.bytes_)
    properties: dict[str, Any] = field(default_factory=dict)
    handlers: Handlers = field(default_factory=lambda: Handlers.from_properties({}))
    # None if there is no cluster, as in the test driver: there every topic has one partition.
    partitions: Mapping[str, int] | None = None

    def resolve_key(self, serde: Serde | None) -> Serde:
        return resolve(serde, self.key_serde, key_serde=self.key_serde, value_serde=self.value_serde)

    def resolve_value(self, serde: Serde | None) -> Serde:
        return resolve(serde, self.value_serde, key_serde=self.key_serde, value_serde=self.value_serde)

    def internal_topic(self, name: str) -> str:
        """The full name of a repartition topic."""
        return f"{self.application_id}-{name}"

    def changelog(self, store: str) -> str:
        return f"{self.application_id}-{store}-changelog"

    def partitions_of(self, topic: str) -> int:
        """The number of partitions that a partitioner chooses from. Raises StreamsError for an unknown topic."""
        if self.partitions is None:
            return 1
        if topic not in self.partitions:
            raise StreamsError(f"There was no topic {topic} when the application started; its partitioner needs it.")
        return self.partitions[topic]

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> TaskSettings:
        return cls(
            application_id=str(properties.get("application.id", "application")),
            key_serde=properties.get("default.key.serde") or Serdes.bytes_(),
            value_serde=properties.get("default.value.serde") or Serdes.bytes_(),
            properties=dict(properties),
            handlers=Handlers.from_properties(properties),
        )
