"""How the leader of the metadata log serves those who follow it: Fetch and FetchSnapshot of `__cluster_metadata-0`.

Only committed batches are given out, so what an observer has it may use. A fetch at the end of the log is parked until
something is committed or its time is up. An observer whose log is not a prefix of ours is told where they part
(KIP-595); one that asks for entries that are gone is sent to a snapshot (KIP-630).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.quorum.local_log import METADATA_TOPIC_ID
from ottla.quorum.snapshots import SnapshotId
from ottla.wire.messages import fetch as f
from ottla.wire.messages import fetch_snapshot as s

if TYPE_CHECKING:
    from ottla.model.ports import File, Timer, World
    from ottla.quorum.log import SingleVoterLog

__all__ = ["ObserverState", "QuorumLeader"]

TOPIC = "__cluster_metadata"

# Fetches that wait at a time; each node has one, so more than this is somebody who does not know what they do.
PARKED_MAX = 10_000
# Observers that are remembered for DescribeQuorum, and for how long after their last fetch.
OBSERVERS_MAX = 10_000
OBSERVER_SESSION_MS = 300_000
# Snapshot files kept open for those who fetch them.
OPEN_SNAPSHOTS_MAX = 4


class ObserverState(NamedTuple):
    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class _Parked:
    """A fetch that waits for the next commit."""

    __slots__ = ("answer", "deferred", "timer")

    def __init__(self, deferred: Deferred[f.FetchResponse], answer: Callable[[], f.FetchResponse]) -> None:
        self.deferred = deferred
        self.answer = answer
        self.timer: Timer | None = None


class QuorumLeader:
    """Answers for one log that this node leads."""

    def __init__(self, *, world: World, log: SingleVoterLog, cluster_id: str, bytes_max: int) -> None:
        self._world = world
        self._log = log
        self._cluster_id = cluster_id
        self._bytes_max = bytes_max
        # In the order of their arrival, in which they are answered too.
        self._parked: dict[_Parked, None] = {}
        self._observers: dict[tuple[int, Uuid], ObserverState] = {}
        self._snapshot_files: dict[SnapshotId, File] = {}
        # Called with a replica's id and the offset it has read up to (exclusive) at each of its fetches.
        self.on_fetched: list[Callable[[int, int], object]] = []
        log.on_committed.append(self._on_committed)

    @property
    def log(self) -> SingleVoterLog:
        return self._log

    def observers(self) -> list[ObserverState]:
        """Those that fetched lately, by id."""
        oldest = self._world.clock.now_ms() - OBSERVER_SESSION_MS
        return sorted(state for state in self._observers.values() if state.last_fetch_ms >= oldest)

    def fetch(self, request: f.FetchRequest, *, replica_id: int) -> f.FetchResponse | Deferred[f.FetchResponse]:
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            return f.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        asked = _only_partition(request)
        if asked is None:
            return f.FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        data = self._refusal(asked)
        if data is not None:
            return _fetch_response(data)
        self._remember(asked, replica_id)
        max_bytes = min(request.max_bytes, self._bytes_max)
        # An observer that does not know our high watermark hears it at once (KIP-1166).
        knows_all = min(asked.fetch_offset, asked.high_watermark) >= self._log.committed_offset
        if knows_all and request.max_wait_ms > 0 and len(self._parked) < PARKED_MAX:
            return self._park(asked, max_bytes, request.max_wait_ms)
        return _fetch_response(self._read(asked, max_bytes))

    def fetch_snapshot(self, request: s.FetchSnapshotRequest) -> s.FetchSnapshotResponse:
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            return s.FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        topics = request.topics
        if len(topics) != 1 or topics[0].name != TOPIC or len(topics[0].partitions) != 1:
            return s.FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        asked = topics[0].partitions[0]
        answer = s.ResponsePartitionSnapshot(
            index=asked.partition,
            snapshot_id=asked.snapshot_id,
            current_leader=s.LeaderIdAndEpoch(leader_id=self._log.leader_id, leader_epoch=self._log.leader_epoch),
        )
        code = self._epoch_error(asked.current_leader_epoch)
        if asked.partition != 0:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code is ErrorCode.NONE:
            code = self._fill_snapshot(asked, answer, min(request.max_bytes, self._bytes_max))
        answer.error_code = code
        return s.FetchSnapshotResponse(topics=[s.ResponseTopicSnapshot(name=TOPIC, partitions=[answer])])

    def close(self) -> None:
        """Answers whoever waits, with nothing, and closes the files of snapshots."""
        self._on_committed()
        for file in self._snapshot_files.values():
            file.close()
        self._snapshot_files.clear()

    def _fill_snapshot(
        self, asked: s.RequestPartitionSnapshot, answer: s.ResponsePartitionSnapshot, max_bytes: int
    ) -> ErrorCode:
        identity = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        file = self._snapshot_file(identity)
        if file is None:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        if not 0 <= asked.position < file.size:
            return ErrorCode.POSITION_OUT_OF_RANGE
        answer.size = file.size
        answer.position = asked.position
        answer.unaligned_records = FileRegion(file, asked.position, min(max_bytes, file.size - asked.position))
        return ErrorCode.NONE

    def _snapshot_file(self, identity: SnapshotId) -> File | None:
        file = self._snapshot_files.get(identity)
        if file is None and identity in self._log.snapshots():
            if len(self._snapshot_files) >= OPEN_SNAPSHOTS_MAX:
                self._snapshot_files.pop(min(self._snapshot_files)).close()
            file = self._world.files.open(self._log.snapshot_path(identity), create=False)
            self._snapshot_files[identity] = file
        return file

    def _epoch_error(self, epoch: int) -> ErrorCode:
        if epoch < 0 or epoch == self._log.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self._log.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _refusal(self, asked: f.FetchPartition) -> f.PartitionData | None:
        """Why the fetch gets no entries: an epoch that is not ours, a log that is not a prefix of ours, or too old."""
        code = self._epoch_error(asked.current_leader_epoch)
        if code is not ErrorCode.NONE:
            return self._data(error_code=code)
        log = self._log
        offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
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

    def _remember(self, asked: f.FetchPartition, replica_id: int) -> None:
        if replica_id < 0:
            return
        now_ms = self._world.clock.now_ms()
        key = (replica_id, asked.replica_directory_id)
        before = self._observers.get(key)
        if before is None:
            if len(self._observers) >= OBSERVERS_MAX:
                return
            # A replica that comes back with another directory takes the place of its former self.
            for other in [other for other in self._observers if other[0] == replica_id]:
                del self._observers[other]
        caught_up_ms = -1 if before is None else before.last_caught_up_ms
        if asked.fetch_offset >= self._log.committed_offset:
            caught_up_ms = now_ms
        self._observers[key] = ObserverState(
            replica_id, asked.replica_directory_id, asked.fetch_offset, now_ms, caught_up_ms
        )
        for tell in self.on_fetched:
            tell(replica_id, asked.fetch_offset)

    def _park(self, asked: f.FetchPartition, max_bytes: int, max_wait_ms: int) -> Deferred[f.FetchResponse]:
        deferred: Deferred[f.FetchResponse] = Deferred()
        parked = _Parked(deferred, lambda: _fetch_response(self._read(asked, max_bytes)))
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

    def _read(self, asked: f.FetchPartition, max_bytes: int) -> f.PartitionData:
        data = self._data()
        data.records = self._log.region(asked.fetch_offset, max_bytes=max_bytes) or b""
        return data

    def _data(
        self,
        *,
        error_code: ErrorCode = ErrorCode.NONE,
        snapshot: SnapshotId | None = None,
        diverging: f.EpochEndOffset | None = None,
    ) -> f.PartitionData:
        log = self._log
        return f.PartitionData(
            partition_index=0,
            error_code=error_code,
            high_watermark=log.committed_offset,
            log_start_offset=log.start_offset,
            diverging_epoch=diverging,
            current_leader=f.LeaderIdAndEpoch(leader_id=log.leader_id, leader_epoch=log.leader_epoch),
            snapshot_id=None
            if snapshot is None
            else f.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
            records=b"",
        )


def _only_partition(request: f.FetchRequest) -> f.FetchPartition | None:
    """The one partition there is, or None when the request is about something else."""
    if len(request.topics) != 1:
        return None
    topic = request.topics[0]
    if topic.topic_id != METADATA_TOPIC_ID and topic.topic != TOPIC:
        return None
    if len(topic.partitions) != 1 or topic.partitions[0].partition != 0:
        return None
    return topic.partitions[0]


def _fetch_response(data: f.PartitionData) -> f.FetchResponse:
    topic = f.FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data])
    return f.FetchResponse(responses=[topic])
