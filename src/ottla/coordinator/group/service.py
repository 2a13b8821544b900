"""The group coordinator's interface for request handlers: one method per API, with its checks and its decision.

Handlers authorise and translate the request before they call. An error of the whole request fails the `Deferred` with a
KafkaError: the handler places the error in its response.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ottla.coordinator.group import OFFSETS_TOPIC
from ottla.coordinator.group.admin import decide_delete, describe_classic, list_groups
from ottla.coordinator.group.classic.heartbeat import decide_heartbeat
from ottla.coordinator.group.classic.join import JoinAttempt, decide_join
from ottla.coordinator.group.classic.leave import decide_leave
from ottla.coordinator.group.classic.sync import decide_sync
from ottla.coordinator.group.offsets.commit import decide_commit
from ottla.coordinator.group.offsets.fetch import fetch_offsets
from ottla.coordinator.group.offsets.removal import decide_delete_offsets, decide_expiry, decide_forget_topics
from ottla.coordinator.group.offsets.repeated import RepeatedCommits
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.coordinator.group.state import GroupContext, GroupDecide, GroupShard
from ottla.coordinator.runtime import CoordinatorRuntime, Shard, ShardSettings, ShardStatus
from ottla.decisions import Decision, Repeater, Timers
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.records.compression import Codec
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.wire.messages.list_groups import ListedGroup
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.lag import GroupLag
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World
    from ottla.replica.manager import ReplicaManager
    from ottla.replica.markers import EndMarker
    from ottla.replica.partition import Partition
    from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
    from ottla.wire.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
    from ottla.wire.packed import PackedResponse

__all__ = ["GroupCoordinator"]

logger = logging.getLogger("ottla.coordinator.group")

R = TypeVar("R")

# Committed offsets that are examined in one turn of the loop, at half a microsecond each. The decision about a group
# takes as long as a few offsets.
OFFSETS_PER_TURN = 5_000
OFFSETS_PER_GROUP = 6

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class GroupCoordinator:
    """All groups whose partition of the offsets topic this broker leads."""

    __slots__ = ("_duties", "_replicas", "_world", "context", "repeated_commits", "runtime")

    def __init__(
        self,
        *,
        config: BrokerConfig,
        world: World,
        replicas: ReplicaManager,
        image: MetadataImage,
        may_be_replaced: Callable[[], bool],
    ) -> None:
        self._world = world
        self._replicas = replicas
        self._duties = Repeater(world.scheduler)
        self.context = context = GroupContext(config, image)
        self.repeated_commits = RepeatedCommits()

        def new_state(index: int, timers: Timers[GroupShard]) -> GroupShard:
            return GroupShard(index, timers, context)

        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            topic=OFFSETS_TOPIC,
            record_format=GROUP_RECORDS,
            world=world,
            replicas=replicas,
            new_state=new_state,
            settings=_settings(config, may_be_replaced),
            load_buffer_bytes=config.offsets_load_buffer_size,
        )

    # Start and end.

    def start(self, image: MetadataImage) -> None:
        """Loads the partitions that this broker leads; called after the replicas have applied the image."""
        self.context.image = image
        self.runtime.start(image)
        self._duties.every(self._expiry_interval_seconds, "expiry", self.expire_offsets)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if image.topics is not self.context.image.topics:
            self.repeated_commits.clear()
        self.context.image = image
        self.runtime.publish(delta, image)
        deleted = {topic.name for topic in delta.topics.deleted.values()}
        if deleted:
            self.context.commit_shapes.forget_topics(deleted)
            self.context.topic_hashes.forget_topics(deleted)
            self._forget_topics(deleted)

    def on_broker_config(self, config: BrokerConfig) -> None:
        self.context.config = config

    def close(self) -> None:
        """Pending requests fail with NOT_COORDINATOR."""
        self._duties.stop()
        self.runtime.close()

    def submit(self, group_id: str, decide: GroupDecide[R]) -> Deferred[R]:
        return self.runtime.submit(group_id, decide)

    # The classic protocol.

    def join(
        self, request: JoinGroupRequest, *, api_version: int, client_id: str, client_host: str
    ) -> Deferred[JoinGroupResponse]:
        config = self.context.config
        if not request.group_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        timeout_min, timeout_max = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not timeout_min <= request.session_timeout_ms <= timeout_max:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT))
        attempt = JoinAttempt(
            request,
            api_version=api_version,
            client_id=client_id,
            client_host=client_host,
            generated_id=f"{request.group_instance_id or client_id}-{self._random_uuid()}",
        )
        joined = self.submit(request.group_id, lambda shard, now_ms: decide_join(shard, attempt, now_ms))
        return joined.and_then(_itself).recover(KafkaError, _refuse_too_large)

    def sync(self, request: SyncGroupRequest) -> Deferred[SyncGroupResponse]:
        if not request.group_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        synced = self.submit(request.group_id, lambda shard, now_ms: decide_sync(shard, request, now_ms))
        return synced.and_then(_itself).recover(KafkaError, _refuse_too_large)

    def heartbeat(self, request: HeartbeatRequest) -> Deferred[HeartbeatResponse]:
        if not request.group_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        try:
            shard = self.runtime.shard_of(request.group_id)
        except KafkaError as error:
            return Deferred.failed(error)
        if shard.status is ShardStatus.LOADING:
            # The members are not loaded yet. Every session begins after the load anyway.
            return Deferred.resolved(HeartbeatResponse())
        return shard.submit(lambda state, now_ms: decide_heartbeat(state, request, now_ms)).then(_heartbeat_response)

    def leave(self, request: LeaveGroupRequest) -> Deferred[LeaveGroupResponse]:
        if not request.group_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_GROUP_ID))

        def on_error(error: KafkaError) -> LeaveGroupResponse:
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise error
            # The group does not exist, so none of its members does.
            return LeaveGroupResponse(members=[_unknown_member(identity) for identity in request.members])

        response = self.submit(request.group_id, lambda shard, now_ms: decide_leave(shard, request, now_ms))
        return response.recover(KafkaError, on_error)

    # The consumer protocol.

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        api_version: int,
        client_id: str,
        client_host: str,
        may_see_topic: Callable[[str], bool],
    ) -> Deferred[ConsumerGroupHeartbeatResponse]:
        from ottla.coordinator.group.consumer.heartbeat import HeartbeatAttempt, check_request, decide_heartbeat

        try:
            check_request(request, api_version, self.context.config.group_consumer_assignors)
        except KafkaError as error:
            return Deferred.failed(error)
        attempt = HeartbeatAttempt(
            request,
            client_id=client_id,
            client_host=client_host,
            generated_id="" if request.member_id else str(Uuid.random(self._world.random)),
            may_see_topic=may_see_topic,
        )
        return self.submit(request.group_id, lambda shard, now_ms: decide_heartbeat(shard, attempt, now_ms))

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> Deferred[list[DescribedConsumerGroup]]:
        from ottla.coordinator.group.consumer.describe import describe_consumer_group, undescribed

        def describe_one(group_id: str) -> Deferred[DescribedConsumerGroup]:
            if not group_id:
                return Deferred.failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
            return self.runtime.ask(group_id, lambda shard: describe_consumer_group(shard, group_id))

        return gather(
            [describe_one(group_id).recover(KafkaError, partial(undescribed, group_id)) for group_id in group_ids]
        )

    # Offsets.

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int
    ) -> Deferred[OffsetCommitResponse | PackedResponse]:
        return self.submit(request.group_id, lambda shard, now_ms: decide_commit(shard, request, api_version, now_ms))

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Deferred[OffsetFetchResponseGroup]:
        return self.runtime.ask(
            request.group_id, lambda shard: fetch_offsets(shard, request, require_stable=require_stable)
        )

    def commit_offsets_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        api_version: int,
        verify: Callable[[Partition], Deferred[None]],
    ) -> Deferred[TxnOffsetCommitResponse]:
        """`verify` asks the transaction's coordinator whether this group belongs to the transaction."""
        from ottla.coordinator.group.offsets.transactional import decide_commit_in_transaction

        if not request.group_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        try:
            partition = self.runtime.shard_of(request.group_id).partition
        except KafkaError as error:
            return Deferred.failed(error)

        def commit(_verified: None) -> Deferred[TxnOffsetCommitResponse]:
            # The shard may have moved while the transaction's coordinator was asked.
            try:
                shard = self.runtime.shard_of(request.group_id)
            except KafkaError as error:
                return Deferred.failed(error)
            return shard.submit_in_transaction(
                lambda state, now_ms: decide_commit_in_transaction(state, request, api_version, now_ms),
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
            )

        return verify(partition).and_then(commit)

    def complete_transaction(self, index: int, marker: EndMarker) -> Deferred[None]:
        """A transaction ends in one partition of the offsets topic."""
        return self.runtime.complete_transaction(index, marker)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Deferred[OffsetDeleteResponse]:
        if not request.group_id:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_GROUP_ID))
        return self.submit(request.group_id, lambda shard, _: decide_delete_offsets(shard, request))

    # Administration.

    def list_groups(self, *, states: Sequence[str], types: Sequence[str]) -> Deferred[list[ListedGroup]]:
        """Filters ignore case; an empty filter matches everything. Fails while a shard of this broker is loading."""
        wanted_states = frozenset([state.lower() for state in states])
        wanted_types = frozenset([kind.lower() for kind in types])
        return self.runtime.ask_all(
            lambda shard: shard.groups,
            lambda shard, group_ids: list_groups(shard, group_ids, states=wanted_states, types=wanted_types),
        )

    def describe_groups(self, group_ids: Iterable[str], api_version: int) -> Deferred[list[DescribedGroup]]:
        def describe_one(group_id: str) -> Deferred[DescribedGroup]:
            return self.runtime.ask(group_id, lambda shard: describe_classic(shard, group_id, api_version))

        return gather(
            [describe_one(group_id).recover(KafkaError, partial(_undescribed, group_id)) for group_id in group_ids]
        )

    def delete_groups(self, group_ids: Iterable[str]) -> Deferred[list[DeletableGroupResult]]:
        def delete_one(group_id: str) -> Deferred[DeletableGroupResult]:
            return self.submit(group_id, lambda shard, _: decide_delete(shard, group_id))

        return gather(
            [
                delete_one(group_id).recover(KafkaError, partial(_undeleted, group_id))
                for group_id in dict.fromkeys(group_ids)
            ]
        )

    def lags(self) -> Iterator[GroupLag | None]:
        """The known lags of the groups that this broker coordinates (`group.lag`). None is a pause."""
        from ottla.coordinator.group.lag import lags_of_shard

        for shard in self.runtime.active_shards():
            yield from lags_of_shard(shard.state, self._replicas)

    # Expiry and deleted topics.

    def expire_offsets(self) -> Deferred[bool]:
        """Removes the offsets and groups that have expired; resolves with False after the last group."""

        def expire(shard: Shard[GroupShard], group_id: str) -> None:
            shard.submit(partial(_decide_expiry, group_id)).when_done(_log_failure)

        return self._replicas.slices.run(self._in_turns(lambda state: state.groups, expire))

    def _forget_topics(self, topics: set[str]) -> None:
        def forget(shard: Shard[GroupShard], group_id: str) -> None:
            _forget_topics_of_group(shard, group_id, topics)

        self._replicas.slices.run(self._in_turns(lambda state: state.offsets.groups(), forget))

    def _in_turns(
        self, group_ids_of: Callable[[GroupShard], Iterable[str]], action: Callable[[Shard[GroupShard], str], object]
    ) -> Generator[None, None, bool]:
        """Calls the action for every group, and pauses after every `OFFSETS_PER_TURN` offsets."""
        examined = 0
        for shard in self.runtime.active_shards():
            for group_id in list(group_ids_of(shard.state)):
                if shard.status is not ShardStatus.ACTIVE:
                    break
                action(shard, group_id)
                examined += OFFSETS_PER_GROUP + shard.state.offsets.count_of_group(group_id)
                if examined >= OFFSETS_PER_TURN:
                    examined = 0
                    yield
        return False

    def _expiry_interval_seconds(self) -> float:
        return self.context.config.offsets_retention_check_interval_ms / 1000

    def _random_uuid(self) -> str:
        """A random identifier in the usual notation (RFC 9562, version 4)."""
        bits = self._world.random.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _settings(config: BrokerConfig, may_be_replaced: Callable[[], bool]) -> ShardSettings:
    return ShardSettings(
        may_be_replaced=may_be_replaced,
        write_timeout_ms=config.offsets_commit_timeout_ms,
        linger_ms=config.group_coordinator_append_linger_ms,
        codec=Codec(config.offsets_topic_compression_codec),
    )


