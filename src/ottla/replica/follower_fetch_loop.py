"""The fetch loop of a follower: one connection to one leader, for a share of the partitions that it leads.

One request is under way at a time; the leader parks it while it has nothing, so the loop needs no timer but the one
that ends pauses. A partition is in one of three places: in the *session* (it is fetched), in the *pause* (something
went wrong with it, it is tried again soon), or *failed* (nothing helps until the metadata names a new epoch, or until
the disk is replaced). One partition's trouble never stops the others.

| what went wrong | what is done |
|---|---|
| no answer | a pause for the whole loop, then a new session |
| OFFSET_OUT_OF_RANGE | the leader is asked for its range, the log is brought into it |
| FENCED_LEADER_EPOCH | failed: newer metadata is on its way |
| any other error of the leader's | a pause: one of the two is about to learn something |
| damaged records, a full disk | a pause |
| a failed disk | failed: its directory is out of service |
| a defect of ours | failed: it would fail again |

Pauses begin short, for most troubles are metadata that is a moment late, and grow to `replica.fetch.backoff.ms`.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.defects import error_of
from ottla.replica.followed_partition import DoubtEnded, FollowedPartition, GapsNotNoted
from ottla.replica.follower_fetch_session import FollowerFetchSession
from ottla.storage.errors import LogDirectoryOffline
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.deferred import Deferred
    from ottla.model.ids import Uuid
    from ottla.model.ports import Timer, World
    from ottla.replica.follower_fetch_session import PartitionKey
    from ottla.replica.throttles import ReplicationThrottles
    from ottla.wire.message import Message
    from ottla.wire.peers import Endpoint, Peers

__all__ = ["FetcherSettings", "ReplicaFetcher"]

logger = logging.getLogger("ottla.replica.follower_fetch_loop")

BACKOFF_MS_MIN = 10

# Consumers that read from this follower (KIP-392) wait for the high watermark, which comes with the next answer: it is
# not to be parked for long then.
WATCHED_WAIT_MS = 10

# A new partition need not wait for the end of a long poll, but each such hurry costs a connection.
HURRY_INTERVAL_MS = 100

_LATEST = -1
_EARLIEST = -2


class FetcherSettings(NamedTuple):
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    min_bytes: int = 1
    wait_max_ms: int = 500
    backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000

    @classmethod
    def from_broker_config(cls, config: BrokerConfig) -> FetcherSettings:
        return cls(
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            min_bytes=config.replica_fetch_min_bytes,
            wait_max_ms=config.replica_fetch_wait_max_ms,
            backoff_ms=config.replica_fetch_backoff_ms,
            socket_timeout_ms=config.replica_socket_timeout_ms,
        )


class ReplicaFetcher:
    """Keeps the followed partitions up with one leader."""

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
        # Those that pause, by the time when they are tried again.
        self._paused: deque[tuple[int, FollowedPartition]] = deque()
        self._pause_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._flushes: list[Deferred[None]] = []
        self._failures = 0
        # Counted up when the request under way is given up: its answer is not waited for any more.
        self._turn = 0
        self._is_asking = False
        self._is_flushing = False
        self._is_planned = False
        self._is_closed = False
        # Somebody waits here for what was just received.
        self._is_watched = False
        self._hurried_ms = -HURRY_INTERVAL_MS

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def failed(self) -> list[FollowedPartition]:
        return [followed for followed in self._followed.values() if followed.is_failed]

    def followed(self, key: PartitionKey) -> FollowedPartition | None:
        return self._followed.get(key)

    def follow(self, followed: FollowedPartition) -> None:
        """Begins to fetch a partition, or goes on with a new epoch."""
        self._followed[followed.key] = followed
        try:
            followed.start()
        except Exception as error:  # noqa: BLE001 - a defect is the trouble of its partition alone
            self._on_trouble(followed, error)
            return
        self._session.set(followed.key, followed)
        self._hurry()

    def unfollow(self, key: PartitionKey) -> None:
        """Whatever is still on its way for this partition is not taken in any more."""
        self._followed.pop(key, None)
        self._session.remove(key)

    def move(self, endpoint: Endpoint) -> None:
        """The leader is reached elsewhere from now on."""
        old, self.endpoint = self.endpoint, endpoint
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        self._failures = 0
        self._give_up(old)
        self._plan()

    def close(self) -> None:
        self._is_closed = True
        for timer in (self._pause_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self._give_up(self.endpoint)

    # Asking.

    def _plan(self) -> None:
        """At the end of the loop's turn: one change of the metadata brings many partitions."""
        if not (self._is_planned or self._is_asking or self._is_closed) and self._retry_timer is None:
            self._is_planned = True
            self._scheduler.call_soon(self._ask)

    def _hurry(self) -> None:
        now_ms = self._now_ms()
        if self._is_asking and not self._is_flushing and now_ms - self._hurried_ms >= HURRY_INTERVAL_MS:
            self._hurried_ms = now_ms
            self._give_up(self.endpoint)
        self._plan()

    def _give_up(self, endpoint: Endpoint) -> None:
        """Ends the request under way; the leader may have moved its session on, so a new one is begun."""
        self._turn += 1
        self._is_asking = self._is_flushing
        self._session.restart()
        self._peers.disconnect(endpoint, purpose=self._purpose)

    def _ask(self) -> None:
        self._is_planned = False
        self._retry_timer = None
        if self._is_asking or self._is_closed or not len(self._session):
            return
        settings = self._settings
        wait_ms = min(settings.wait_max_ms, WATCHED_WAIT_MS) if self._is_watched else settings.wait_max_ms
        self._is_watched = False
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
        )
        topics: dict[Uuid, FetchTopic] = {}
        for followed in self._session.begin_request(request):
            partition = followed.partition
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = FetchTopic(topic=partition.topic, topic_id=partition.topic_id)
            topic.partitions.append(followed.wanted(max_bytes=settings.max_bytes))
        request.topics = list(topics.values())
        if self._session.has_untold:
            # The others wait to be fetched, too.
            request.max_wait_ms = 0
        self._send(request, settings.socket_timeout_ms + settings.wait_max_ms, self._on_fetched)

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
            logger.info("broker %d does not answer fetches: %s", self.leader_id, error)
        self._session.restart()
        self._pause_all()

    def _pause_all(self) -> None:
        delay_ms = self._backoff_ms(self._failures)
        self._failures += 1
        self._retry_timer = self._scheduler.call_later(delay_ms / 1000, self._ask)

    # Hearing.

    def _on_fetched(self, message: Message) -> None:
        response = cast(FetchResponse, message)
        was_incremental = self._session.is_incremental
        if not self._session.end_request(response):
            if was_incremental:
                self._plan()
            else:
                logger.warning("broker %d refuses fetches: error %d", self.leader_id, response.error_code)
                self._pause_all()
            return
        out_of_range: list[FollowedPartition] = []
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._session.get((topic.topic_id, data.partition_index))
                if followed is None:
                    continue
                if followed.sent_offset != followed.position:
                    # It was added, or got a new epoch, while the request was under way: this is no answer to it. But
                    # the leader believes that it has told its high watermark, and would not tell it again.
                    self._session.restart()
                else:
                    self._on_partition(followed, data, out_of_range)
        if out_of_range:
            self._ask_range(out_of_range)
        else:
            # Not by way of the scheduler: the answer to this is what producers wait for.
            self._go_on()

    def _go_on(self) -> None:
        if self._flushes:
            self._wait_for_flushes()
        else:
            self._ask()

    def _on_partition(
        self, followed: FollowedPartition, data: PartitionData, out_of_range: list[FollowedPartition]
    ) -> None:
        code = data.error_code
        if code == ErrorCode.NONE:
            try:
                has_moved = followed.on_fetched(data)
            except (GapsNotNoted, DoubtEnded):
                self._pause(followed)
            except Exception as error:  # noqa: BLE001 - a defect is the trouble of its partition alone
                self._on_trouble(followed, error)
            else:
                flushed = followed.on_success()
                if has_moved:
                    self._session.set(followed.key, followed)
                    if followed.is_watched:
                        self._is_watched = True
                    if followed.partition.is_throttled_following:
                        self._throttle(followed, data)
                if data.diverging_epoch is not None:
                    # The high watermark that came with it was of no use yet: it has to be told anew.
                    self._session.restart()
                if flushed is not None:
                    self._flushes.append(flushed)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            out_of_range.append(followed)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._fail(followed, "its leader has a newer epoch")
        else:
            self._pause(followed)

    def _wait_for_flushes(self) -> None:
        """Topics that ask for the disk at each append have all their partitions wait for it, as a producer does."""
        flushes, self._flushes = self._flushes, []
        remaining = len(flushes)
        self._is_asking = self._is_flushing = True

        def on_flushed(_: Deferred[None]) -> None:
            # A disk that fails here fails the log, which the next fetch learns.
            nonlocal remaining
            remaining -= 1
            if not remaining:
                self._is_asking = self._is_flushing = False
                self._ask()

        for flushed in flushes:
            flushed.when_done(on_flushed)

    def _on_trouble(self, followed: FollowedPartition, error: Exception) -> None:
        if isinstance(error, LogDirectoryOffline):
            self._fail(followed, error.message)
        elif not isinstance(error, KafkaError):
            self._fail(followed, error_of(error, "following", followed.partition).message)
        else:
            logger.warning("%s cannot be fetched now: %s", followed.partition, error.message)
            self._pause(followed)

    # A log outside of the leader's range.

    def _ask_range(self, outside: list[FollowedPartition]) -> None:
        """Asks where the leader's logs end, then where they begin: in this order, for both may move on meanwhile."""
        self._ask_offsets(outside, _LATEST, lambda ends: self._ask_starts(outside, ends))

    def _ask_starts(self, outside: list[FollowedPartition], ends: dict[tuple[str, int], int]) -> None:
        self._ask_offsets(outside, _EARLIEST, lambda starts: self._on_range(outside, starts, ends))

    def _ask_offsets(
        self,
        wanted: Iterable[FollowedPartition],
        timestamp: int,
        on_offsets: Callable[[dict[tuple[str, int], int]], None],
    ) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        for followed in wanted:
            name, index = followed.partition.topic_partition
            topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
                ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(replica_id=self._node_id, topics=list(topics.values()))

        def on_answer(message: Message) -> None:
            on_offsets(
                {
                    (topic.name, data.partition_index): _offset_of(data)
                    for topic in cast(ListOffsetsResponse, message).topics
                    for data in topic.partitions
                }
            )

        self._send(request, self._settings.socket_timeout_ms, on_answer)

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
                self._on_trouble(followed, error)
                continue
            if has_moved:
                self._session.set(followed.key, followed)
            else:
                self._pause(followed)
        self._go_on()

    # Pauses.

    def _backoff_ms(self, attempts: int) -> int:
        return min(self._settings.backoff_ms, BACKOFF_MS_MIN << min(attempts, 16))

    def _pause(self, followed: FollowedPartition) -> None:
        self._leave_alone(followed, self._backoff_ms(followed.on_failure()))

    def _leave_alone(self, followed: FollowedPartition, delay_ms: int) -> None:
        followed.leave_session()
        self._session.remove(followed.key)
        due = (self._now_ms() + delay_ms, followed)
        # Nearly always the last one; pauses differ by how often something failed before.
        place = len(self._paused)
        while place and self._paused[place - 1][0] > due[0]:
            place -= 1
        self._paused.insert(place, due)
        self._plan_end_of_pause()

    def _throttle(self, followed: FollowedPartition, data: PartitionData) -> None:
        """Counts what came, and leaves the partition alone for a while if that was too much (KIP-73)."""
        if data.records:
            self._throttles.on_received(len(data.records))
        is_behind = followed.partition.log.log_end_offset < data.high_watermark
        pause_seconds = self._throttles.follower_pause_seconds() if is_behind else 0.0
        followed.throttle(is_held_back=pause_seconds > 0)
        if pause_seconds:
            self._leave_alone(followed, math.ceil(pause_seconds * 1000))

    def _plan_end_of_pause(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        if self._paused and not self._is_closed:
            delay_ms = max(0, self._paused[0][0] - self._now_ms())
            self._pause_timer = self._scheduler.call_later(delay_ms / 1000, self._on_pause_over)

    def _on_pause_over(self) -> None:
        self._pause_timer = None
        now_ms = self._now_ms()
        while self._paused and self._paused[0][0] <= now_ms:
            followed = self._paused.popleft()[1]
            if self._followed.get(followed.key) is not followed or followed.is_failed:
                continue
            pause_seconds = self._throttles.follower_pause_seconds() if followed.is_held_back else 0.0
            if pause_seconds:
                # Others have used up meanwhile what it was waiting for.
                self._leave_alone(followed, math.ceil(pause_seconds * 1000))
                continue
            followed.throttle(is_held_back=False)
            self._session.set(followed.key, followed)
            self._hurry()
        self._plan_end_of_pause()

    def _fail(self, followed: FollowedPartition, reason: str) -> None:
        logger.warning("%s is not fetched any more: %s", followed.partition, reason)
        followed.fail()
        self._session.remove(followed.key)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _offset_of(data: ListOffsetsPartitionResponse) -> int:
    return -1 if data.error_code else data.offset
