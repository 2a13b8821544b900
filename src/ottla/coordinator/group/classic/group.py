"""A classic group: members, generation, protocol; what follows from them, and who waits.

Only what a rebalance came to is written down (a `GroupMetadata` record, see `replay`); members that wait, or have not
yet been given an assignment, live here alone. The functions of `rebalance`, `join`, `sync`, `heartbeat` and `leave`
change it, and nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.member import ClassicMember, Protocols
from ottla.coordinator.group.classic.phases import PHASE_TRANSITIONS, Phase
from ottla.coordinator.group.group import Group, GroupType
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.group_records import GroupMetadataKey
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["CONSUMER_PROTOCOL_TYPE", "ClassicGroup"]

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_TIMESTAMP = -1


class ClassicGroup(Group):
    """Made EMPTY, with generation 0."""

    __slots__ = (
        "awaiting_join_count",
        "generation",
        "leader_id",
        "members",
        "new_member_added",
        "pending_join",
        "pending_sync",
        "phase",
        "phase_timestamp_ms",
        "previous_phase",
        "protocol_name",
        "protocol_type_or_none",
        "shard",
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
        # None until a first member has said; a group without it is one that only keeps offsets.
        self.protocol_type_or_none: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        # In the order of joining.
        self.members: dict[str, ClassicMember] = {}
        # Member id by instance id (KIP-345).
        self.static_members: dict[str, str] = {}
        # Ids given out with MEMBER_ID_REQUIRED that have not come back yet (KIP-394).
        self.pending_join: set[str] = set()
        # Members that have to sync before the rebalance timeout is over.
        self.pending_sync: set[str] = set()
        self.awaiting_join_count = 0
        # How many members know each protocol.
        self.supported: dict[str, int] = {}
        # None when the metadata of the members cannot be read.
        self.subscribed_topics: frozenset[str] | None = None
        # Somebody joined during the initial delay, which may then be extended (KIP-134).
        self.new_member_added = False

    # What every group answers.

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
            # The member knows the new generation but not what it is assigned: it cannot know what to commit.
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
            # Unknown: for consumers it is safer to believe that they are.
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
        for member in list(self.members.values()):
            self.answer_join(
                member, JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.NOT_COORDINATOR)
            )
            self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))

    # Members.

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises unless this is the member of that id, and (when it is static) the only one of its instance."""
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

    def add(self, member: ClassicMember, awaiting: Deferred[JoinGroupResponse] | None = None) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, "an instance is one member"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type_or_none = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        self.pending_join.discard(member.member_id)
        if awaiting is not None:
            member.awaiting_join = awaiting
            self.awaiting_join_count += 1

    def update(
        self,
        member: ClassicMember,
        *,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        awaiting: Deferred[JoinGroupResponse] | None,
    ) -> None:
        """The member joins again, perhaps with other protocols; a join of it that still waits is given up."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        # Its client has given that request up, or would not have sent another.
        self.answer_join(member, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_join = awaiting
        self.awaiting_join_count += awaiting is not None

    def remove(self, member_id: str) -> None:
        """A member, or an id that was given out and has not come back."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member.protocols, -1)
            self.awaiting_join_count -= member.awaiting_join is not None
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """The same instance under a new member id: whoever still waits under the old one is fenced at once."""
        old = self.members.pop(old_id)
        error = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(old, JoinGroupResponse(member_id=old_id, error_code=error))
        self.answer_sync(old, SyncGroupResponse(error_code=error))
        new = ClassicMember(
            member_id=new_id,
            instance_id=instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_id] = new
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_join

    def not_yet_rejoined(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if member.awaiting_join is None]

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has joined, else takes the first that has; False when nobody has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    # Protocols.

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether somebody with these protocols can be a member beside those there are."""
        names = list(protocols)
        if self.phase is Phase.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type_or_none == protocol_type and any(
            self.supported.get(name, 0) == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Of the protocols that all members have, the one that most of them prefer."""
        candidates = [name for name, count in self.supported.items() if count == len(self.members)]
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """From the members' metadata, of which only the oldest part is looked at: newer versions add behind it."""
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
        self.generation += 1
        self.shard.context.rebalances += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.become(Phase.COMPLETING_REBALANCE if self.members else Phase.EMPTY, now_ms)
        self.pending_sync.clear()

    # Answers.

    def joined_response(self, member_id: str, *, with_members: bool | None = None) -> JoinGroupResponse:
        """What a member is told that has joined; the leader (unless said otherwise) gets everybody's metadata."""
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

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        awaiting, member.awaiting_join = member.awaiting_join, None
        if awaiting is not None:
            self.awaiting_join_count -= 1
            # It may have failed before, with a write that its answer had to wait for: then its client asks again.
            if not awaiting.done:
                awaiting.resolve(response)

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        awaiting, member.awaiting_sync = member.awaiting_sync, None
        if awaiting is None:
            return False
        if not awaiting.done:
            awaiting.resolve(response)
        return True

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
