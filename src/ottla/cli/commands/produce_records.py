"""The records of `ottla produce`: from lines, JSON objects or files, and on their way to the cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import NamedTuple, Protocol

from ottla.cli.failures import Failure, sentence_of
from ottla.cli.logic.line_reader import LineRecord
from ottla.cli.logic.record_encryption import Encrypt
from ottla.cli.logic.record_formats import Convert
from ottla.cli.output import Output, counted, say_wrong
from ottla.cli.standard_input import content_of, lines_of
from ottla.client.errors import ClientError
from ottla.client.producer import Delivery, Producer, ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError

__all__ = ["Common", "Writer", "records_of_files", "records_of_lines"]

# Deliveries are checked in groups of this size; a failure is reported when its group is complete.
DELIVERIES_MAX = 10_000


class Common(NamedTuple):
    """The key, headers and partition of records that have none of their own."""

    key: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int | None


class ParseLine(Protocol):
    def __call__(self, line: bytes, *, number: int) -> LineRecord: ...


# The records that are available. An iterator parses them, so that the records before a bad one are sent.
Available = Iterator[LineRecord]


async def records_of_lines(parse: ParseLine) -> AsyncIterator[Available]:
    """The records of standard input, as they arrive."""
    number = 0
    async for lines in lines_of(sys.stdin):
        yield (parse(line, number=at) for at, line in enumerate(lines, start=number + 1))
        number += len(lines)


async def records_of_files(names: Sequence[str]) -> AsyncIterator[Available]:
    """One record for each file; `-` is standard input."""
    for name in names:
        if name == "-":
            content = await content_of(sys.stdin)
        else:
            with open(name, "rb") as file:
                content = file.read()
        yield iter([LineRecord(None, content, [])])


class Writer:
    """One run: sends records, reports failures as they become known, and counts what was written."""

    def __init__(
        self,
        output: Output,
        topic: str,
        common: Common,
        *,
        sync: bool,
        rate: float | None,
        encrypt: Encrypt | None = None,
        convert: Convert | None = None,
    ) -> None:
        self._output = output
        self._convert = convert
        self._encrypt = encrypt
        self._topic = topic
        self._common = common
        self._sync = sync
        self._rate = rate
        self._sent = 0
        self._written = 0
        self._failed = 0
        self._waiting: list[Delivery] = []

    async def run(
        self, client: ClientSettings, settings: ProducerSettings, records: AsyncIterator[Available], *, prompts: bool
    ) -> int:
        """Sends all records; returns the exit code. The count is printed after an error and after Ctrl-C, too."""
        try:
            async with Producer(client, settings) as producer:
                await producer.partitions(self._topic)
                try:
                    await self._send_all(producer, records, prompts=prompts)
                except (ValueError, OSError, KafkaError, ClientError) as error:
                    # A bad record ends the command; the records before it are written.
                    say_wrong(sentence_of(error))
                    self._failed += 1
                await producer.flush()
                self._settle()
        finally:
            self._settle()
            self._report()
        return 1 if self._failed else 0

    async def _send_all(self, producer: Producer, records: AsyncIterator[Available], *, prompts: bool) -> None:
        _prompt(prompts)
        start = asyncio.get_running_loop().time()
        async for available in records:
            for record in available:
                if self._rate is not None:
                    await _sleep_until(start + self._sent / self._rate)
                await self._send(producer, record)
                _prompt(prompts)
            # Failures are reported now, because the next line may arrive much later.
            self._settle()

    async def _send(self, producer: Producer, record: LineRecord) -> None:
        common = self._common
        if common.key is not None and record.key is None:
            record = record._replace(key=common.key)
        if self._convert is not None:
            record = self._convert(self._topic, record)
        value, headers = record.value, [*record.headers, *common.headers]
        if self._encrypt is not None:
            value, headers = self._encrypt(self._topic, value, headers)
        delivery = await producer.send(
            self._topic,
            value,
            record.key,
            headers=headers,
            partition=common.partition if common.partition is not None else record.partition,
            timestamp_ms=record.timestamp_ms,
        )
        self._waiting.append(delivery)
        self._sent += 1
        if self._sync or len(self._waiting) >= DELIVERIES_MAX:
            await producer.flush()
            self._settle()
            if self._waiting:
                raise Failure("A record is still pending after a flush.")
        elif not self._sent % 100:
            # Let the sender run even if input never pauses.
            await asyncio.sleep(0)

    def _settle(self) -> None:
        """Counts finished deliveries; each reason of a failure is reported once."""
        reasons = set()
        for delivery in self._waiting:
            if delivery.done:
                try:
                    delivery.result()
                    self._written += 1
                except (KafkaError, ClientError) as error:
                    self._failed += 1
                    reasons.add(sentence_of(error))
        self._waiting = [delivery for delivery in self._waiting if not delivery.done]
        for sentence in sorted(reasons):
            say_wrong(sentence)

    def _report(self) -> None:
        lost = self._failed + len(self._waiting)
        self._output.emit({"topic": self._topic, "sent": self._written, "failed": lost})
        if not self._output.as_json:
            failed = f"; {counted(lost, 'record')} failed" if lost else ""
            print(f"Wrote {counted(self._written, 'record')} to {self._topic}{failed}.", file=sys.stderr)


async def _sleep_until(time: float) -> None:
    delay = time - asyncio.get_running_loop().time()
    if delay > 0:
        await asyncio.sleep(delay)


def _prompt(prompts: bool) -> None:
    if prompts:
        print(">", end="", flush=True)
