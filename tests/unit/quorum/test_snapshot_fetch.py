"""A voter that fetches a snapshot while leaders change."""

from __future__ import annotations

import errno

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.quorum import events as e
from ottla.quorum.raft_node import RaftNode, RaftNodeSettings
from ottla.quorum.snapshots import SnapshotId, snapshot_bytes
from ottla.quorum.voter_log import VoterLog
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.message import Message
from ottla.wire.messages import fetch as f
from ottla.wire.messages import fetch_snapshot as s
from ottla.wire.peers import Endpoint, PeerUnreachable
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualScheduler, VirtualWorkers, VirtualWorld

SNAPSHOT = SnapshotId(7, 3)
CONTENT = b"".join(
    bytes(batch) for batch in snapshot_bytes([b"a", b"b"], epoch=3, timestamp_ms=1, last_contained_timestamp_ms=1)
)


class HeldPeers:
    """Holds requests until the test answers them."""

    def __init__(self) -> None:
        self.held: list[tuple[int, Message, Deferred[Message]]] = []

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        answer: Deferred[Message] = Deferred()
        self.held.append((endpoint.port, request, answer))
        return answer

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None: ...

    def take(self, node_id: int, kind: type[Message]) -> Deferred[Message]:
        first = next(message for message in self.held if message[0] == node_id and isinstance(message[1], kind))
        self.held.remove(first)
        return first[2]


def a_voter() -> tuple[RaftNode, HeldPeers]:
    files = MemoryFiles()
    files.make_directories("/1")
    virtual = VirtualWorld(immediate_workers=True, files=files)
    voters = VoterSet(Voter(ReplicaKey(node_id), (("C", Endpoint("node", node_id)),)) for node_id in (1, 2, 3))
    log = VoterLog.open(
        world=virtual.world,
        metadata_log_dir="/1",
        node_id=1,
        directory_id=Uuid(bytes([1]) * 16),
        configured_voters=voters,
    )
    peers = HeldPeers()
    settings = RaftNodeSettings(listeners=(("C", Endpoint("node", 1)),))
    replica = RaftNode(world=virtual.world, log=log, cluster_id="ours", peers=peers, settings=settings)
    replica.start()
    return replica, peers


def sent_to_snapshot(*, leader_id: int, epoch: int) -> f.FetchResponse:
    data = f.PartitionData(
        partition_index=0,
        high_watermark=-1,
        current_leader=f.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        snapshot_id=f.SnapshotId(end_offset=SNAPSHOT.end_offset, epoch=SNAPSHOT.epoch),
        records=b"",
    )
    return f.FetchResponse(responses=[f.FetchableTopicResponse(topic="__cluster_metadata", partitions=[data])])


def whole_snapshot(*, leader_id: int, epoch: int) -> s.FetchSnapshotResponse:
    piece = s.ResponsePartitionSnapshot(
        index=0,
        snapshot_id=s.SnapshotId(end_offset=SNAPSHOT.end_offset, epoch=SNAPSHOT.epoch),
        current_leader=s.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        size=len(CONTENT),
        position=0,
        unaligned_records=CONTENT,
    )
    return s.FetchSnapshotResponse(topics=[s.ResponseTopicSnapshot(name="__cluster_metadata", partitions=[piece])])


def test_a_leader_that_no_longer_answers_does_not_spoil_the_snapshot_of_the_next() -> None:
    replica, peers = a_voter()
    fetches = []
    for leader_id, epoch in ((2, 5), (3, 6)):
        replica.step(e.BeginEpochRequested(leader_id=leader_id, epoch=epoch, voter=None))
        peers.take(leader_id, f.FetchRequest).resolve(sent_to_snapshot(leader_id=leader_id, epoch=epoch))
        fetches.append(peers.take(leader_id, s.FetchSnapshotRequest))
    former, present = fetches
    former.fail(PeerUnreachable("no answer in time"))
    present.resolve(whole_snapshot(leader_id=3, epoch=6))
    assert (replica.log.start_offset, replica.log.end_offset, replica.log.last_epoch) == (7, 7, 3)
    # And goes on from there.
    assert not peers.take(3, f.FetchRequest).done