def _decide_expiry(group_id: str, shard: GroupShard, now_ms: int) -> Decision[None]:
    return decide_expiry(shard, group_id, now_ms)


def _forget_topics_of_group(shard: Shard[GroupShard], group_id: str, topics: set[str]) -> None:
    """In several decisions, because a group may have more offsets than fit into one batch."""

    def on_decided(done: Deferred[bool]) -> None:
        if done.error is not None:
            _log_failure(done)
        elif not done.result():
            _forget_topics_of_group(shard, group_id, topics)

    shard.submit(lambda state, _: decide_forget_topics(state, group_id, topics)).when_done(on_decided)


def _heartbeat_response(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def _unknown_member(identity: Any) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )


def _undescribed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code)


def _undeleted(group_id: str, error: KafkaError) -> DeletableGroupResult:
    message = None if error.message == error.code.message else error.message
    return DeletableGroupResult(group_id=group_id, error_code=error.code, error_message=message)


def _log_failure(done: Deferred[Any]) -> None:
    if done.error is not None:
        logger.warning("expired offsets could not be removed: %s", done.error, exc_info=_unless_expected(done.error))


def _unless_expected(error: BaseException) -> BaseException | None:
    return None if isinstance(error, KafkaError) else error


def _itself(waiting: Deferred[R]) -> Deferred[R]:
    """The response of a decision whose request waits in the group for other members."""
    return waiting


def _refuse_too_large(error: KafkaError) -> NoReturn:
    """JoinGroup and SyncGroup have no code for a group that does not fit into a record."""
    if error.code in _TOO_LARGE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error
    raise error
