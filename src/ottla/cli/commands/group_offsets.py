"""`ottla groups reset-offsets` and `delete-offsets`."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.offset_csv import read_offsets, write_offsets
from ottla.cli.logic.offset_reset import Reset, chosen_reset, clamp, targets
from ottla.cli.logic.words import parse_topic_partitions
from ottla.cli.names import GROUP, TOPIC
from ottla.cli.session import Session, cluster_options, confirm, yes_option
from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["consumer_groups", "delete_offsets", "reset_offsets"]

RESETTABLE = ("Empty", "Dead")


@click.command("reset-offsets", help="Move the committed offsets of groups without active members.")
@click.argument("names", nargs=-1, type=GROUP, metavar="[GROUP]...")
@click.option("-g", "--group", "more", multiple=True, type=GROUP, metavar="GROUP", help="A group; may be repeated.")
@click.option("--all-groups", is_flag=True, help="Every consumer group.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    type=TOPIC,
    metavar="TOPIC[:0,1]",
    help="A topic, or some partitions of it.",
)
@click.option("--all-topics", is_flag=True, help="Every partition the group has offsets in.")
@click.option("--to-earliest", is_flag=True, help="To the first offset.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To where it is.")
@click.option("--to-offset", type=int, metavar="N", help="To an offset.")
@click.option("--shift-by", type=int, metavar="N", help="Forward, or back with a negative number.")
@click.option("--to-datetime", metavar="TIME", help="To the first record as young as 2024-06-01T12:00:00.000.")
@click.option("--by-duration", metavar="P1DT2H", help="To the first record as young as this.")
@click.option("--from-file", type=click.Path(exists=True, dir_okay=False), metavar="CSV", help="As a file says.")
@click.option("--export", is_flag=True, help="Print a file for --from-file.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done (the default).")
@click.option("--execute", is_flag=True, help="Do it.")
@yes_option
@cluster_options
def reset_offsets(
    session: Session,
    names: tuple[str, ...],
    more: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    export: bool,
    dry_run: bool,
    execute: bool,
    yes: bool,
    **how: Any,
) -> int:
    reset = chosen_reset(**how)
    if execute and dry_run:
        raise click.UsageError("--dry-run and --execute exclude each other.")
    if not (topics or all_topics or reset.file):
        raise click.UsageError("Missing topics: add --topic or --all-topics.")

    async def work(admin: AdminClient) -> None:
        groups = await consumer_groups(admin) if all_groups else list(names + more)
        if not groups:
            raise Failure("Name a group, as an argument or with --group, or add --all-groups.", exit_code=2)
        planned = {}
        for group_id in groups:
            await _check_inactive(admin, group_id)
            planned[group_id] = await _plan(admin, group_id, reset, topics, groups=groups)
        if not any(planned.values()) and not (topics or reset.file):
            raise Failure("The group has no committed offsets; name topics with --topic.")
        if export:
            sys.stdout.write(write_offsets(planned))
            return
        if execute:
            # --execute is Kafka's own confirmation, so no further question is asked.
            for group_id, offsets in planned.items():
                if not offsets:
                    continue
                for partition, error in (await admin.groups.alter_offsets(group_id, offsets)).items():
                    if error is not None:
                        session.output.complain(f"{group_id} {partition}", error)
        _show(session, planned, executed=execute)

    del yes
    return session.run(work)


@click.command("delete-offsets", help="Delete a group's offsets in topics that it does not consume.")
@click.option("-g", "--group", required=True, type=GROUP, metavar="GROUP", help="The group.")
@click.option(
    "-t", "--topic", "topics", multiple=True, required=True, type=TOPIC, metavar="TOPIC[:0,1]", help="A topic."
)
@yes_option
@cluster_options
def delete_offsets(session: Session, group: str, topics: tuple[str, ...], yes: bool) -> int:
    async def work(admin: AdminClient) -> None:
        committed = await admin.groups.offsets(group)
        wanted = await _partitions(admin, topics, committed)
        confirm(f"Delete the offsets of {group} in {', '.join(topics)}?", yes=yes)
        rows = []
        for partition, error in (await admin.groups.delete_offsets(group, wanted)).items():
            rows.append((partition.topic, partition.partition, "deleted" if error is None else error.code.name))
            if error is not None:
                session.output.complain(str(partition), error)
        session.output.table(("TOPIC", "PARTITION", "STATUS"), sorted(rows), right=(1,))
        session.output.emit([{"topic": row[0], "partition": row[1], "status": row[2]} for row in sorted(rows)])

    return session.run(work)


async def consumer_groups(admin: AdminClient) -> list[str]:
    """The groups of --all-groups, as in Kafka's tool: no share groups, and no groups of workers or of streams."""
    return [
        group.group_id
        for group in await admin.groups.find()
        if group.type in ("", "classic", "consumer") and group.protocol_type in ("", "consumer")
    ]


