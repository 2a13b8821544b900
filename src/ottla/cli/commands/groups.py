"""`ottla groups`: list, describe, reset offsets, delete."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import click

from ottla.cli.commands.group_offsets import consumer_groups, delete_offsets, reset_offsets
from ottla.cli.failures import Failure
from ottla.cli.logic.group_lag import GroupRow, group_rows
from ottla.cli.names import GROUP
from ottla.cli.output import Output, counted
from ottla.cli.session import Session, cluster_options, confirm, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.groups import DescribedGroup, GroupMember
from ottla.client.leaders import by_topic
from ottla.model.errors import KafkaError

__all__ = ["groups"]


@click.group(cls=VerbGroup, help="List, describe, reset and delete consumer groups (kafka-consumer-groups).")
def groups() -> None:
    """The verbs are below."""


groups.add_command(reset_offsets)
groups.add_command(delete_offsets)


def group_names(function: Any) -> Any:
    """Groups as arguments, or with --group."""
    function = click.argument("names", nargs=-1, type=GROUP, metavar="[GROUP]...")(function)
    return click.option(
        "-g", "--group", "more", multiple=True, type=GROUP, metavar="GROUP", help="A group; may be repeated."
    )(function)


@groups.command("list", help="List groups.")
@click.option("--state", "states", is_flag=False, flag_value="", metavar="[A,B]", help="Only in these states.")
@click.option("--type", "types", is_flag=False, flag_value="", metavar="[A,B]", help="Only of these types.")
@cluster_options
def list_groups(session: Session, states: str | None, types: str | None) -> int:
    async def work(admin: AdminClient) -> None:
        listed = await admin.groups.find(states=_words(states), types=[word.lower() for word in _words(types)])
        session.output.table(
            ("GROUP", "TYPE", "PROTOCOL", "STATE"),
            [(group.group_id, group.type.capitalize(), group.protocol_type, group.state) for group in listed],
            fold=(0,),
            none="There are no such groups." if states or types else "There are no groups.",
        )
        session.output.emit(
            [
                {"group": group.group_id, "type": group.type, "protocol": group.protocol_type, "state": group.state}
                for group in listed
            ]
        )

    return session.run(work)


@groups.command("describe", help="Show offsets and lag, members, or the state of groups.")
@group_names
@click.option("--all-groups", is_flag=True, help="Every consumer group.")
@click.option("--offsets", "view", flag_value="offsets", default="offsets", help="Offsets and lag (the default).")
@click.option("--members", "view", flag_value="members", help="Members.")
@click.option("--state", "view", flag_value="state", help="State and coordinator.")
@click.option("-v", "--verbose", is_flag=True, help="More columns; assignments of members.")
@cluster_options
def describe(
    session: Session, names: tuple[str, ...], more: tuple[str, ...], all_groups: bool, view: str, verbose: bool
) -> int:
    async def work(admin: AdminClient) -> None:
        wanted = await _wanted(admin, names + more, all_groups=all_groups)
        answers = []
        for group_id, group in (await admin.groups.describe(wanted)).items():
            if isinstance(group, KafkaError):
                session.output.complain(group_id, group)
                continue
            if len(wanted) > 1 and view != "offsets":
                session.output.say(f"Group {group_id}")
            if view == "members":
                answers.append(_members(session.output, group, verbose=verbose))
            elif view == "state":
                answers.append(_state(session.output, admin, group))
            else:
                rows = await group_rows(admin, group)
                answers.append(_offsets(session.output, group, rows, verbose=verbose))
            if len(wanted) > 1:
                session.output.say()
        session.output.emit(answers)

    return session.run(work)


@groups.command("delete", help="Delete groups without members, and their offsets.")
@group_names
@click.option("--all-groups", is_flag=True, help="Every consumer group.")
@yes_option
@cluster_options
def delete(session: Session, names: tuple[str, ...], more: tuple[str, ...], all_groups: bool, yes: bool) -> int:
    async def work(admin: AdminClient) -> None:
        wanted = await _wanted(admin, names + more, all_groups=all_groups)
        confirm(f"Delete {', '.join(wanted)} and all committed offsets?", yes=yes)
        deleted = []
        for group_id, error in (await admin.groups.delete(wanted)).items():
            if error is None:
                deleted.append(group_id)
                session.output.say(f"Deleted group {group_id}.")
            else:
                session.output.complain(group_id, error)
        session.output.emit(deleted)

    return session.run(work)


async def _wanted(admin: AdminClient, names: tuple[str, ...], *, all_groups: bool) -> list[str]:
    if all_groups:
        group_ids = await consumer_groups(admin)
        if not group_ids:
            raise Failure("There are no groups.")
        return group_ids
    if not names:
        raise click.UsageError("Name a group, as an argument or with --group, or add --all-groups.")
    return list(names)


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _offsets(output: Output, group: DescribedGroup, rows: list[GroupRow], *, verbose: bool) -> dict[str, Any]:
    members = counted(len(group.members), "member") if group.members else "no active members"
    behind = sum(row.lag for row in rows if isinstance(row.lag, int))
    output.say(f"{group.group_id}: {group.state}, {members}, {behind} records behind")
    columns = ("PARTITION", "CURRENT", "END", "LAG", "CONSUMER")
    verbose_columns = ("HOST", "CLIENT", "EPOCH") if verbose else ()
    # The rows are sorted by topic.
    for topic, rows_of_topic in groupby(rows, key=lambda row: row.topic):
        output.say(topic)
        output.table(
            columns + verbose_columns,
            [
                (row.partition, row.current, row.end, row.lag, row.consumer, row.host, row.client, row.leader_epoch)[
                    : len(columns) + len(verbose_columns)
                ]
                for row in rows_of_topic
            ],
            right=(0, 1, 2, 3, 7),
            fold=(4, 6),
            seldom=(4, *range(5, 5 + len(verbose_columns))),
        )
    return {
        "group": group.group_id,
        "state": group.state,
        "offsets": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "currentOffset": row.current,
                "leaderEpoch": row.leader_epoch,
                "logEndOffset": row.end,
                "lag": row.lag,
                "consumerId": row.consumer,
                "host": row.host,
                "clientId": row.client,
            }
            for row in rows
        ],
    }


def _members(output: Output, group: DescribedGroup, *, verbose: bool) -> dict[str, Any]:
    columns = ["CONSUMER", "HOST", "CLIENT", "PARTITIONS"]
    seldom: tuple[int, ...] = ()
    rows: list[tuple[object, ...]] = [
        (member.member_id, member.host.lstrip("/"), member.client_id, len(member.assignment))
        for member in group.members
    ]
    if verbose:
        columns += ["EPOCH", "INSTANCE"]
        rows = [(*row, member.epoch, member.instance_id) for row, member in zip(rows, group.members, strict=True)]
        seldom = (5,)
    if not group.members:
        output.say(f"{group.group_id} has no active members.")
    else:
        output.table(columns, rows, right=(3, 4), fold=(0, 2), seldom=seldom)
        for member in group.members if verbose else ():
            output.say(f"{member.member_id} reads {_assignment(member) or 'nothing'}")
    return {"group": group.group_id, "members": [_member_json(member) for member in group.members]}


def _member_json(member: GroupMember) -> dict[str, Any]:
    return {
        "consumerId": member.member_id,
        "instanceId": member.instance_id,
        "host": member.host,
        "clientId": member.client_id,
        "epoch": member.epoch,
        "assignment": [str(partition) for partition in member.assignment],
        "target": None if member.target is None else [str(partition) for partition in member.target],
    }


def _assignment(member: GroupMember) -> str:
    return " ".join(
        f"{topic}({','.join(map(str, partitions))})" for topic, partitions in by_topic(member.assignment).items()
    )


def _state(output: Output, admin: AdminClient, group: DescribedGroup) -> dict[str, Any]:
    broker = admin.connections.metadata.brokers.get(group.coordinator)
    coordinator = f"{broker.address} ({group.coordinator})" if broker else str(group.coordinator)
    output.table(
        ("COORDINATOR", "TYPE", "ASSIGNOR", "STATE", "EPOCH", "TARGET EPOCH", "MEMBERS"),
        [
            (
                coordinator,
                group.type,
                group.assignor,
                group.state,
                group.epoch,
                group.target_epoch,
                len(group.members),
            )
        ],
        right=(4, 5, 6),
    )
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "coordinator": group.coordinator,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "targetEpoch": group.target_epoch,
        "members": len(group.members),
    }
