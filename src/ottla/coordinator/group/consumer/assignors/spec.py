"""The input of an assignor, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.model.ids import Uuid

__all__ = ["AssignmentSpec", "MemberSpec", "Targets", "TopicSpec"]

# Partitions by topic, by member id.
Targets = dict[str, dict[Uuid, frozenset[int]]]


class TopicSpec(NamedTuple):
    topic_id: Uuid
    partition_count: int
    # For each partition the racks of its replicas; empty when no broker has a rack.
    racks: tuple[frozenset[str], ...] = ()


class MemberSpec(NamedTuple):
    # Existing topics only.
    topic_ids: frozenset[Uuid]
    # The previous target.
    previous: Mapping[Uuid, frozenset[int]] = {}
    rack_id: str | None = None
    instance_id: str | None = None


class AssignmentSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    topics: Mapping[Uuid, TopicSpec]

    @property
    def is_homogeneous(self) -> bool:
        """True if all members subscribe to the same topics."""
        return len({member.topic_ids for member in self.members.values()}) <= 1
