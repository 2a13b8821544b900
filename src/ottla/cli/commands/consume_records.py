"""The reading loop of `ottla consume`: where to begin, where to stop, and which records to print."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import stat
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge

from ottla.cli.failures import Failure, suggestion
from ottla.cli.logic.formatters import Formatter
from ottla.cli.logic.record_encryption import Decrypt
from ottla.cli.logic.record_filter import RecordFilter
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.settings import ClientSettings
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords

__all__ = ["Reading", "consume_records"]

INTERRUPTED = 130

POLL_RECORDS_MAX = 500
# The poll time if reading stops at an offset: control records at the end move the position without returning records.
POLL_TO_END_MS = 100
# A topic that was created a moment ago may be unknown to the broker that answers.
LOOKUPS = 3
LOOK_AGAIN_SECONDS = 0.2

# Control characters except tab and line feed.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What to read and print. Times are milliseconds since 1970, `EARLIEST` or `LATEST`."""

    topics: tuple[str, ...]
    pattern: str | None
    partition: int | None
    offset: int | None
    from_time: int | None
    to_time: int | None
    # The number of last records, over all partitions together.
    last: int | None
    limit: int | None
    idle_ms: int | None
    skips_bad_records: bool
    # True if the command waits for topics that do not exist.
    waits: bool
    accept: RecordFilter | None
    write: Formatter
    decrypt: Decrypt | None = None


async def consume_records(client: ClientSettings, settings: ConsumerSettings, reading: Reading) -> int:
    """Prints records until told to stop; returns the exit code."""
    cluster = Cluster(client)
    work = asyncio.ensure_future(_read(cluster, settings, printer := _Printer(reading)))
    try:
        with _stop_signals(work) as stopped:
            try:
                await work
            except asyncio.CancelledError:
                # The consumer has committed the printed records and left its group.
                if not stopped:
                    raise
    finally:
        await cluster.close()
    if signal.SIGPIPE in stopped:
        raise BrokenPipeError
    print(f"Processed a total of {printer.count} messages", file=sys.stderr)
    return INTERRUPTED if signal.SIGINT in stopped else 0


@contextmanager
def _stop_signals(work: asyncio.Future[None]) -> Iterator[list[int]]:
    """Cancels the work at Ctrl-C, SIGTERM, and when the reader of standard output has gone; yields what happened."""
    loop = asyncio.get_running_loop()
    stopped: list[int] = []

    def stop(number: int) -> None:
        stopped.append(number)
        work.cancel()
        if number == signal.SIGPIPE and watch is not None:
            loop.remove_reader(watch.fileno())

    watch = _pipe_watch()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    if watch is not None:
        loop.add_reader(watch.fileno(), stop, signal.SIGPIPE)
    try:
        yield stopped
    finally:
        if watch is not None:
            loop.remove_reader(watch.fileno())
            watch.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _pipe_watch() -> select.epoll | None:
    """Readable when the reader of the pipe on standard output is gone: a command that waits for records never writes.

    None if standard output is no pipe, or on a system without epoll, where the next record finds out.
    """
    if not hasattr(select, "epoll"):
        return None
    try:
        descriptor = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return None
    except (OSError, ValueError):
        return None
    watch = select.epoll()
    # The mask is empty because epoll always reports errors.
    watch.register(descriptor, 0)
    return watch


