"""A consumer group: its epochs, its members, their targets and their assignments.

Three epochs drive it (KIP-848). The *group epoch* grows when subscriptions or the subscribed topics change. The
*assignment epoch* is the group epoch for which the target assignment was computed. A *member epoch* follows when the
member has reconciled its assignment with its target. `replay` changes the group. Decisions also cache the metadata that
they have seen, which may be dropped at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.consumer.member import NO_TARGET, Assigned, ConsumerMember, Target
from ottla.coordinator.group.consumer.states import GroupState
from ottla.coordinator.group.group import Group, GroupType
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.metadata.image import ClusterImage, MetadataImage, TopicsImage

__all__ = ["ConsumerGroup", "ResolvedRegex", "stale_epoch"]

FIRST_COMMIT_VERSION_OF_MEMBER_EPOCHS = 9


class ResolvedRegex(NamedTuple):
    """The topics that matched a regular expression, with the metadata version and the time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(Group):
    """A new group is empty, with an empty target at epoch 1, which a first member without subscription gets."""

    __slots__ = (
        "_owners",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "has_partition_metadata_record",
        "members",
        "metadata_hash",
        "regexes",
        "resolved_regexes",
        "seen_cluster",
        "seen_epoch",
        "seen_regex_topics",
        "seen_topics",
        "shard",
        "static_members",
        "targets",
        "unconfirmed",
    )

    TYPE = GroupType.CONSUMER

    def __init__(self, group_id: str, shard: GroupShard) -> None:
        super().__init__(group_id)
        self.shard = shard
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        # Member id by instance id.
        self.static_members: dict[str, str] = {}
        # Targets by member id.
        self.targets: dict[str, Target] = {}
        # The number of members for each regular expression.
        self.regexes: dict[str, int] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        # The member that has a partition, or has yet to revoke it. By topic, because hashing a topic id is expensive.
        self._owners: dict[Uuid, dict[int, str]] = {}
        # Written by releases before 4.1; the next change of the group removes it.
        self.has_partition_metadata_record = False
        # The metadata for which the hash was last computed, and the epoch that it led to. If the group is not at that
        # epoch, the records were refused, and the hash has to be computed again.
        self.seen_epoch = 0
        self.seen_topics: TopicsImage | None = None
        self.seen_cluster: ClusterImage | None = None
        # The topics for which the regular expressions were last resolved.
        self.seen_regex_topics: TopicsImage | None = None
        # Members that have not reported the partitions of their assignment since it changed. Empty after loading: a
        # member sends a full request to a new coordinator.
        self.unconfirmed: set[str] = set()

    # The interface of every group.

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_offset_commit(
        self, *, member_id: str, instance_id: str | None, generation: int, is_transactional: bool, api_version: int
    ) -> None:
        if generation < 0 and not self.members:
            # An administrator, or a consumer that assigns its partitions itself.
            return
        if is_transactional and generation == -1 and not member_id and instance_id is None:
            # A producer that does not name a member.
            return
        member = self.member(member_id)
        is_classic = member.uses_classic_protocol
        if not is_transactional and not is_classic and api_version < FIRST_COMMIT_VERSION_OF_MEMBER_EPOCHS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "A member of the consumer protocol has to commit with version 9 or later, which has a member epoch.",
            )
        if generation > member.member_epoch:
            raise stale_epoch(member, f"Epoch {generation} is later than the member's epoch {member.member_epoch}.")

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise stale_epoch(member, f"The member is at epoch {member.member_epoch}, not {member_epoch}.")

    def check_offset_delete(self) -> None:
        """Never raises, because only subscribed topics are protected."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.subscribed_topics for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.resolved_regexes.values()
        )

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        from ottla.coordinator.group.consumer.records import group_tombstones

        return group_tombstones(self)

    def on_loaded(self, now_ms: int) -> None:
        from ottla.coordinator.group.consumer.sessions import on_group_loaded

        on_group_loaded(self, now_ms)

    # Members.

    def member(self, member_id: str) -> ConsumerMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Target:
        """A static member that is back under a new id inherits the target of the old one."""
        target = self.targets.get(member_id)
        if target is None and instance_id is not None:
            target = self.targets.get(self.static_members.get(instance_id, ""))
        return NO_TARGET if target is None else target

    def owner_of(self, topic_id: Uuid, partition: int) -> str | None:
        owners = self._owners.get(topic_id)
        return None if owners is None else owners.get(partition)

    # -- metadata that decisions cache

    def note_metadata(self, image: MetadataImage, epoch: int) -> None:
        """The hash of the subscribed topics was computed for this image, and led to this epoch."""
        self.seen_epoch = epoch
        self.seen_topics = image.topics
        self.seen_cluster = image.cluster

    def note_regex_topics(self, topics: TopicsImage) -> None:
        """Notes the topics for which the regular expressions were resolved."""
        self.seen_regex_topics = topics

    def note_unconfirmed(self, member_id: str) -> None:
        """Notes that the response with the member's new assignment may be lost."""
        self.unconfirmed.add(member_id)

    def note_confirmed(self, member_id: str) -> None:
        """The member reports the partitions of its assignment."""
        self.unconfirmed.discard(member_id)

    # Replay.

    def put_member(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]
            self._count_regex(old.subscribed_regex, -1)
        self._count_regex(member.subscribed_regex, 1)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for held in (member.assigned, member.pending_revocation):
            self._hold(held, member.member_id)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self.unconfirmed.discard(member_id)
        self._count_regex(member.subscribed_regex, -1)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _count_regex(self, regex: str, step: int) -> None:
        if regex:
            count = self.regexes.get(regex, 0) + step
            if count:
                self.regexes[regex] = count
            else:
                del self.regexes[regex]

    def _hold(self, held: Assigned, member_id: str) -> None:
        for topic_id, partitions in held.items():
            if partitions:
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _release(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.pending_revocation):
            for topic_id, partitions in held.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)

    # Under test.

    def invariants(self) -> None:
        """No partition has two members, and the table of owners matches the members."""
        held: dict[Uuid, dict[int, str]] = {}
        for member in self.members.values():
            for part in (member.assigned, member.pending_revocation):
                for topic_id, partitions in part.items():
                    for partition in partitions:
                        other = held.setdefault(topic_id, {}).setdefault(partition, member.member_id)
                        assert other == member.member_id, f"{topic_id}-{partition}: {other} and {member.member_id}"
        assert held == self._owners
        assert self.assignment_epoch <= self.epoch
        assert self._statics() == self.static_members
        regexes = [member.subscribed_regex for member in self.members.values() if member.subscribed_regex]
        assert self.regexes == {regex: regexes.count(regex) for regex in regexes}

    def _statics(self) -> Mapping[str, str]:
        return {
            member.instance_id: member.member_id for member in self.members.values() if member.instance_id is not None
        }


def stale_epoch(member: ConsumerMember, message: str) -> KafkaError:
    """The error code of the member's protocol."""
    is_classic = member.uses_classic_protocol
    return KafkaError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH, message)
