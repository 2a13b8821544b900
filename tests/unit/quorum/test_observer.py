"""An observer and the leader it follows, in one virtual world, with the protocol's bytes between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.quorum.description import ReplicaDescription, describe_quorum
from ottla.quorum.leader import QuorumLeader
from ottla.quorum.log import MetadataLogSettings
from ottla.quorum.observer import ControllerAddresses, MetadataObserver, ObserverSettings
from ottla.quorum.observer_log import ObserverLog
from ottla.quorum.voter_log import VoterLog
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode, encode
from ottla.wire.message import Message
from ottla.wire.messages import fetch as f
from ottla.wire.messages import fetch_snapshot as s
from ottla.wire.peers import Endpoint, PeerUnreachable
from tests.support.files import MemoryFiles
from tests.support.quorum import start_single_voter
from tests.support.virtual_world import VirtualWorld

LEADER = Endpoint("leader", 1)
UNREACHABLE = Endpoint("nobody", 2)
DIRECTORY_ID = Uuid(bytes(range(16)))
COPY = "/observer/__cluster_metadata-0"


class Cluster:
    """A leader's log, an observer's log, and a network on which the test may change messages."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        for directory in ("/leader", "/observer"):
            self.files.make_directories(directory)
        self.virtual = VirtualWorld(immediate_workers=True, files=self.files)
        self.leader: QuorumLeader | None = None
        self.settings = MetadataLogSettings()
        self.requests: list[Message] = []
        self.change: Callable[[Any], Any] = lambda response: response
        # Whether the leader is of a release that does not look at the observer's high watermark (before KIP-1166).
        self.leader_is_old = False
        self.replaced: list[int] = []
        self.fatal: list[str] = []

    # -- the leader ---------------------------------------------------------------------------------------------------

    def start_leader(self) -> VoterLog:
        self.replica = start_single_voter(
            world=self.virtual.world, metadata_log_dir="/leader", node_id=1, settings=self.settings
        )
        self.leader = self.replica.leader
        return self.replica.log

    # -- the network, as `Peers` --------------------------------------------------------------------------------------

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        assert (purpose, version_max) == ("metadata", 32767)
        assert timeout_ms > 500
        self.requests.append(request)
        answer: Deferred[Message] = Deferred()
        self.virtual.scheduler.call_soon(self._deliver, endpoint, request, answer)
        return answer

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        raise AssertionError("an observer keeps its connection")

    def _deliver(self, endpoint: Endpoint, request: Message, answer: Deferred[Message]) -> None:
        leader = self.leader
        if leader is None or endpoint != LEADER:
            answer.fail(PeerUnreachable(f"{endpoint}: away"))
            return
        spec = API_SPECS[ApiKey(request.API_KEY)]
        version = spec.request_max_version
        received = decode(spec.request_class, memoryview(encode(request, version)), version)[0]

        def respond(response: Any) -> None:
            frame = memoryview(bytearray(encode(self.change(response), version)))
            if not answer.done:
                answer.resolve(decode(spec.response_class, frame, version)[0])

        if isinstance(received, f.FetchRequest):
            if self.leader_is_old:
                received.topics[0].partitions[0].high_watermark = 1 << 62
            assert received.replica_state is not None
            response = leader.fetch(received, replica_id=received.replica_state.replica_id)
            if isinstance(response, Deferred):
                response.when_done(lambda done: respond(done.result()))
                return
        else:
            assert isinstance(received, s.FetchSnapshotRequest)
            response = leader.fetch_snapshot(received)
        respond(response)

    # -- the observer -------------------------------------------------------------------------------------------------

    def start_observer(
        self, *, endpoints: tuple[Endpoint, ...] = (LEADER,), settings: ObserverSettings | None = None
    ) -> tuple[MetadataObserver, ObserverLog]:
        log = ObserverLog.open(
            world=self.virtual.world, metadata_log_dir="/observer", node_id=2, directory_id=DIRECTORY_ID
        )
        observer = MetadataObserver(
            world=self.virtual.world,
            peers=self,
            log=log,
            controllers=ControllerAddresses(endpoints),
            cluster_id="ours",
            settings=settings,
        )
        log.on_replaced = lambda: self.replaced.append(log.committed_offset)
        observer.on_fatal = lambda error: self.fatal.append(str(error))
        observer.start()
        self.run()
        return observer, log

    def run(self, ms: int = 0) -> None:
        self.virtual.scheduler.advance(ms)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def observers_of(cluster: Cluster) -> list[ReplicaDescription]:
    described = describe_quorum(cluster.replica)
    assert described is not None
    return described.observers


