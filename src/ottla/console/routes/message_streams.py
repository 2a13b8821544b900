"""Records as they are found or arrive: search with progress as NDJSON, and the live tail as server-sent events.

Both end when the browser closes the connection, and with the session of the user. They hold no more than a fetch in
memory: while the browser does not read, nothing is read from the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.metadata import TopicInfo
from ottla.console.answers import error_body, to_json
from ottla.console.call import Call, Need, Route
from ottla.console.event_streams import error_event, event, failing_aloud, opened_stream
from ottla.console.record_scan import Scan, ScanRequest, opened_consumer, range_of, scan_request
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["MESSAGE_STREAM_ROUTES"]

SEARCH_LIMIT_MAX = 10_000
SEARCH_SECONDS_MAX = 3600.0
PROGRESS_SECONDS = 0.5
TAIL_RECORDS_PER_SECOND = 200
# A browser that has fallen this far behind continues at the end.
TAIL_LAG_MAX = 2_000
ALIVE_SECONDS = 10.0
# While no records arrive, the tail checks whether the cluster is the cause.
CHECK_SECONDS = 2.0
CHECK_SECONDS_MAX = 5.0


async def _search(call: Call) -> web.StreamResponse:
    request = await scan_request(call, limit_max=SEARCH_LIMIT_MAX)
    async with call.services.scans.turn(call.owner):
        scan = Scan(request, await range_of(call, request))
        answer = await opened_stream(call, "application/x-ndjson")
        async with (
            failing_aloud(call, answer, _error_line),
            call.streaming(),
            opened_consumer(call, is_committed=request.is_committed) as consumer,
        ):
            await _run_search(call, scan, consumer, answer)
        return answer


def _error_line(body: dict[str, Any]) -> bytes:
    return to_json({"error": body}) + b"\n"


async def _run_search(call: Call, scan: Scan, consumer: Consumer, answer: web.StreamResponse) -> None:
    loop = asyncio.get_running_loop()
    deadline, reported_at = loop.time() + SEARCH_SECONDS_MAX, loop.time()
    await answer.write(_progress(scan))
    async for message in scan.run(consumer, deadline=deadline):
        if _is_gone(call):
            raise ConnectionResetError
        if message is not None:
            await answer.write(to_json({"message": message}) + b"\n")
            if scan.matched >= scan.request.limit:
                scan.is_complete = False
                break
        if loop.time() - reported_at >= PROGRESS_SECONDS:
            reported_at = loop.time()
            await answer.write(_progress(scan))
    done = {
        "scanned": scan.scanned,
        "matched": scan.matched,
        "reason": "end" if scan.is_complete else "limit",
        "next": {str(partition.partition): offset for partition, offset in sorted(scan.next.items())},
    }
    await answer.write(_progress(scan))
    await answer.write(to_json({"done": done}) + b"\n")


def _progress(scan: Scan) -> bytes:
    passed = sum(max(offset - scan.range.begins[partition], 0) for partition, offset in scan.next.items())
    progress = {"scanned": passed if scan.next else 0, "total": scan.range.total, "matched": scan.matched}
    return to_json({"progress": progress}) + b"\n"


def _is_gone(call: Call) -> bool:
    transport = call.request.transport
    return transport is None or transport.is_closing()


async def _tail(call: Call) -> web.StreamResponse:
    request = await scan_request(call)
    async with call.services.scans.turn(call.owner):
        answer = await opened_stream(call, "text/event-stream")
        async with (
            failing_aloud(call, answer, error_event),
            call.streaming(),
            opened_consumer(call, is_committed=request.is_committed) as consumer,
        ):
            await consumer.assign(request.partitions)
            await consumer.seek_to_end()
            await answer.write(b"event: ready\ndata: {}\n\n")
            await _Tail(call, request, consumer, answer).run()
        return answer


class _Tail:
    def __init__(self, call: Call, request: ScanRequest, consumer: Consumer, answer: web.StreamResponse) -> None:
        self._call = call
        self._request = request
        self._consumer = consumer
        self._answer = answer
        self._checked_at = asyncio.get_running_loop().time()
        self._is_troubled = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        written_at, window_began, window_count = loop.time(), loop.time(), 0
        while not _is_gone(self._call):
            records = await self._consumer.poll(500, max_records=TAIL_RECORDS_PER_SECOND)
            now = loop.time()
            if now - window_began >= 1.0:
                window_began, window_count = now, 0
            messages, dropped = [], 0
            for record in records:
                if window_count >= TAIL_RECORDS_PER_SECOND:
                    dropped += 1
                    continue
                message = await self._request.reader.message(record)
                if self._request.filter is None or self._request.filter(message):
                    messages.append(message)
                    window_count += 1
            dropped += await self._skip()
            if messages:
                await self._answer.write(event("message", messages))
            if dropped:
                await self._answer.write(event("dropped", {"count": dropped}))
            if not records:
                await self._check(now)
            if messages or dropped:
                written_at = loop.time()
            elif now - written_at > ALIVE_SECONDS:
                # A comment line shows whether the browser is still connected.
                await self._answer.write(b": alive\n\n")
                written_at = now

    async def _check(self, now: float) -> None:
        """Sends the reason if the cluster is the cause of the silence. Raises KafkaError for a topic that is gone."""
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        topic = self._request.topic
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                state = await self._call.view.state.get()
            if topic in state.topics:
                _check_leaders(state.topics[topic], self._request.partitions)
        except (KafkaError, ClientError, TimeoutError, OSError) as error:
            self._is_troubled = True
            await self._answer.write(event("trouble", error_body(error)[1]))
            return
        if topic not in state.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {topic!r} does not exist any more.")
        if self._is_troubled:
            self._is_troubled = False
            await self._answer.write(b"event: recovered\ndata: {}\n\n")

    async def _skip(self) -> int:
        """Continues at the end of partitions where too many records wait. Returns the number of skipped records."""
        behind: dict[TopicPartition, int] = {
            partition: lag
            for partition in self._consumer.assignment
            if (lag := self._consumer.lag(partition)) is not None and lag > TAIL_LAG_MAX
        }
        if behind:
            await self._consumer.seek_to_end(*behind)
        return sum(behind.values())


def _check_leaders(topic: TopicInfo, partitions: Iterable[TopicPartition]) -> None:
    """Raises KafkaError if a partition has no leader."""
    infos = [topic.partitions.get(partition.partition) for partition in partitions]
    missing = sum(1 for info in infos if info is None or info.leader < 0)
    if missing:
        message = f"{missing} of {len(infos)} partitions have no leader: their records cannot be read."
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, message)


MESSAGE_STREAM_ROUTES = (
    Route("GET", "/api/topics/{name}/search", _search, Need.MESSAGES, patience_ms=None),
    Route("GET", "/api/topics/{name}/tail", _tail, Need.MESSAGES, patience_ms=None),
)
