"""The members of a group, each with its partitions and how far behind it is."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.drawing.chart import Cell, Chart, Row, Tone
from ottla.cli.logic.group_lag import GroupRow
from ottla.client.admin.groups import DescribedGroup, GroupMember

__all__ = ["draw_assignment"]

LEGEND = ((Tone.NORMAL, "at the end"), (Tone.WARNING, "behind by so many records"), (Tone.ABSENT, "nothing to do"))


def draw_assignment(group: DescribedGroup, rows: Sequence[GroupRow]) -> Chart:
    members = sorted(group.members, key=lambda member: (not member.assignment, sorted(member.assignment)))
    by_partition = {(row.topic, row.partition): row for row in rows}
    drawn = [Row(_label(number, member), _cells(member, by_partition)) for number, member in enumerate(members, 1)]
    owned = {(partition.topic, partition.partition) for member in members for partition in member.assignment}
    unowned = [row for key, row in by_partition.items() if key not in owned]
    if unowned:
        drawn.append(Row("no member", tuple(_cell(row.topic, row.partition, row) for row in unowned)))
    count = f"{len(members)} member" + ("" if len(members) == 1 else "s")
    return Chart(title=f"{group.group_id}: {group.state}, {count}", rows=tuple(drawn), legend=LEGEND)


def _label(number: int, member: GroupMember) -> str:
    return f"{number}: {member.instance_id or member.client_id}"


def _cells(member: GroupMember, rows: dict[tuple[str, int], GroupRow]) -> tuple[Cell, ...]:
    if not member.assignment:
        return (Cell("idle", Tone.ABSENT),)
    return tuple(
        _cell(partition.topic, partition.partition, rows.get((partition.topic, partition.partition)))
        for partition in sorted(member.assignment)
    )


def _cell(topic: str, partition: int, row: GroupRow | None) -> Cell:
    lag = None if row is None else row.lag
    name = f"{topic}-{partition}"
    return Cell(f"{name} +{lag}", Tone.WARNING) if lag else Cell(name)
