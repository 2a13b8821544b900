"""The fetch loop of a node that follows the metadata log without a vote.

One request is in flight at a time. The leader parks it while there is nothing new, so the only timer is the backoff
after a failure. Fetched batches are appended to the local copy, and `on_committed` of the copy announces the committed
offset. The leader may become unreachable at any time: the copy stays usable, and the loop keeps trying.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.quorum.local_log import METADATA_TOPIC_ID
from ottla.quorum.snapshots import Snapshot, SnapshotId
from ottla.records.errors import CorruptRecords
from ottla.wire.messages import fetch as f
from ottla.wire.messages import fetch_snapshot as s
from ottla.wire.peers import Endpoint, Peers

if TYPE_CHECKING:
    from ottla.model.ports import Timer, World
    from ottla.quorum.observer_log import ObserverLog
    from ottla.wire.message import Message

__all__ = ["ControllerAddresses", "MetadataObserver", "ObserverSettings"]

logger = logging.getLogger("ottla.quorum.observer")

TOPIC = "__cluster_metadata"
PURPOSE = "metadata"

# The time that the leader may park a fetch without new entries.
FETCH_WAIT_MS = 500
RETRY_BACKOFF_MAX_MS = 1000
_UNKNOWN_HIGH_WATERMARK = -1

# A leader that another node named is asked this many times before the other controllers are asked.
REFUSALS_MAX = 4

# Errors after which another controller is asked, because it may have the entries.
_ASK_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)


class ControllerAddresses:
    """The addresses of the controllers, and the controller that is asked now."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        assert endpoints, "the configuration names at least one controller"
        self._endpoints = list(endpoints)
        self._index = 0
        # The endpoint of the leader that another node has named. It need not be in the configuration (KIP-853).
        self._leader: Endpoint | None = None
        # The remaining number of times that a named leader may answer that it is not the active controller yet.
        self._patience = 0
        # Called with the previous endpoint when requests go to another controller from now on.
        self.on_moved: list[Callable[[Endpoint], object]] = []

    @property
    def current(self) -> Endpoint:
        return self._leader or self._endpoints[self._index]

    def leader_named(self, endpoint: Endpoint) -> None:
        """Sets the leader that another node has named."""
        before, self._leader = self.current, endpoint
        self._patience = REFUSALS_MAX
        self._tell_moved(before)

    def refused(self, endpoint: Endpoint) -> None:
        """The node is reachable, but not the active controller. A new leader becomes active with its first commit."""
        if endpoint == self._leader and self._patience > 0:
            self._patience -= 1
        else:
            self.failed(endpoint)

    def failed(self, endpoint: Endpoint) -> None:
        """Selects the next controller, unless another request has done so already."""
        if endpoint != self.current:
            return
        self._leader = None
        if self._endpoints[self._index] == endpoint:
            self._index = (self._index + 1) % len(self._endpoints)
        self._tell_moved(endpoint)

    def _tell_moved(self, before: Endpoint) -> None:
        if before != self.current:
            for tell in self.on_moved:
                tell(before)


class ObserverSettings(NamedTuple):
    fetch_bytes_max: int = 1 << 20
    snapshot_bytes_max: int = 1 << 20
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20


