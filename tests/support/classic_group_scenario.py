"""Members of classic groups, said one request after the other to a fresh broker: its answers and its records.

The same scenario is said to Apache Kafka (`tests/data/make_classic_group_answers.py` keeps what came of it) and to
Ottla. What may differ from run to run is made equal: ids that the broker gives to members become numbers, times become
"time", sentences become "said", lists without an order are sorted.
"""

from __future__ import annotations

import itertools
import re
import time
from typing import Any

from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.codec import encode
from ottla.wire.message import Message, Structure
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import fetch as f
from ottla.wire.messages import offset_commit as oc
from ottla.wire.messages import offset_delete as od
from ottla.wire.messages import offset_fetch as of
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.raw_client import RawClient

__all__ = ["SETTINGS", "play"]

SETTINGS: dict[str, str] = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "3",
}

_LEFT_OUT = frozenset(("throttle_time_ms", "port", "host", "node_id"))
_TIMES = frozenset(("commit_timestamp", "current_state_timestamp"))
_UNORDERED = frozenset(("members", "groups", "results", "coordinators", "partitions"))
_GIVEN_ID = re.compile(r"[a-z]*-[0-9a-f]{8}-[0-9a-f-]{27}")
_SUBSCRIPTION = b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=["t"]), 0)


def play(bootstrap: str) -> dict[str, Any]:
    """Says everything to a fresh broker; answers and records by label, as plain values."""
    player = _Player(bootstrap)
    try:
        player.prepare()
        for part in (_versions, _life, _two, _static, _joining_badly, _membership_mistakes, _protocols, _full):
            part(player)
        for part in (_offsets, _offset_mistakes, _administration, _endings):
            part(player)
        player.records()
    finally:
        for client in player.clients.values():
            client.close()
    return player.heard


class _Player:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.clients: dict[str, RawClient] = {}
        self.heard: dict[str, Any] = {}
        self.topic_id = Uuid.ZERO
        self._members: dict[str, str] = {}

    def client(self, name: str) -> RawClient:
        """A connection of its own for every member that may have to wait."""
        if name not in self.clients:
            self.clients[name] = RawClient(self.bootstrap, client_id="client")
        return self.clients[name]

    def prepare(self) -> None:
        client = self.client("first")
        topic = ct.CreatableTopic(name="t", num_partitions=3, replication_factor=1)
        assert not client.call(ct.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code
        for _ in range(1000):
            found = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12).topics[0]
            client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            group = client.call(DescribeGroupsRequest(groups=["g"]), 5).groups[0]
            if not found.error_code and not group.error_code:
                break
            # Brokers make and load their topic of offsets when they get to it.
            time.sleep(0.05)
        assert not group.error_code, ErrorCode(group.error_code)
        self.topic_id = found.topic_id

    def say(self, label: str, request: Message, version: int, *, by: str = "first") -> Any:
        self.begin(request, version, by=by)
        return self.hear(label, by=by)

    def begin(self, request: Message, version: int, *, by: str) -> None:
        self.client(by).send(request, version)

    def hear(self, label: str, *, by: str) -> Any:
        assert label not in self.heard, f"said twice: {label}"
        answer = self.client(by).receive()
        self.heard[label] = self.plain(answer)
        return answer

    def plain(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Structure):
            made = {slot: self.plain(getattr(value, slot), slot) for slot in value.__slots__ if slot not in _LEFT_OUT}
            return {type(value).__name__: made} if isinstance(value, Message) else made
        if isinstance(value, Uuid):
            return "t" if value == self.topic_id else bool(value)
        if name == "error_message":
            return "said" if value else value
        if name in _TIMES:
            return "time" if value > 0 else value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value).hex()
        if isinstance(value, str) and _GIVEN_ID.fullmatch(value):
            return self._members.setdefault(value, f"given {len(self._members)}")
        if not isinstance(value, list):
            return value
        plain = [self.plain(each) for each in value]
        return sorted(plain, key=repr) if name in _UNORDERED else plain

    def records(self) -> None:
        """Everything that was written to the topic of offsets, in order but for what one deletion removes at once."""
        told: list[list[Any]] = []
        offset = 0
        while batches := self._read(offset):
            for batch in iterate_batches(batches):
                for record in iterate_records(batch):
                    assert record.key is not None
                    value = None if record.value is None else memoryview(record.value)
                    told.append([self.plain(each) for each in GROUP_RECORDS.decode(memoryview(record.key), value)])
                offset = batch.header.next_offset
        for is_deletion, run in itertools.groupby(told, key=lambda pair: pair[1] is None):
            for pair in sorted(run, key=repr) if is_deletion else run:
                self.heard[f"record {sum(label.startswith('record') for label in self.heard) + 1}"] = pair

    def _read(self, offset: int) -> bytes:
        asked = f.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = f.FetchTopic(topic="__consumer_offsets", partitions=[asked])
        answer = self.client("first").call(f.FetchRequest(max_bytes=1 << 24, topics=[topic]), 11)
        data = answer.responses[0].partitions[0]
        assert not data.error_code
        return bytes(data.records or b"")


