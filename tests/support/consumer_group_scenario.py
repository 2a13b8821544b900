"""A scenario of consumer protocol members, sent request by request to a fresh broker: its answers and its records.

The same scenario runs on Apache Kafka (`tests/data/make_consumer_group_answers.py` keeps its answers) and on Ottla.
Values that differ from run to run are normalised: ids of topics become their names, times become "time", hashes become
"hash", messages become "said", lists without an order are sorted. An assignor may choose any partitions as long as
their number is right, so the scenario names partitions only where there is no choice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.codec import encode
from ottla.wire.message import Message, Structure
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import fetch as f
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.raw_client import RawClient

__all__ = ["SETTINGS", "play"]

SETTINGS: dict[str, str] = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "3",
    "group.initial.rebalance.delay.ms": "0",
}

_LEFT_OUT = frozenset(("throttle_time_ms",))
_TIMES = frozenset(("timestamp", "assignment_timestamp", "commit_timestamp", "current_state_timestamp", "version"))
_UNORDERED = frozenset(
    ("members", "groups", "results", "topic_partitions", "assigned_partitions", "partitions_pending_revocation")
)


def play(bootstrap: str) -> dict[str, Any]:
    """Sends all requests to a fresh broker; returns answers and records by label, as plain values."""
    player = _Player(bootstrap)
    try:
        player.prepare("one", "three", "later")
        for part in (_joining, _sharing, _static, _patterns, _offsets, _mistakes, _endings, _migration):
            part(player)
        player.records()
    finally:
        player.client.close()
    return player.answers


class _Player:
    def __init__(self, bootstrap: str) -> None:
        self.client = RawClient(bootstrap, client_id="member")
        self.answers: dict[str, Any] = {}
        self.ids: dict[str, Uuid] = {}
        self._names: dict[Uuid, str] = {}
        # The scenario's labels for member ids that the broker has generated.
        self.labels: dict[str, str] = {}

    def prepare(self, *topics: str) -> None:
        for name, count in zip(topics, (1, 3, 2), strict=True):
            if name != "later":
                self.create(name, count)
        self.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        for _ in range(1000):
            (group,) = self.client.call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                return
            # Brokers create and load the topic of committed offsets asynchronously.
            time.sleep(0.05)
        raise AssertionError(group.error_code)

    def create(self, name: str, partitions: int) -> None:
        topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        assert not self.client.call(ct.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code
        for _ in range(1000):
            metadata = self.client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0]
            if not metadata.error_code:
                break
            time.sleep(0.05)
        self.ids[name] = metadata.topic_id
        self._names[metadata.topic_id] = name

    def say(self, label: str, request: Message, version: int = 1) -> Any:
        assert label not in self.answers, f"said twice: {label}"
        answer = self.client.call(request, version)
        self.answers[label] = self.plain(answer)
        return answer

    def beat(self, label: str, member: str, epoch: int, *, version: int = 1, **fields: Any) -> Any:
        owned = fields.pop("owned", None)
        if owned is not None:
            owned = [
                TopicPartitions(topic_id=self.ids[name], partitions=list(partitions))
                for name, partitions in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group", "g"), member_id=member, member_epoch=epoch, topic_partitions=owned, **fields
        )
        return self.say(label, request, version)

    def beat_until_assigned(self, label: str, member: str, epoch: int, **fields: Any) -> None:
        """Repeats the heartbeat until the epoch changes, because coordinators learn of new topics asynchronously."""
        for _ in range(1000):
            self.answers.pop(label, None)
            if self.beat(label, member, epoch, **fields).member_epoch != epoch:
                return
            time.sleep(0.02)
        raise AssertionError(self.answers[label])

    def join(self, label: str, member: str, *topics: str, **fields: Any) -> Any:
        names = fields.pop("names", list(topics))
        return self.beat(
            label, member, 0, owned={}, rebalance_timeout_ms=60_000, subscribed_topic_names=names, **fields
        )

    def describe(self, label: str, *groups: str) -> None:
        self.say(label, ConsumerGroupDescribeRequest(group_ids=list(groups)), 1)

    def plain(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Structure):
            fields = {slot: self.plain(getattr(value, slot), slot) for slot in value.__slots__ if slot not in _LEFT_OUT}
            return {type(value).__name__: fields} if isinstance(value, Message) else fields
        if isinstance(value, Uuid):
            return self._names.get(value, bool(value))
        if isinstance(value, str) and value in self.labels:
            return self.labels[value]
        if name in ("error_message", "client_host"):
            return "said" if value else value
        if name in _TIMES:
            return "time" if value else value
        if name == "metadata_hash":
            return "hash" if value else value
        if isinstance(value, (bytes, memoryview)):
            return bytes(value).hex()
        if not isinstance(value, list):
            return value
        plain = [self.plain(element) for element in value]
        return sorted(plain, key=repr) if name in _UNORDERED else plain

    def records(self) -> None:
        """Notes all records of the topic of committed offsets in order; consecutive tombstones are sorted."""
        written: list[list[Any]] = []
        tombstones: list[list[Any]] = []
        for key, value in self._fetch_records():
            pair = [self.plain(key), self.plain(value)]
            if value is None:
                tombstones.append(pair)
            else:
                written += [*sorted(tombstones, key=repr), pair]
                tombstones.clear()
        written += sorted(tombstones, key=repr)
        self.answers |= {f"record {number}": pair for number, pair in enumerate(written)}

    def _fetch_records(self) -> Iterator[tuple[Message, Message | None]]:
        offset = 0
        while True:
            partition = f.FetchPartition(partition=0, fetch_offset=offset)
            topic = f.FetchTopic(topic="__consumer_offsets", partitions=[partition])
            request = f.FetchRequest(replica_id=-1, max_wait_ms=0, max_bytes=1 << 24, topics=[topic])
            data = self.client.call(request, 11).responses[0].partitions[0]
            assert not data.error_code
            if not data.records:
                return
            for batch in iterate_batches(bytes(data.records)):
                for record in iterate_records(batch):
                    assert record.key is not None
                    value = None if record.value is None else memoryview(record.value)
                    yield GROUP_RECORDS.decode(memoryview(record.key), value)
                offset = batch.header.next_offset


def _joining(player: _Player) -> None:
    player.join("first joins", "a", "one")
    player.beat("first says nothing", "a", 2)
    player.beat("first says what it owns", "a", 2, owned={"one": [0]})
    player.join("first joins again", "a", "one")
    player.beat(
        "first sends everything",
        "a",
        2,
        owned={"one": [0]},
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["one"],
    )
    player.beat("first wants an assignor", "a", 2, owned={"one": [0]}, server_assignor="range")
    player.describe("describe one", "g")
    player.say("list one", ListGroupsRequest(types_filter=["consumer"]), 5)
    player.say("list empty ones", ListGroupsRequest(states_filter=["Empty"]), 5)


def _sharing(player: _Player) -> None:
    player.join("second joins", "b", "one")
    player.beat("second beats", "b", 3, owned={})
    player.join("second wants more", "b", "one", "three")
    player.beat("first hears", "a", 2, owned={"one": [0]})
    player.beat("first still owns", "a", 2, owned={"one": [0]})
    player.beat("first leaves", "a", -1)
    player.beat("second gets the rest", "b", 4, owned={"three": [0, 1, 2]})
    player.beat("second has it", "b", 5, owned={"three": [0, 1, 2], "one": [0]})
    player.beat("second wants less", "b", 5, owned={"three": [0, 1, 2], "one": [0]}, subscribed_topic_names=["three"])
    player.beat("second revokes", "b", 5, owned={"three": [0, 1, 2]})
    player.beat("second is done", "b", 6, owned={"three": [0, 1, 2]})
    player.describe("describe two", "g", "nothing", "")


def _static(player: _Player) -> None:
    player.join("static joins", "s1", "one", group="static", instance_id="i", rack_id="r")
    player.join("static is taken", "s2", "one", group="static", instance_id="i")
    player.beat("static goes for a while", "s1", -2, group="static", instance_id="i")
    player.describe("describe static", "static")
    player.join("static is back", "s2", "one", group="static", instance_id="i")
    player.beat("static is fenced", "s1", 2, group="static", instance_id="i", owned={})
    player.beat("static unknown", "s1", 2, group="static", instance_id="?", owned={})
    player.beat("static leaves for good", "s2", -1, group="static", instance_id="i")


def _patterns(player: _Player) -> None:
    # No topic matches yet, so the time of the broker's lookup does not matter.
    player.join("pattern joins", "p", group="pattern", names=None, subscribed_topic_regex="none.*")
    player.join("bad pattern", "q", group="bad", names=None, subscribed_topic_regex="(")
    player.join("names and pattern", "q", "one", group="both", subscribed_topic_regex="")
    player.beat("pattern beats", "p", 1, group="pattern", owned={})
    player.describe("describe pattern", "pattern")


def _offsets(player: _Player) -> None:
    def commit(label: str, member: str, epoch: int, version: int = 9, index: int = 0) -> None:
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=5)
        topic = OffsetCommitRequestTopic(name="three", partitions=[partition])
        request = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=epoch, member_id=member, topics=[topic]
        )
        player.say(label, request, version)

    commit("commit", "b", 6)
    commit("commit at an epoch that was left", "b", 5)
    commit("commit before it was assigned", "b", 3)
    commit("commit of the future", "b", 7)
    commit("commit of a stranger", "x", 6)
    commit("commit without a member", "", -1)
    commit("commit in an old way", "b", 6, version=8)
    topics = [OffsetFetchRequestTopics(name="three", partition_indexes=[0])]
    for label, member, epoch in (("fetch", "b", 6), ("fetch late", "b", 5), ("fetch of a stranger", "x", 6)):
        group = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=topics)
        player.say(label, OffsetFetchRequest(groups=[group]), 9)
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    player.say("fetch by an administrator", OffsetFetchRequest(groups=[group]), 9)


def _mistakes(player: _Player) -> None:
    player.beat("stale", "b", 1, owned={})
    player.beat("of the future", "b", 99, owned={})
    player.beat("stranger", "x", 1, owned={})
    player.beat("no group", "x", 1, group="nothing", owned={})
    player.beat("leaves no group", "x", -1, group="nothing")
    player.beat("stranger leaves", "x", -1)
    player.beat("bad epoch", "b", -3)
    player.beat("leaves as static without being it", "b", -2)
    player.join("no member id", "", "one", group="new")
    player.join("no group id", "n", "one", group="")
    player.join("blank rack", "n", "one", group="new", rack_id="")
    player.join("unknown assignor", "n", "one", group="new", server_assignor="mine")
    player.join("no subscription", "n", group="new", names=None)
    player.beat("no timeout", "n", 0, group="new", owned={}, subscribed_topic_names=["one"])
    player.beat(
        "owns while joining",
        "n",
        0,
        group="new",
        owned={"one": [0]},
        rebalance_timeout_ms=1,
        subscribed_topic_names=["one"],
    )
    player.join("subscribes to nothing", "n", group="idle")
    player.join("subscribes to what is not there", "n", "later", group="waits")
    player.create("later", 2)
    player.beat_until_assigned("now it is there", "n", 2, group="waits", owned={})
    for number in range(3):
        player.join(f"member {number} of a full group", f"m{number}", "one", group="full", names=[])
    player.join("one too many", "m3", "one", group="full", names=[])
    player.say("delete while somebody is there", DeleteGroupsRequest(groups_names=["full"]), 2)


def _endings(player: _Player) -> None:
    player.beat("last leaves", "b", -1)
    player.describe("describe empty", "g")
    player.say("delete", DeleteGroupsRequest(groups_names=["g"]), 2)
    player.say("delete another", DeleteGroupsRequest(groups_names=["static"]), 2)
    player.describe("describe deleted", "g")


class _Classic:
    """A static member of the classic protocol, which gets a new member id whenever it joins without an id."""

    def __init__(self, player: _Player, name: str) -> None:
        self.player = player
        self.name = name
        self.member_id = ""
        self.generation = -1

    def join(self, label: str, *topics: str, owned: dict[str, list[int]] | None = None) -> None:
        subscription = ConsumerProtocolSubscription(
            topics=list(topics),
            owned_partitions=[
                TopicPartition(topic=topic, partitions=partitions) for topic, partitions in (owned or {}).items()
            ],
        )
        request = JoinGroupRequest(
            group_id="moves",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            group_instance_id=self.name,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01" + encode(subscription, 1))],
        )
        answer = self.player.client.call(request, 9)
        if answer.member_id and answer.member_id not in self.player.labels:
            self.player.labels[answer.member_id] = f"id {len(self.player.labels) + 1} of {self.name}"
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.player.answers[label] = self.player.plain(answer)

    def sync(self, label: str, **assigned: list[int]) -> None:
        assignments = []
        if assigned:
            message = ConsumerProtocolAssignment(
                assigned_partitions=[
                    TopicPartition(topic=topic, partitions=partitions) for topic, partitions in assigned.items()
                ]
            )
            data = b"\x00\x01" + encode(message, 1)
            assignments = [SyncGroupRequestAssignment(member_id=self.member_id, assignment=data)]
        request = SyncGroupRequest(
            group_id="moves",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.name,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self.player.say(label, request, 5)

    def beat(self, label: str) -> None:
        request = HeartbeatRequest(
            group_id="moves",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.name,
        )
        self.player.say(label, request, 4)


def _migration(player: _Player) -> None:
    """A classic group is upgraded by a member of the new protocol, and downgraded by its leave and by replacement."""
    old = _Classic(player, "old")
    old.join("classic joins", "three")
    old.sync("classic syncs", three=[0, 1, 2])
    old.beat("classic beats")
    player.describe("describe a classic group", "moves")
    player.join("upgrade", "new", "three", group="moves")
    player.describe("describe both", "moves")
    old.beat("classic hears of it")
    old.join("classic joins again", "three", owned={"three": [0, 1, 2]})
    old.sync("classic is given less")
    old.beat("classic has to join once more")
    old.join("classic has revoked", "three", owned={"three": [0, 1]})
    old.sync("classic has what it keeps")
    old.beat("classic is in step")
    player.say("list while both are there", ListGroupsRequest(types_filter=["consumer"]), 5)
    player.beat("new leaves", "new", -1, group="moves")
    player.say("list after the downgrade", ListGroupsRequest(types_filter=["classic"]), 5)
    old.beat("classic hears of the downgrade")
    old.join("classic joins the classic group", "three", owned={"three": [0, 1]})
    old.sync("classic leads again", three=[0, 1, 2])
    player.join("replaced by the new protocol", "new2", "three", group="moves", instance_id="old")
    old.beat("classic is replaced")
    again = _Classic(player, "old")
    again.join("replaced by the classic protocol", "three")
    again.sync("has what the other had")
    again.beat("goes on")
    player.beat("new is replaced", "new2", 99, group="moves", owned={})
