"""`ottla producers`: the active producers of partitions and their open transactions."""

from __future__ import annotations

import click

from ottla.cli.logic.words import parse_topic_partitions
from ottla.cli.names import TOPIC
from ottla.cli.output import ago
from ottla.cli.session import Session, cluster_options
from ottla.client.admin import AdminClient
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["producers", "show_producers"]


@click.command(help="Show the producers of partitions (kafka-transactions describe-producers).")
@click.argument("words", nargs=-1, type=TOPIC, metavar="[TOPIC[:0,1]]...")
@click.option("-t", "--topic", type=TOPIC, metavar="TOPIC", help="A topic.")
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="Only this partition of it.")
@click.option("--broker-id", type=click.IntRange(0), metavar="ID", help="Ask this replica instead of the leader.")
@cluster_options
def producers(
    session: Session, words: tuple[str, ...], topic: str | None, partition: int | None, broker_id: int | None
) -> int:
    return show_producers(session, words, topic, partition, broker_id)


def show_producers(
    session: Session, words: tuple[str, ...], topic: str | None, partition: int | None, broker_id: int | None
) -> int:
    wanted = [parse_topic_partitions(word) for word in words]
    if topic is not None:
        wanted.append((topic, None if partition is None else [partition]))
    if not wanted:
        raise click.UsageError("Name a topic, as an argument or with --topic.")

    async def work(admin: AdminClient) -> None:
        partitions = []
        for name, numbers in wanted:
            info = await admin.connections.fresh_topic(name)
            partitions += [TopicPartition(name, number) for number in numbers or info.partitions]
        rows: list[tuple[object, ...]] = []
        for topic_partition, states in sorted(
            (await admin.transactions.producers(partitions, broker=broker_id)).items()
        ):
            if isinstance(states, KafkaError):
                session.output.complain(str(topic_partition), states)
                continue
            rows += [
                (
                    str(topic_partition),
                    state.producer_id,
                    state.producer_epoch,
                    state.coordinator_epoch,
                    state.last_sequence,
                    state.last_timestamp,
                    state.transaction_start_offset if state.transaction_start_offset >= 0 else None,
                )
                for state in states
            ]
        if not rows and not session.output.failed:
            session.output.say_none("No idempotent or transactional producer has written there lately.")
        elif rows:
            _show(session, [(*row[:5], ago(int(str(row[5]))), row[6]) for row in rows])
        names = (
            "partition",
            "producerId",
            "producerEpoch",
            "latestCoordinatorEpoch",
            "lastSequence",
            "lastTimestamp",
            "currentTransactionStartOffset",
        )
        session.output.emit([dict(zip(names, row, strict=True)) for row in rows])

    return session.run(work)


def _show(session: Session, rows: list[tuple[object, ...]]) -> None:
    session.output.table(
        ("PARTITION", "PRODUCER", "EPOCH", "COORD EPOCH", "SEQUENCE", "LAST WRITE", "OPEN SINCE"),
        rows,
        right=(1, 2, 3, 4, 5, 6),
        fold=(0,),
    )