def join(group: str, member: str = "", **fields: Any) -> JoinGroupRequest:
    names = fields.pop("names", ("range",))
    protocols = [JoinGroupRequestProtocol(name=name, metadata=_SUBSCRIPTION) for name in names]
    given = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer", **fields}
    return JoinGroupRequest(group_id=group, member_id=member, protocols=protocols, **given)


def sync(group: str, member: str, generation: int, shares: dict[str, bytes] | None = None, **fields: Any) -> Any:
    assignments = [SyncGroupRequestAssignment(member_id=key, assignment=share) for key, share in (shares or {}).items()]
    return SyncGroupRequest(
        group_id=group, member_id=member, generation_id=generation, assignments=assignments, **fields
    )


def beat(group: str, member: str, generation: int, **fields: Any) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, member_id=member, generation_id=generation, **fields)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
    return LeaveGroupRequest(group_id=group, members=identities)


def commit(group: str, offset: int = 5, *, index: int = 0, topic: str = "t", **fields: Any) -> oc.OffsetCommitRequest:
    metadata = fields.pop("metadata", "")
    topic_id = fields.pop("topic_id", Uuid.ZERO)
    partition = oc.OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_metadata=metadata, committed_leader_epoch=0
    )
    topics = [oc.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])]
    return oc.OffsetCommitRequest(group_id=group, topics=topics, **fields)


def fetch(group: str, *indexes: int, version: int = 9, **fields: Any) -> of.OffsetFetchRequest:
    if version < 8:
        asked = None if not indexes else [of.OffsetFetchRequestTopic(name="t", partition_indexes=list(indexes))]
        return of.OffsetFetchRequest(group_id=group, topics=asked)
    topics = None if not indexes else [of.OffsetFetchRequestTopics(name="t", partition_indexes=list(indexes))]
    return of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup(group_id=group, topics=topics, **fields)])


def enter(player: _Player, group: str, label: str, *, by: str = "first", **fields: Any) -> tuple[str, int]:
    """Joins and syncs alone, and says under which id and in which generation."""
    answer = player.say(f"{label} joins", join(group, **fields), 9, by=by)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = player.say(f"{label} joins with its id", join(group, answer.member_id, **fields), 9, by=by)
    member, generation = answer.member_id, answer.generation_id
    instance = fields.get("group_instance_id")
    asked = sync(group, member, generation, {member: b"share"}, group_instance_id=instance)
    asked.protocol_type, asked.protocol_name = "consumer", "range"
    player.say(f"{label} syncs", asked, 5, by=by)
    return member, generation


