"""The interface of every kind of group to offsets and administration."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from ottla.coordinator.runtime import CoordinatorRecord

__all__ = ["Group", "GroupType"]


class GroupType(Enum):
    """Kinds of groups, by the names that ListGroups gives them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group:
    """The base class of all kinds of groups. A shard keeps all kinds in one table, because group ids are unique."""

    __slots__ = ("group_id",)

    TYPE: ClassVar[GroupType]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    def state_name(self) -> str:
        """The state name in ListGroups and the Describe APIs."""
        raise NotImplementedError

    @property
    def protocol_type(self) -> str:
        """The protocol type in ListGroups: `consumer`, `connect` ...; empty before the first member."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """True without members: the offsets may expire, and the group may be deleted."""
        raise NotImplementedError

    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        is_transactional: bool,
        api_version: int,
    ) -> None:
        """Raises KafkaError unless this member, at this generation (or member epoch), may commit offsets."""
        raise NotImplementedError

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError unless the member may read offsets; None and -1 mean an administrator."""
        raise NotImplementedError

    def check_offset_delete(self) -> None:
        """Raises KafkaError unless offsets of this group may be deleted by hand."""
        raise NotImplementedError

    def check_delete(self) -> None:
        """Raises KafkaError unless the whole group may be deleted."""
        raise NotImplementedError

    def is_subscribed_to(self, topic: str) -> bool:
        """The offsets of a subscribed topic neither expire nor can be deleted by hand."""
        raise NotImplementedError

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        """The time from which the retention of an offset counts; None while it does not count (KIP-211)."""
        raise NotImplementedError

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group, without its offsets."""
        raise NotImplementedError

    def on_unloaded(self) -> None:
        """The coordinator moves: fails the requests that wait in the group."""

    def on_loaded(self, now_ms: int) -> None:
        """The coordinator has moved here: sessions begin again."""

    def invariants(self) -> None:
        """Raises AssertionError if the state contradicts itself."""
        raise NotImplementedError
