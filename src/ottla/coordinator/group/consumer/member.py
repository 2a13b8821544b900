"""One member of a consumer group, an immutable value: decisions make changed copies, `replay` stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.consumer.states import MemberState
from ottla.model.ids import Uuid

if TYPE_CHECKING:
    from ottla.coordinator.group.classic.member import Protocols

__all__ = [
    "JOINING_EPOCH",
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "Assigned",
    "ClassicSide",
    "ConsumerMember",
    "NO_PARTITIONS",
    "NO_TARGET",
    "Target",
]

JOINING_EPOCH = 0
# A member that leaves for good, and a static member that may return within its session.
LEAVING_EPOCH = -1
LEAVING_STATIC_EPOCH = -2

# Partitions by topic, each with the member epoch at which it was assigned (KIP-1251).
Assigned = Mapping[Uuid, Mapping[int, int]]
# Partitions by topic.
Target = Mapping[Uuid, frozenset[int]]

NO_PARTITIONS: Assigned = {}
NO_TARGET: Target = {}


class ClassicSide(NamedTuple):
    """The fields of a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerMember(NamedTuple):
    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = LEAVING_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    # Sorted, so that equal subscriptions are equal values.
    subscribed_topics: tuple[str, ...] = ()
    # Empty: none.
    subscribed_regex: str = ""
    assignor: str | None = None
    assigned: Assigned = NO_PARTITIONS
    pending_revocation: Assigned = NO_PARTITIONS
    classic: ClassicSide | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """Keeps the previous epoch, because the response with the new one may be lost."""
        return self._replace(member_epoch=epoch, previous_epoch=self.member_epoch)

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch since which the member has the partition; None without it."""
        for held in (self.assigned, self.pending_revocation):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def has_same_assignment(self, other: ConsumerMember) -> bool:
        return _partitions(self.assigned) == _partitions(other.assigned)


def _partitions(assigned: Assigned) -> dict[Uuid, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in assigned.items()}
