"""The combined knowledge of all members of a group; raises as soon as the group breaks a promise.

A broken promise is a partition with two owners at once, or a committed offset that is lost or moves backwards.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.integration.group_chaos import ChaosMember

__all__ = ["Witness"]


class Witness:
    """The combined knowledge of all members."""

    def __init__(self, partitions: int, *, is_mixed: bool) -> None:
        self.partitions = partitions
        self.is_mixed = is_mixed
        self.delivered: dict[int, set[int]] = defaultdict(set)
        # By partition: the highest acknowledged commit.
        self.acknowledged: dict[int, int] = defaultdict(int)
        # By generation: the owner of every partition; only for groups whose members all use one protocol.
        self.by_generation: dict[int, dict[int, str]] = defaultdict(dict)
        # By partition: its current holders.
        self.holders: dict[int, dict[str, ChaosMember]] = defaultdict(dict)
        self.counts: dict[str, int] = defaultdict(int)

    def assigned(self, generation: int, member: str, partitions: set[int]) -> None:
        if self.is_mixed:
            return
        owners = self.by_generation[generation]
        for partition in partitions:
            owner = owners.setdefault(partition, member)
            assert owner == member, f"generation {generation}: partition {partition} of {owner} and of {member}"

    def hold(self, member: ChaosMember, partition: int) -> None:
        holders = self.holders[partition]
        sure = [other.name for other in holders.values() if other is not member and other.is_surely_alive]
        assert not sure, f"partition {partition} was given to {member.name} while {sure} hold it"
        holders[member.name] = member

    def release(self, member: ChaosMember, partition: int) -> None:
        self.holders[partition].pop(member.name, None)

    def read_back(self, partition: int, offset: int, floor: int) -> int:
        assert max(offset, 0) >= floor, f"partition {partition}: {floor} was committed, and {offset} is there"
        return max(offset, 0)

    def committed(self, partition: int, offset: int, floor: int) -> None:
        assert offset >= floor, f"partition {partition}: a commit of {offset} went after one of {floor}"
        self.acknowledged[partition] = max(self.acknowledged[partition], offset)
