"""`ottla verifiable-producer`: increasing numbers, each reported as a line of JSON, for tests of clusters."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import click

from ottla.cli.logic.client_properties import producer_settings
from ottla.cli.names import TOPIC
from ottla.cli.session import Session, cluster_options, run_async, stop_signals
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.model.errors import KafkaError

__all__ = ["say", "verifiable_producer"]

# The largest number of pending records.
WAITING_MAX = 1_000


@click.command(help="Produce numbers and report each as JSON (kafka-verifiable-producer).")
@click.option("-t", "--topic", required=True, type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option(
    "-n", "--max-messages", type=int, default=-1, metavar="N", help="Stop after this many records; -1 for never."
)
@click.option("--throughput", type=float, default=-1, metavar="N/S", help="Records in a second, -1 for no limit.")
@click.option("-a", "--acks", default="-1", metavar="0|1|all", help="[default: all]")
@click.option("--value-prefix", type=int, metavar="N", help="Values are N.1, N.2, ...")
@click.option("--repeating-keys", type=click.IntRange(1), metavar="N", help="Keys 0 to N-1 in turn.")
@click.option("--message-create-time", type=int, default=-1, metavar="MS", help="Timestamps begin here.")
@cluster_options
def verifiable_producer(
    session: Session,
    topic: str,
    max_messages: int,
    throughput: float,
    acks: str,
    value_prefix: int | None,
    repeating_keys: int | None,
    message_create_time: int,
) -> int:
    settings = producer_settings(
        {**session.properties, "acks": acks, "retries": session.properties.get("retries", "0")}
    )

    async def whole() -> int:
        async with Producer(session.settings, settings) as producer:
            run = _Run(producer, topic, max_messages, throughput)
            return await run.run(
                lambda number: _Numbered(
                    str(number) if value_prefix is None else f"{value_prefix}.{number}",
                    None if repeating_keys is None else str(number % repeating_keys),
                    None if message_create_time < 0 else message_create_time + number,
                )
            )

    return run_async(whole())


class _Numbered(NamedTuple):
    value: str
    key: str | None
    timestamp_ms: int | None


class _Run:
    """Sends until stopped, and reports the outcome of every record."""

    def __init__(self, producer: Producer, topic: str, limit: int, throughput: float) -> None:
        self._producer = producer
        self._topic = topic
        self._limit = limit
        self._throughput = throughput
        self._waiting: set[asyncio.Task[None]] = set()
        self._acked = 0

    async def run(self, record: Callable[[int], _Numbered]) -> int:
        stopped = stop_signals()
        say({"name": "startup_complete"})
        start = time.monotonic()
        sent = 0
        while not stopped and (self._limit < 0 or sent < self._limit):
            task = asyncio.ensure_future(self._send(record(sent)))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
            sent += 1
            await self._keep_pace(start, sent)
        await self._producer.flush()
        if self._waiting:
            await asyncio.wait(self._waiting)
        say({"name": "shutdown_complete"})
        say(
            {
                "name": "tool_data",
                "sent": sent,
                "acked": self._acked,
                "target_throughput": self._throughput,
                "avg_throughput": self._acked / max(time.monotonic() - start, 1e-9),
            }
        )
        if self._acked != sent:
            return 1
        return 130 if signal.SIGINT in stopped else 0

    async def _keep_pace(self, start: float, sent: int) -> None:
        ahead = start + sent / self._throughput - time.monotonic() if self._throughput > 0 else 0.0
        if ahead > 0:
            await asyncio.sleep(ahead)
        elif len(self._waiting) > WAITING_MAX:
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)

    async def _send(self, record: _Numbered) -> None:
        fields = {"topic": self._topic, "key": record.key, "value": record.value}
        key = None if record.key is None else record.key.encode()
        try:
            delivery = await self._producer.send(
                self._topic, record.value.encode(), key, timestamp_ms=record.timestamp_ms
            )
            acknowledged = await delivery
        except (KafkaError, ClientError) as error:
            problem = {"exception": type(error).__name__, "message": str(error)}
            say({"name": "producer_send_error", **fields, **problem})
            return
        self._acked += 1
        say(
            {
                "name": "producer_send_success",
                **fields,
                "partition": acknowledged.partition,
                "offset": acknowledged.offset,
            }
        )


def say(event: dict[str, object]) -> None:
    """Prints one event as a line, and flushes: the reader may be waiting for it."""
    print(json.dumps({"timestamp": int(time.time() * 1000), **event}), flush=True)