def entries(log: Any, from_offset: int = 0) -> list[tuple[int, int, list[bytes]]]:
    return [
        (batch.base_offset, batch.epoch, [bytes(value) for value in batch.values])
        for batch in log.committed_batches(from_offset)
    ]


def test_what_the_leader_commits_arrives_byte_for_byte(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    leading.append([b"one", b"two"])
    observer, log = cluster.start_observer()
    assert observer.caught_up.done
    committed_offsets: list[int] = []
    log.on_committed.append(lambda: committed_offsets.append(log.committed_offset))
    leading.append([b"three"])
    cluster.run()
    assert entries(log) == entries(leading) == [(0, 1, []), (1, 1, [b"one", b"two"]), (3, 1, [b"three"])]
    assert committed_offsets == [4]
    assert (log.leader_id, log.leader_epoch) == (1, 1)
    segment = "/__cluster_metadata-0/00000000000000000000.log"
    assert cluster.files.read_bytes("/observer" + segment) == cluster.files.read_bytes("/leader" + segment)


def test_nothing_is_given_out_before_it_is_durable(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    _, log = cluster.start_observer()
    cluster.virtual.workers.immediate = False
    leading.append([b"not yet"])
    cluster.run(5000)
    assert log.end_offset == 1
    cluster.virtual.workers.run_all()
    cluster.run()
    assert log.committed_offset == 2


def test_a_long_log_comes_in_pieces_and_only_what_is_here_counts(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    for number in range(10):
        leading.append([b"entry %d" % number])
    committed: list[tuple[int, int]] = []
    ObserverLog.open(world=cluster.virtual.world, metadata_log_dir="/observer", node_id=2).close()
    original = ObserverLog._tell_committed
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            ObserverLog,
            "_tell_committed",
            lambda log: (committed.append((log.committed_offset, log.end_offset)), original(log)),
        )
        observer, log = cluster.start_observer(settings=ObserverSettings(fetch_bytes_max=1))
    assert committed == [(offset, offset) for offset in range(1, 12)]
    assert observer.caught_up.done
    assert entries(log) == entries(leading)


def test_entries_beyond_the_high_watermark_are_kept_but_not_announced(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    leading.append([b"one"])
    leading.append([b"two"])

    def hide(response: Any) -> Any:
        response.responses[0].partitions[0].high_watermark = 2
        return response

    cluster.change = hide
    cluster.leader_is_old = True
    _, log = cluster.start_observer()
    assert (log.end_offset, log.committed_offset) == (3, 2)
    assert entries(log) == [(0, 1, []), (1, 1, [b"one"])]
    cluster.change = lambda response: response
    cluster.run(1000)
    assert entries(log) == entries(leading)


def test_an_idle_observer_asks_twice_a_second(cluster: Cluster) -> None:
    cluster.start_leader()
    cluster.start_observer()
    request_count = len(cluster.requests)
    cluster.run(10_000)
    assert len(cluster.requests) - request_count == 20


def test_an_observer_that_has_everything_hears_so_at_once(cluster: Cluster) -> None:
    cluster.start_leader()
    observer, log = cluster.start_observer()
    observer.close()
    log.close()
    again, _ = cluster.start_observer()
    assert again.caught_up.done


def test_an_observer_goes_on_where_it_stopped(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    leading.append([b"one"])
    observer, log = cluster.start_observer()
    observer.close()
    log.close()
    leading.append([b"two"])
    cluster.requests.clear()
    _, again = cluster.start_observer()
    first = cluster.requests[0]
    assert isinstance(first, f.FetchRequest)
    fetch_partition = first.topics[0].partitions[0]
    assert (fetch_partition.fetch_offset, fetch_partition.last_fetched_epoch, fetch_partition.replica_directory_id) == (
        2,
        1,
        DIRECTORY_ID,
    )
    assert entries(again) == entries(leading)


def test_a_leader_that_is_away_is_asked_less_and_less_often_and_found_again(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    leader = cluster.leader
    _, log = cluster.start_observer()
    cluster.leader = None
    cluster.run(600)
    request_count = len(cluster.requests)
    cluster.run(60_000)
    assert 55 <= len(cluster.requests) - request_count <= 75
    leading.append([b"meanwhile"])
    assert log.committed_offset == 1
    cluster.leader = leader
    cluster.run(1000)
    assert entries(log) == entries(leading)


def test_the_next_address_is_tried_when_one_does_not_answer(cluster: Cluster) -> None:
    cluster.start_leader()
    observer, _ = cluster.start_observer(endpoints=(UNREACHABLE, LEADER))
    cluster.run(100)
    assert observer.caught_up.done


def test_a_new_epoch_is_followed(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    _, log = cluster.start_observer()
    leading.close()
    cluster.leader = None
    cluster.run(600)
    leading = cluster.start_leader()
    leading.append([b"of the second epoch"])
    cluster.run(1000)
    assert log.leader_epoch == 2
    assert entries(log) == entries(leading) == [(0, 1, []), (1, 2, []), (2, 2, [b"of the second epoch"])]


def test_what_the_leader_does_not_have_is_cut_off(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    leading.append([b"kept"])
    observer, log = cluster.start_observer()
    leading.append([b"lost", b"with the disk"])
    cluster.run()
    observer.close()
    log.close()
    # The leader's disk gives back an older state: the observer has more than the leader ever had in that epoch.
    path = "/leader/__cluster_metadata-0/00000000000000000000.log"
    size = cluster.files.size_of(path)
    leading.close()
    with_tail = cluster.files.open(path)
    with_tail.truncate(size - 1)
    with_tail.close()
    leading = cluster.start_leader()
    leading.append([b"another"])
    _, log = cluster.start_observer()
    assert cluster.replaced == [2]
    assert entries(log) == entries(leading) == [(0, 1, []), (1, 1, [b"kept"]), (2, 2, []), (3, 2, [b"another"])]


def test_an_observer_asks_for_nothing_while_a_worker_checks_a_snapshot(cluster: Cluster) -> None:
    cluster.settings = MetadataLogSettings(segment_bytes=1, retention_bytes=1)
    leading = cluster.start_leader()
    for number in range(20):
        leading.append([b"entry %d" % number])
        if number in (8, 16):
            leading.write_snapshot(
                end_offset=leading.committed_offset, epoch=1, values=[b"state"], last_contained_timestamp_ms=5
            )
    cluster.virtual.workers.immediate = False
    observer, log = cluster.start_observer()
    request_count = len(cluster.requests)
    assert isinstance(cluster.requests[-1], s.FetchSnapshotRequest)
    cluster.run(5000)
    assert (len(cluster.requests), log.start_offset, cluster.replaced) == (request_count, 0, [])
    cluster.virtual.workers.run_all()
    cluster.run()
    assert (log.start_offset, cluster.replaced) == (18, [18])
    assert observer.caught_up.done
    assert entries(log, 18) == entries(leading, 18)


def test_an_observer_behind_the_log_begins_with_a_snapshot(cluster: Cluster) -> None:
    cluster.settings = MetadataLogSettings(segment_bytes=1, retention_bytes=1)
    leading = cluster.start_leader()
    for number in range(20):
        leading.append([b"entry %d" % number])
        if number in (8, 16):
            leading.write_snapshot(
                end_offset=leading.committed_offset,
                epoch=1,
                values=[b"state %d" % index for index in range(100)],
                last_contained_timestamp_ms=5,
            )
    assert leading.start_offset > 0
    observer, log = cluster.start_observer(settings=ObserverSettings(snapshot_bytes_max=100))
    assert observer.caught_up.done
    assert sum(isinstance(request, s.FetchSnapshotRequest) for request in cluster.requests) > 10
    identity, snapshot = log.latest_snapshot() or pytest.fail("no snapshot")
    assert (identity.end_offset, identity.epoch) == (18, 1)
    assert [bytes(value) for value in snapshot.values] == [b"state %d" % index for index in range(100)]
    assert log.start_offset == 18
    assert entries(log, 18) == entries(leading, 18)
    assert cluster.replaced == [18]
    # It is a sound beginning for the next start, too.
    observer.close()
    log.close()
    cluster.replaced.clear()
    again, log = cluster.start_observer()
    assert again.caught_up.done
    assert cluster.replaced == []
    assert entries(log, 18) == entries(leading, 18)


def test_damaged_bytes_are_not_taken_in(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    leading.append([b"entry"])

    def damage(response: Any) -> Any:
        records = response.responses[0].partitions[0].records
        if records:
            flipped = bytearray(records.read())
            flipped[-1] ^= 1
            response.responses[0].partitions[0].records = flipped
        return response

    cluster.change = damage
    observer, log = cluster.start_observer()
    cluster.run(500)
    # The first batch was sound, the last one is not.
    assert log.end_offset == 1
    assert not observer.caught_up.done
    cluster.change = lambda response: response
    cluster.run(1000)
    assert entries(log) == entries(leading)


def test_a_controller_of_another_cluster_is_not_followed(cluster: Cluster) -> None:
    cluster.start_leader()

    def refuse(response: Any) -> Any:
        return f.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID) if cluster.requests else response

    cluster.change = refuse
    cluster.start_observer()
    assert cluster.fatal == ["the controller at leader:1 does not belong to cluster ours"]
    request_count = len(cluster.requests)
    cluster.run(10_000)
    assert len(cluster.requests) == request_count


def test_a_damaged_copy_is_fetched_again(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    leading.append([b"one"])
    leading.append([b"two"])
    observer, log = cluster.start_observer()
    observer.close()
    log.close()
    path = f"{COPY}/00000000000000000000.log"
    data = bytearray(cluster.files.read_bytes(path))
    data[len(data) // 2] ^= 1
    cluster.files.write_atomically(path, bytes(data))
    _, log = cluster.start_observer()
    assert log.was_discarded
    assert entries(log) == entries(leading)


def test_a_full_disk_is_survived(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    _, log = cluster.start_observer()
    cluster.files.fail_next("append", OSError(28, "no space left"), path_contains="/observer")
    leading.append([b"entry"])
    cluster.run()
    assert log.end_offset == 1
    cluster.run(1000)
    assert entries(log) == entries(leading)


def test_the_leader_remembers_who_follows_and_how_far(cluster: Cluster) -> None:
    leading = cluster.start_leader()
    assert cluster.leader is not None
    fetched: list[tuple[int, int]] = []
    cluster.leader.on_fetched.append(lambda replica, offset: fetched.append((replica, offset)))
    cluster.start_observer()
    leading.append([b"entry"])
    cluster.run()
    (state,) = observers_of(cluster)
    assert (state.replica_id, state.directory_id, state.log_end_offset) == (2, DIRECTORY_ID, 2)
    assert state.last_caught_up_ms == cluster.virtual.clock.now_ms()
    assert fetched[-1] == (2, 2)
    cluster.leader = None
    cluster.run(400_000)
    assert observers_of(cluster) == []


def fetch(leader: QuorumLeader, **fields: Any) -> f.PartitionData:
    partition = f.FetchPartition(**{"partition": 0, "last_fetched_epoch": 1, **fields})
    request = f.FetchRequest(topics=[f.FetchTopic(topic="__cluster_metadata", partitions=[partition])], max_wait_ms=0)
    answer = leader.fetch(request, replica_id=2)
    assert isinstance(answer, f.FetchResponse)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
def test_the_epoch_of_a_fetch_is_held_against_the_leaders(cluster: Cluster, epoch: int, code: ErrorCode) -> None:
    cluster.start_leader()
    assert cluster.leader is not None
    answer = fetch(cluster.leader, fetch_offset=0, current_leader_epoch=epoch)
    assert answer.error_code == code
    assert answer.current_leader is not None
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)


def test_an_offset_beyond_the_log_diverges(cluster: Cluster) -> None:
    cluster.start_leader()
    assert cluster.leader is not None
    answer = fetch(cluster.leader, fetch_offset=17)
    assert answer.diverging_epoch is not None
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 1)


@pytest.mark.parametrize(
    ("position", "end_offset", "code"),
    [
        (0, 99, ErrorCode.SNAPSHOT_NOT_FOUND),
        (-1, 2, ErrorCode.POSITION_OUT_OF_RANGE),
        (1 << 20, 2, ErrorCode.POSITION_OUT_OF_RANGE),
        (0, 2, ErrorCode.NONE),
    ],
)
def test_pieces_of_snapshots_are_checked(cluster: Cluster, position: int, end_offset: int, code: ErrorCode) -> None:
    leading = cluster.start_leader()
    leading.append([b"entry"])
    leading.write_snapshot(end_offset=2, epoch=1, values=[b"state"], last_contained_timestamp_ms=5)
    assert cluster.leader is not None
    partition = s.RequestPartitionSnapshot(
        snapshot_id=s.SnapshotId(end_offset=end_offset, epoch=1), position=position, current_leader_epoch=1
    )
    topic = s.RequestTopicSnapshot(name="__cluster_metadata", partitions=[partition])
    response = cluster.leader.fetch_snapshot(s.FetchSnapshotRequest(topics=[topic]))
    assert response.topics[0].partitions[0].error_code == code