class _Printer:
    """Prints the accepted records of each poll, and counts them."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.reading.limit is not None and self.count >= self.reading.limit

    def accepts(self, record: ConsumedRecord) -> bool:
        return self.reading.accept is None or self.reading.accept(record)

    def decrypted(self, records: Iterable[ConsumedRecord]) -> Iterator[ConsumedRecord]:
        """The decrypted records. A record that cannot be decrypted is skipped or ends the command."""
        decrypt = self.reading.decrypt
        if decrypt is None:
            yield from records
            return
        for record in records:
            try:
                yield decrypt(record)
            except ValueError as error:
                self._complain(record, error)

    def print(self, records: Iterable[ConsumedRecord]) -> list[ConsumedRecord]:
        """Prints records up to the limit; returns the records after the limit."""
        lines: list[bytes] = []
        remaining = iter(records)
        for record in self.decrypted(remaining):
            if self.accepts(record):
                lines.append(self._line(record))
                self.count += 1
                if self.is_full:
                    break
        text = b"".join(lines)
        out = sys.stdout.buffer
        out.write(_printable(text) if out.isatty() else text)
        out.flush()
        return list(remaining)

    def _line(self, record: ConsumedRecord) -> bytes:
        """The printed record; a record that cannot be deserialized is skipped or ends the command."""
        try:
            return self.reading.write(record)
        except ValueError as error:
            self._complain(record, error)
            return b""

    def _complain(self, record: ConsumedRecord, error: ValueError) -> None:
        position = f"{record.topic}-{record.partition} at {record.offset}"
        if not self.reading.skips_bad_records:
            raise Failure(f"{position}: {error}. --skip-message-on-error skips it.") from None
        print(f"ottla: {position} skipped: {error}.", file=sys.stderr)


def _printable(text: bytes) -> bytes:
    r"""The bytes as a terminal should see them: no byte of a record moves the cursor or changes the terminal's state.

    Control characters and bytes that are not UTF-8 become `\xHH`.
    """
    decoded = text.decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", decoded).encode()


async def _read(cluster: Cluster, settings: ConsumerSettings, printer: _Printer) -> None:
    reading = printer.reading
    topics = await _existing_topics(cluster, reading, create=settings.allow_auto_create)
    async with Consumer(cluster, settings) as consumer:
        stops = _Stops(consumer, reading.to_time)
        if settings.group_id is not None:
            on_assigned = _on_assigned(consumer, reading, stops)
            await consumer.subscribe(reading.topics, pattern=reading.pattern, on_assigned=on_assigned)
        else:
            partitions = await _partitions(consumer, topics, reading.partition)
            await consumer.assign(partitions)
            await stops.find(partitions)
            if reading.last is not None:
                printer.print(await _last_records(consumer, printer, partitions, reading.last))
            else:
                await _seek(consumer, reading, partitions)
        while not printer.is_full and not stops.are_reached:
            records = await _poll(consumer, reading, is_short=reading.to_time is not None)
            if not records and reading.idle_ms is not None:
                break
            for behind in reversed(printer.print(stops.before(records))):
                # These records are not printed, so their offsets must not be committed.
                consumer.seek(TopicPartition(behind.topic, behind.partition), behind.offset)


async def _poll(consumer: Consumer, reading: Reading, *, is_short: bool) -> list[ConsumedRecord]:
    while True:
        try:
            return await consumer.poll(
                reading.idle_ms or (POLL_TO_END_MS if is_short else 1_000), max_records=POLL_RECORDS_MAX
            )
        except CorruptRecords as error:
            if not reading.skips_bad_records:
                raise Failure(f"{error}. --skip-message-on-error continues behind it.") from None


class _Stops:
    """The stop offset of each partition. Without a time, reading does not stop."""

    def __init__(self, consumer: Consumer, time: int | None) -> None:
        self._consumer = consumer
        self._time = time
        self._offsets: dict[TopicPartition, int] = {}

    async def find(self, partitions: list[TopicPartition]) -> None:
        """Looks up the offsets of newly assigned partitions."""
        if self._time is None or not partitions:
            return
        ends = await self._consumer.end_offsets(partitions)
        if self._time != LATEST:
            offsets = await self._consumer.offsets_for_times(dict.fromkeys(partitions, self._time))
            ends |= {partition: first.offset for partition, first in offsets.items() if first is not None}
        self._offsets |= ends

    def before(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        """The records before the stop offsets. Reading goes back to the first omitted record of each partition."""
        if not self._offsets:
            return records
        kept: list[ConsumedRecord] = []
        omitted: dict[TopicPartition, int] = {}
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            stop = self._offsets.get(partition)
            if stop is None or record.offset < stop:
                kept.append(record)
            else:
                omitted.setdefault(partition, record.offset)
        for partition, offset in omitted.items():
            # An omitted record is not printed, so its offset must not be committed.
            self._consumer.seek(partition, offset)
        return kept

    @property
    def are_reached(self) -> bool:
        """True if every assigned partition is read up to its stop offset. Finished partitions are paused."""
        assigned = self._consumer.assignment
        if self._time is None or not assigned:
            return False
        has_unread = False
        for partition in assigned:
            end = self._offsets.get(partition)
            if end is None or not 0 <= end <= self._consumer.position(partition):
                has_unread = True
            else:
                self._consumer.pause(partition)
        return not has_unread


def _on_assigned(
    consumer: Consumer, reading: Reading, stops: _Stops
) -> Callable[[list[TopicPartition]], Awaitable[None]]:
    async def on_assigned(partitions: list[TopicPartition]) -> None:
        await stops.find(partitions)
        if reading.from_time is not None and partitions:
            await consumer.seek_to(reading.from_time, *partitions)

    return on_assigned


async def _seek(consumer: Consumer, reading: Reading, partitions: list[TopicPartition]) -> None:
    if reading.offset is not None:
        consumer.seek(partitions[0], reading.offset)
        return
    default = EARLIEST if consumer.settings.auto_offset_reset == "earliest" else LATEST
    await consumer.seek_to(default if reading.from_time is None else reading.from_time, *partitions)


async def _last_records(
    consumer: Consumer, printer: _Printer, partitions: list[TopicPartition], count: int
) -> list[ConsumedRecord]:
    """The last accepted records of all partitions together, by time.

    Markers, compaction and filters leave fewer records than offsets, so the search goes back in growing steps.
    """
    begins, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    tails: dict[TopicPartition, deque[ConsumedRecord]] = {}
    incomplete = [partition for partition in partitions if begins[partition] < ends[partition]]
    step = count
    consumer.pause(*partitions)
    while incomplete:
        starts = {partition: max(begins[partition], ends[partition] - step) for partition in incomplete}
        for partition, start in starts.items():
            tails[partition] = deque(maxlen=count)
            consumer.seek(partition, start)
            consumer.resume(partition)
        unread = set(incomplete)
        while unread:
            for record in await _poll(consumer, printer.reading, is_short=True):
                partition = TopicPartition(record.topic, record.partition)
                if record.offset < ends[partition] and any(map(printer.accepts, printer.decrypted((record,)))):
                    tails[partition].append(record)
            for partition in [partition for partition in unread if consumer.position(partition) >= ends[partition]]:
                unread.discard(partition)
                consumer.pause(partition)
        incomplete = [
            partition
            for partition in incomplete
            if len(tails[partition]) < count and starts[partition] > begins[partition]
        ]
        step *= 4
    for partition in partitions:
        consumer.seek(partition, ends[partition])
        consumer.resume(partition)
    return list(merge(*tails.values(), key=lambda record: record.timestamp))[-count:]


async def _partitions(consumer: Consumer, topics: list[str], number: int | None) -> list[TopicPartition]:
    partitions = [partition for topic in topics for partition in await consumer.partitions(topic)]
    if number is None:
        return partitions
    wanted = TopicPartition(topics[0], number)
    if wanted not in partitions:
        raise Failure(f"There is no partition {wanted}. 'ottla topics describe {topics[0]}' shows all partitions.")
    return [wanted]


async def _existing_topics(cluster: Cluster, reading: Reading, *, create: bool) -> list[str]:
    """The topics to read. If a topic does not exist, the command ends or waits for the topic."""
    if reading.pattern is not None:
        return await _matching_topics(cluster, reading.pattern, waits=reading.waits)
    missing = await _missing(cluster, reading.topics, create=create)
    for _ in range(LOOKUPS - 1):
        if missing:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            missing = await _missing(cluster, reading.topics, create=create)
    if missing and not reading.waits and not create:
        names = await Topics(cluster).names()
        sentences = [f"There is no topic {name!r}.{suggestion(name, names)}" for name in missing]
        raise Failure(f"{' '.join(sentences)} --wait waits for it." if len(sentences) == 1 else " ".join(sentences))
    if missing:
        listed = ", ".join(map(repr, missing))
        print(f"ottla: There is no topic {listed} yet; waiting for it. Ctrl-C ends the command.", file=sys.stderr)
    while missing:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        missing = await _missing(cluster, reading.topics, create=create)
    return list(reading.topics)


async def _missing(cluster: Cluster, topics: Iterable[str], *, create: bool) -> list[str]:
    infos = (await cluster.refresh(list(topics), create=create)).topics
    return [name for name in topics if (info := infos.get(name)) is None or not info.partitions]


async def _matching_topics(cluster: Cluster, pattern: str, *, waits: bool) -> list[str]:
    """The topics that match the pattern now. If no topic matches, the command ends or waits for a match."""
    try:
        matches = re.compile(pattern).fullmatch
    except re.error as error:
        raise Failure(f"--include {pattern!r} is not a regular expression: {error}.") from None
    is_told = False
    while not (names := [name for name in await Topics(cluster).names() if matches(name)]):
        if not waits:
            raise Failure(f"No topic matches {pattern!r}. 'ottla topics list' shows all topics; --wait waits for one.")
        if not is_told:
            print(f"ottla: No topic matches {pattern!r} yet; waiting. Ctrl-C ends the command.", file=sys.stderr)
            is_told = True
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    return names