def _versions(player: _Player) -> None:
    for version in range(10):
        group = f"version {version}"
        answer = player.say(f"join, version {version}", join(group), version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = player.say(f"join with id, version {version}", join(group, answer.member_id), version)
        member, generation = answer.member_id, answer.generation_id
        low = min(version, 5)
        asked = sync(group, member, generation, {member: b"share"})
        if low >= 5:
            asked.protocol_type, asked.protocol_name = "consumer", "range"
        player.say(f"sync, version {version}", asked, low)
        player.say(f"heartbeat, version {version}", beat(group, member, generation), min(version, 4))
        if low >= 3:
            player.say(f"leave, version {version}", leave(group, (member, None)), low)
        else:
            player.say(f"leave, version {version}", LeaveGroupRequest(group_id=group, member_id=member), low)
    for version in range(7):
        request = (
            FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g", "h"])
        )
        player.say(f"coordinator, version {version}", request, version)
    player.say("coordinator of a strange kind", FindCoordinatorRequest(coordinator_keys=["g"], key_type=9), 4)
    player.say("coordinator of no group", FindCoordinatorRequest(coordinator_keys=[""]), 4)


def _life(player: _Player) -> None:
    member, generation = enter(player, "g", "first")
    player.say("first beats", beat("g", member, generation), 4)
    player.say("first joins again", join("g", member), 9)
    player.say("first beats before it syncs", beat("g", member, generation + 1), 4)
    player.say(
        "first commits before it syncs",
        commit("g", member_id=member, generation_id_or_member_epoch=generation + 1),
        9,
    )
    player.say("first syncs again", sync("g", member, generation + 1, {member: b"more"}), 4)
    player.say("first syncs once more", sync("g", member, generation + 1), 4)
    player.say("describe a stable group", DescribeGroupsRequest(groups=["g"]), 6)


def _two(player: _Player) -> None:
    leader, generation = enter(player, "two", "leader")
    answer = player.say("follower asks for an id", join("two"), 9, by="second")
    follower = answer.member_id
    player.begin(join("two", follower), 9, by="second")
    # The leader hears of the rebalance as soon as the follower is in.
    for _ in range(1500):
        if player.client("first").call(beat("two", leader, generation), 4).error_code:
            break
        time.sleep(0.02)
    player.say("leader is told to join", beat("two", leader, generation), 4)
    player.say("describe a group that rebalances", DescribeGroupsRequest(groups=["two"]), 6, by="third")
    player.say("leader commits meanwhile", commit("two", member_id=leader, generation_id_or_member_epoch=generation), 9)
    player.say("leader syncs too late", sync("two", leader, generation), 4)
    player.say("leader joins with the follower", join("two", leader), 9)
    player.hear("follower has joined", by="second")
    generation += 1
    player.begin(sync("two", follower, generation), 4, by="second")
    player.say("describe a group that waits", DescribeGroupsRequest(groups=["two"]), 6, by="third")
    player.say("leader assigns", sync("two", leader, generation, {leader: b"l", follower: b"f"}), 4)
    player.hear("follower is assigned", by="second")
    player.say("follower joins again as it was", join("two", follower), 9, by="second")
    player.say("follower is still in", beat("two", follower, generation), 4, by="second")
    player.say("both leave, and a stranger", leave("two", (leader, None), (follower, None), ("who", None)), 5)


def _static(player: _Player) -> None:
    member, generation = enter(player, "static", "static", group_instance_id="i")
    answer = player.say("static is back", join("static", group_instance_id="i"), 9)
    player.say("static syncs as before", sync("static", answer.member_id, generation, group_instance_id="i"), 4)
    player.say("its double is fenced", beat("static", member, generation, group_instance_id="i"), 4)
    player.say("its double cannot sync", sync("static", member, generation, group_instance_id="i"), 4)
    player.say("its double cannot join", join("static", member, group_instance_id="i"), 9)
    player.say(
        "its double cannot commit",
        commit("static", member_id=member, generation_id_or_member_epoch=generation, group_instance_id="i"),
        9,
    )
    player.say("an unknown instance", beat("static", member, generation, group_instance_id="j"), 4)
    player.say("its double cannot leave", leave("static", (member, "i")), 5)
    player.say("describe static", DescribeGroupsRequest(groups=["static"]), 6)
    player.say("static is removed by name", leave("static", ("", "i"), ("", "j")), 5)


def _joining_badly(player: _Player) -> None:
    player.say("a group without name", join(""), 9)
    player.say("a session too short", join("bad", session_timeout_ms=1), 9)
    player.say("a session too long", join("bad", session_timeout_ms=10_000_000), 9)
    player.say("no protocols", join("bad", names=()), 9)
    player.say("no protocol type", join("bad", protocol_type=""), 9)
    player.say("an unknown id", join("bad", "who"), 9)
    player.say("an unknown id of a group that is there", join("g", "who"), 9)


def _membership_mistakes(player: _Player) -> None:
    member, generation = enter(player, "fenced", "fenced")
    for label, who, when in (
        ("an old generation", member, generation - 1),
        ("a generation to come", member, generation + 1),
        ("a stranger", "who", generation),
        ("nobody", "", generation),
    ):
        player.say(f"{label} beats", beat("fenced", who, when), 4)
        player.say(f"{label} syncs", sync("fenced", who, when), 4)
        player.say(f"{label} commits", commit("fenced", member_id=who, generation_id_or_member_epoch=when), 9)
    for group in ("nothing", ""):
        player.say(f"heartbeat to {group!r}", beat(group, member, generation), 4)
        player.say(f"sync with {group!r}", sync(group, member, generation), 4)
        player.say(f"leave {group!r}", leave(group, (member, None)), 5)
        player.say(f"commit for {group!r}", commit(group, member_id=member, generation_id_or_member_epoch=1), 9)
    player.say("the wrong protocol type", sync("fenced", member, generation, protocol_type="connect"), 5)
    player.say("the wrong protocol", sync("fenced", member, generation, protocol_name="sticky"), 5)


def _protocols(player: _Player) -> None:
    enter(player, "spoken", "speaker", names=("range", "sticky"))
    player.say("another type", join("spoken", protocol_type="connect"), 9, by="second")
    player.say("nothing in common", join("spoken", names=("mine",)), 9, by="second")


def _full(player: _Player) -> None:
    for number in range(3):
        player.say(f"number {number} asks for an id", join("full"), 9)
    player.say("one too many asks for an id", join("full"), 9)


def _offsets(player: _Player) -> None:
    for version in range(2, 11):
        by_id = {"topic": "", "topic_id": player.topic_id} if version >= 10 else {}
        request = commit("simple", version, index=version % 3, metadata=f"version {version}", **by_id)
        player.say(f"commit, version {version}", request, version)
    for version in range(1, 10):
        player.say(f"fetch, version {version}", fetch("simple", 0, 1, 2, 7, version=version), version)
        if version >= 2:
            player.say(f"fetch everything, version {version}", fetch("simple", version=version), version)
    groups = [
        of.OffsetFetchRequestGroup(
            group_id=name,
            topics=[of.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0, 9])],
        )
        for name, topic_id in (("simple", player.topic_id), ("nothing", player.topic_id), ("simple", Uuid(b"u" * 16)))
    ]
    player.say("fetch by id", of.OffsetFetchRequest(groups=groups[:2]), 10)
    player.say("fetch by an id nobody has", of.OffsetFetchRequest(groups=groups[2:]), 10)
    player.say("fetch as a stable reader", of.OffsetFetchRequest(groups=fetch("simple").groups, require_stable=True), 9)
    player.say("fetch of nothing", fetch("nothing", 0), 9)
    player.say("fetch everything of nothing", fetch("nothing"), 9)


