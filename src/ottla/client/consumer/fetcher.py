"""Fetches ahead: one request in flight for each broker; responses are buffered until they are polled.

A response is read by batch headers. Control batches and batches of aborted transactions are dropped, and records are
not decoded. Fetching pauses while more than `buffer_bytes` are buffered. Every broker keeps a session
(`fetch_session`), so requests contain only changes and responses only new data. A new leader is first asked whether its
log contains the position (`truncation`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Coroutine
from typing import Any

from ottla.client.aborted import AbortedTransactions
from ottla.client.cluster import Cluster
from ottla.client.consumer.decode import ConsumedBatch
from ottla.client.consumer.fetch_session import FetchPlan, FetchSession
from ottla.client.consumer.positions import PartitionState, Positions
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.starts import Starts
from ottla.client.consumer.truncation import Doubt, EpochEnd, LeaderLog, ask_epoch_ends, leader_log
from ottla.client.errors import ClientError, RequestUnsupported, error_of, is_temporary
from ottla.client.measures import ConsumerMeasures
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.errors import CorruptRecords
from ottla.records.iterate import iterate_batches, verify_checksum
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData

__all__ = ["Fetcher"]

# The last version with topic names, for topics without a known topic id.
_NAMES_VERSION_MAX = 12
# A response with fewer bytes is followed by the pause of the settings.
_FEW_BYTES = 64 * 1024
# The time-out of closing a session; the broker evicts an open session later.
_GOODBYE_TIMEOUT_MS = 500
_MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
}


class Fetcher:
    """`ready` holds fetched batches; `arrived` is set when batches or an error arrive."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        positions: Positions,
        starts: Starts,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self._starts = starts
        # By broker: Fetch requests in flight, and OffsetForLeaderEpoch requests in flight.
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._checks: dict[int, asyncio.Task[None]] = {}
        self._sessions: defaultdict[int, FetchSession] = defaultdict(FetchSession)
        self._refreshing: asyncio.Task[None] | None = None
        self.ready: deque[tuple[int, ConsumedBatch]] = deque()
        # Batches of paused partitions, in order: every call of `take` would otherwise pass all of them.
        self._paused: dict[TopicPartition, list[tuple[int, ConsumedBatch]]] = {}
        self.arrived = asyncio.Event()
        # A position that was found late ends the wait of a poll, which then fetches from it.
        starts.on_found = self.arrived.set
        self.failure: Exception | None = None
        self.measures = ConsumerMeasures()
        self._buffered = 0
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        await self._starts.close()
        # A broker with a Fetch in flight would answer only after it, so its session is not closed.
        idle = [node_id for node_id in self._sessions if node_id not in self._tasks]
        tasks = [*self._tasks.values(), *self._checks.values()]
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*map(self._end_session, idle), return_exceptions=True)

    def start(self) -> None:
        """Sends a Fetch to every broker that leads partitions to read and has no request in flight."""
        if self._closed or self.failure is not None:
            return
        if self._buffered >= self._settings.buffer_bytes and self.has_next:
            return
        wanted: dict[int, list[PartitionState]] = defaultdict(list)
        doubts: dict[int, list[Doubt]] = defaultdict(list)
        stale: set[str] = set()
        metadata = self._cluster.metadata
        now = asyncio.get_running_loop().time()
        for state in self._positions.states.values():
            if state.paused or state.fetch_offset < 0 or state.fetching:
                continue
            leader = metadata.leader_of(*state.partition)
            if leader >= 0:
                info = metadata.topics[state.partition.topic]
                log = leader_log(state, info)
                if log is LeaderLog.STALE:
                    stale.add(state.partition.topic)
                elif log is LeaderLog.UNSURE and leader not in self._checks:
                    doubts[leader].append(Doubt(state, info))
                if log is not LeaderLog.SAME:
                    continue
            node_id = state.read_replica
            if node_id < 0 or node_id not in metadata.brokers or now >= state.read_replica_until:
                node_id = leader
            if node_id < 0:
                stale.add(state.partition.topic)
            elif node_id not in self._tasks:
                wanted[node_id].append(state)
        for node_id, states in wanted.items():
            requested = [(state, state.turn) for state in states]
            self._begin(self._tasks, node_id, states, self._fetch(node_id, requested))
        for node_id, node_doubts in doubts.items():
            self._begin(
                self._checks, node_id, [doubt.state for doubt in node_doubts], self._check(node_id, node_doubts)
            )
        if stale:
            self._refresh(stale)

    @property
    def has_next(self) -> bool:
        """True if `take` has a batch to return."""
        self._restore_resumed()
        states = self._positions.states
        for turn, batch in self.ready:
            state = states.get(batch.partition)
            if state is not None and state.turn == turn and not state.paused:
                return True
        return False

    def take(self) -> ConsumedBatch | None:
        """The next batch of an assigned partition. Batches of paused partitions wait without blocking others."""
        self._restore_resumed()
        while self.ready:
            turn, batch = self.ready.popleft()
            state = self._positions.states.get(batch.partition)
            if state is not None and state.turn == turn and state.paused:
                self._paused.setdefault(batch.partition, []).append((turn, batch))
                continue
            self._buffered -= len(batch.view)
            if state is not None and state.turn == turn:
                state.taken_turn = turn
                return batch
        return None

    def _restore_resumed(self) -> None:
        """Returns the batches of partitions that are not paused any more to the front of the queue.

        Batches from before a seek or a new assignment return as well: `take` drops them.
        """
        for partition, batches in list(self._paused.items()):
            state = self._positions.states.get(partition)
            if state is None or not state.paused or state.turn != batches[0][0]:
                del self._paused[partition]
                self.ready.extendleft(reversed(batches))

    def put_back(self, batch: ConsumedBatch, position: int | None = None) -> None:
        """Returns a batch that is not used up to the front of the queue, and takes back the position, if given.

        A batch of a partition that was moved after `take`, or is not assigned any more, is dropped.
        """
        state = self._positions.states.get(batch.partition)
        if state is None or state.seek_turn > state.taken_turn:
            return
        state.position = state.position if position is None else position
        if state.turn != state.taken_turn:
            # The leader has changed: its log may have other records, so they are fetched again.
            state.rewind()
            return
        self._buffered += len(batch.view)
        self.ready.appendleft((state.turn, batch))

    def _begin(
        self,
        tasks: dict[int, asyncio.Task[None]],
        node_id: int,
        states: list[PartitionState],
        work: Coroutine[Any, Any, None],
    ) -> None:
        for state in states:
            state.fetching = True

        def ended(_: asyncio.Task[None]) -> None:
            tasks.pop(node_id, None)
            self.start()

        task = tasks[node_id] = asyncio.ensure_future(work)
        task.add_done_callback(ended)

    async def _check(self, node_id: int, doubts: list[Doubt]) -> None:
        """Asks a leader whether its log contains the positions."""
        try:
            answers = await ask_epoch_ends(self._cluster, node_id, doubts)
        except RequestUnsupported:
            # The broker does not support the request: there is nothing to check.
            answers = {doubt.state.partition: EpochEnd(doubt.current_epoch, doubt.state.position) for doubt in doubts}
        except ClientError as error:
            answers = {}
            if not is_temporary(error):
                self._fail(error)
        finally:
            for doubt in doubts:
                doubt.state.fetching = False
        unanswered: set[str] = set()
        for doubt in doubts:
            end = answers.get(doubt.state.partition)
            if not self._is_current(doubt.state, doubt.turn):
                continue
            if isinstance(end, EpochEnd):
                if not doubt.settle(end):
                    known = end if end.epoch >= 0 and end.offset >= 0 else None
                    self._fail(self._starts.after_truncation(doubt.state, known))
            elif end is None or end.code.retriable:
                unanswered.add(doubt.state.partition.topic)
            else:
                self._fail(KafkaError(end.code, f"{doubt.state.partition}: {end.message}"))
        if unanswered:
            self._refresh(unanswered)
            await asyncio.sleep(self._cluster.settings.retry_backoff_ms / 1000)

    async def _fetch(self, node_id: int, requested: list[tuple[PartitionState, int]]) -> None:
        states = [state for state, _ in requested]
        session = self._sessions[node_id]
        try:
            response = await self._ask(node_id, states, session)
        except ClientError as error:
            session.on_no_answer()
            if not is_temporary(error):
                # The connections of other requests may live on, so that only the poll can report it.
                self._fail(error)
            await asyncio.sleep(self._cluster.settings.retry_backoff_ms / 1000)
            self._refresh({state.partition.topic for state in states})
            return
        finally:
            for state in states:
                state.fetching = False
        if not session.accepts(error_code=response.error_code, session_id=response.session_id):
            return
        if response.error_code:
            self._fail(error_of(response.error_code))
            return
        by_partition = {state.partition: (state, turn) for state, turn in requested}
        names = self._cluster.metadata.names
        pause = False
        received = 0
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                received += len(data.records or b"")
                partition = TopicPartition(name, data.partition_index)
                state_and_turn = by_partition.get(partition)
                if state_and_turn is not None and self._is_current(*state_and_turn):
                    pause |= self._on_partition(node_id, state_and_turn[0], data)
                elif not data.error_code and partition in self._positions.states:
                    # A seek has happened since the request. The session does not repeat the ends until they change.
                    _see_ends(self._positions.states[partition], data)
        if pause:
            await asyncio.sleep(self._cluster.settings.retry_backoff_ms / 1000)
        elif self._settings.fetch_pause_ms and 0 < received < _FEW_BYTES:
            await asyncio.sleep(self._settings.fetch_pause_ms / 1000)

    def _is_current(self, state: PartitionState, turn: int) -> bool:
        """True if the partition is still assigned and no seek has happened since the request."""
        return state.turn == turn and self._positions.states.get(state.partition) is state

    async def _ask(self, node_id: int, states: list[PartitionState], session: FetchSession) -> FetchResponse:
        settings = self._settings
        known = self._cluster.metadata.topics
        wanted: dict[TopicPartition, FetchPartition] = {}
        for state in states:
            wanted[state.partition] = FetchPartition(
                partition=state.partition.partition,
                current_leader_epoch=state.agreed_epoch,
                fetch_offset=state.fetch_offset,
                partition_max_bytes=settings.partition_fetch_bytes,
            )
        ids = {
            partition.topic: known[partition.topic].topic_id if partition.topic in known else Uuid.ZERO
            for partition in wanted
        }
        has_ids = all(ids.values())
        connection = await self._cluster.node_connection(node_id, "fetch")
        request = self._request(session.plan(wanted, ids if has_ids else None))
        now = asyncio.get_running_loop().time
        sent = now()
        response: FetchResponse = await connection.ask(
            request,
            timeout_ms=self._cluster.settings.request_timeout_ms + settings.fetch_max_wait_ms,
            version_max=32767 if has_ids else _NAMES_VERSION_MAX,
        )
        self.measures.fetches += 1
        self.measures.fetch_seconds += now() - sent
        return response

    def _request(self, plan: FetchPlan) -> FetchRequest:
        settings = self._settings
        return FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=1 if settings.read_committed else 0,
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=plan.topics,
            forgotten_topics_data=plan.forgotten,
            rack_id=settings.rack,
        )

    async def _end_session(self, node_id: int) -> None:
        plan = self._sessions[node_id].final()
        if plan is not None:
            async with asyncio.timeout(_GOODBYE_TIMEOUT_MS / 1000):
                connection = await self._cluster.node_connection(node_id, "fetch")
                await connection.ask(self._request(plan), timeout_ms=_GOODBYE_TIMEOUT_MS)

    def _on_partition(self, node_id: int, state: PartitionState, data: PartitionData) -> bool:
        """Processes the response of a partition. Returns True if the next Fetch should wait for a moment."""
        error = error_of(data.error_code)
        if error is None:
            _see_ends(state, data)
            if data.preferred_read_replica >= 0:
                # For a limited time: a follower that has lost its leader does not get new records.
                now = asyncio.get_running_loop().time()
                state.read_replica = data.preferred_read_replica
                state.read_replica_until = now + self._cluster.settings.metadata_age_max_ms / 1000
            elif data.records is not None and len(data.records):
                self._keep(state, data)
            return False
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.read_replica == node_id:
                state.read_replica = -1
                return False
            if state.position != state.fetch_offset:
                # Batches that were fetched before the error are returned first.
                return True
            self._fail(self._starts.after_out_of_range(state))
            return False
        if error.code in _MOVED:
            state.read_replica = -1
            self._refresh({state.partition.topic})
            return True
        self._fail(KafkaError(error.code, f"{state.partition}: {error.message}"))
        return True

    def _keep(self, state: PartitionState, data: PartitionData) -> None:
        partition, turn, check = state.partition, state.turn, self._settings.check_crcs
        records = data.records
        assert isinstance(records, memoryview)
        self.measures.fetched_bytes += len(records)
        aborted = AbortedTransactions(data) if self._settings.read_committed else None
        drops_control = not self._settings.keeps_control_batches
        try:
            for batch in iterate_batches(records):
                header = batch.header
                next_offset = header.next_offset
                if next_offset <= state.fetch_offset and header.magic == 2:
                    continue
                if check and not verify_checksum(batch.view, header):
                    raise CorruptRecords(f"{partition}: the batch at offset {header.base_offset} has a wrong checksum")
                if (header.is_control and drops_control) or (aborted is not None and aborted.covers(batch)):
                    if aborted is not None and header.is_control:
                        aborted.on_control(batch)
                    self.ready.append((turn, ConsumedBatch(partition, header, records[:0])))
                else:
                    self.ready.append((turn, ConsumedBatch(partition, header, batch.view)))
                    self._buffered += len(batch.view)
                state.fetch_offset = next_offset
        except CorruptRecords as error:
            self._fail(error)
        self.arrived.set()

    def _refresh(self, topics: set[str]) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._refresh_now(sorted(topics)))

    async def _refresh_now(self, topics: list[str]) -> None:
        try:
            await asyncio.sleep(self._cluster.settings.retry_backoff_ms / 1000)
            await self._cluster.refresh(topics)
        except (ClientError, KafkaError) as error:
            self._fail(error)
            return
        # This task is done; partitions without a leader start the next one.
        self._refreshing = None
        self.start()

    def _fail(self, error: Exception | None) -> None:
        """Wakes the poll, which raises the error, if there is one."""
        self.failure = error or self.failure
        self.arrived.set()


def _see_ends(state: PartitionState, data: PartitionData) -> None:
    state.high_watermark = data.high_watermark
    state.last_stable_offset = data.last_stable_offset
    state.log_start_offset = data.log_start_offset