class MetadataObserver:
    """Keeps an `ObserverLog` up to date."""

    def __init__(
        self,
        *,
        world: World,
        peers: Peers,
        log: ObserverLog,
        controllers: ControllerAddresses,
        cluster_id: str,
        settings: ObserverSettings | None = None,
    ) -> None:
        self._world = world
        self._peers = peers
        self._log = log
        self._controllers = controllers
        self._cluster_id = cluster_id
        self._settings = settings or ObserverSettings()
        self._timer: Timer | None = None
        self._closed = False
        self._failures = 0
        self._high_watermark = _UNKNOWN_HIGH_WATERMARK
        self._snapshot: SnapshotId | None = None
        self._position = 0
        # Resolved when the copy has every entry that was committed when the leader was first reached.
        self.caught_up: Deferred[None] = Deferred()
        # Called once if following cannot continue.
        self.on_fatal: Callable[[BaseException], object] | None = None

    def start(self) -> None:
        self._ask()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- asking -----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._timer = None
        if self._closed:
            return
        request = self._fetch_request() if self._snapshot is None else self._snapshot_request(self._snapshot)
        endpoint = self._controllers.current
        timeout_ms = FETCH_WAIT_MS + self._settings.request_timeout_ms
        self._peers.send(endpoint, request, purpose=PURPOSE, timeout_ms=timeout_ms).when_done(
            lambda answer: self._on_answer(endpoint, answer)
        )

    def _fetch_request(self) -> f.FetchRequest:
        log = self._log
        partition = f.FetchPartition(
            partition=0,
            current_leader_epoch=log.leader_epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=-1,
            partition_max_bytes=0,
            replica_directory_id=log.directory_id,
            high_watermark=self._high_watermark,
        )
        return f.FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=f.ReplicaState(replica_id=log.node_id),
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=0,
            max_bytes=self._settings.fetch_bytes_max,
            topics=[f.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )

    def _snapshot_request(self, identity: SnapshotId) -> s.FetchSnapshotRequest:
        partition = s.RequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=self._log.leader_epoch,
            snapshot_id=s.SnapshotId(end_offset=identity.end_offset, epoch=identity.epoch),
            position=self._position,
            replica_directory_id=self._log.directory_id,
        )
        return s.FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._log.node_id,
            max_bytes=self._settings.snapshot_bytes_max,
            topics=[s.RequestTopicSnapshot(name=TOPIC, partitions=[partition])],
        )

    # -- hearing ----------------------------------------------------------------------------------------------------

    def _on_answer(self, endpoint: Endpoint, answer: Deferred[Message]) -> None:
        if self._closed:
            return
        if answer.error is not None:
            self._controllers.failed(endpoint)
            self._retry(str(answer.error))
            return
        response = answer.result()
        try:
            if isinstance(response, f.FetchResponse):
                problem = self._on_fetched(response, endpoint)
            else:
                piece = cast(s.FetchSnapshotResponse, response)
                problem = self._on_snapshot_piece(piece)
                if problem is None and self._position >= piece.topics[0].partitions[0].size:
                    self._log.check_snapshot().when_done(lambda checked: self._on_checked(endpoint, checked))
                    return
        except (CorruptRecords, MetadataLogDamagedError, OSError) as error:
            self._abandon_snapshot()
            problem = str(error)
        self._continue(endpoint, problem)

    def _on_checked(self, endpoint: Endpoint, checked: Deferred[Snapshot]) -> None:
        """A worker has checked the snapshot. No request was sent meanwhile."""
        if self._closed:
            return
        problem = None
        try:
            self._log.install_snapshot(checked.result())
            self._snapshot = None
        except (MetadataLogDamagedError, OSError) as error:
            self._abandon_snapshot()
            problem = str(error)
        self._continue(endpoint, problem)

    def _continue(self, endpoint: Endpoint, problem: str | None) -> None:
        if self._closed:
            return
        if problem is not None:
            self._retry(problem)
            return
        if self._failures:
            logger.info("following the metadata log of the controller at %s again", endpoint)
            self._failures = 0
        self._ask()

    def _on_fetched(self, response: f.FetchResponse, endpoint: Endpoint) -> str | None:
        """Processes a fetch response; returns the reason if the next attempt has to wait."""
        if response.error_code:
            return self._refused(response.error_code)
        if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
            return "the controller answered about another partition"
        data = response.responses[0].partitions[0]
        leader = data.current_leader
        has_new_epoch = self._follow(leader.leader_id, leader.leader_epoch) if leader is not None else False
        if data.error_code:
            code = data.error_code
            if code in _ASK_ELSEWHERE and self._ask_elsewhere(response, code, endpoint):
                return None
            is_news = has_new_epoch and data.error_code == ErrorCode.FENCED_LEADER_EPOCH
            return None if is_news else self._refused(data.error_code)
        if data.snapshot_id is not None and data.snapshot_id.end_offset >= 0:
            self._snapshot = SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch)
            self._position = 0
            self._log.begin_snapshot(self._snapshot)
            return None
        if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
            return self._cut_off(data.diverging_epoch)
        if data.records:
            self._log.append_fetched(memoryview(data.records))  # type: ignore[arg-type]
        self._high_watermark = data.high_watermark
        if data.high_watermark < 0:
            # A new leader has not determined the committed offset yet.
            return None
        self._log.commit_to(data.high_watermark)
        if not self._closed and not self.caught_up.done and self._log.end_offset >= data.high_watermark:
            self.caught_up.resolve(None)
        return None

    def _ask_elsewhere(self, response: f.FetchResponse, code: int, endpoint: Endpoint) -> bool:
        """Handles a node that does not lead. True if it names the leader; else the next controller is selected."""
        leader_id = self._log.leader_id
        named = next((node for node in response.node_endpoints if node.node_id == leader_id), None)
        if named is not None and Endpoint(named.host, named.port) != endpoint:
            self._controllers.leader_named(Endpoint(named.host, named.port))
            return True
        if code != ErrorCode.FENCED_LEADER_EPOCH:
            self._controllers.failed(endpoint)
        return False

    def _on_snapshot_piece(self, response: s.FetchSnapshotResponse) -> str | None:
        code = response.error_code
        piece = response.topics[0].partitions[0] if not code and response.topics else None
        if piece is not None:
            code = piece.error_code
        if piece is None or code:
            # The snapshot may have been deleted. The next fetch returns the id of the newest snapshot.
            self._abandon_snapshot()
            if piece is not None and piece.current_leader is not None:
                self._follow(piece.current_leader.leader_id, piece.current_leader.leader_epoch)
            return self._refused(code)
        if piece.position != self._position or not piece.unaligned_records:
            self._abandon_snapshot()
            return "a chunk of a snapshot arrived out of order"
        self._position = self._log.append_snapshot(memoryview(piece.unaligned_records))  # type: ignore[arg-type]
        return None

    def _follow(self, leader_id: int, leader_epoch: int) -> bool:
        """True if the epoch is new."""
        current_epoch = self._log.leader_epoch
        if leader_epoch < current_epoch or leader_id < 0:
            return False
        self._log.follow(leader_id=leader_id, leader_epoch=leader_epoch)
        return leader_epoch > current_epoch

    def _cut_off(self, end: f.EpochEndOffset) -> str | None:
        """Truncates the log; returns the reason if that is impossible and the next attempt has to wait."""
        offset = self._log.diverges_at(epoch=end.epoch, end_offset=end.end_offset)
        if offset >= self._log.end_offset:
            return f"the controller's log diverges from ours at offset {end.end_offset}, which is not in our log"
        logger.warning("the metadata log diverges from the controller's at offset %d: truncated", offset)
        self._log.truncate_to(offset)
        return None

    def _abandon_snapshot(self) -> None:
        self._snapshot = None
        self._log.abandon_snapshot()

    def _refused(self, code: int) -> str:
        name = ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID and self.on_fatal is not None:
            self.close()
            self.on_fatal(
                MetadataLogDamagedError(
                    f"the controller at {self._controllers.current} does not belong to cluster {self._cluster_id}"
                )
            )
        return f"the controller answered {name}"

    def _retry(self, problem: str) -> None:
        self._failures += 1
        if self._failures == 1:
            logger.warning("cannot follow the metadata log, retrying: %s", problem)
        backoff_ms = min(self._settings.retry_backoff_ms << min(self._failures - 1, 10), RETRY_BACKOFF_MAX_MS)
        self._timer = self._world.scheduler.call_later(backoff_ms / 1000, self._ask)
