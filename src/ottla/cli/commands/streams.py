"""`ottla streams`: administers streams applications."""

from __future__ import annotations

import time
from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.internal_topics import internal_topics, is_worker_of
from ottla.cli.logic.offset_reset import Reset, chosen_reset, clamp, targets
from ottla.cli.names import GROUP, TOPICS
from ottla.cli.session import Session, cluster_options, confirm, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.producer import Producer, ProducerSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["streams"]


@click.group(cls=VerbGroup, help="Reset streams applications (kafka-streams-application-reset).")
def streams() -> None:
    """The verbs are below."""


@streams.command(help="Reset an application: the offsets of its input topics, and its internal topics.")
@click.argument("name", required=False, type=GROUP, metavar="[APPLICATION]")
@click.option("--application-id", "given", type=GROUP, metavar="ID", help="The application.")
@click.option("--input-topics", type=TOPICS, metavar="TOPICS", help="Topics whose offsets are reset, with commas.")
@click.option("--internal-topics", "more", metavar="TOPICS", help="Delete these of its internal topics only.")
@click.option("--to-earliest", is_flag=True, help="Input begins at the first offset (the default).")
@click.option("--to-latest", is_flag=True, help="Input begins at the end.")
@click.option("--to-offset", type=int, metavar="N", help="Input begins at an offset.")
@click.option("--shift-by", type=int, metavar="N", help="Forward, or back with a negative number.")
@click.option("--to-datetime", metavar="TIME", help="To the first record as young as 2024-06-01T12:00:00.000.")
@click.option("--by-duration", metavar="P1DT2H", help="To the first record as young as this.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@yes_option
@cluster_options
def reset(
    session: Session,
    name: str | None,
    given: str | None,
    input_topics: str | None,
    more: str | None,
    dry_run: bool,
    yes: bool,
    **how: Any,
) -> int:
    application = name or given
    if application is None:
        raise click.UsageError("Missing application: name it, or add --application-id.")
    if all(value is None or value is False for value in how.values()):
        how["to_earliest"] = True
    chosen = chosen_reset(to_current=False, from_file=None, **how)
    topics = [topic.strip() for topic in (input_topics or "").split(",") if topic.strip()]

    async def work(admin: AdminClient) -> None:
        await _check_inactive(admin, application)
        existing = await admin.topics.names()
        internal = internal_topics(application, existing)
        wanted = internal if more is None else [topic.strip() for topic in more.split(",")]
        foreign = [topic for topic in wanted if topic not in internal]
        if foreign:
            raise Failure(
                f"{foreign[0]} is no internal topic of {application}; it has {', '.join(internal) or 'none'}."
            )
        planned = await _planned_offsets(admin, application, chosen, topics, existing)
        if not dry_run:
            confirm(f"Reset {application}? This deletes {len(wanted)} internal topics.", yes=yes)
            await _fence(admin, application)
            await _execute(session, admin, application, planned, wanted)
        _show(session, planned, wanted, executed=not dry_run)

    return session.run(work)


async def _check_inactive(admin: AdminClient, application: str) -> None:
    described = (await admin.groups.describe([application]))[application]
    if isinstance(described, KafkaError):
        if described.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise described
    if described.state not in ("Empty", "Dead"):
        raise Failure(f"Application {application!r} is still active ({described.state}). Stop all instances first.")


async def _planned_offsets(
    admin: AdminClient, application: str, chosen: Reset, topics: list[str], existing: list[str]
) -> dict[TopicPartition, int]:
    partitions = []
    for topic in topics:
        if topic not in existing:
            raise Failure(f"There is no input topic {topic}.")
        info = await admin.connections.fresh_topic(topic)
        partitions += [TopicPartition(topic, number) for number in sorted(info.partitions)]
    if not partitions:
        return {}
    committed = {place: entry.offset for place, entry in (await admin.groups.offsets(application)).items()}
    first, last = await admin.offsets.numbers(partitions, EARLIEST), await admin.offsets.numbers(partitions, LATEST)
    by_time: dict[TopicPartition, int] = {}
    moment = chosen.time(now_ms=int(time.time() * 1000))
    if moment is not None:
        numbers = await admin.offsets.numbers(partitions, moment)
        by_time = {place: offset if offset >= 0 else last[place] for place, offset in numbers.items()}
    planned = targets(chosen, partitions, first=first, last=last, committed=committed, by_time=by_time, wanted={})
    return clamp(planned, first=first, last=last)


async def _fence(admin: AdminClient, application: str) -> None:
    """Fences the workers that still run, so that they cannot commit."""
    for transaction in await admin.transactions.find():
        if is_worker_of(application, transaction.transactional_id):
            settings = ProducerSettings(transactional_id=transaction.transactional_id)
            async with Producer(admin.connections, settings) as producer:
                await producer.init_transactions()


async def _execute(
    session: Session, admin: AdminClient, application: str, planned: dict[TopicPartition, int], internal: list[str]
) -> None:
    committed = await admin.groups.offsets(application)
    stale = [place for place in committed if place.topic in internal]
    if stale:
        await admin.groups.delete_offsets(application, stale)
    if planned:
        for place, error in (await admin.groups.alter_offsets(application, planned)).items():
            if error is not None:
                session.output.complain(str(place), error)
    if internal:
        for topic, error in (await admin.topics.delete(internal)).items():
            if error is not None:
                session.output.complain(topic, error)


def _show(session: Session, planned: dict[TopicPartition, int], internal: list[str], *, executed: bool) -> None:
    rows = [(place.topic, place.partition, offset) for place, offset in sorted(planned.items())]
    if rows:
        session.output.table(("TOPIC", "PARTITION", "NEW OFFSET"), rows, right=(1, 2), fold=(0,))
    verb = "Deleted" if executed else "Would delete"
    for topic in internal:
        session.output.say(f"{verb} topic {topic}.")
    if not rows and not internal:
        session.output.say("There is nothing to reset: no internal topics, and no --input-topics.")
    session.output.emit(
        {
            "offsets": [{"topic": row[0], "partition": row[1], "newOffset": row[2]} for row in rows],
            "internalTopics": internal,
            "executed": executed,
        }
    )
