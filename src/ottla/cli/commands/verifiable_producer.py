"""`ottla verifiable-producer`: increasing numbers, each reported as a line of JSON, for tests of clusters."""

from __future__ import annotations

import asyncio
import json
import signal
import time

import click

from ottla.cli.logic.client_properties import producer_settings
from ottla.cli.session import Session, cluster_options, run_async
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.model.errors import KafkaError

__all__ = ["verifiable_producer"]


@click.command(help="Produce numbers and report each as JSON (kafka-verifiable-producer).")
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="The topic.")
@click.option("-n", "--max-messages", type=int, default=-1, metavar="N", help="Stop after so many; -1 for never.")
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
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        acked = sent = 0
        waiting: set[asyncio.Task[None]] = set()
        start = time.monotonic()
        say({"name": "startup_complete"})

        async def send(value: str, key: str | None, timestamp_ms: int | None) -> None:
            nonlocal acked
            try:
                delivery = await producer.send(
                    topic, value.encode(), None if key is None else key.encode(), timestamp_ms=timestamp_ms
                )
                found = await delivery
            except (KafkaError, ClientError) as error:
                say(
                    {
                        "name": "producer_send_error",
                        "topic": topic,
                        "key": key,
                        "value": value,
                        "exception": type(error).__name__,
                        "message": str(error),
                    }
                )
                return
            acked += 1
            say(
                {
                    "name": "producer_send_success",
                    "key": key,
                    "value": value,
                    "partition": found.partition,
                    "topic": topic,
                    "offset": found.offset,
                }
            )

        async with Producer(session.settings, settings) as producer:
            while not stopped.is_set() and (max_messages < 0 or sent < max_messages):
                value = str(sent) if value_prefix is None else f"{value_prefix}.{sent}"
                key = None if repeating_keys is None else str(sent % repeating_keys)
                stamp = None if message_create_time < 0 else message_create_time + sent
                task = asyncio.ensure_future(send(value, key, stamp))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
                sent += 1
                ahead = start + sent / throughput - time.monotonic() if throughput > 0 else 0.0
                if ahead > 0:
                    await asyncio.wait([asyncio.ensure_future(stopped.wait())], timeout=ahead)
                elif len(waiting) > 1000:
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(0)
            await producer.flush()
            if waiting:
                await asyncio.wait(waiting)
        say({"name": "shutdown_complete"})
        average = acked / max(time.monotonic() - start, 1e-9)
        say(
            {
                "name": "tool_data",
                "sent": sent,
                "acked": acked,
                "target_throughput": throughput,
                "avg_throughput": average,
            }
        )
        return 0 if acked == sent else 1

    return run_async(whole())


def say(event: dict[str, object]) -> None:
    """One event in a line of its own, at once: whoever reads decides by it."""
    print(json.dumps({"timestamp": int(time.time() * 1000), **event}), flush=True)
