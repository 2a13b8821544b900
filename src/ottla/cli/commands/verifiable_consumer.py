"""`ottla verifiable-consumer`: a group member that reports every step as a line of JSON, for cluster tests."""

from __future__ import annotations

import signal
from collections import defaultdict
from typing import Any

import click

from ottla.cli.commands.verifiable_producer import say
from ottla.cli.logic.client_properties import consumer_settings
from ottla.cli.names import GROUP, TOPIC
from ottla.cli.session import Session, cluster_options, run_async, stop_signals
from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["verifiable_consumer"]


@click.command(help="Consume and report each step as JSON (kafka-verifiable-consumer).")
@click.option("-t", "--topic", required=True, type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option("-g", "--group-id", required=True, type=GROUP, metavar="GROUP", help="The group.")
@click.option("--group-protocol", type=click.Choice(["classic", "consumer"]), default="classic", show_default=True)
@click.option("--group-remote-assignor", metavar="NAME", help="The server's assignor.")
@click.option("--group-instance-id", metavar="ID", help="A static member.")
@click.option("--assignment-strategy", metavar="CLASS", help="For classic groups.")
@click.option(
    "-n", "--max-messages", type=int, default=-1, metavar="N", help="Stop after this many records; -1 for never."
)
@click.option("--session-timeout", type=click.IntRange(1), default=30_000, metavar="MS", help="[default: 30000]")
@click.option("--verbose", is_flag=True, help="Report each record.")
@click.option("--enable-autocommit", is_flag=True, help="Commit automatically at intervals.")
@click.option("--reset-policy", type=click.Choice(["earliest", "latest", "none"]), default="earliest")
@cluster_options
def verifiable_consumer(
    session: Session,
    topic: str,
    group_id: str,
    group_protocol: str,
    group_remote_assignor: str | None,
    group_instance_id: str | None,
    assignment_strategy: str | None,
    max_messages: int,
    session_timeout: int,
    verbose: bool,
    enable_autocommit: bool,
    reset_policy: str,
) -> int:
    properties = {
        **session.properties,
        "group.id": group_id,
        "group.protocol": group_protocol,
        "enable.auto.commit": str(enable_autocommit).lower(),
        "auto.offset.reset": reset_policy,
    }
    optional = {
        # Coordinators of the new protocol decide it.
        "session.timeout.ms": str(session_timeout) if group_protocol.lower() == "classic" else None,
        "group.remote.assignor": group_remote_assignor,
        "group.instance.id": group_instance_id,
        "partition.assignment.strategy": assignment_strategy,
    }
    settings = consumer_settings(properties | {name: value for name, value in optional.items() if value is not None})

    async def whole() -> int:
        stopped = stop_signals()
        count = 0
        async with Consumer(session.settings, settings) as consumer:
            await consumer.subscribe(
                [topic], on_assigned=_report("partitions_assigned"), on_revoked=_report("partitions_revoked")
            )
            say({"name": "startup_complete"})
            while not stopped and (max_messages < 0 or count < max_messages):
                limit = 500 if max_messages < 0 else min(500, max_messages - count)
                records = await consumer.poll(200, max_records=limit)
                if not records:
                    continue
                count += len(records)
                _report_records(records, verbose=verbose)
                if not enable_autocommit:
                    await _commit(consumer)
        say({"name": "shutdown_complete"})
        return 130 if signal.SIGINT in stopped else 0

    return run_async(whole())


def _report(name: str) -> Any:
    async def listener(partitions: list[TopicPartition]) -> None:
        say(
            {
                "name": name,
                "partitions": [
                    {"topic": partition.topic, "partition": partition.partition} for partition in partitions
                ],
            }
        )

    return listener


def _report_records(records: list[ConsumedRecord], *, verbose: bool) -> None:
    spans: dict[TopicPartition, list[int]] = defaultdict(list)
    for record in records:
        spans[TopicPartition(record.topic, record.partition)].append(record.offset)
        if verbose:
            say(
                {
                    "name": "record_data",
                    "key": _text(record.key),
                    "value": _text(record.value),
                    "topic": record.topic,
                    "partition": record.partition,
                    "offset": record.offset,
                }
            )
    say(
        {
            "name": "records_consumed",
            "count": len(records),
            "partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "count": len(offsets),
                    "minOffset": offsets[0],
                    "maxOffset": offsets[-1],
                }
                for partition, offsets in spans.items()
            ],
        }
    )


async def _commit(consumer: Consumer) -> None:
    offsets = [
        {"topic": partition.topic, "partition": partition.partition, "offset": consumer.position(partition)}
        for partition in consumer.assignment
    ]
    event: dict[str, object] = {"name": "offsets_committed", "offsets": offsets, "success": True}
    try:
        await consumer.commit()
    except (KafkaError, ClientError) as error:
        event |= {"success": False, "error": str(error)}
    say(event)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")
