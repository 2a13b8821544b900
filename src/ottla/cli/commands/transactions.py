"""`ottla transactions`: shows transactions, and aborts hanging ones (KIP-664)."""

from __future__ import annotations

import time

import click

from ottla.cli.commands.producers import show_producers
from ottla.cli.failures import Failure
from ottla.cli.logic.hanging import find_hanging_transactions
from ottla.cli.names import TOPIC
from ottla.cli.output import duration, json_fields
from ottla.cli.session import Session, cluster_options, confirm, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["transactions"]


@click.group(cls=VerbGroup, verbs={}, help="Show transactions, abort hanging ones (kafka-transactions).")
def transactions() -> None:
    """The verbs are below."""


@transactions.command("list", help="List transactional ids and their states.")
@click.option("--duration-filter", type=int, default=-1, metavar="MS", help="Only those open for longer.")
@click.option("--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that match.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state; may be repeated.")
@cluster_options
def list_transactions(session: Session, duration_filter: int, pattern: str | None, states: tuple[str, ...]) -> int:
    async def work(admin: AdminClient) -> None:
        listed = await admin.transactions.find(states=states, duration_ms=duration_filter, pattern=pattern)
        session.output.table(
            ("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "STATE"),
            [
                (transaction.transactional_id, transaction.coordinator, transaction.producer_id, transaction.state)
                for transaction in listed
            ],
            right=(1, 2),
            fold=(0,),
            none="There are no such transactions." if states or pattern else "There are no transactions.",
        )
        session.output.emit([json_fields(transaction) for transaction in listed])

    return session.run(work)


@transactions.command("describe", help="Show one transaction.")
@click.option("--transactional-id", required=True, metavar="ID", help="Whose.")
@cluster_options
def describe(session: Session, transactional_id: str) -> int:
    async def work(admin: AdminClient) -> None:
        transaction = await admin.transactions.describe(transactional_id)
        # The start time of an ended transaction is still reported.
        is_open = transaction.start_time_ms > 0 and not transaction.state.startswith("Complete")
        open_for = duration(time.time() * 1000 - transaction.start_time_ms) if is_open else "-"
        facts = {
            "Coordinator": transaction.coordinator,
            "Producer": f"{transaction.producer_id}, epoch {transaction.producer_epoch}",
            "State": transaction.state,
            "Timeout": duration(transaction.timeout_ms),
            "Open for": open_for,
            "Partitions": ", ".join(map(str, transaction.partitions)) or "-",
        }
        for title, value in facts.items():
            session.output.say(f"{title + ':':<13} {value}")
        session.output.emit(
            {**json_fields(transaction), "partitions": [str(partition) for partition in transaction.partitions]}
        )

    return session.run(work)


@transactions.command("describe-producers", help="Show the producers of a partition.")
@click.option("--topic", required=True, type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option("--partition", type=click.IntRange(0), required=True, metavar="N", help="The partition.")
@click.option("--broker-id", type=click.IntRange(0), metavar="ID", help="Ask this replica instead of the leader.")
@cluster_options
def describe_producers(session: Session, topic: str, partition: int, broker_id: int | None) -> int:
    return show_producers(session, (), topic, partition, broker_id)


@transactions.command(
    "find-hanging", help="Find transactions that are open in a partition but unknown to their coordinator."
)
@click.option("--broker-id", type=click.IntRange(0), metavar="ID", help="Only partitions that this broker leads.")
@click.option("--max-transaction-timeout", "minutes", type=int, default=15, metavar="MIN", help="[default: 15]")
@click.option("--topic", type=TOPIC, metavar="TOPIC", help="Only in this topic.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only in this partition of it.")
@cluster_options
def find_hanging(
    session: Session, broker_id: int | None, minutes: int, topic: str | None, partition: int | None
) -> int:
    if topic is None and broker_id is None:
        raise click.UsageError("Missing search range: add --topic or --broker-id.")

    async def work(admin: AdminClient) -> None:
        partitions = [
            TopicPartition(name, number)
            for name, info in (await admin.topics.all()).items()
            if topic is None or name == topic
            for number, partition_info in info.partitions.items()
            if (partition is None or number == partition) and (broker_id is None or partition_info.leader == broker_id)
        ]
        older = int(time.time() * 1000) - minutes * 60_000
        hanging = await find_hanging_transactions(admin, partitions, older_than_ms=older)
        session.output.table(
            ("PARTITION", "PRODUCER", "EPOCH", "COORD EPOCH", "START", "LAST WRITE"),
            [
                (
                    str(transaction.partition),
                    transaction.state.producer_id,
                    transaction.state.producer_epoch,
                    transaction.state.coordinator_epoch,
                    transaction.state.transaction_start_offset,
                    transaction.state.last_timestamp,
                )
                for transaction in hanging
            ],
            right=(1, 2, 3, 4, 5),
            fold=(0,),
            none="There is no hanging transaction.",
        )
        session.output.emit(
            [{"partition": str(transaction.partition), **json_fields(transaction.state)} for transaction in hanging]
        )

    return session.run(work)


@transactions.command("abort", help="Write an abort marker for a hanging transaction.")
@click.option("--topic", required=True, type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option("--partition", type=click.IntRange(0), required=True, metavar="N", help="The partition.")
@click.option(
    "--start-offset", type=int, metavar="N", help="The first offset of the transaction; the other values are looked up."
)
@click.option("--producer-id", type=int, metavar="ID", help="Instead of the offset.")
@click.option("--producer-epoch", type=int, metavar="N", help="Goes with it.")
@click.option("--coordinator-epoch", type=int, metavar="N", help="Goes with it.")
@yes_option
@cluster_options
def abort(
    session: Session,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    yes: bool,
) -> int:
    topic_partition = TopicPartition(topic, partition)
    if (start_offset is None) == (producer_id is None):
        raise click.UsageError("Name the transaction by --start-offset, or by --producer-id and both epochs.")

    async def work(admin: AdminClient) -> None:
        identity = (producer_id, producer_epoch, coordinator_epoch)
        if start_offset is not None:
            states = (await admin.transactions.producers([topic_partition]))[topic_partition]
            if isinstance(states, KafkaError):
                raise states
            state = next((state for state in states if state.transaction_start_offset == start_offset), None)
            if state is None:
                raise Failure(
                    f"No transaction of {topic_partition} begins at {start_offset}; "
                    f"'ottla producers {topic}' shows them."
                )
            # A partition without a marker has no coordinator epoch, so any epoch is newer.
            identity = (state.producer_id, state.producer_epoch, max(state.coordinator_epoch, 0))
        if None in identity:
            raise Failure("--producer-id needs --producer-epoch and --coordinator-epoch.", exit_code=2)
        confirm(f"Abort the transaction of producer {identity[0]} in {topic_partition}?", yes=yes)
        await admin.transactions.abort(
            topic_partition,
            producer_id=identity[0] or 0,
            producer_epoch=identity[1] or 0,
            coordinator_epoch=identity[2] or 0,
        )
        session.output.say(f"Aborted the transaction of producer {identity[0]} in {topic_partition}.")
        session.output.emit({"partition": str(topic_partition), "producerId": identity[0]})

    return session.run(work)


@transactions.command(
    "forceTerminateTransaction", help="Fence the producer of a transactional id, which aborts its work."
)
@click.option("--transactional-id", "--transactionalId", "transactional_id", required=True, metavar="ID", help="Whose.")
@yes_option
@cluster_options
def force_terminate(session: Session, transactional_id: str, yes: bool) -> int:
    async def work(admin: AdminClient) -> None:
        confirm(f"Fence the producer of {transactional_id!r}?", yes=yes)
        await admin.transactions.terminate(transactional_id)
        session.output.say(f"The producer of {transactional_id!r} was fenced.")
        session.output.emit({"transactionalId": transactional_id})

    return session.run(work)
