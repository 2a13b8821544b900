"""Whole replicas (machine, log, files) in one virtual world, with the protocol's bytes between them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.quorum import events as e
from ottla.quorum.description import describe_quorum
from ottla.quorum.errors import MetadataLogFailedError, NotLeaderError
from ottla.quorum.local_log import MetadataLogSettings
from ottla.quorum.quorum_state import read_quorum_state
from ottla.quorum.raft_node import RaftNode, RaftNodeSettings
from ottla.quorum.roles import Role
from ottla.quorum.voter_log import VoterLog
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.records.control import ControlType
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode, encode
from ottla.wire.message import Message
from ottla.wire.messages import add_raft_voter as a
from ottla.wire.messages import fetch as f
from ottla.wire.messages import remove_raft_voter as r
from ottla.wire.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from ottla.wire.messages.control_records import LeaderChangeMessage
from ottla.wire.peers import Endpoint, Peers, PeerUnreachable
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld


def endpoint(node_id: int) -> Endpoint:
    return Endpoint("node", node_id)


class Quorum:
    """Replicas by node id; messages pass between running replicas unless the test drops them."""

    def __init__(self, count: int, *, voters: int | None = None, seed: int = 1) -> None:
        self.files = MemoryFiles()
        self.virtual = VirtualWorld(immediate_workers=True, files=self.files, seed=seed)
        self.voters = VoterSet(
            Voter(ReplicaKey(node_id), (("C", endpoint(node_id)),)) for node_id in range(1, (voters or count) + 1)
        )
        self.replicas: dict[int, RaftNode] = {}
        self.cut_off: set[int] = set()
        self.leading: list[tuple[str, int]] = []
        for node_id in range(1, count + 1):
            self.files.make_directories(f"/{node_id}")
            self.start(node_id)

    def start(self, node_id: int) -> RaftNode:
        log = VoterLog.open(
            world=self.virtual.world,
            metadata_log_dir=f"/{node_id}",
            node_id=node_id,
            directory_id=Uuid(bytes([node_id]) * 16),
            configured_voters=self.voters,
            settings=MetadataLogSettings(retention_bytes=0),
        )
        replica = RaftNode(
            world=self.virtual.world,
            log=log,
            cluster_id="ours",
            peers=_Peers(self, node_id),
            settings=RaftNodeSettings(listeners=(("C", endpoint(node_id)),), bootstrap=(endpoint(1), endpoint(2))),
        )
        replica.on_leading = lambda: self.leading.append(("leads", node_id))
        replica.on_resigned = lambda: self.leading.append(("resigned", node_id))
        self.replicas[node_id] = replica
        replica.start()
        return replica

    def stop(self, node_id: int) -> None:
        replica = self.replicas.pop(node_id)
        replica.close()
        replica.log.close()

    def run(self, ms: int) -> None:
        self.virtual.scheduler.advance(ms)

    def leader(self) -> RaftNode:
        leaders = [replica for replica in self.replicas.values() if replica.is_leading]
        return max(leaders, key=lambda replica: replica.machine.epoch)

    def followers(self) -> list[RaftNode]:
        return [replica for replica in self.replicas.values() if not replica.machine.is_leader]

    def append(self, value: bytes) -> int:
        committed = self.leader().log.append([value])
        self.run(100)
        return committed.result()


class _Peers:
    def __init__(self, quorum: Quorum, node_id: int) -> None:
        self._quorum = quorum
        self._node_id = node_id

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        answer: Deferred[Message] = Deferred()
        self._quorum.virtual.scheduler.call_later(0.001, self._deliver, endpoint.port, request, answer, timeout_ms)
        return answer

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None: ...

    def _deliver(self, target: int, request: Message, answer: Deferred[Message], timeout_ms: int) -> None:
        quorum = self._quorum
        if self._node_id in quorum.cut_off or target in quorum.cut_off:
            quorum.virtual.scheduler.call_later(timeout_ms / 1000, self._fail, answer)
            return
        replica = quorum.replicas.get(target)
        if replica is None:
            self._fail(answer)
            return
        spec = API_SPECS[ApiKey(request.API_KEY)]
        version = spec.request_max_version
        received = decode(spec.request_class, memoryview(encode(request, version)), version)[0]

        def respond(response: Any) -> None:
            if self._node_id in quorum.cut_off or target in quorum.cut_off:
                quorum.virtual.scheduler.call_later(timeout_ms / 1000, self._fail, answer)
                return
            for topic in getattr(response, "responses", ()):
                for partition in topic.partitions:
                    partition.records = (
                        partition.records.read() if hasattr(partition.records, "read") else partition.records
                    )
            frame = memoryview(bytearray(encode(response, version)))
            if not answer.done:
                answer.resolve(decode(spec.response_class, frame, version)[0])

        try:
            response = _served(replica, received, version)
        except MetadataLogFailedError:
            # The node's disk is full: the node stops without an answer.
            self._fail(answer)
            return
        if isinstance(response, Deferred):
            response.when_done(lambda done: respond(done.result()))
        else:
            respond(response)

    def _fail(self, answer: Deferred[Message]) -> None:
        if not answer.done:
            answer.fail(PeerUnreachable("away"))


def peers_of(quorum: Quorum, node_id: int) -> Peers:
    """The lines from one node to the others."""
    return _Peers(quorum, node_id)


def _served(replica: RaftNode, request: Any, version: int) -> Any:
    if isinstance(request, f.FetchRequest):
        assert request.replica_state is not None
        return replica.leader.fetch(request, replica_id=request.replica_state.replica_id, api_version=version)
    name = type(request).__name__
    if name == "FetchSnapshotRequest":
        return replica.leader.fetch_snapshot(request)
    if name == "VoteRequest":
        return replica.elections.vote(request, api_version=version)
    if name == "BeginQuorumEpochRequest":
        return replica.elections.begin_epoch(request, api_version=version)
    if name == "EndQuorumEpochRequest":
        return replica.elections.end_epoch(request, api_version=version)
    assert name == "ApiVersionsRequest"
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return ApiVersionsResponse(supported_features=[feature])


def values(log: VoterLog) -> list[bytes]:
    return [bytes(value) for batch in log.committed_batches(0) for value in batch.values]


def roles(quorum: Quorum) -> list[Role]:
    return sorted((replica.machine.role for replica in quorum.replicas.values()), key=lambda role: role.value)


def test_one_of_three_is_elected_and_what_it_appends_is_everywhere() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    assert roles(quorum) == [Role.FOLLOWER, Role.FOLLOWER, Role.LEADER]
    assert quorum.append(b"one") == 1
    quorum.run(100)
    assert {tuple(values(replica.log)) for replica in quorum.replicas.values()} == {(b"one",)}
    states = [read_quorum_state(quorum.files, replica.log.directory) for replica in quorum.replicas.values()]
    assert {(state.leader_id, state.leader_epoch) for state in states if state} == {(quorum.leader().own.node_id, 1)}


def test_another_takes_over_long_before_the_fetch_timeout_when_the_leader_is_gone() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    quorum.append(b"one")
    first = quorum.leader().own.node_id
    quorum.stop(first)
    quorum.run(1000)
    assert quorum.leader().own.node_id != first
    quorum.append(b"two")
    quorum.start(first)
    quorum.run(1000)
    assert {tuple(values(replica.log)) for replica in quorum.replicas.values()} == {(b"one", b"two")}
    assert quorum.leading == [("leads", first), ("leads", quorum.leader().own.node_id)]


def test_a_leader_that_reaches_no_voter_resigns_and_its_entries_are_not_committed() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    quorum.append(b"one")
    old = quorum.leader()
    quorum.cut_off = {old.own.node_id}
    lost = old.log.append([b"lost"])
    quorum.run(8000)
    assert isinstance(lost.error, NotLeaderError)
    assert not old.is_leading
    assert quorum.append(b"two") == 3
    quorum.cut_off = set()
    quorum.run(4000)
    assert {tuple(values(replica.log)) for replica in quorum.replicas.values()} == {(b"one", b"two")}
    assert ("resigned", old.own.node_id) in quorum.leading


def test_a_leader_that_stops_in_good_order_is_followed_at_once() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    old = quorum.leader()
    old.resign()
    quorum.run(100)
    assert quorum.leader() is not old


def test_a_voter_that_was_cut_off_does_not_disturb_the_leader_when_it_is_back() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    leader = quorum.leader()
    quorum.cut_off = {quorum.followers()[0].own.node_id}
    quorum.run(20_000)
    quorum.cut_off = set()
    quorum.run(3000)
    assert quorum.leader() is leader
    assert {replica.machine.epoch for replica in quorum.replicas.values()} == {1}


def test_nothing_is_committed_without_a_majority() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    leader = quorum.leader()
    for follower in quorum.followers():
        quorum.stop(follower.own.node_id)
    pending = leader.log.append([b"alone"])
    quorum.run(500)
    assert not pending.done
    assert values(leader.log) == []


def test_a_voter_sends_a_fetch_only_when_its_log_is_on_disk() -> None:
    """A fetch acknowledges everything before its offset, so a power loss must not take any of it."""
    quorum = Quorum(3)
    quorum.run(1000)
    follower = next(replica for replica in quorum.replicas.values() if replica.machine.role is Role.FOLLOWER)
    sent: list[Message] = []
    peers = follower._peers
    assert peers is not None
    peers.send = lambda _endpoint, request, **_: sent.append(request) or Deferred()  # type: ignore[method-assign]
    follower.log.synced_offset -= 1
    follower._do_fetch(e.Fetch(fetch_id=99, leader_id=follower.machine.leader_id, epoch=follower.machine.epoch))
    assert sent == []
    follower.log.synced_offset += 1
    follower._on_synced()
    assert [type(request) for request in sent] == [f.FetchRequest]


def test_a_replica_that_is_far_behind_gets_a_snapshot() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    behind = quorum.followers()[0].own.node_id
    quorum.stop(behind)
    for number in range(3):
        quorum.append(b"entry %d" % number)
        for replica in quorum.replicas.values():
            quorum.run(100)
            log = replica.log
            log.write_snapshot(end_offset=log.committed_offset, epoch=1, values=[b"all"], last_contained_timestamp_ms=0)
            log._journal.roll()
            log._delete_obsolete(quorum.virtual.clock.now_ms())
    assert quorum.leader().log.start_offset > 0
    replica = quorum.start(behind)
    quorum.run(2000)
    snapshot = replica.log.latest_snapshot()
    assert snapshot is not None
    assert [bytes(value) for value in snapshot[1].values] == [b"all"]
    quorum.append(b"after")
    quorum.run(100)
    assert replica.log.end_offset == quorum.leader().log.end_offset


# -- changing voters --------------------------------------------------------------------------------------------------


def upgraded(count: int, *, seed: int = 1, voters: int | None = None) -> Quorum:
    quorum = Quorum(count, seed=seed, voters=voters)
    quorum.run(1000)
    done = quorum.leader().reconfiguration.upgrade(1, validate_only=False)
    quorum.run(200)
    assert done.error is None
    return quorum


@pytest.mark.parametrize("seed", range(6))
def test_voters_are_removed_one_after_the_other_the_leader_included(seed: int) -> None:
    quorum = upgraded(3, seed=seed)
    for remaining in (2, 1):
        leader = quorum.leader()
        victim = quorum.virtual.random.choice(list(leader.log.voters))
        request = r.RemoveRaftVoterRequest(
            cluster_id="ours", voter_id=victim.key.node_id, voter_directory_id=victim.key.directory_id
        )
        answer = leader.reconfiguration.remove_voter(request)
        quorum.run(6000)
        assert answer.result().error_code == ErrorCode.NONE
        assert len(quorum.leader().log.voters) == remaining
        assert victim.key.node_id not in quorum.leader().log.voters.ids
        quorum.append(b"entry")
    quorum.run(1000)
    assert {tuple(values(replica.log)) for replica in quorum.replicas.values()} == {(b"entry", b"entry")}
    described = describe_quorum(quorum.leader())
    assert described is not None
    assert len(described.observers) == 2


def test_a_voter_is_added_once_it_has_caught_up() -> None:
    quorum = upgraded(3, voters=2)
    leader = quorum.leader()
    new = a.AddRaftVoterRequest(
        cluster_id="ours",
        timeout_ms=1000,
        voter_id=3,
        voter_directory_id=Uuid(bytes([3]) * 16),
        listeners=[a.Listener(name="C", host="node", port=3)],
    )
    answer = leader.reconfiguration.add_voter(new)
    quorum.run(1000)
    assert answer.result().error_code == ErrorCode.NONE
    assert leader.log.voter_ids == (1, 2, 3)
    assert leader.reconfiguration.add_voter(new).result().error_code == ErrorCode.DUPLICATE_VOTER
    quorum.stop(next(follower.own.node_id for follower in quorum.followers()))
    quorum.append(b"two of three are enough")


def test_a_change_of_the_leader_is_written_as_apache_kafka_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In version 0, also if voters have directories: Apache Kafka reads no other version."""
    written: list[bytes] = []
    append_control = VoterLog.append_control

    def noted(log: VoterLog, records: Any) -> Any:
        written.extend(value for kind, value in records if kind is ControlType.LEADER_CHANGE)
        return append_control(log, records)

    quorum = upgraded(3)
    monkeypatch.setattr(VoterLog, "append_control", noted)
    quorum.stop(quorum.leader().own.node_id)
    quorum.run(5000)
    message, _ = decode(LeaderChangeMessage, memoryview(written[-1]), 0)
    assert (message.version, message.leader_id) == (0, quorum.leader().own.node_id)
    assert [voter.voter_id for voter in message.voters] == [1, 2, 3]


def test_without_kraft_version_1_voters_do_not_change() -> None:
    quorum = Quorum(3)
    quorum.run(500)
    refused = (
        quorum.leader().reconfiguration.remove_voter(r.RemoveRaftVoterRequest(cluster_id="ours", voter_id=1)).result()
    )
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    elsewhere = (
        quorum.followers()[0]
        .reconfiguration.remove_voter(r.RemoveRaftVoterRequest(cluster_id="ours", voter_id=1))
        .result()
    )
    assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_voters_and_version_survive_a_restart_of_all() -> None:
    quorum = upgraded(3)
    for node_id in (1, 2, 3):
        quorum.stop(node_id)
    for node_id in (1, 2, 3):
        quorum.start(node_id)
    quorum.run(1000)
    log = quorum.leader().log
    assert log.kraft_version == 1
    assert {voter.key.directory_id for voter in log.voters} == {Uuid(bytes([number]) * 16) for number in (1, 2, 3)}
    state = read_quorum_state(quorum.files, log.directory)
    assert state is not None
    assert state.data_version == 1