def fetched_by(replica: RaftNode, peers: HeldPeers) -> None:
    """The whole snapshot of leader 2 has arrived."""
    replica.step(e.BeginEpochRequested(leader_id=2, epoch=5, voter=None))
    peers.take(2, f.FetchRequest).resolve(sent_to_snapshot(leader_id=2, epoch=5))
    peers.take(2, s.FetchSnapshotRequest).resolve(whole_snapshot(leader_id=2, epoch=5))


def snapshot_files(replica: RaftNode) -> list[str]:
    names = replica._world.files.list_directory(replica.log.directory)
    return [name for name in names if ".checkpoint" in name]


def test_a_worker_checks_a_snapshot_before_it_replaces_the_log() -> None:
    replica, peers = a_voter()
    workers = replica._world.workers
    assert isinstance(workers, VirtualWorkers)
    workers.immediate = False
    fetched_by(replica, peers)
    assert replica.log.start_offset == 0
    assert not any(isinstance(request, f.FetchRequest) for _, request, _ in peers.held)
    workers.run_all()
    assert (replica.log.start_offset, replica.log.end_offset, replica.log.last_epoch) == (7, 7, 3)
    assert not peers.take(2, f.FetchRequest).done


def test_a_snapshot_of_a_former_leader_is_dropped_after_its_check() -> None:
    replica, peers = a_voter()
    workers = replica._world.workers
    assert isinstance(workers, VirtualWorkers)
    workers.immediate = False
    fetched_by(replica, peers)
    replica.step(e.BeginEpochRequested(leader_id=3, epoch=6, voter=None))
    workers.run_all()
    assert (replica.log.start_offset, replica.log.end_offset) == (0, 0)
    assert not snapshot_files(replica)
    # The next leader is asked, and its snapshot is taken.
    peers.take(3, f.FetchRequest).resolve(sent_to_snapshot(leader_id=3, epoch=6))
    peers.take(3, s.FetchSnapshotRequest).resolve(whole_snapshot(leader_id=3, epoch=6))
    workers.run_all()
    assert replica.log.start_offset == 7


def test_the_next_leader_sends_the_same_snapshot_while_the_first_is_checked() -> None:
    replica, peers = a_voter()
    workers = replica._world.workers
    assert isinstance(workers, VirtualWorkers)
    workers.immediate = False
    fetched_by(replica, peers)
    replica.step(e.BeginEpochRequested(leader_id=3, epoch=6, voter=None))
    peers.take(3, f.FetchRequest).resolve(sent_to_snapshot(leader_id=3, epoch=6))
    fetch = peers.take(3, s.FetchSnapshotRequest)
    workers.run_all()
    assert replica.log.start_offset == 0
    fetch.resolve(whole_snapshot(leader_id=3, epoch=6))
    workers.run_all()
    assert (replica.log.start_offset, replica.log.last_epoch) == (7, 3)


def test_a_node_that_stops_while_a_snapshot_is_checked_keeps_its_log() -> None:
    replica, peers = a_voter()
    workers = replica._world.workers
    assert isinstance(workers, VirtualWorkers)
    workers.immediate = False
    fetched_by(replica, peers)
    replica.close()
    replica.log.close()
    workers.run_all()
    assert (replica.log.start_offset, replica.log.end_offset) == (0, 0)
    assert not snapshot_files(replica)


def test_a_log_that_cannot_be_read_after_its_snapshot_is_fetched_on() -> None:
    """The reader of the log tries again by itself; the quorum goes on from the snapshot, which is durable."""
    replica, peers = a_voter()

    def fail() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    replica.log.on_replaced = fail
    fetched_by(replica, peers)
    assert replica.log.synced_offset == replica.log.end_offset == 7
    scheduler = replica._world.scheduler
    assert isinstance(scheduler, VirtualScheduler)
    scheduler.advance(1_000)
    assert not peers.take(2, f.FetchRequest).done
