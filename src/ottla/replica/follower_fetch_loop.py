"""The fetch loop of a follower: one connection to one leader, for a share of the partitions that it leads.

One request is under way at a time. The leader parks a request without records, so the loop has one timer only, which
ends pauses. A partition is in one of three states: in the *session* (it is fetched), *paused* (it failed and is retried
soon), or *failed* (until the metadata names a new leader epoch, or the disk is replaced). A partition that fails never
stops the other partitions.

| failure | what the loop does |
|---|---|
| no response | pauses as a whole, then begins a new session |
| OFFSET_OUT_OF_RANGE | asks for the leader's offset range and moves the log into it |
| FENCED_LEADER_EPOCH | partition failed: newer metadata is on its way |
| any other error of the leader | partition paused: one of the two brokers waits for metadata |
| corrupt records, a full disk, no open files or memory left | partition paused |
| a flush that `flush.messages` demands fails | partition paused: a fetch would promise that its records are durable |
| a failed disk | partition failed: its log directory is out of service |
| a defect of this code | partition failed: it would fail again |

A response with records of thousands of partitions is appended over several turns of the event loop, and the next
request waits for the last append. For a partition that is still queued, the response seems to arrive later.

The first pauses are short, because most failures are metadata that is a moment late. They grow to
`replica.fetch.backoff.ms`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, cast

from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.defects import error_of
from ottla.replica.followed_partition import DoubtEnded, FollowedPartition, GapsNotNoted, wanted_by_topic
from ottla.replica.follower_fetch_session import FollowerFetchSession
from ottla.replica.leader_offsets import offsets_in, offsets_request
from ottla.storage.errors import LogDirectoryOffline, is_temporary
from ottla.wire.follower_fetch import ELEMENTS_MAX, FollowerFetchRequest, FollowerFetchResponse, message_of
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.list_offsets import ListOffsetsResponse

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.model.ports import Timer, World
    from ottla.replica.fetcher_settings import FetcherSettings
    from ottla.replica.follower_fetch_session import PartitionKey
    from ottla.replica.throttles import ReplicationThrottles
    from ottla.wire.follower_fetch import ReceivedSlice
    from ottla.wire.message import Message
    from ottla.wire.messages.fetch import PartitionData
    from ottla.wire.peers import Endpoint, Peers

    # Topic id and data of one partition.
    Received = tuple[bytes, PartitionData | ReceivedSlice]

__all__ = ["ReplicaFetcher"]

logger = logging.getLogger("ottla.replica.follower_fetch_loop")

BACKOFF_MS_MIN = 10

# The next response tells that the records of this one are committed. Its fetch waits at most this long, so that a new
# leader knows a recent high watermark; and a shorter time if consumers that read from this follower (KIP-392) wait.
COMMIT_WAIT_MS = 100
WATCHED_WAIT_MS = 10

# A new partition interrupts a long poll at most once in this time, because that costs a connection.
INTERRUPT_INTERVAL_MS = 100

# A throttled replica is copied in portions of this size, since one response blocks the event loop.
THROTTLED_FETCH_BYTES = 256 << 10

# Partitions of one response that are appended in a turn of the loop. The first record of a partition creates files,
# which takes up to a tenth of a millisecond.
PARTITIONS_PER_TURN = 64

_LATEST = -1
_EARLIEST = -2


class ReplicaFetcher:
    """Fetches the followed partitions of one leader."""

    def __init__(
        self,
        *,
        node_id: int,
        leader_id: int,
        endpoint: Endpoint,
        purpose: str,
        world: World,
        peers: Peers,
        settings: FetcherSettings,
        broker_epoch: Callable[[], int],
        throttles: ReplicationThrottles,
    ) -> None:
        self._node_id = node_id
        self.leader_id = leader_id
        self.endpoint = endpoint
        self._purpose = purpose
        self._scheduler = world.scheduler
        self._clock = world.clock
        self._peers = peers
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._throttles = throttles
        self._followed: dict[PartitionKey, FollowedPartition] = {}
        self._session: FollowerFetchSession[FollowedPartition] = FollowerFetchSession()
        # Paused partitions, by the time of their retry and then by the number of the pause.
        self._paused: list[tuple[int, int, FollowedPartition]] = []
        self._pauses = 0
        self._pause_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._flushes: list[tuple[FollowedPartition, Deferred[None]]] = []
        self._failures = 0
        # Incremented when the request under way is abandoned, so that its response is ignored.
        self._turn = 0
        self._is_asking = False
        # True between a response and the next request, while records are appended or flushed.
        self._is_storing = False
        self._is_planned = False
        self._is_closed = False
        # The longest wait of the next fetch if the last response had records, also after an interruption.
        self._commit_wait_ms: int | None = None
        self._interrupted_ms = -INTERRUPT_INTERVAL_MS

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def failed(self) -> list[FollowedPartition]:
        return [followed for followed in self._followed.values() if followed.is_failed]

    def followed(self, key: PartitionKey) -> FollowedPartition | None:
        return self._followed.get(key)

    def follow(self, followed: FollowedPartition) -> None:
        """Begins to fetch a partition, or continues in a new leader epoch."""
        self._followed[followed.key] = followed
        self._enter_session(followed)

    def _enter_session(self, followed: FollowedPartition, *, interrupts: bool = True) -> None:
        try:
            flushed = followed.start()
        except Exception as error:  # noqa: BLE001 - a defect is the trouble of its partition alone
            self._on_partition_failure(followed, error)
            return
        if flushed is None:
            self._fetch_from_now_on(followed, interrupts)
        else:
            flushed.when_done(lambda outcome: self._on_late_flush(followed, outcome.error))

    def _on_late_flush(self, followed: FollowedPartition, error: BaseException | None) -> None:
        if self._followed.get(followed.key) is not followed or followed.is_failed or self._is_closed:
            return
        if error is None:
            self._fetch_from_now_on(followed, interrupts=True)
        else:
            self._on_partition_failure(followed, error)

    def _fetch_from_now_on(self, followed: FollowedPartition, interrupts: bool) -> None:
        self._session.set(followed.key, followed)
        if interrupts:
            self._interrupt_long_poll()
        else:
            self._plan()

    def unfollow(self, key: PartitionKey) -> None:
        """A response under way is ignored for this partition."""
        self._followed.pop(key, None)
        self._session.remove(key)

    def move(self, endpoint: Endpoint) -> None:
        """The leader has a new address."""
        old, self.endpoint = self.endpoint, endpoint
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        self._failures = 0
        self._abandon_request(old)
        self._plan()

    def close(self) -> None:
        self._is_closed = True
        for timer in (self._pause_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self._abandon_request(self.endpoint)

    # Requests.

    def _plan(self) -> None:
        """Sends the next request at the end of the turn, because one metadata change may bring many partitions."""
        if not (self._is_planned or self._is_asking or self._is_closed) and self._retry_timer is None:
            self._is_planned = True
            self._scheduler.call_soon(self._ask)

    def _interrupt_long_poll(self) -> None:
        now_ms = self._now_ms()
        if self._is_asking and not self._is_storing and now_ms - self._interrupted_ms >= INTERRUPT_INTERVAL_MS:
            self._interrupted_ms = now_ms
            self._abandon_request(self.endpoint)
        self._plan()

    def _abandon_request(self, endpoint: Endpoint) -> None:
        """Abandons the request under way. The leader may have advanced the session, so a new one begins."""
        self._turn += 1
        self._is_asking = self._is_storing
        self._session.restart()
        self._peers.disconnect(endpoint, purpose=self._purpose)

    def _ask(self) -> None:
        self._is_planned = False
        self._retry_timer = None
        if self._is_asking or self._is_closed or not len(self._session):
            return
        settings, session = self._settings, self._session
        wait_ms = self._wait_ms()
        max_bytes = throttled_max_bytes = settings.max_bytes
        if self._throttles.is_following_limited:
            throttled_max_bytes = min(max_bytes, THROTTLED_FETCH_BYTES)
        session_id, session_epoch = session.id, session.epoch
        listed, forgotten = session.begin_request()
        if session.has_untold:
            # More partitions wait to be listed: the leader shall respond at once.
            wait_ms = 0
        fields = (
            self._node_id,
            self._broker_epoch(),
            wait_ms,
            settings.min_bytes,
            settings.response_max_bytes,
            session_id,
            session_epoch,
            wanted_by_topic(listed, max_bytes, throttled_max_bytes),
        )
        request: Message
        if forgotten or len(listed) > ELEMENTS_MAX:
            request = message_of(fields)
            request.forgotten_topics_data = forgotten
        else:
            request = FollowerFetchRequest(fields)
        self._send(request, settings.socket_timeout_ms + settings.wait_max_ms, self._on_fetched)

    def _wait_ms(self) -> int:
        """The time that the leader may park the next request."""
        wait_ms = self._settings.wait_max_ms
        if self._commit_wait_ms is not None:
            wait_ms = min(wait_ms, self._commit_wait_ms)
        if self._paused:
            # The request ends when a pause ends. An interruption would cost all partitions a new connection.
            wait_ms = min(wait_ms, max(self._paused[0][0] - self._now_ms(), 1))
        return wait_ms

    def _send(self, request: Message, timeout_ms: int, on_answer: Callable[[Message], None]) -> None:
        self._is_asking = True
        turn = self._turn

        def on_done(answer: Deferred[Message]) -> None:
            if turn != self._turn:
                return
            self._is_asking = False
            if answer.error is not None:
                self._on_unreachable(answer.error)
            else:
                self._failures = 0
                on_answer(answer.result())

        self._peers.send(self.endpoint, request, purpose=self._purpose, timeout_ms=timeout_ms).when_done(on_done)

    def _on_unreachable(self, error: BaseException) -> None:
        if self._failures == 0:
            logger.info("fetch from broker %d failed: %s", self.leader_id, error)
        self._session.restart()
        self._pause_all()

    def _pause_all(self) -> None:
        delay_ms = self._backoff_ms(self._failures)
        self._failures += 1
        self._retry_timer = self._scheduler.call_later(delay_ms / 1000, self._ask)

    # Responses.

    def _on_fetched(self, message: Message | FollowerFetchResponse) -> None:
        response = message
        assert isinstance(response, FollowerFetchResponse | FetchResponse)
        was_incremental = self._session.is_incremental
        if not self._session.end_request(response):
            if was_incremental:
                self._plan()
            else:
                logger.warning("broker %d rejected a fetch with error %d", self.leader_id, response.error_code)
                self._pause_all()
            return
        self._commit_wait_ms = None
        received: list[Received]
        if isinstance(response, FollowerFetchResponse):
            received = [(piece.topic_id, piece) for piece in response.slices]
        else:
            received = [(topic.topic_id.bytes, data) for topic in response.responses for data in topic.partitions]
        self._store(received, 0, [], self._turn)

    def _store(self, received: list[Received], position: int, out_of_range: list[FollowedPartition], turn: int) -> None:
        """Takes the records of a response, in this turn of the loop and in later ones."""
        self._is_asking = self._is_storing = False
        # The rest of a response is ignored once its request is abandoned.
        if turn == self._turn:
            end = position + PARTITIONS_PER_TURN
            for topic_id, data in received[position:end]:
                self._take(topic_id, data, out_of_range)
            if end < len(received):
                self._is_asking = self._is_storing = True
                self._scheduler.call_soon(self._store, received, end, out_of_range, turn)
                return
        if out_of_range and turn == self._turn:
            self._ask_for_range(out_of_range)
        else:
            # The next fetch bypasses the scheduler, because producers wait for it.
            self._fetch_next()

    def _take(
        self, topic_id: bytes, data: PartitionData | ReceivedSlice, out_of_range: list[FollowedPartition]
    ) -> None:
        followed = self._session.get((topic_id, data.partition_index))
        if followed is None:
            return
        if followed.sent_offset != followed.position:
            # The partition was added or got a new epoch while the request was under way, so this response is not for
            # it. The leader would not send the high watermark again in this session.
            self._session.restart()
        else:
            self._on_partition(followed, data, out_of_range)

    def _fetch_next(self) -> None:
        if self._flushes:
            self._wait_for_flushes()
        else:
            self._ask()

    def _on_partition(
        self, followed: FollowedPartition, data: PartitionData | ReceivedSlice, out_of_range: list[FollowedPartition]
    ) -> None:
        code = data.error_code
        if code == ErrorCode.NONE:
            try:
                has_moved = followed.on_fetched(data)
            except (GapsNotNoted, DoubtEnded):
                self._pause(followed)
            except Exception as error:  # noqa: BLE001 - a defect is the trouble of its partition alone
                self._on_partition_failure(followed, error)
            else:
                flushed = followed.on_success()
                if has_moved:
                    self._session.set(followed.key, followed)
                    if followed.is_watched:
                        self._commit_wait_ms = WATCHED_WAIT_MS
                    elif self._commit_wait_ms is None:
                        self._commit_wait_ms = COMMIT_WAIT_MS
                    if followed.partition.is_throttled_following:
                        self._throttle(followed, data)
                if data.diverging_epoch is not None:
                    # The high watermark of this response could not be used: a new session sends it again.
                    self._session.restart()
                if flushed is not None:
                    self._flushes.append((followed, flushed))
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            out_of_range.append(followed)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._fail(followed, "the leader has a newer epoch")
        else:
            self._pause(followed)

    def _wait_for_flushes(self) -> None:
        """The next fetch waits for the flushes that `flush.messages` demands, as a producer would."""
        flushes, self._flushes = self._flushes, []
        remaining = len(flushes)
        self._is_asking = self._is_storing = True

        def on_flushed(followed: FollowedPartition, outcome: Deferred[None]) -> None:
            nonlocal remaining
            remaining -= 1
            if outcome.error is not None and self._session.get(followed.key) is followed:
                self._on_partition_failure(followed, outcome.error)
            if not remaining:
                self._is_asking = self._is_storing = False
                self._ask()

        for followed, flushed in flushes:
            flushed.when_done(partial(on_flushed, followed))

    def _on_partition_failure(self, followed: FollowedPartition, error: BaseException) -> None:
        if isinstance(error, LogDirectoryOffline):
            self._fail(followed, error.message)
        elif isinstance(error, KafkaError) or (isinstance(error, OSError) and is_temporary(error)):
            logger.warning("%s is paused, fetching it failed: %s", followed.partition, error)
            self._pause(followed)
        else:
            self._fail(followed, error_of(error, "following", followed.partition).message)

    # A log outside of the leader's offset range.

    def _ask_for_range(self, outside: list[FollowedPartition]) -> None:
        """Asks for the end offsets of the leader's logs and then for their start offsets, since both only grow."""
        self._ask_for_offsets(outside, _LATEST, lambda ends: self._ask_for_starts(outside, ends))

    def _ask_for_starts(self, outside: list[FollowedPartition], ends: dict[tuple[str, int], int]) -> None:
        self._ask_for_offsets(outside, _EARLIEST, lambda starts: self._on_range(outside, starts, ends))

    def _ask_for_offsets(
        self,
        wanted: Iterable[FollowedPartition],
        timestamp: int,
        on_offsets: Callable[[dict[tuple[str, int], int]], None],
    ) -> None:
        request = offsets_request(self._node_id, wanted, timestamp)
        timeout_ms = self._settings.socket_timeout_ms
        self._send(request, timeout_ms, lambda answer: on_offsets(offsets_in(cast(ListOffsetsResponse, answer))))

    def _on_range(
        self, outside: list[FollowedPartition], starts: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]
    ) -> None:
        for followed in outside:
            if self._session.get(followed.key) is not followed:
                continue
            place = followed.partition.topic_partition
            start_offset, end_offset = starts.get(place, -1), ends.get(place, -1)
            try:
                has_moved = min(start_offset, end_offset) >= 0 and followed.on_out_of_range(
                    leader_start_offset=start_offset, leader_end_offset=end_offset
                )
            except Exception as error:  # noqa: BLE001 - a defect is the trouble of its partition alone
                self._on_partition_failure(followed, error)
                continue
            if has_moved:
                self._session.set(followed.key, followed)
            else:
                self._pause(followed)
        self._fetch_next()

    # Pauses.

    def _backoff_ms(self, attempts: int) -> int:
        return min(self._settings.backoff_ms, BACKOFF_MS_MIN << min(attempts, 16))

    def _pause(self, followed: FollowedPartition) -> None:
        self._pause_for(followed, self._backoff_ms(followed.on_failure()))

    def _pause_for(self, followed: FollowedPartition, delay_ms: int) -> None:
        followed.leave_session()
        self._session.remove(followed.key)
        self._pauses += 1
        heappush(self._paused, (self._now_ms() + delay_ms, self._pauses, followed))
        self._plan_resume()

    def _throttle(self, followed: FollowedPartition, data: PartitionData | ReceivedSlice) -> None:
        """Counts the received bytes, and pauses the partition if the replication quota is exceeded (KIP-73)."""
        if data.records:
            self._throttles.on_received(len(data.records))
        is_behind = followed.partition.log.log_end_offset < data.high_watermark
        pause_seconds = self._throttles.paced_pause_seconds() if is_behind else 0.0
        followed.throttle(is_held_back=pause_seconds > 0)
        if pause_seconds:
            self._pause_for(followed, math.ceil(pause_seconds * 1000))

    def _plan_resume(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        if self._paused and not self._is_closed:
            delay_ms = max(0, self._paused[0][0] - self._now_ms())
            self._pause_timer = self._scheduler.call_later(delay_ms / 1000, self._resume_paused)

    def _resume_paused(self) -> None:
        self._pause_timer = None
        now_ms = self._now_ms()
        while self._paused and self._paused[0][0] <= now_ms:
            followed = heappop(self._paused)[2]
            if self._followed.get(followed.key) is not followed or followed.is_failed:
                continue
            pause_seconds = self._throttles.follower_pause_seconds() if followed.is_held_back else 0.0
            if pause_seconds:
                # Other partitions have used the quota meanwhile.
                self._pause_for(followed, math.ceil(pause_seconds * 1000))
                continue
            # The leader answers the request under way at about the end of a pause for the quota.
            self._enter_session(followed, interrupts=not followed.is_held_back)
            followed.throttle(is_held_back=False)
        self._plan_resume()

    def _fail(self, followed: FollowedPartition, reason: str) -> None:
        logger.warning("stopped fetching %s: %s", followed.partition, reason)
        followed.fail()
        self._session.remove(followed.key)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)
