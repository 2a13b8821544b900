"""The state of one partition of `__consumer_offsets`: the groups whose ids belong to it, and their offsets.

`replay` looks up the replayer of the record's type in a table. A type without an entry belongs to a kind of group that
this software does not serve; its records stay in the log unread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.coordinator.group.consumer.subscription import TopicHashes
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offsets.shape import CommitShapes
from ottla.coordinator.group.offsets.table import OffsetTable
from ottla.decisions import Decide, Timers
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig

__all__ = ["GroupContext", "GroupDecide", "GroupShard", "Replayer"]

R = TypeVar("R")
G = TypeVar("G", bound=Group)


class RegexAllowance:
    """The work that the expressions of all groups may do, in windows of time. The unit is a state of an automaton."""

    WINDOW_MS: Final = 20
    # About three milliseconds. The last step of a window may exceed it by as much again.
    WINDOW_WORK: Final = 10_000

    __slots__ = ("_window_ms", "work_left")

    def __init__(self) -> None:
        self._window_ms = 0
        self.work_left = self.WINDOW_WORK

    def refill(self, now_ms: int) -> None:
        if not 0 <= now_ms - self._window_ms < self.WINDOW_MS:
            self._window_ms = now_ms
            self.work_left = self.WINDOW_WORK


class GroupContext:
    """Shared by all shards: settings and the cluster's metadata, which are replaced as a whole when they change."""

    __slots__ = ("commit_shapes", "config", "image", "rebalances", "regex_allowance", "topic_hashes")

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self.config = config
        self.image = image
        self.topic_hashes = TopicHashes()
        self.commit_shapes = CommitShapes()
        self.regex_allowance = RegexAllowance()
        # Generations of classic groups and epochs of consumer groups that this process has begun.
        self.rebalances = 0


class GroupShard:
    """Changed by `replay`; classic groups also have state that is not in the log (`classic.soft`)."""

    __slots__ = ("context", "groups", "index", "is_loaded", "offsets", "timers")

    def __init__(self, index: int, timers: Timers[GroupShard], context: GroupContext) -> None:
        self.index = index
        self.timers = timers
        self.context = context
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetTable()
        self.is_loaded = False

    @property
    def config(self) -> BrokerConfig:
        return self.context.config

    def group(self, group_id: str) -> Group:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def group_of_kind(self, group_id: str, kind: type[G]) -> G:
        """Raises GROUP_ID_NOT_FOUND also when the id belongs to a group of another kind."""
        group = self.group(group_id)
        if not isinstance(group, kind):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.TYPE.value} group.")
        return group

    def put_group(self, group: Group) -> None:
        """Adds the group of a record, or replaces a group of another kind."""
        self.groups[group.group_id] = group

    def drop_group(self, group_id: str) -> None:
        del self.groups[group_id]

    # The runtime's side.

    def replay(self, key: Message, value: Message | None, producer_id: int = -1) -> None:
        replayer = _REPLAYERS.get(key.API_KEY)
        if replayer is not None:
            replayer(self, key, value, producer_id)

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def on_loaded(self, now_ms: int) -> None:
        self.is_loaded = True
        for group in list(self.groups.values()):
            group.on_loaded(now_ms)

    def on_unloaded(self) -> None:
        for group in list(self.groups.values()):
            group.on_unloaded()

    def invariants(self) -> None:
        for group_id, group in self.groups.items():
            assert group.group_id == group_id
            try:
                group.invariants()
            except AssertionError as error:
                raise AssertionError(f"group {group_id} ({group.state_name}): {error}") from error
        for group_id in self.offsets.groups():
            assert group_id in self.groups, f"the offsets of {group_id} belong to no group"


Replayer = Callable[[GroupShard, Any, Any, int], None]
GroupDecide = Decide[GroupShard, R]

_REPLAYERS: dict[int, Replayer] = {}


def _register() -> None:
    """Collects the replayers of all modules in one table."""
    from ottla.coordinator.group.classic.replay import CLASSIC_REPLAYERS
    from ottla.coordinator.group.consumer.replay import CONSUMER_REPLAYERS
    from ottla.coordinator.group.offsets.replay import OFFSET_REPLAYERS

    for table in (OFFSET_REPLAYERS, CLASSIC_REPLAYERS, CONSUMER_REPLAYERS):
        assert not _REPLAYERS.keys() & table.keys(), "a record type has one replayer"
        _REPLAYERS.update(table)


_register()