def _offset_mistakes(player: _Player) -> None:
    player.say("metadata too long", commit("simple", metadata="x" * 4097), 9)
    player.say("metadata just short enough", commit("simple", metadata="x" * 4096), 9)
    player.say("no metadata", commit("simple", metadata=None), 9)
    player.say("a topic that is not there", commit("simple", topic="nowhere"), 9)
    player.say("a topic id that is not there", commit("simple", topic="", topic_id=Uuid(b"u" * 16)), 10)
    player.say("a partition that is not there", commit("simple", index=99), 9)
    player.say("an offset below zero", commit("simple", -5), 9)
    player.say("a member of a group without members", commit("simple", member_id="who"), 9)
    player.say("a generation of a group without members", commit("simple", generation_id_or_member_epoch=1), 9)
    player.say("no member of a group that has some", commit("g"), 9)


def _administration(player: _Player) -> None:
    for version in range(6):
        player.say(f"list, version {version}", ListGroupsRequest(), version)
    player.say("list stable ones", ListGroupsRequest(states_filter=["stable"]), 4)
    player.say("list empty ones", ListGroupsRequest(states_filter=["Empty"], types_filter=["Classic"]), 5)
    player.say("list what is not known", ListGroupsRequest(states_filter=["nonsense"]), 5)
    player.say("list types not known", ListGroupsRequest(types_filter=["nonsense"]), 5)
    for version in range(7):
        player.say(f"describe, version {version}", DescribeGroupsRequest(groups=["g", "simple", "nothing"]), version)
    player.say("describe no name", DescribeGroupsRequest(groups=[""]), 6)
    player.say("describe with operations", DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 6)
    player.say("describe as the other kind", ConsumerGroupDescribeRequest(group_ids=["g", "simple"]), 1)
    for label, group, index in (
        ("delete an offset in use", "g", 0),
        ("delete an offset", "simple", 1),
        ("delete an offset that is not there", "simple", 99),
        ("delete an offset of nothing", "nothing", 0),
        ("delete an offset of no name", "", 0),
    ):
        topic = od.OffsetDeleteRequestTopic(
            name="t", partitions=[od.OffsetDeleteRequestPartition(partition_index=index)]
        )
        player.say(label, od.OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
    player.say("what is left", fetch("simple"), 9)


def _endings(player: _Player) -> None:
    for version in range(3):
        names = ["g", f"version {version}", "nothing", ""]
        player.say(f"delete, version {version}", DeleteGroupsRequest(groups_names=names), version)
    player.say("delete one with offsets", DeleteGroupsRequest(groups_names=["simple"]), 2)
    player.say("delete one that had a static member", DeleteGroupsRequest(groups_names=["static"]), 2)
    player.say("list at the end", ListGroupsRequest(), 5)
