"""Reads the batches of an offset range of a partition, in a worker.

The next Fetch is sent before the batches of the last response are returned, so that broker and kernel work while
records are decoded. The size of a Fetch depends on the rest of the range, because small micro-batches should not
transfer megabytes of unwanted data.

Reading ends at the end of the range, also if its last offsets have no records: compaction removes records, and control
batches and aborted transactions are filtered here. A moved leader, a lost node and a broken connection are retried for
`default.api.timeout.ms` since the last progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ottla.client.aborted import AbortedTransactions
from ottla.client.admin.offsets import EARLIEST_LOCAL
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, ConnectionLost, TimedOut, error_of
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.errors import CorruptRecords
from ottla.records.header import BatchHeader
from ottla.records.iterate import Batch, iterate_batches, verify_checksum
from ottla.spark.client import WaitingClient
from ottla.spark.options import EARLIEST, LATEST, SourceOptions
from ottla.spark.source.loss import on_loss
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

__all__ = ["FetchedBatch", "RangeReader"]

# The last version with topic names, for clusters without topic ids.
_NAMES_VERSION_MAX = 12
_WAIT_MAX_MS = 500
_FETCH_BYTES_MIN = 64 * 1024
_FETCH_BYTES_FIRST_MAX = 1024 * 1024
# A response may wait for as long as Spark takes no rows; the wait for it has a time-out of its own.
_NEVER_MS = 7 * 24 * 3600 * 1000
# A topic must be missing for this long to count as deleted: brokers learn of topics at different times, and a new
# leader needs a moment to know its high watermark.
_GONE_SECONDS = 5.0
# A response that was posted long ago is there, or something is wrong.
_POSTED_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    header: BatchHeader
    view: memoryview


class RangeReader:
    """Iterates over responses: the batches of a response that contain records of the range."""

    def __init__(
        self,
        client: WaitingClient,
        options: SourceOptions,
        partition: TopicPartition,
        topic_id: str,
        start: int,
        end: int,
    ) -> None:
        self._client = client
        self._cluster = client.cluster
        self._options = options
        self._partition = partition
        self._topic_id = Uuid.parse(topic_id) if topic_id else Uuid.ZERO
        # The start of the range; the first batch may contain earlier records.
        self.first = start
        self._position = start
        self._end = end
        self._fetch_bytes = max(_FETCH_BYTES_MIN, min(_FETCH_BYTES_FIRST_MAX, (end - start) * 1024))
        self._posted: asyncio.Future[Any] | None = None
        self._connection: Connection | None = None
        self._replica = -1
        # The time since which the cluster reports that the topic does not exist, by the loop's clock.
        self._unknown_since: float | None = None

    def __iter__(self) -> Iterator[list[FetchedBatch]]:
        while self._position < self._end:
            data = self._client.run(self._next())
            if data is None:
                return
            batches = self._take(data)
            if self._position < self._end:
                self._client.run(self._post())
            if batches:
                yield batches

    def peek(self, fetch_bytes: int) -> list[FetchedBatch]:
        """The first batches of the range, from one response."""
        self._fetch_bytes = fetch_bytes
        data = self._client.run(self._next())
        return [] if data is None else self._take(data)

    def post(self, fetch_bytes: int) -> None:
        """Sends the first Fetch and does not wait for its response."""
        self._fetch_bytes = fetch_bytes
        self._client.run(self._post())

    def posted(self, bytes_max: int) -> list[FetchedBatch] | None:
        """The range from the response to `post`. None if it is late, larger, an error, or not the whole range."""
        data = self._client.run(self._posted_data())
        if data is None or data.error_code or not data.records or len(data.records) > bytes_max:
            return None
        batches = self._take(data)
        return batches if self._position >= self._end else None

    # Requests.

    async def _posted_data(self) -> PartitionData | None:
        assert self._posted is not None
        await asyncio.wait([self._posted], timeout=_POSTED_SECONDS)
        if not self._posted.done():
            return None
        try:
            return await self._ask()
        except ClientError:
            return None

    async def _next(self) -> PartitionData | None:
        """The response at the position; None if the rest of the range does not exist."""
        now = self._client.loop.time
        end = now() + self._cluster.settings.api_timeout_ms / 1000
        backoff_ms = self._cluster.settings.retry_backoff_ms
        failing_since = now()
        while True:
            try:
                data = await self._ask()
                error = error_of(data.error_code)
                if error is None:
                    if data.preferred_read_replica >= 0 and data.preferred_read_replica != self._replica:
                        self._replica = data.preferred_read_replica
                        continue
                    if data.records is not None and len(data.records):
                        return data
                    if await self._is_exhausted(data):
                        return None
                    last: Exception = TimedOut(
                        f"{self._partition} has no record at offset {self._position}, nor behind it."
                    )
                elif error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    if self._replica >= 0:
                        self._replica = -1
                        continue
                    if not await self._moved_into_range():
                        return None
                    last = error
                else:
                    last = error
            except (ConnectionLost, ClientError) as error_:
                last = error_
            if isinstance(last, KafkaError) and not last.code.retriable and last.code not in _MOVED:
                raise KafkaError(last.code, f"{self._partition}: {last.message}")
            self._replica = -1
            pause = backoff_ms / 1000
            if now() + pause >= end:
                raise last
            await asyncio.sleep(pause)
            backoff_ms = min(backoff_ms * 2, self._cluster.settings.retry_backoff_max_ms)
            if await self._is_gone(failing_for=now() - failing_since):
                return None

    async def _ask(self) -> PartitionData:
        if self._posted is None:
            await self._post()
        posted, self._posted = self._posted, None
        assert posted is not None
        try:
            async with asyncio.timeout(self._cluster.settings.request_timeout_ms / 1000):
                response: FetchResponse = await posted
        except TimeoutError:
            if self._connection is not None:
                # Responses come in order: the next request on this connection would wait behind this one.
                self._connection.close("a fetch was not answered in time")
            raise ConnectionLost(f"the leader of {self._partition} does not answer") from None
        if response.error_code:
            raise ConnectionLost(f"the leader of {self._partition} answers with error {response.error_code}")
        for topic in response.responses:
            for data in topic.partitions:
                if data.partition_index == self._partition.partition:
                    return data
        raise ConnectionLost(f"the response of the leader of {self._partition} does not contain it")

    async def _post(self) -> None:
        topic, partition = self._partition
        info = self._cluster.metadata.topics.get(topic)
        node_id = self._replica if self._replica >= 0 else self._cluster.metadata.leader_of(topic, partition)
        if node_id < 0 or info is None or partition not in info.partitions:
            await self._cluster.refresh([topic])
            info = self._cluster.metadata.topics.get(topic)
            node_id = self._cluster.metadata.leader_of(topic, partition)
            if node_id < 0 or info is None or partition not in info.partitions:
                self._posted = _failed(self._client.loop, f"{self._partition} has no leader at the moment")
                return
        request = FetchRequest(
            max_wait_ms=_WAIT_MAX_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=1 if self._options.read_committed else 0,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=self._topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            current_leader_epoch=info.partitions[partition].leader_epoch,
                            fetch_offset=self._position,
                            partition_max_bytes=self._fetch_bytes,
                        )
                    ],
                )
            ],
        )
        try:
            self._connection = await self._cluster.node_connection(node_id, "fetch")
            self._posted = self._connection.post(
                request, timeout_ms=_NEVER_MS, version_max=32767 if self._topic_id else _NAMES_VERSION_MAX
            )
        except ConnectionLost as error:
            self._posted = _failed(self._client.loop, str(error))

    # Missing data.

    async def _is_exhausted(self, data: PartitionData) -> bool:
        """True if the response is empty although the log contains the range: its last offsets have no records.

        An empty response is no proof for records in remote storage (KIP-405): a broker that does not get them in time
        answers without an error and without records.
        """
        known = data.last_stable_offset if self._options.read_committed else data.high_watermark
        if known < self._end:
            return False
        answer = (await self._client.admin.offsets.find({self._partition: EARLIEST_LOCAL}))[self._partition]
        if isinstance(answer, KafkaError):
            # A broker without support for the request has no remote storage; other errors show with the next Fetch.
            return not answer.code.retriable
        return self._position >= answer.offset

    async def _moved_into_range(self) -> bool:
        """After OFFSET_OUT_OF_RANGE: moves to the log's start. Returns False if nothing of the range is left."""
        answer = (await self._client.admin.offsets.find({self._partition: EARLIEST}))[self._partition]
        if isinstance(answer, KafkaError):
            # Retried with the next Fetch, which shows a lasting error.
            return True
        if answer.offset <= self._position:
            # Before the log's end: a lagging replica. Behind it: the leader may not have its high watermark yet.
            return True
        gone = min(answer.offset, self._end)
        on_loss(
            self._options,
            f"{self._partition}: offsets {self._position} to {gone - 1} were deleted before they were read.",
        )
        self._position = self.first = gone
        return self._position < self._end

    async def _is_gone(self, *, failing_for: float) -> bool:
        """Refreshes the leader. Returns True if the rest of the range is lost, unless that raises DataLost."""
        topic = self._partition.topic
        try:
            await self._cluster.refresh([topic])
        except ClientError:
            return False
        info = self._cluster.metadata.topics.get(topic)
        if info is None or info.error is not None:
            return self._is_deleted(None if info is None else info.error)
        self._unknown_since = None
        if self._topic_id and info.topic_id != self._topic_id:
            on_loss(
                self._options, f"Topic {topic} was deleted and made again before it was read to offset {self._end}."
            )
            return True
        return failing_for >= _GONE_SECONDS and await self._is_cut_off()

    def _is_deleted(self, error: KafkaError | None) -> bool:
        """True if the cluster has answered for long enough that the topic does not exist."""
        if error is not None and error.code not in _UNKNOWN:
            return False
        now = self._client.loop.time()
        if self._unknown_since is None:
            self._unknown_since = now
        if now - self._unknown_since < _GONE_SECONDS:
            return False
        on_loss(self._options, f"Topic {self._partition.topic} was deleted before it was read to offset {self._end}.")
        return True

    async def _is_cut_off(self) -> bool:
        """True if the log ends before the range, after the election of a leader without all records.

        A leader that does not have its high watermark yet does not answer the request (KIP-207).
        """
        ends = []
        for committed in (False, self._options.read_committed):
            try:
                answer = (await self._client.admin.offsets.find({self._partition: LATEST}, committed=committed))[
                    self._partition
                ]
            except ClientError:
                return False
            if isinstance(answer, KafkaError):
                return False
            ends.append(answer.offset)
        end, visible = ends
        # Records behind an open transaction exist and are still to be read.
        if end >= self._end or visible < end or self._position < end:
            return False
        on_loss(
            self._options, f"{self._partition}: the log ends at offset {end}, but was to be read to offset {self._end}."
        )
        return True

    # Responses.

    def _take(self, data: PartitionData) -> list[FetchedBatch]:
        """The batches of a response that contain records of the range; moves the position behind them."""
        records = data.records
        assert isinstance(records, memoryview)
        aborted = AbortedTransactions(data) if self._options.read_committed else None
        batches: list[FetchedBatch] = []
        position, first = self._position, self._position
        taken = 0
        for batch in iterate_batches(records):
            header = batch.header
            if header.magic < 2:
                position = self._take_legacy(batch, batches, position)
            elif header.next_offset > position:
                if header.base_offset >= self._end:
                    position = self._end
                    break
                if not verify_checksum(batch.view, header):
                    raise CorruptRecords(
                        f"{self._partition}: the batch at offset {header.base_offset} has a wrong checksum."
                    )
                if header.is_control:
                    if aborted is not None:
                        aborted.on_control(batch)
                elif (aborted is None or not aborted.covers(batch)) and header.record_count:
                    batches.append(FetchedBatch(header, batch.view))
                position = header.next_offset
            taken += header.size
        if position == first:
            raise CorruptRecords(f"{self._partition}: the answer at offset {first} holds no whole batch behind it.")
        self._position = min(position, self._end)
        left = self._end - self._position
        guess = left * taken // max(1, position - first) * 5 // 4
        self._fetch_bytes = max(_FETCH_BYTES_MIN, min(self._options.fetch_bytes, guess))
        return batches

    def _take_legacy(self, batch: Batch, batches: list[FetchedBatch], position: int) -> int:
        if not verify_checksum(batch.view, batch.header):
            raise CorruptRecords(
                f"{self._partition}: the message at offset {batch.header.base_offset} has a wrong checksum."
            )
        # The offset of a wrapper message is that of its last inner message.
        if batch.header.base_offset < position:
            return position
        batches.append(FetchedBatch(batch.header, batch.view))
        return batch.header.base_offset + 1


_MOVED = {
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_UNKNOWN = _MOVED - {ErrorCode.OFFSET_OUT_OF_RANGE}


def _failed(loop: asyncio.AbstractEventLoop, reason: str) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = loop.create_future()
    future.set_exception(ConnectionLost(reason))
    return future
