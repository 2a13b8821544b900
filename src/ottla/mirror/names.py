"""Names of topics on the other side, and filters by name: MirrorMaker 2's replication policies and filters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = [
    "CONFIGS_EXCLUDED",
    "GROUPS_EXCLUDED",
    "TOPICS_EXCLUDED",
    "IdentityPolicy",
    "NameFilter",
    "PrefixPolicy",
    "ReplicationPolicy",
    "ReturnPolicy",
]

# The defaults of MirrorMaker 2.
TOPICS_EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"
GROUPS_EXCLUDED = r"console-consumer-.*, connect-.*, __.*"
CONFIGS_EXCLUDED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
    r"min\.insync\.replicas"
)
HEARTBEATS_TOPIC = "heartbeats"


class ReplicationPolicy(Protocol):
    """How a topic of the source is named at the target."""

    def target_name(self, source: str, topic: str) -> str: ...

    def source_name(self, source: str, topic: str) -> str | None:
        """The name at the source of a topic of the target; None if the name is not that of a copy."""

    def came_from(self, topic: str) -> str | None:
        """The cluster from which the topic was copied, by its name; None for a topic of the cluster itself."""

    def checkpoints_topic(self, source: str) -> str: ...

    def offset_syncs_topic(self, other: str) -> str: ...


def _internal_topics(separator: str) -> tuple[str, str]:
    return f"{separator}checkpoints{separator}internal", f"{separator}internal"


@dataclass(frozen=True, slots=True)
class PrefixPolicy:
    """`source.topic`: MirrorMaker 2's DefaultReplicationPolicy."""

    separator: str = "."
    has_own_internal_separator: bool = False

    def target_name(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def source_name(self, source: str, topic: str) -> str | None:
        prefix = f"{source}{self.separator}"
        return topic.removeprefix(prefix) if topic.startswith(prefix) else None

    def came_from(self, topic: str) -> str | None:
        source, separator, _ = topic.partition(self.separator)
        return source if separator and source else None

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.has_own_internal_separator else "."

    def checkpoints_topic(self, source: str) -> str:
        return source + _internal_topics(self._internal_separator)[0]

    def offset_syncs_topic(self, other: str) -> str:
        between = self._internal_separator
        return f"mm2-offset-syncs{between}{other}{_internal_topics(between)[1]}"


@dataclass(frozen=True, slots=True)
class IdentityPolicy(PrefixPolicy):
    """Topics keep their names, except for heartbeats. Cycles are cut by the headers of records (`provenance`)."""

    def target_name(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}" if topic == HEARTBEATS_TOPIC else topic

    def source_name(self, source: str, topic: str) -> str | None:
        return HEARTBEATS_TOPIC if topic == f"{source}{self.separator}{HEARTBEATS_TOPIC}" else topic

    def came_from(self, topic: str) -> str | None:
        source, separator, name = topic.partition(self.separator)
        return source if separator and name == HEARTBEATS_TOPIC else None


@dataclass(frozen=True, slots=True)
class ReturnPolicy(PrefixPolicy):
    """Copies go back to the topics that they came from: the naming of a failback."""

    originals: Mapping[str, str] = field(default_factory=dict)
    """By the name of the copy."""

    def target_name(self, source: str, topic: str) -> str:  # noqa: ARG002 (the policy of any source)
        return self.originals[topic]

    def source_name(self, source: str, topic: str) -> str | None:  # noqa: ARG002 (the policy of any source)
        return next((copy for copy, original in self.originals.items() if original == topic), None)

    def came_from(self, topic: str) -> str | None:  # noqa: ARG002 (copies are what goes back)
        return None


class NameFilter:
    """Names and patterns to include, names and patterns to exclude. An exclusion wins."""

    def __init__(self, include: str, exclude: str = "") -> None:
        self.include = include
        self.exclude = exclude
        self._include = _compiled(include)
        self._exclude = _compiled(exclude)

    def matches(self, name: str) -> bool:
        if self._exclude is not None and self._exclude.fullmatch(name):
            return False
        return self._include is not None and self._include.fullmatch(name) is not None

    def select(self, names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if self.matches(name))


def _compiled(text: str) -> re.Pattern[str] | None:
    """A comma-separated list of names and patterns as one pattern. Raises re.error."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None
