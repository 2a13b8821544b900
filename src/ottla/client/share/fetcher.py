"""Requests of a share consumer: one at a time for each broker, because they follow each other in a share session.

A fetch is sent only when a poll needs records: acquired records are locked, and the time of their locks passes while
they wait. Acknowledgements travel with the next fetch, or in a request of their own.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, error_of, is_temporary
from ottla.client.measures import ShareMeasures
from ottla.client.share.acknowledgements import Decisions, merge
from ottla.client.share.held import OnAcknowledged
from ottla.client.share.records import AcquiredRange, AcquiredRecords
from ottla.client.share.requests import acknowledge_request, fetch_request, renews
from ottla.client.share.session import ShareSession
from ottla.client.share.settings import ShareSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from ottla.wire.messages.share_fetch import PartitionData, ShareFetchResponse

__all__ = ["ShareFetcher"]

# is_renew_ack appears with this version.
_RENEW_VERSION = 2
_ACKNOWLEDGE = API_SPECS[ApiKey.SHARE_ACKNOWLEDGE]
_LOST = ErrorCode.INVALID_RECORD_STATE
_MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}

Results = dict[TopicPartition, KafkaError | None]


class ShareFetcher:
    """`ready` holds acquired records; `arrived` is set when records or an error arrive."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ShareSettings,
        on_session_lost: Callable[[int], None],
        on_acknowledged: OnAcknowledged,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._on_session_lost = on_session_lost
        self._on_acknowledged = on_acknowledged
        self._sessions: defaultdict[int, ShareSession] = defaultdict(ShareSession)
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Acknowledgements that wait for the next request to their broker.
        self._waiting: defaultdict[int, Decisions] = defaultdict(dict)
        self._next_node = 0
        self.member_id = ""
        self.ready: deque[AcquiredRecords] = deque()
        self.arrived = asyncio.Event()
        self.failure: Exception | None = None
        self.lock_timeout_ms: int | None = None
        self.measures = ShareMeasures()

    # Fetching.

    def start(self, assigned: Collection[TopicPartition], held: Callable[[int], set[TopicPartition]]) -> None:
        """Sends a fetch to every broker that leads assigned partitions and has no request in flight.

        `held` returns the partitions whose records the application holds: they stay in the session of their broker.
        """
        by_leader: dict[int, set[TopicPartition]] = defaultdict(set)
        topics = self._cluster.metadata.topics
        stale: set[str] = set()
        for partition in assigned:
            leader = self._cluster.metadata.leader_of(*partition)
            if leader < 0 or not topics[partition.topic].topic_id:
                stale.add(partition.topic)
            else:
                by_leader[leader].add(partition)
        nodes = [node_id for node_id in by_leader if node_id not in self._tasks]
        if self._settings.limits_records and nodes:
            # Several brokers would together acquire more records than the limit.
            nodes = [] if self._tasks else [sorted(nodes)[self._next_node % len(nodes)]]
            self._next_node += 1
        for node_id in nodes:
            self._begin(node_id, self._fetch(node_id, by_leader[node_id], held))
        for node_id in [
            node_id for node_id, decisions in self._waiting.items() if decisions and node_id not in self._tasks
        ]:
            # Brokers that are not asked for records get acknowledgements in a request of their own.
            self._begin(node_id, self._acknowledge_waiting(node_id))
        if stale:
            self._begin(-1, self._refresh(sorted(stale)))

    def _begin(self, node_id: int, work: Coroutine[Any, Any, None]) -> None:
        if node_id in self._tasks:
            work.close()
            return
        task = self._tasks[node_id] = asyncio.ensure_future(work)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.pop(node_id, None)
            if not done.cancelled() and (error := done.exception()) is not None:
                self.failure = self.failure or (error if isinstance(error, Exception) else None)
            self.arrived.set()

        task.add_done_callback(ended)

    async def _fetch(
        self, node_id: int, assigned: set[TopicPartition], held: Callable[[int], set[TopicPartition]]
    ) -> None:
        session = self._sessions[node_id]
        async with self._turns[node_id]:
            if renews(self._waiting[node_id]):
                await self._acknowledge(node_id, self._waiting.pop(node_id))
            decisions = self._current(node_id, self._waiting.pop(node_id, {}))
            ids = {name: info.topic_id for name, info in self._cluster.metadata.topics.items()}
            plan = session.plan_fetch(sorted(assigned | held(node_id) | decisions.keys()), ids)
            request = fetch_request(self._settings, self.member_id, session, plan, decisions)
            try:
                started = asyncio.get_running_loop().time()
                connection = await self._cluster.node_connection(node_id, "share")
                timeout_ms = self._cluster.settings.request_timeout_ms + self._settings.fetch_max_wait_ms
                response: ShareFetchResponse = await connection.ask(request, timeout_ms=timeout_ms)
            except ClientError as error:
                self._on_lost(node_id, decisions, error)
                await self._pause({partition.topic for partition in assigned})
                return
            except asyncio.CancelledError:
                session.on_no_answer()
                raise
            self.measures.fetches += 1
            self.measures.fetch_seconds += asyncio.get_running_loop().time() - started
            is_accepted = self._accepts(node_id, response.error_code, response.error_message, decisions)
        if is_accepted:
            await self._on_fetched(node_id, response, decisions)
        else:
            await self._pause({partition.topic for partition in assigned})

    async def _on_fetched(self, node_id: int, response: ShareFetchResponse, decisions: Decisions) -> None:
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_timeout_ms = response.acquisition_lock_timeout_ms
        results: Results = dict.fromkeys(decisions)
        moved: set[str] = set()
        names = self._sessions[node_id].names
        for topic in response.responses:
            if topic.topic_id not in names:
                # A partition that has left the session.
                continue
            for data in topic.partitions:
                partition = TopicPartition(names[topic.topic_id], data.partition_index)
                if partition in results:
                    results[partition] = error_of(data.acknowledge_error_code, data.acknowledge_error_message)
                error = error_of(data.error_code, data.error_message)
                if error is None:
                    self._keep(node_id, partition, data)
                elif error.code in _MOVED:
                    moved.add(partition.topic)
                elif not error.code.retriable:
                    self.failure = KafkaError(error.code, f"{partition}: {error.message}")
        self._report(decisions, results)
        self.arrived.set()
        if moved:
            await self._pause(moved)

    def _keep(self, node_id: int, partition: TopicPartition, data: PartitionData) -> None:
        if not data.acquired_records:
            return
        content = data.records if isinstance(data.records, memoryview) else memoryview(b"")
        self.measures.fetched_bytes += len(content)
        acquired = [
            AcquiredRange(offsets.first_offset, offsets.last_offset, offsets.delivery_count)
            for offsets in data.acquired_records
        ]
        self.ready.append(AcquiredRecords(partition, node_id, acquired, content, check_crcs=self._settings.check_crcs))

    # Acknowledging.

    def add(self, decisions: dict[int, Decisions]) -> None:
        """Keeps acknowledgements for the next request to their broker."""
        for node_id, node_decisions in decisions.items():
            self._waiting[node_id] = merge(self._waiting[node_id], node_decisions)

    async def acknowledge(self, decisions: dict[int, Decisions]) -> Results:
        """Sends acknowledgements at once; returns an error, or None, for each partition."""
        self.add(decisions)
        nodes = [node_id for node_id, waiting in self._waiting.items() if waiting]
        answers = await asyncio.gather(*map(self._in_turn, nodes))
        return {partition: error for results in answers for partition, error in results.items()}

    async def _in_turn(self, node_id: int) -> Results:
        async with self._turns[node_id]:
            return await self._acknowledge(node_id, self._waiting.pop(node_id, {}))

    async def _acknowledge_waiting(self, node_id: int) -> None:
        await self._in_turn(node_id)

    async def _acknowledge(self, node_id: int, given: Decisions, *, final: bool = False) -> Results:
        """Sends acknowledgements. The caller holds the turn of the broker."""
        results: Results = {partition: error_of(_LOST) for partition in given}
        decisions = self._current(node_id, given)
        session = self._sessions[node_id]
        if session.is_new or (not decisions and not final):
            return results
        request = acknowledge_request(self._settings, self.member_id, session, decisions, final=final)
        try:
            connection = await self._cluster.node_connection(node_id, "share")
            if request.is_renew_ack and connection.version_of(_ACKNOWLEDGE) < _RENEW_VERSION:
                refused = KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The broker cannot renew acquisition locks.")
                self._report(decisions, dict.fromkeys(decisions, refused))
                return results | dict.fromkeys(decisions, refused)
            response: ShareAcknowledgeResponse = await connection.ask(
                request, timeout_ms=self._cluster.settings.request_timeout_ms
            )
        except ClientError as error:
            return results | self._on_lost(node_id, decisions, error)
        except asyncio.CancelledError:
            session.on_no_answer()
            raise
        names = session.names
        if final:
            session.on_no_answer()
        elif not self._accepts(node_id, response.error_code, response.error_message, decisions):
            return results | dict.fromkeys(decisions, error_of(response.error_code, response.error_message))
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_timeout_ms = response.acquisition_lock_timeout_ms
        answered: Results = dict.fromkeys(decisions, error_of(response.error_code, response.error_message))
        for topic in response.responses:
            for data in topic.partitions:
                partition = TopicPartition(names.get(topic.topic_id, ""), data.partition_index)
                if partition in answered and data.error_code:
                    answered[partition] = error_of(data.error_code, data.error_message)
        self._report(decisions, answered)
        return results | answered

    def _current(self, node_id: int, given: Decisions) -> Decisions:
        """The decisions about records that the broker still holds for this member; the rest fails here."""
        current, void = self._sessions[node_id].split(given)
        self._report(void, {partition: error_of(_LOST) for partition in void})
        return current

    def _accepts(self, node_id: int, error_code: int, message: str | None, decisions: Decisions) -> bool:
        """Processes the error of a whole response; returns False if there is nothing more in it."""
        session_lives = self._sessions[node_id].on_answer(error_code)
        if not error_code:
            return True
        error = error_of(error_code, message)
        if not session_lives:
            self._lose(node_id)
        self._report(decisions, dict.fromkeys(decisions, error))
        if error is not None and not error.code.retriable and error.code not in _MOVED:
            self.failure = error
        return False

    def _on_lost(self, node_id: int, decisions: Decisions, error: ClientError) -> Results:
        """There is no answer, so the session ends: the broker releases its records when it notices."""
        self._sessions[node_id].on_no_answer()
        self._lose(node_id)
        if not is_temporary(error):
            self.failure = error
        lost = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"Broker {node_id} did not answer: {error}")
        results: Results = dict.fromkeys(decisions, lost)
        self._report(decisions, results)
        return results

    def _lose(self, node_id: int) -> None:
        self.ready = deque(acquired for acquired in self.ready if acquired.node_id != node_id)
        self._on_session_lost(node_id)

    def _report(self, decisions: Decisions, results: Results) -> None:
        for partition, by_offset in decisions.items():
            error = results[partition]
            self.measures.acknowledgements += len(by_offset)
            self.measures.failed_acknowledgements += 0 if error is None else len(by_offset)
            self._on_acknowledged(partition, sorted(by_offset), error)

    # The rest.

    async def _refresh(self, topics: list[str]) -> None:
        await self._pause(set(topics))

    async def _pause(self, topics: set[str]) -> None:
        """Waits for a moment, then asks for the metadata of topics whose leaders may have moved."""
        await asyncio.sleep(self._cluster.settings.retry_backoff_ms / 1000)
        if topics:
            await self._cluster.refresh(sorted(topics))

    async def close(self, timeout_ms: int) -> None:
        """Ends all sessions, with the acknowledgements that wait. The brokers release all other records."""
        nodes = [node_id for node_id, session in self._sessions.items()]
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.gather(*(self._end(node_id) for node_id in nodes))
        except TimeoutError:
            pass
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.ready.clear()
            self._waiting.clear()
            self._sessions.clear()

    async def _end(self, node_id: int) -> None:
        async with self._turns[node_id]:
            await self._acknowledge(node_id, self._waiting.pop(node_id, {}), final=True)
