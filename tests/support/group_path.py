"""A broker's group coordinator without sockets: real logs and replay, real handlers, a virtual clock.

`GroupPath` answers requests as dispatch does; `Member` is a consumer under the test's control.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.broker.apis import HANDLERS, load
from ottla.broker.apis.api import Api
from ottla.broker.context import RequestContext
from ottla.broker.error_responses import generic_error_response
from ottla.coordinator.group.service import GroupCoordinator
from ottla.coordinator.group.state import GroupShard
from ottla.metadata.delta import MetadataDelta
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.storage.errors import StorageError
from ottla.wire.codec import encode
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.packed import PackedResponse
from tests.support.data_path import DataPath

__all__ = ["GroupPath", "Member", "RecognisingPath", "stable_group", "subscription"]

OFFSETS_TOPIC = "__consumer_offsets"


def subscription(*topics: str) -> bytes:
    """The encoded subscription of a consumer in JoinGroup."""
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


class GroupPath(DataPath):
    """A broker that leads a topic of committed offsets with a few partitions."""

    groups: GroupCoordinator
    # True if the controller has been silent for so long that it may have elected another leader.
    may_be_replaced = False

    def start(self, *, runs: bool = True) -> None:
        """Starts the coordinator and loads its partitions, unless the test does this itself."""
        super().start()
        self.groups = GroupCoordinator(
            config=self.config,
            world=self.virtual.world,
            replicas=self.replicas,
            image=self.image,
            may_be_replaced=lambda: self.may_be_replaced,
        )
        self.groups.start(self.image)
        self.broker.groups = self.groups
        self.broker.group_coordination = SimpleNamespace(existing=self.groups)
        self.broker.metadata = SimpleNamespace(image=self.image)
        if runs:
            self.run()

    def stop(self) -> None:
        self.groups.close()
        super().stop()

    def crash(self) -> None:
        """Stops all writes; the content of files stays."""
        for partition in list(self.replicas.partitions()):
            partition.log.files.take_offline(StorageError("crashed"))
        self.groups.close()
        self.logs.maintenance.stop()
        self.logs.cleaner.stop()
        self.logs._release_locks()

    def commit(self, *records: Any) -> None:
        before = self.image
        super().commit(*records)
        delta = MetadataDelta(before)
        for record in records:
            delta.replay(record)
        self.broker.metadata.image = self.image
        self.groups.publish(delta, self.image)

    def create_offsets_topic(self, partitions: int = 2, **configs: str) -> None:
        self.create_topic(OFFSETS_TOPIC, partitions, **{"cleanup_policy": "compact", **configs})
        self.run()

    def run(self) -> None:
        """Runs all due callbacks and worker tasks."""
        for _ in range(50):
            self.virtual.workers.run_all()
            self.virtual.scheduler.run()
        self.groups.runtime.invariants()

    def advance(self, ms: int) -> None:
        self.virtual.scheduler.advance(ms)
        self.run()

    def shard(self, group_id: str) -> GroupShard:
        return self.groups.runtime.shard_of(group_id).state

    # Requests.

    def begin(self, request: Any, version: int | None = None) -> Deferred[Any]:
        """Sends a request; the answer may come later, and errors become the error response of the API."""
        spec = HANDLERS[request.API_KEY]
        api = load(request.API_KEY, spec)
        used = spec.max_version if version is None else version
        answer: Deferred[Any] = Deferred()

        def fail(error: BaseException | None) -> None:
            assert isinstance(error, KafkaError), error
            error_response = api.error_response
            answer.resolve(
                generic_error_response(request.API_KEY, request, error)
                if error_response is None
                else error_response(request, used, error)
            )

        def resolve(response: Any) -> None:
            is_packed = isinstance(response, PackedResponse)
            answer.resolve(response.unpacked(api.response, used) if is_packed else response)

        def on_done(done: Deferred[Any]) -> None:
            if done.error is not None:
                fail(done.error)
            else:
                resolve(done.result())

        try:
            context = self.context(request.API_KEY, used)
            handled, handle = self.handler_of(request, context, api)
            response = handle(handled, context, self.broker)
        except KafkaError as error:
            fail(error)
            return answer
        if isinstance(response, Deferred):
            response.when_done(on_done)
        else:
            resolve(response)
        return answer

    def handler_of(self, request: Any, context: RequestContext, api: Api) -> tuple[Any, Callable[..., Any]]:
        """The request to handle and its handler."""
        return request, api.handle

    def ask(self, request: Any, version: int | None = None) -> Any:
        """Sends a request that must be answered at once."""
        answer = self.begin(request, version)
        self.run()
        assert answer.done, "the answer has to wait"
        return answer.result()

    # Offsets.

    def commit_offsets(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        *,
        version: int = 9,
        metadata: str = "",
        generation: int = -1,
        member_id: str = "",
        **fields: Any,
    ) -> dict[tuple[str, int], ErrorCode]:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, index), offset in offsets.items():
            topic_offsets = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic, partitions=[]))
            topic_offsets.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
            )
        response = self.ask(
            OffsetCommitRequest(
                group_id=group_id,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                topics=list(topics.values()),
                **fields,
            ),
            version,
        )
        return {
            (topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }

    def fetch_offsets(
        self, group_id: str, topics: dict[str, list[int]] | None = None, *, require_stable: bool = False
    ) -> dict[tuple[str, int], int]:
        """The committed offsets of all or of the given partitions; an error is a negative number below -1."""
        group_request = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        )
        response = self.ask(OffsetFetchRequest(groups=[group_request], require_stable=require_stable), 9)
        (group,) = response.groups
        assert group.error_code == 0, ErrorCode(group.error_code)
        return {
            (topic.name, partition.partition_index): -1000 - partition.error_code
            if partition.error_code
            else partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }


class RecognisingPath(GroupPath):
    """Recognises commits that it has seen before, as dispatch does."""

    def handler_of(self, request: Any, context: RequestContext, api: Api) -> tuple[Any, Callable[..., Any]]:
        outcome = None
        if api.shortcut is not None and context.api_version >= api.shortcut.min_version:
            frame = memoryview(b"before" + encode(request, context.api_version))
            outcome = api.shortcut.run(frame, len(b"before"), context, self.broker)
            assert not isinstance(outcome, bytes)
        return super().handler_of(request, context, api) if outcome is None else outcome


class Member:
    """A member of a classic group. `join` and `sync` return the code of the answer, or None while it is pending."""

    def __init__(
        self,
        path: GroupPath,
        group_id: str,
        *,
        topics: tuple[str, ...] = ("t",),
        protocols: tuple[str, ...] = ("range",),
        instance_id: str | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 30_000,
        protocol_type: str = "consumer",
        version: int = 9,
    ) -> None:
        self.path = path
        self.group_id = group_id
        self.topics = topics
        self.protocols = protocols
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.version = version
        self.member_id = ""
        self.generation = -1
        self.joined: JoinGroupResponse | None = None
        self.synced: SyncGroupResponse | None = None

    @property
    def is_leader(self) -> bool:
        return self.joined is not None and self.joined.leader == self.member_id

    def join(self) -> ErrorCode | None:
        """Joins, again with the assigned id if the coordinator requires it; returns the code, or None while pending."""
        code = self.join_once()
        return self.join_once() if code is ErrorCode.MEMBER_ID_REQUIRED else code

    def join_once(self) -> ErrorCode | None:
        self.joined = None
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(*self.topics)) for name in self.protocols
            ],
        )
        self.path.begin(request, self.version).when_done(self._on_joined)
        self.path.run()
        return self.join_code

    @property
    def join_code(self) -> ErrorCode | None:
        return None if self.joined is None else ErrorCode(self.joined.error_code)

    def _on_joined(self, done: Deferred[JoinGroupResponse]) -> None:
        self.joined = done.result()
        if self.joined.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = self.joined.member_id
        if self.joined.error_code == ErrorCode.NONE:
            self.generation = self.joined.generation_id

    def sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> ErrorCode | None:
        self.synced = None
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=fields.pop("protocol_type", self.protocol_type),
            protocol_name=fields.pop("protocol_name", self.joined.protocol_name if self.joined else None),
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        self.path.begin(request, 5).when_done(self._on_synced)
        self.path.run()
        return self.sync_code

    @property
    def sync_code(self) -> ErrorCode | None:
        return None if self.synced is None else ErrorCode(self.synced.error_code)

    def _on_synced(self, done: Deferred[SyncGroupResponse]) -> None:
        self.synced = done.result()

    @property
    def assignment(self) -> bytes:
        assert self.synced is not None
        return bytes(self.synced.assignment)

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode(self.path.ask(request, 4).error_code)

    def leave(self) -> ErrorCode:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        response = self.path.ask(LeaveGroupRequest(group_id=self.group_id, members=[identity]), 5)
        return ErrorCode(response.error_code or response.members[0].error_code)

    def commit(self, offsets: dict[tuple[str, int], int]) -> ErrorCode:
        """Commits the offsets; returns the common error code of all partitions."""
        codes = self.path.commit_offsets(
            self.group_id,
            offsets,
            generation=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        (code,) = set(codes.values())
        return code


def stable_group(path: GroupPath, *members: Member) -> None:
    """Has all members join and sync; the assignment of a member is its number as bytes."""
    for member in members:
        member.join()
    # The delay ends once, and again for members that joined during the first delay.
    path.advance(2 * path.config.group_initial_rebalance_delay_ms)
    assert all(member.join_code is ErrorCode.NONE for member in members), [member.joined for member in members]
    (leader,) = [member for member in members if member.is_leader]
    assignments = {member.member_id: b"%d" % number for number, member in enumerate(members)}
    for member in members:
        if member is not leader:
            member.sync()
    leader.sync(assignments)
    assert all(member.sync_code is ErrorCode.NONE for member in members), [member.synced for member in members]