async def _check_inactive(admin: AdminClient, group_id: str) -> None:
    described = (await admin.groups.describe([group_id]))[group_id]
    if isinstance(described, KafkaError):
        if described.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise described
    if described.state not in RESETTABLE:
        raise Failure(
            f"Group {group_id!r} is {described.state}; its offsets can be reset only while no member is active. "
            "Stop its consumers first."
        )


async def _plan(
    admin: AdminClient, group_id: str, reset: Reset, topics: tuple[str, ...], *, groups: list[str]
) -> dict[TopicPartition, int]:
    committed = {partition: entry.offset for partition, entry in (await admin.groups.offsets(group_id)).items()}
    if reset.file:
        with open(reset.file, encoding="utf-8") as file:
            wanted = read_offsets(file.read(), groups=groups).get(group_id, {})
        partitions = list(wanted)
    else:
        wanted = {}
        partitions = await _partitions(admin, topics, committed)
    first = await admin.offsets.numbers(partitions, EARLIEST)
    last = await admin.offsets.numbers(partitions, LATEST)
    by_time = {}
    moment = reset.time(now_ms=int(time.time() * 1000))
    if moment is not None:
        offsets_of_time = await admin.offsets.numbers(partitions, moment)
        by_time = {
            partition: offset if offset >= 0 else last[partition] for partition, offset in offsets_of_time.items()
        }
    planned = targets(reset, partitions, first=first, last=last, committed=committed, by_time=by_time, wanted=wanted)
    return clamp(planned, first=first, last=last)


async def _partitions(
    admin: AdminClient, topics: tuple[str, ...], committed: dict[TopicPartition, Any]
) -> list[TopicPartition]:
    if not topics:
        # As with Kafka's tool, all topics are the partitions with a committed offset.
        return sorted(committed)
    selected: set[TopicPartition] = set()
    for name, numbers in map(parse_topic_partitions, topics):
        info = await admin.connections.fresh_topic(name)
        missing = [number for number in numbers or () if number not in info.partitions]
        if missing:
            raise Failure(f"There is no partition {name}-{missing[0]}; the topic has {len(info.partitions)}.")
        selected.update(TopicPartition(name, number) for number in numbers or info.partitions)
    return sorted(selected)


def _show(session: Session, planned: dict[str, dict[TopicPartition, int]], *, executed: bool) -> None:
    rows = [
        (group_id, partition.topic, partition.partition, offset)
        for group_id, offsets in planned.items()
        for partition, offset in sorted(offsets.items())
    ]
    session.output.table(("GROUP", "TOPIC", "PARTITION", "NEW OFFSET"), rows, right=(2, 3), fold=(0, 1))
    session.output.emit([{"group": row[0], "topic": row[1], "partition": row[2], "newOffset": row[3]} for row in rows])
    if not executed:
        session.output.say("\nNo offset was changed. Add --execute to change them.")
