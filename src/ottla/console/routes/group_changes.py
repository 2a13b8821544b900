"""Changes of groups: offsets with a preview, deletion."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from ottla.cli.logic.offset_reset import Reset, clamp, targets
from ottla.client.admin.groups import ListedGroup
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.console.answers import ApiError, invalid
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.group_reading import GroupProgress, kind_of, progress_of_groups, read_group
from ottla.console.routes.groups import listed_group, why_not_resettable
from ottla.console.routes.topics import topic_of
from ottla.console.words import count_of, partition_json, partitions_of_body, raise_first
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["GROUP_CHANGES"]

METHODS = ("earliest", "latest", "offset", "timestamp", "shift", "group")

Offsets = dict[TopicPartition, int]


async def _reset(call: Call) -> Change:
    group_id, kind = await _group(call)
    detail = await read_group(call.admin, group_id, kind)
    if (why_not := why_not_resettable(detail)) is not None:
        raise ApiError(409, "NON_EMPTY_GROUP", why_not, "The group's page shows its members.")
    rows = await _progress(call, group_id, kind)
    committed = {row.partition: row.committed for row in rows if row.committed is not None}
    partitions = await _wanted(call, [row.partition for row in rows])
    first, last = await asyncio.gather(
        call.admin.offsets.numbers(partitions, EARLIEST), call.admin.offsets.numbers(partitions, LATEST)
    )
    reset, option, by_time, copied = await _method(call, partitions, last)
    if copied:
        partitions = [partition for partition in partitions if partition in copied]
    planned = targets(reset, partitions, first=first, last=last, committed=committed, by_time=by_time, wanted=copied)
    after = clamp(planned, first=first, last=last)

    async def apply() -> dict[str, Any]:
        if kind == "share":
            raise_first((await call.admin.share_groups.alter_offsets(group_id, after)).values())
        else:
            raise_first((await call.admin.groups.alter_offsets(group_id, after)).values())
        return {"changed": len(after)}

    return Change(
        plan=[
            f"Moves {partition} from {committed.get(partition, 'nothing')} to {offset}, "
            f"{last[partition] - offset} records before the end."
            for partition, offset in after.items()
        ],
        command=_command(call, group_id, option, after, is_copy=bool(copied)),
        apply=apply,
        warnings=_warnings(committed, after),
        preview={
            "offsets": [
                {
                    **partition_json(partition),
                    "before": committed.get(partition),
                    "after": offset,
                    "lag_after": last[partition] - offset,
                }
                for partition, offset in after.items()
            ]
        },
    )


async def _group(call: Call) -> tuple[str, str]:
    """Id and kind of the group. Raises ApiError 404 for an unknown group."""
    group_id = call.part("id")
    try:
        return group_id, kind_of(await listed_group(call, group_id))
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        raise ApiError(404, "GROUP_ID_NOT_FOUND", f"There is no group {group_id!r}.") from None


async def _progress(call: Call, group_id: str, kind: str) -> list[GroupProgress]:
    group = ListedGroup(group_id, protocol_type="", state="", type=kind)
    progress = (await progress_of_groups(call.admin, [group]))[group_id]
    if isinstance(progress, KafkaError):
        raise progress
    return progress


async def _committed(call: Call, group_id: str, kind: str) -> Offsets:
    rows = await _progress(call, group_id, kind)
    return {row.partition: row.committed for row in rows if row.committed is not None}


async def _wanted(call: Call, known: list[TopicPartition]) -> list[TopicPartition]:
    """The partitions of the body, all partitions of its topics, or all partitions that the group has read."""
    if call.body.get("partitions"):
        return sorted(set(partitions_of_body(call.body["partitions"])))
    names = call.names("topics")
    if not names:
        if not known and call.body.get("to") != "group":
            raise invalid("The group has no committed offsets.", "Name topics in 'topics'.")
        return sorted(known)
    partitions = []
    for name in names:
        info = await topic_of(call, name)
        partitions += [TopicPartition(name, number) for number in info.partitions]
    return sorted(partitions)


async def _method(
    call: Call, partitions: list[TopicPartition], last: Offsets
) -> tuple[Reset, tuple[str, object], Offsets, Offsets]:
    """The method, its option on the command line, offsets by time, and offsets of another group."""
    method = call.text("to")
    if method == "earliest":
        return Reset("earliest"), ("--to-earliest", True), {}, {}
    if method == "latest":
        return Reset("latest"), ("--to-latest", True), {}, {}
    if method == "offset":
        number = call.whole("offset")
        return Reset("offset", number), ("--to-offset", number), {}, {}
    if method == "shift":
        number = call.whole("shift")
        return Reset("shift", number), ("--shift-by", number), {}, {}
    if method == "timestamp":
        moment = call.whole("timestamp")
        offsets = await call.admin.offsets.numbers(partitions, moment)
        by_time = {partition: offset if offset >= 0 else last[partition] for partition, offset in offsets.items()}
        text = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return Reset("datetime", text=text), ("--to-datetime", text), by_time, {}
    if method == "group":
        source = call.text("group")
        copied = await _committed(call, source, kind_of(await listed_group(call, source)))
        if not any(partition in copied for partition in partitions):
            raise invalid(f"Group {source} has no offsets in these partitions.")
        return Reset("file"), ("--from-file", "offsets.csv"), {}, copied
    raise invalid(f"to={method!r}: it is one of {', '.join(METHODS)}.")


def _command(call: Call, group_id: str, option: tuple[str, object], after: Offsets, *, is_copy: bool) -> str:
    options: list[tuple[str, object]] = []
    if not is_copy:
        whole_topics = set(call.names("topics")) if not call.body.get("partitions") else set()
        by_topic: dict[str, list[str]] = {}
        for partition in after:
            by_topic.setdefault(partition.topic, []).append(str(partition.partition))
        options += [
            ("--topic", topic if topic in whole_topics else f"{topic}:{','.join(numbers)}")
            for topic, numbers in by_topic.items()
        ]
    return command_line("groups", "reset-offsets", group_id, options=[*options, option, ("--execute", True)])


def _warnings(committed: Offsets, after: Offsets) -> list[str]:
    warnings = []
    skipped = sum(
        max(offset - committed[partition], 0) for partition, offset in after.items() if partition in committed
    )
    again = sum(max(committed[partition] - offset, 0) for partition, offset in after.items() if partition in committed)
    if skipped:
        warnings.append(f"The group will never read {count_of(skipped, 'record')}.")
    if again:
        warnings.append(f"The group will read {count_of(again, 'record')} again.")
    return warnings


async def _delete_offsets(call: Call) -> Change:
    group_id, kind = await _group(call)
    names = call.names("topics")
    if not names:
        raise invalid("The body needs 'topics', a list of names.")
    committed = await _committed(call, group_id, kind)
    wanted = [partition for partition in sorted(committed) if partition.topic in names]

    async def apply() -> dict[str, Any]:
        if kind == "share":
            raise_first((await call.admin.share_groups.delete_offsets(group_id, names)).values())
        else:
            raise_first((await call.admin.groups.delete_offsets(group_id, wanted)).values())
        return {"deleted": len(wanted)}

    options: list[tuple[str, object]] = [("--group", group_id), *[("--topic", name) for name in names]]
    return Change(
        plan=[f"Forgets offset {committed[partition]} of {partition}." for partition in wanted],
        command=command_line("groups", "delete-offsets", options=[*options, ("--yes", True)]),
        apply=apply,
        warnings=["Consumers of the group begin where auto.offset.reset tells them."],
    )


async def _delete(call: Call) -> Change:
    group_id, kind = await _group(call)
    committed = await _committed(call, group_id, kind)

    async def apply() -> dict[str, Any]:
        raise_first((await call.admin.groups.delete([group_id])).values())
        return {"deleted": group_id}

    return Change(
        plan=[f"Deletes group {group_id} and its offsets in {count_of(len(committed), 'partition')}."],
        command=command_line("groups", "delete", group_id, "--yes"),
        apply=apply,
        warnings=["The offsets cannot be brought back."],
    )


GROUP_CHANGES = (
    Route("POST", "/api/groups/{id}/reset", _reset, Need.WRITE),
    Route("POST", "/api/groups/{id}/delete-offsets", _delete_offsets, Need.WRITE),
    Route("DELETE", "/api/groups/{id}", _delete, Need.WRITE),
)
