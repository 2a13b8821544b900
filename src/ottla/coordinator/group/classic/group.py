"""A classic group: members, generation and protocol, and the values derived from them.

The log holds the result of a rebalance: a `GroupMetadata` record with the generation and its assignments, or with no
members if the group has become empty. `store` replays it. Between two records the state changes only in memory: members
join for the next generation, and the leader computes the assignment. The log has neither that nor `soft`. Only the
functions of `rebalance`, `join`, `sync` and `leave` call the methods that change a group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.member import ClassicMember, Protocols
from ottla.coordinator.group.classic.phases import PHASE_TRANSITIONS, Phase
from ottla.coordinator.group.classic.sessions import cancel_join_timer, cancel_sync_timer, forget_heartbeat
from ottla.coordinator.group.classic.soft import SoftState
from ottla.coordinator.group.group import Group, GroupType
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["CONSUMER_PROTOCOL_TYPE", "ClassicGroup", "select_protocol"]

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_TIMESTAMP = -1


class ClassicGroup(Group):
    """EMPTY at first, with generation 0."""

    __slots__ = (
        "generation",
        "leader_id",
        "members",
        "phase",
        "phase_timestamp_ms",
        "previous_phase",
        "protocol_name",
        "protocol_type_or_none",
        "shard",
        "soft",
        "static_members",
        "subscribed_topics",
        "supported",
    )

    TYPE = GroupType.CLASSIC

    def __init__(self, group_id: str, shard: GroupShard, *, now_ms: int = NO_TIMESTAMP) -> None:
        super().__init__(group_id)
        self.shard = shard
        self.phase = Phase.EMPTY
        self.previous_phase = Phase.DEAD
        self.phase_timestamp_ms = now_ms
        self.generation = 0
        # None until a first member has joined; a group without it only keeps offsets.
        self.protocol_type_or_none: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        # In the order of joining.
        self.members: dict[str, ClassicMember] = {}
        # Member id by instance id (KIP-345).
        self.static_members: dict[str, str] = {}
        # The number of members for each protocol.
        self.supported: dict[str, int] = {}
        # None when the metadata of the members cannot be read.
        self.subscribed_topics: frozenset[str] | None = None
        self.soft = SoftState()

    @classmethod
    def of_generation(
        cls,
        group_id: str,
        shard: GroupShard,
        *,
        generation: int,
        protocol_type: str,
        protocol_name: str | None,
        leader_id: str | None,
        members: Iterable[ClassicMember],
        now_ms: int,
    ) -> ClassicGroup:
        """The group of a generation's record: stable if it has members, else empty."""
        group = cls(group_id, shard, now_ms=now_ms)
        for member in members:
            group.add(member)
        group.generation = generation
        group.protocol_type_or_none = protocol_type or None
        group.protocol_name = protocol_name
        group.leader_id = leader_id
        group.phase = Phase.STABLE if group.members else Phase.EMPTY
        group.subscribed_topics = group.compute_subscribed_topics()
        return group

    # The interface of every group.

    @property
    def state_name(self) -> str:
        return self.phase.value

    @property
    def protocol_type(self) -> str:
        return self.protocol_type_or_none or ""

    @property
    def is_empty(self) -> bool:
        return self.phase is Phase.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type_or_none == CONSUMER_PROTOCOL_TYPE

    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        is_transactional: bool,
        api_version: int,  # noqa: ARG002 - matters to other kinds of groups
    ) -> None:
        if self.phase is Phase.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.phase is Phase.EMPTY:
            # An administrator, or a consumer that assigns its partitions itself.
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional and self.phase is not Phase.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.phase is Phase.COMPLETING_REBALANCE:
            # The member has the new generation but no assignment yet: it has nothing to commit.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        if self.phase is Phase.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    def check_offset_delete(self) -> None:
        if self.phase is Phase.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")
        if self.phase is not Phase.EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if self.phase is Phase.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")
        if self.phase is not Phase.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            # Unknown: consumers are taken to be subscribed, so that their offsets stay.
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        if self.protocol_type_or_none is None:
            return commit_timestamp_ms
        if self.phase is Phase.EMPTY:
            return commit_timestamp_ms if self.phase_timestamp_ms == NO_TIMESTAMP else self.phase_timestamp_ms
        if self.uses_consumer_protocol and self.subscribed_topics is not None and self.phase is Phase.STABLE:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [(GroupMetadataKey(group=self.group_id), None)]

    def on_loaded(self, now_ms: int) -> None:
        from ottla.coordinator.group.classic.rebalance import on_group_loaded

        on_group_loaded(self, now_ms)

    def on_unloaded(self) -> None:
        self.become(Phase.DEAD, self.phase_timestamp_ms)
        for request, response in self.soft.answers_to(self.members, ErrorCode.NOT_COORDINATOR):
            request.resolve(response)

    # Replay.

    def store(self, value: GroupMetadataValue, members: Iterable[ClassicMember]) -> None:
        """Replays the record of a generation: the assignments of its members, or an empty group.

        Members that stay keep state that the record does not contain: their other protocols, and waiting requests.
        """
        current = self.members
        stored = {member.member_id: member for member in members}
        for member_id in [known_id for known_id in current if known_id not in stored]:
            self.remove(member_id)
        for member_id, member in stored.items():
            if member_id in current:
                current[member_id].assignment = member.assignment
            else:
                self.add(member)
        if value.generation != self.generation:
            self.shard.context.rebalances += 1
        self.generation = value.generation
        self.protocol_type_or_none = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        self.subscribed_topics = self.compute_subscribed_topics()
        if not stored and self.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
            # The rebalance after the last member has left completes at once.
            self.become(Phase.PREPARING_REBALANCE, value.current_state_timestamp)
        target = Phase.STABLE if stored else Phase.EMPTY
        if self.phase is not target:
            self.become(target, value.current_state_timestamp)
        if not stored:
            cancel_join_timer(self)
            cancel_sync_timer(self)

    # Members.

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for a former member id of the instance."""
        if instance_id is not None:
            known_id = self.static_members.get(instance_id)
            if known_id is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known_id != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, "an instance is one member"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type_or_none = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)

    def update(
        self, member: ClassicMember, *, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """The member joins again, perhaps with other protocols."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def remove(self, member_id: str) -> None:
        """Removes a member, or an id that was handed out and never used, with its session."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member.protocols, -1)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.soft.forget(member_id)
        forget_heartbeat(self, member_id)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """The same instance under a new member id."""
        assert old.instance_id == new.instance_id
        was_leader = self.is_leader(old.member_id)
        self.remove(old.member_id)
        self.add(new)
        if was_leader:
            self.leader_id = new.member_id

    def would_be_empty_without(self, member_ids: Collection[str]) -> bool:
        """True if these are the last members, and their leaving ends the generation at once."""
        ids = set(member_ids)
        if not self.members.keys() <= ids or not self.soft.pending_ids.keys() <= ids:
            return False
        if self.phase is Phase.PREPARING_REBALANCE:
            # The initial rebalance waits for its delay.
            return self.previous_phase is not Phase.EMPTY
        return self.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return len(self.members) == self.soft.join_count and not self.soft.pending_ids

    def not_yet_rejoined(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if not self.soft.has_joined(member.member_id)]

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has joined, else elects the first joined member; False if no member has joined."""
        if self.leader_id is not None and self.soft.has_joined(self.leader_id):
            return True
        joined = next((member_id for member_id in self.members if self.soft.has_joined(member_id)), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    # Protocols.

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """True if the group has this protocol type, and all its members support one of these protocols."""
        names = list(protocols)
        if self.phase is Phase.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type_or_none == protocol_type and any(
            self.supported.get(name, 0) == len(self.members) for name in names
        )

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """From the oldest fields of the members' metadata: newer versions append theirs."""
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                subscription, _ = decode(
                    ConsumerProtocolSubscription, memoryview(member.metadata(self.protocol_name)), 0, 2
                )
            except MalformedMessage:
                return None
            topics.update(subscription.topics)
        return frozenset(topics)

    # Phases and generations.

    def become(self, phase: Phase, now_ms: int) -> None:
        assert phase in PHASE_TRANSITIONS[self.phase], (
            f"group {self.group_id} of generation {self.generation} cannot go from {self.phase} to {phase} "
            f"(it was {self.previous_phase} before)"
        )
        self.previous_phase = self.phase
        self.phase = phase
        self.phase_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return Phase.PREPARING_REBALANCE in PHASE_TRANSITIONS[self.phase]

    def begin_generation(self, now_ms: int) -> None:
        """All members have joined. A generation without members begins by its record instead: see `store`."""
        assert self.members, "an empty generation is recorded"
        self.generation += 1
        self.shard.context.rebalances += 1
        self.protocol_name = select_protocol(self.members.values())
        self.subscribed_topics = self.compute_subscribed_topics()
        self.become(Phase.COMPLETING_REBALANCE, now_ms)

    # Responses.

    def joined_response(self, member_id: str, *, with_members: bool | None = None) -> JoinGroupResponse:
        """The response to a member that has joined. By default the leader gets the metadata of all members."""
        if with_members is None:
            with_members = self.is_leader(member_id)
        return JoinGroupResponse(
            member_id=member_id,
            generation_id=self.generation,
            protocol_type=self.protocol_type_or_none,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            members=list(self._joined_members()) if with_members else [],
        )

    def synced_response(self, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type_or_none,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _joined_members(self) -> Iterator[JoinGroupResponseMember]:
        for member in self.members.values():
            yield JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )

    def _count_protocols(self, protocols: Protocols, step: int) -> None:
        supported = self.supported
        for name in {name for name, _ in protocols}:
            count = supported.get(name, 0) + step
            if count:
                supported[name] = count
            else:
                del supported[name]

    # Under test.

    def invariants(self) -> None:
        self.soft.invariants(self.members)
        counts = Counter(name for member in self.members.values() for name in {name for name, _ in member.protocols})
        assert self.supported == counts, f"{self.supported} of {counts}"
        statics = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        assert self.static_members == statics
        assert self.leader_id is None or self.leader_id in self.members, "the leader is a member"
        if self.phase is Phase.EMPTY:
            assert not self.members, "members make a group rebalance"
        if self.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
            assert self.members, "a generation has members"
            assert self.leader_id is not None, "a generation has a leader"
            assert not self.soft.join_count, "joining begins a rebalance"
            assert all(self.protocol_name in dict(member.protocols) for member in self.members.values())
        if self.phase is not Phase.COMPLETING_REBALANCE:
            assert not self.soft.sync_count, "SyncGroup requests wait for the assignment of a new generation"


def select_protocol(members: Collection[ClassicMember]) -> str:
    """The protocol that most members prefer, among those that all members have."""
    counts = Counter(name for member in members for name in {name for name, _ in member.protocols})
    candidates = {name for name, count in counts.items() if count == len(members)}
    votes = Counter(member.vote(candidates) for member in members)
    return max(votes, key=lambda name: votes[name])
