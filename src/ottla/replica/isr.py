"""Changes of in-sync sets: a leader watches its followers and asks the controller to change the set (KIP-497).

A follower *leaves* if it has not been at the leader's end for `replica.lag.time.max.ms`; the leader checks this twice
in that time. A follower *joins* when its fetch shows that it holds every committed record and has reached the current
epoch, and the metadata shows its broker alive, not shutting down, and with the broker epoch of the fetch (KIP-903).

A partition has at most one pending change. Changes that come together share one AlterPartition request, and one request
is under way at a time.

| response | what the leader does |
|---|---|
| none, or an error of the whole request | retries after a pause; the change may have been made |
| the new set | takes it over |
| OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA | returns to the committed set; a later fetch may propose again |
| the controller knows a newer epoch, or the topic is deleted | waits for the metadata |
| any other error | retries after a pause |

A change stays pending until its outcome is known: the high watermark counts both sets (see `leadership`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.quorum.errors import MetadataLogFailedError
from ottla.replica.leadership import FollowerProgress, LeaderState, PendingIsr
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.wire.peers import PeerUnreachable

if TYPE_CHECKING:
    from ottla.model.ports import Timer, World
    from ottla.replica.partition import Partition
    from ottla.replica.views import ClusterView, ControllerChannel

__all__ = ["IsrKeeper"]

logger = logging.getLogger("ottla.replica.isr")

RETRY_BACKOFF_SECONDS = 0.05
LAG_CHECK_INTERVAL_MS_MIN = 10

# Partitions in one request. A broker that starts or fails concerns thousands; the controller decides a request in one
# turn of its loop, at about 20 microseconds for each partition.
PARTITIONS_PER_REQUEST_MAX = 200
# Partitions whose followers are checked in one turn of the loop, at about a microsecond for each.
LAG_CHECKS_PER_TURN = 2_000
# More changes than this in one answer share one line of the log.
CHANGES_LOGGED_MAX = 20

_WITHDRAWN = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
_SUPERSEDED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class _Change(NamedTuple):
    partition: Partition
    state: LeaderState
    pending: PendingIsr

    @property
    def is_current(self) -> bool:
        """True while neither metadata nor a new epoch has settled the change."""
        return self.partition.leader_state is self.state and self.state.pending is self.pending


class IsrKeeper:
    """Watches the followers of every partition that this broker leads."""

    def __init__(
        self,
        *,
        node_id: int,
        world: World,
        lag_ms_max: int,
        controller: ControllerChannel,
        broker_epoch: Callable[[], int],
        cluster: Callable[[], ClusterView | None],
        partitions: Callable[[], Iterable[Partition]],
    ) -> None:
        self._node_id = node_id
        self._scheduler = world.scheduler
        self._clock = world.clock
        self._lag_ms_max = lag_ms_max
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._cluster = cluster
        self._partitions = partitions
        self._waiting: dict[Partition, _Change] = {}
        # The waiting partitions whose change has not been in a request yet.
        self._never_asked: set[Partition] = set()
        self._is_asking = False
        self._is_planned = False
        self._is_closed = False
        self._retry_timer: Timer | None = None
        self._lag_timer: Timer | None = None
        # For metrics.
        self.shrinks = 0
        self.expansions = 0

    def start(self) -> None:
        self._plan_lag_check()

    def close(self) -> None:
        self._is_closed = True
        for timer in (self._lag_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self._waiting.clear()
        self._never_asked.clear()

    def now_ms(self) -> int:
        """Monotonic time, by which the followers' progress is measured."""
        return int(self._clock.monotonic() * 1000)

    # Watching.

    def consider_joining(self, partition: Partition, state: LeaderState, progress: FollowerProgress) -> None:
        """A follower that is not in sync has fetched: proposes it as a member if it holds every committed record."""
        if state.pending is not None or self._is_closed:
            return
        needed = max(partition.high_watermark, state.epoch_start_offset)
        if progress.log_end_offset >= needed and self._is_eligible(progress):
            isr = (*state.isr_order, progress.node_id)
            self._propose(_Change(partition, state, PendingIsr(isr, is_growth=True)))

    def joining_test(self, partition: Partition) -> Callable[[FollowerProgress], bool]:
        """Returns a test whether the high watermark waits for a follower that is not in the in-sync set yet."""
        now_ms = self.now_ms()
        end_offset = partition.log.log_end_offset

        def is_joining(progress: FollowerProgress) -> bool:
            return progress.is_caught_up(
                leader_end_offset=end_offset, now_ms=now_ms, lag_ms_max=self._lag_ms_max
            ) and self._is_eligible(progress)

        return is_joining

    def is_alive(self, node_id: int) -> bool:
        """Whether the broker is registered and not fenced."""
        cluster = self._cluster()
        broker = None if cluster is None else cluster.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def check_lag(self) -> None:
        """Proposes to remove every follower that has been behind for too long."""
        self._check_lag_of(self._partitions())

    def _check_in_turns(self, partitions: Iterator[Partition]) -> None:
        """`check_lag`, a limited number of partitions in each turn of the loop."""
        if self._is_closed:
            return
        checked = list(islice(partitions, LAG_CHECKS_PER_TURN))
        if checked:
            self._check_lag_of(checked)
            self._scheduler.call_soon(self._check_in_turns, partitions)
        else:
            self._plan_lag_check()

    def _check_lag_of(self, partitions: Iterable[Partition]) -> None:
        now_ms = self.now_ms()
        for partition in partitions:
            state = partition.leader_state
            if state is None:
                continue
            end_offset = partition.log.log_end_offset
            if partition.high_watermark < end_offset:
                # The high watermark may have waited for a joining follower that failed, which no other event reports.
                partition.advance_high_watermark()
            if state.pending is not None or len(state.isr) <= 1:
                continue
            behind = {
                follower_id
                for follower_id, progress in state.followers.items()
                if follower_id in state.isr
                and not progress.is_caught_up(leader_end_offset=end_offset, now_ms=now_ms, lag_ms_max=self._lag_ms_max)
            }
            if behind:
                isr = tuple(member for member in state.isr_order if member not in behind)
                self._propose(_Change(partition, state, PendingIsr(isr, is_growth=False)))

    def _is_eligible(self, progress: FollowerProgress) -> bool:
        cluster = self._cluster()
        broker = None if cluster is None else cluster.brokers.get(progress.node_id)
        if broker is None or not broker.active:
            return False
        return progress.replica_epoch in (-1, broker.broker_epoch)

    def _plan_lag_check(self) -> None:
        delay_ms = max(self._lag_ms_max // 2, LAG_CHECK_INTERVAL_MS_MIN)
        self._lag_timer = self._scheduler.call_later(delay_ms / 1000, self._on_lag_check_due)

    def _on_lag_check_due(self) -> None:
        self._check_in_turns(iter(list(self._partitions())))

    # Requests to the controller.

    def _propose(self, change: _Change) -> None:
        change.state.propose_isr(change.pending)
        self._waiting[change.partition] = change
        self._never_asked.add(change.partition)
        self._plan_request()

    def _plan_request(self) -> None:
        """Sends the request at the end of the loop's turn, so that changes of one turn share it."""
        if not (self._is_planned or self._is_asking or self._is_closed) and self._retry_timer is None:
            self._is_planned = True
            self._scheduler.call_soon(self._ask)

    def _ask(self) -> None:
        self._is_planned = False
        self._retry_timer = None
        self._waiting = {partition: change for partition, change in self._waiting.items() if change.is_current}
        self._never_asked.intersection_update(self._waiting)
        if not self._waiting or self._is_closed:
            return
        requested: dict[tuple[Uuid, int], _Change] = {}
        for partition, change in self._waiting.items():
            requested[(partition.topic_id, partition.index)] = change
            if len(requested) == PARTITIONS_PER_REQUEST_MAX:
                break
        self._never_asked.difference_update(change.partition for change in requested.values())
        self._is_asking = True
        self._controller.ask(self._request(requested.values())).when_done(
            lambda answer: self._on_answer(requested, answer)
        )

    def _request(self, changes: Iterable[_Change]) -> AlterPartitionRequest:
        own_epoch = self._broker_epoch()
        topics: dict[Uuid, RequestTopicData] = {}
        for partition, state, pending in changes:
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = RequestTopicData(topic_id=partition.topic_id)
            members = []
            for member in pending.isr:
                progress = state.followers.get(member)
                epoch = own_epoch if member == self._node_id else -1 if progress is None else progress.replica_epoch
                members.append(BrokerState(broker_id=member, broker_epoch=epoch))
            topic.partitions.append(
                RequestPartitionData(
                    partition_index=partition.index,
                    leader_epoch=state.epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=partition.partition_epoch,
                )
            )
        return AlterPartitionRequest(broker_id=self._node_id, broker_epoch=own_epoch, topics=list(topics.values()))

    def _on_answer(self, requested: dict[tuple[Uuid, int], _Change], answer: Deferred[AlterPartitionResponse]) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        error = answer.error
        if isinstance(error, (KafkaError, PeerUnreachable, MetadataLogFailedError)):
            logger.info("AlterPartition failed and will be retried: %s", error)
            self._plan_retry()
            return
        response = answer.result()
        if response.error_code:
            logger.info("AlterPartition failed with error %d and will be retried", response.error_code)
            self._plan_retry()
            return
        answered = {
            (topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        if len(requested) > CHANGES_LOGGED_MAX:
            logger.info("the controller answered %d changes of in-sync sets", len(answered))
        for key, change in requested.items():
            data = answered.get(key)
            if data is not None and data.error_code == ErrorCode.NONE:
                # Counted here, because metadata may have brought the new set before the response.
                self._count(change.pending)
                if len(requested) <= CHANGES_LOGGED_MAX:
                    logger.info("in-sync set of %s changed to %s", change.partition, sorted(data.isr))
            if data is not None and change.is_current:
                self._on_partition_answer(change, data)
            if self._waiting.get(change.partition) is change:
                # Moved behind the changes that have not been requested yet.
                self._waiting[change.partition] = self._waiting.pop(change.partition)
        if self._never_asked:
            self._plan_request()
        elif self._waiting:
            self._plan_retry()

    def _on_partition_answer(self, change: _Change, data: ResponsePartitionData) -> None:
        partition, state, pending = change
        code = data.error_code
        if code == ErrorCode.NONE:
            self._settle(change)
            if data.leader_epoch == state.epoch:
                partition.commit_isr(state, isr=data.isr, partition_epoch=data.partition_epoch)
        elif code in _WITHDRAWN:
            logger.info("the controller rejected %s as the in-sync set of %s", sorted(pending.isr), partition)
            self._settle(change)
            state.withdraw_isr()
            partition.advance_high_watermark()
        elif code in _SUPERSEDED:
            # The change stays pending and is not retried: newer metadata is on its way.
            self._settle(change)

    def _settle(self, change: _Change) -> None:
        if self._waiting.get(change.partition) is change:
            del self._waiting[change.partition]

    def _count(self, pending: PendingIsr) -> None:
        if pending.is_growth:
            self.expansions += 1
        else:
            self.shrinks += 1

    def _plan_retry(self) -> None:
        if self._retry_timer is None:
            self._retry_timer = self._scheduler.call_later(RETRY_BACKOFF_SECONDS, self._ask)
