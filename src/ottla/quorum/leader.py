"""Serves the followers of the metadata log: Fetch and FetchSnapshot of `__cluster_metadata-0`.

Voters get all entries, because their fetches commit them. Observers get committed batches only. A fetch at the end of
the log is parked until there are new entries or its timeout has passed. A replica whose log is not a prefix of ours
gets the point of divergence (KIP-595). A replica that asks for deleted entries gets the id of a snapshot (KIP-630). A
node that does not lead answers with the id of the leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ports import FileRegion
from ottla.quorum import events as e
from ottla.quorum.exchange import TOPIC, only_partition
from ottla.quorum.local_log import METADATA_TOPIC_ID
from ottla.quorum.snapshots import SnapshotId
from ottla.quorum.voters import ReplicaKey
from ottla.wire.messages import fetch as f
from ottla.wire.messages import fetch_snapshot as s

if TYPE_CHECKING:
    from ottla.model.ports import File, Timer, World
    from ottla.quorum.raft_node import RaftNode
    from ottla.quorum.voter_log import VoterLog

__all__ = ["QuorumLeader"]

# The number of parked fetches. Every node has one, so a larger number is a misbehaving client.
PARKED_MAX = 10_000
# The number of snapshot files that are kept open for fetches.
OPEN_SNAPSHOTS_MAX = 4

# From this version on, a Fetch response can contain the endpoint of the leader.
_ENDPOINTS_VERSION = 16


class _Parked:
    """A parked fetch."""

    __slots__ = ("answer", "deferred", "is_voter", "timer")

    def __init__(
        self, deferred: Deferred[f.FetchResponse], answer: Callable[[], f.FetchResponse], *, is_voter: bool
    ) -> None:
        self.deferred = deferred
        self.answer = answer
        self.is_voter = is_voter
        self.timer: Timer | None = None


class QuorumLeader:
    """Answers fetches of one log while this node leads."""

    def __init__(self, *, world: World, log: VoterLog, quorum: RaftNode, cluster_id: str, bytes_max: int) -> None:
        self._world = world
        self._log = log
        self._quorum = quorum
        self._cluster_id = cluster_id
        self._bytes_max = bytes_max
        # In the order of arrival.
        self._parked: dict[_Parked, None] = {}
        self._snapshot_files: dict[SnapshotId, File] = {}
        # Called with a replica id and its fetch offset for every fetch.
        self.on_fetched: list[Callable[[int, int], object]] = []
        log.on_committed.append(self._on_committed)

    def fetch(
        self, request: f.FetchRequest, *, replica_id: int, api_version: int = 32767
    ) -> f.FetchResponse | Deferred[f.FetchResponse]:
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            return f.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        partition = only_partition(request)
        if partition is None:
            return f.FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        data = self._refusal(partition)
        if data is not None:
            self._heard_of(ReplicaKey(replica_id, partition.replica_directory_id), data.error_code)
            return self._response(data, with_endpoint=api_version >= _ENDPOINTS_VERSION)
        replica = ReplicaKey(replica_id, partition.replica_directory_id)
        is_voter = self._quorum.machine.voters.has(replica)
        if replica_id >= 0:
            for tell in self.on_fetched:
                tell(replica_id, partition.fetch_offset)
            # This may commit entries and complete parked fetches.
            self._quorum.step(e.ReplicaFetched(replica=replica, offset=partition.fetch_offset))
        max_bytes = min(request.max_bytes, self._bytes_max)
        has_all = partition.fetch_offset >= (self._log.end_offset if is_voter else self._log.known_committed_offset)
        # A replica with an outdated high watermark gets an answer at once (KIP-1166).
        if (
            has_all
            and partition.high_watermark >= self._high_watermark()
            and request.max_wait_ms > 0
            and len(self._parked) < PARKED_MAX
        ):
            return self._park(partition, max_bytes, request.max_wait_ms, is_voter=is_voter)
        return self._response(self._read(partition, max_bytes, is_voter=is_voter))

    def on_appended(self) -> None:
        """There are new entries for voters."""
        for parked in [fetch for fetch in self._parked if fetch.is_voter]:
            self._release(parked)

    def on_resigned(self) -> None:
        """Completes parked fetches, so that their senders look for the new leader."""
        for parked in list(self._parked):
            self._release(parked)

    def fetch_snapshot(self, request: s.FetchSnapshotRequest) -> s.FetchSnapshotResponse:
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            return s.FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        topics = request.topics
        if len(topics) != 1 or topics[0].name != TOPIC or len(topics[0].partitions) != 1:
            return s.FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        partition = topics[0].partitions[0]
        news = self._quorum.news
        answer = s.ResponsePartitionSnapshot(
            index=partition.partition,
            snapshot_id=partition.snapshot_id,
            current_leader=s.LeaderIdAndEpoch(leader_id=news.leader_id, leader_epoch=news.epoch),
        )
        code = self._quorum.machine.fetch_error(partition.current_leader_epoch)
        if partition.partition != 0:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code is ErrorCode.NONE:
            code = self._fill_snapshot(partition, answer, min(request.max_bytes, self._bytes_max))
        answer.error_code = code
        self._heard_of(ReplicaKey(request.replica_id, partition.replica_directory_id), code)
        return s.FetchSnapshotResponse(topics=[s.ResponseTopicSnapshot(name=TOPIC, partitions=[answer])])

    def close(self) -> None:
        """Completes parked fetches without entries, and closes the files of snapshots."""
        self.on_resigned()
        for file in self._snapshot_files.values():
            file.close()
        self._snapshot_files.clear()

    def _heard_of(self, replica: ReplicaKey, code: int) -> None:
        """The replica follows this leader, even if it has no entries yet."""
        if replica.node_id >= 0 and code == ErrorCode.NONE:
            self._quorum.step(e.ReplicaFetched(replica=replica, offset=None))

    def _fill_snapshot(
        self, partition: s.RequestPartitionSnapshot, answer: s.ResponsePartitionSnapshot, max_bytes: int
    ) -> ErrorCode:
        identity = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        file = self._snapshot_file(identity)
        if file is None:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        if not 0 <= partition.position < file.size:
            return ErrorCode.POSITION_OUT_OF_RANGE
        answer.size = file.size
        answer.position = partition.position
        answer.unaligned_records = FileRegion(file, partition.position, min(max_bytes, file.size - partition.position))
        return ErrorCode.NONE

    def _snapshot_file(self, identity: SnapshotId) -> File | None:
        file = self._snapshot_files.get(identity)
        if file is None and identity in self._log.snapshots():
            if len(self._snapshot_files) >= OPEN_SNAPSHOTS_MAX:
                self._snapshot_files.pop(min(self._snapshot_files)).close()
            file = self._world.files.open(self._log.snapshot_path(identity), create=False)
            self._snapshot_files[identity] = file
        return file

    def _refusal(self, partition: f.FetchPartition) -> f.PartitionData | None:
        """The reason for a fetch without entries: a wrong epoch, a diverging log, or deleted entries."""
        code = self._quorum.machine.fetch_error(partition.current_leader_epoch)
        if code is not ErrorCode.NONE:
            return self._data(error_code=code)
        log = self._log
        offset, epoch = partition.fetch_offset, partition.last_fetched_epoch
        if offset == 0 and log.start_offset == 0:
            return None
        snapshots = log.snapshots()
        if snapshots:
            oldest, newest = snapshots[0], snapshots[-1]
            if (
                offset < log.start_offset
                or (offset == log.start_offset and offset == oldest.end_offset and epoch != oldest.epoch)
                or epoch < oldest.epoch
            ):
                return self._data(snapshot=newest)
            if offset == log.start_offset:
                return None
        end = log.end_offset_for_epoch(epoch)
        if end.epoch != epoch or end.end_offset < offset:
            return self._data(diverging=f.EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset))
        return None

    def _park(
        self, partition: f.FetchPartition, max_bytes: int, max_wait_ms: int, *, is_voter: bool
    ) -> Deferred[f.FetchResponse]:
        deferred: Deferred[f.FetchResponse] = Deferred()
        epoch = self._log.leader_epoch

        def answer() -> f.FetchResponse:
            code = self._quorum.machine.fetch_error(epoch)
            if code is not ErrorCode.NONE:
                return self._response(self._data(error_code=code))
            return self._response(self._read(partition, max_bytes, is_voter=is_voter))

        parked = _Parked(deferred, answer, is_voter=is_voter)
        parked.timer = self._world.scheduler.call_later(max_wait_ms / 1000, self._release, parked)
        self._parked[parked] = None
        return deferred

    def _release(self, parked: _Parked) -> None:
        self._parked.pop(parked, None)
        if parked.timer is not None:
            parked.timer.cancel()
        parked.deferred.resolve(parked.answer())

    def _on_committed(self) -> None:
        for parked in list(self._parked):
            self._release(parked)

    def _read(self, partition: f.FetchPartition, max_bytes: int, *, is_voter: bool) -> f.PartitionData:
        data = self._data()
        if is_voter:
            region = self._log.uncommitted_region(partition.fetch_offset, max_bytes=max_bytes)
            # Bytes, not a file region: uncommitted entries may be truncated before they are sent.
            data.records = b"" if region is None else region.read()
        else:
            region = None
            if partition.fetch_offset < self._log.known_committed_offset:
                region = self._log.region(partition.fetch_offset, max_bytes=max_bytes)
            data.records = region or b""
        return data

    def _high_watermark(self) -> int:
        """The high watermark for responses; unknown until an entry of this epoch is committed."""
        leadership = self._quorum.machine.leadership
        return -1 if leadership is None else leadership.high_watermark

    def _data(
        self,
        *,
        error_code: ErrorCode = ErrorCode.NONE,
        snapshot: SnapshotId | None = None,
        diverging: f.EpochEndOffset | None = None,
    ) -> f.PartitionData:
        news = self._quorum.news
        return f.PartitionData(
            partition_index=0,
            error_code=error_code,
            high_watermark=self._high_watermark(),
            log_start_offset=self._log.start_offset,
            diverging_epoch=diverging,
            current_leader=f.LeaderIdAndEpoch(leader_id=news.leader_id, leader_epoch=news.epoch),
            snapshot_id=None
            if snapshot is None
            else f.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
            records=b"",
        )

    def _response(self, data: f.PartitionData, *, with_endpoint: bool = False) -> f.FetchResponse:
        topic = f.FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data])
        response = f.FetchResponse(responses=[topic])
        news = self._quorum.news
        if with_endpoint and data.error_code and news.endpoint is not None:
            response.node_endpoints = [
                f.NodeEndpoint(node_id=news.leader_id, host=news.endpoint.host, port=news.endpoint.port)
            ]
        return response
