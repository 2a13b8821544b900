"""`ottla audit`: searches what was allowed and refused, and who logged in, in files or in the topic `__audit`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.audit_search import COLUMNS, AuditSearch, events, row
from ottla.cli.logic.offset_times import parse_moment
from ottla.cli.session import Session, cluster_options
from ottla.client.admin import AdminClient
from ottla.client.consumer import Consumer
from ottla.model.ids import TopicPartition

__all__ = ["audit"]

TOPIC = "__audit"
POLL_MS = 500


@click.command(help="Search the audit: authorization decisions and logins.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A file of the audit, or its directory; may be repeated.  [default: the topic __audit]",
)
@click.option("--stream", type=click.Choice(["authorization", "authentication"]), help="Only this stream.")
@click.option("--principal", metavar="User:NAME", help="Only of this principal; * and ? are wildcards.")
@click.option("--resource", metavar="NAME", help="Only about this resource: orders, TOPIC:orders, TOPIC:*.")
@click.option("--api", metavar="NAME", help="Only of this request: Produce, CreateTopics, ...")
@click.option("--operation", metavar="NAME", help="Only this operation: Read, Write, ...")
@click.option(
    "--decision",
    type=click.Choice(["allowed", "denied", "accepted", "refused"]),
    help="Only with this result; accepted and refused are results of logins.",
)
@click.option("--address", metavar="ADDRESS", help="Only from this address.")
@click.option("--since", metavar="TIME", help="Since 2026-11-17T10:00, or 2h ago.")
@click.option("--until", metavar="TIME", help="Until this time, written like --since.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Show at most this many events, the newest.",
)
@cluster_options
def audit(
    session: Session,
    files: tuple[Path, ...],
    since: str | None,
    until: str | None,
    limit: int,
    **wanted: Any,
) -> int:
    now_ms = int(time.time() * 1000)
    search = AuditSearch(
        **wanted,
        since_ms=None if since is None else parse_moment(since, now_ms=now_ms),
        until_ms=None if until is None else parse_moment(until, now_ms=now_ms),
    )
    if files:
        matches = [event for event in events(_lines(files)) if search.wants(event)]
        _show(session, matches, limit)
        return 0

    async def work(admin: AdminClient) -> None:
        _show(session, await _from_topic(admin, session, search), limit)

    return session.run(work)


def _lines(files: tuple[Path, ...]) -> Iterator[bytes]:
    for path in files:
        for file in sorted(path.glob("*.jsonl*")) if path.is_dir() else [path]:
            with file.open("rb") as lines:
                yield from lines


async def _from_topic(admin: AdminClient, session: Session, search: AuditSearch) -> list[dict[str, Any]]:
    """The matching events of the topic, from the start time of the search to the current end of the topic."""
    topic = (await admin.topics.all()).get(TOPIC)
    if topic is None:
        raise Failure(
            f"There is no topic {TOPIC}, or it may not be read. Nodes write to it with ottla.audit.topic=true; "
            "--file searches the files of ottla.audit.dir."
        )
    partitions = [TopicPartition(TOPIC, number) for number in topic.partitions]
    matches: list[dict[str, Any]] = []
    async with Consumer(session.settings) as consumer:
        await consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        starts = await consumer.beginning_offsets(partitions)
        if search.since_ms is not None:
            times = await consumer.offsets_for_times(dict.fromkeys(partitions, search.since_ms))
            for partition, at in times.items():
                starts[partition] = ends[partition] if at is None else at.offset
        for partition in partitions:
            consumer.seek(partition, starts[partition])
        unread = [partition for partition in partitions if starts[partition] < ends[partition]]
        while unread:
            for record in await consumer.poll(POLL_MS):
                matches += [event for event in events([record.value or b""]) if search.wants(event)]
            # The last offset may have no record: it is a transaction marker, or retention has removed the record.
            unread = [partition for partition in unread if consumer.position(partition) < ends[partition]]
    return matches


def _show(session: Session, matches: list[dict[str, Any]], limit: int) -> None:
    matches.sort(key=lambda event: str(event.get("time")))
    shown = matches[-limit:]
    session.output.table(COLUMNS, map(row, shown), fold=(4, 5), none="No event matches.")
    if len(shown) < len(matches):
        session.output.say(f"{len(matches) - len(shown)} older events are not shown; --limit shows more.")
    session.output.emit(shown)
