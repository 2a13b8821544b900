"""`ottla migrate copy|verify|switch|report`: a cluster moves to another one by a mirror."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.commands.mirror import new_topics_option, run_failback
from ottla.cli.failures import Failure
from ottla.cli.output import Output, json_fields
from ottla.cli.session import (
    confirm,
    json_option,
    read_properties,
    run_async,
    stop_signals,
    without_references,
    yes_option,
)
from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.mirror.migration.rights import CopiedRights
    from ottla.mirror.settings import FlowSettings, MirrorSettings

__all__ = ["back", "copy", "report", "switch", "verify"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    help="Copy a cluster to another one: ACLs and quotas once, then topics, records and offsets of groups until "
    "SIGTERM or Ctrl-C. FILE is a properties file of a mirror with one flow; names and offsets stay the same. Repeat "
    "the command after an interruption."
)
@click.argument("file", type=_FILE)
@click.option("--until-copied", is_flag=True, help="End when the new cluster has all records.")
@click.option("--spark", is_flag=True, help="Copy on Spark instead of in this process.")
@click.option("--master", metavar="URL", help="The Spark master, with --spark.")
@click.option("--dry-run", is_flag=True, help="Only show what would be copied.")
@json_option
def copy(file: Path, until_copied: bool, spark: bool, master: str | None, dry_run: bool, as_json: bool) -> int:
    from ottla.mirror.migration.rights import copy_rights
    from ottla.mirror.mirror import Mirror
    from ottla.mirror.progress import find_progress

    level = os.environ.get("OTTLA_LOG_LEVEL", "WARNING").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings, flow = _settings(file)
    output = Output(as_json=as_json)

    async def work(source: Cluster, target: Cluster) -> None:
        topics = await _topics(flow, source)
        rights = await copy_rights(source, target, dry_run=dry_run)
        output.say(
            f"{len(topics)} topics with {sum(topics.values())} partitions go from {flow.source} to {flow.target}."
        )
        _show_rights(output, rights)
        output.emit({"topics": len(topics), "partitions": sum(topics.values()), "rights": json_fields(rights)})
        if dry_run:
            return
        stopped = stop_signals()
        copying = Mirror(settings, runs_on="spark" if spark else "threads", master=master)
        running = asyncio.ensure_future(copying.run(lambda: output.say("ready")))
        try:
            while not running.done() and not stopped:
                await asyncio.wait([running], timeout=0.5)
                if until_copied and not running.done():
                    with suppress(ClientError):
                        progress = await find_progress(flow, source, target)
                        if len(progress) >= sum(topics.values()) and not any(
                            partition.missing for partition in progress
                        ):
                            output.say("Everything is copied.")
                            break
        finally:
            copying.stop()
        await running

    _run(flow, work)
    return 0


@click.command(
    help="Compare every partition on both sides: number of records and a checksum, up to the offset that both have. "
    "Fails if one differs."
)
@click.argument("file", type=_FILE)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated.")
@json_option
def verify(file: Path, topics: tuple[str, ...], as_json: bool) -> int:
    from ottla.mirror.migration.compare import Comparison, compare_partitions

    _, flow = _settings(file)
    output = Output(as_json=as_json)
    comparisons: list[Comparison] = []

    async def work(source: Cluster, target: Cluster) -> None:
        comparisons.extend(
            [comparison async for comparison in compare_partitions(flow, source, target, set(topics) or None)]
        )

    _run(flow, work)
    output.emit([{**json_fields(comparison), "equal": comparison.is_equal} for comparison in comparisons])
    output.table(
        ("TOPIC", "PARTITION", "UP TO", "RECORDS", "CHECKSUM", ""),
        [
            (
                comparison.topic,
                comparison.partition,
                comparison.end_offset,
                comparison.source_records
                if comparison.is_equal
                else f"{comparison.source_records} / {comparison.target_records}",
                comparison.source_checksum
                if comparison.is_equal
                else f"{comparison.source_checksum} / {comparison.target_checksum}",
                "equal" if comparison.is_equal else "DIFFERENT",
            )
            for comparison in comparisons
        ],
        right=(1, 2, 3),
        none="There is nothing to compare yet: run `ottla migrate copy` first.",
    )
    different = [comparison for comparison in comparisons if not comparison.is_equal]
    if different:
        raise Failure(f"{len(different)} of {len(comparisons)} partitions differ.")
    return 0


@click.command(
    help="Switch groups one after another to the new cluster, while the copying goes on: wait until their members at "
    "the old one have stopped and their records are copied, and set their offsets. --producers ends the copying for "
    "good, so that producers can be switched. --back is the way back of a group."
)
@click.argument("file", type=_FILE)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="This group; may be repeated.")
@click.option("--all-groups", is_flag=True, help="All groups that have offsets in copied topics.")
@click.option("--producers", is_flag=True, help="End the copying, after the last group.")
@click.option("--back", is_flag=True, help="Groups return to the old cluster.")
@click.option("--wait", type=click.FloatRange(0), default=300.0, metavar="S", help="For each group.  [default: 300]")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@yes_option
@json_option
def switch(
    file: Path,
    groups: tuple[str, ...],
    all_groups: bool,
    producers: bool,
    back: bool,
    wait: float,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    from ottla.mirror.migration.groups import GroupSwitch, find_groups

    if not (groups or all_groups or producers):
        raise Failure("Nothing to switch: add --group NAME, --all-groups or --producers.")
    if producers and back:
        raise Failure("The way back of producers is `ottla migrate back`: --back is for groups.")
    _, flow = _settings(file)
    output = Output(as_json=as_json)

    async def work(source: Cluster, target: Cluster) -> None:
        names = list(groups)
        if all_groups:
            names = [place.group for place in await find_groups(flow, source, target)]
        moving = GroupSwitch(flow, source, target, output.say, seconds=wait)
        cluster_name = flow.source if back else flow.target
        moved = {}
        for name in names:
            if dry_run:
                output.say(f"Group {name} would continue at {cluster_name}.")
                continue
            moved[name] = await (moving.switch_back(name) if back else moving.switch(name))
            output.say(f"Group {name} continues at {cluster_name}: start its members there ({moved[name]} partitions).")
        if producers:
            await _switch_producers(output, flow, dry_run=dry_run, yes=yes)
        output.emit({"groups": moved, "producers": producers and not dry_run})

    _run(flow, work)
    return 0


async def _switch_producers(output: Output, flow: FlowSettings, *, dry_run: bool, yes: bool) -> None:
    from ottla.mirror.switching.failover import Failover

    command = Failover(flow, lambda step: output.say(f"{step} ..."))
    try:
        if dry_run:
            await command.verify_copied()
            output.say(f"Everything is copied: the copying would end, and producers could use {flow.target}.")
            return
        confirm(f"Have all producers of {flow.source} stopped?", yes=yes)
        # The copying ends after the confirmation, because records written until then have to be copied, too.
        await command.run(only_if_copied=True)
        after = await command.verify()
        if not after.source_answers:
            raise Failure(
                f"The copying has ended, but {flow.source} does not answer: repeat the command, which says whether "
                "something was written there meanwhile."
            )
        if late := sum(uncopied.offsets for uncopied in after.not_copied):
            raise Failure(
                f"{late} offsets were written at {flow.source} after the copying had ended: a producer had not "
                f"stopped. Stop it; `ottla migrate back` copies them to {flow.target} and returns to {flow.source}."
            )
    finally:
        await command.close()
    output.say(f"Producers use {flow.target} now. The way back is `ottla migrate back`.")


@click.command(
    help="Bring all clients back to the old cluster after `switch --producers`: records that were written at the new "
    "one are copied back, and groups continue there. A command that was interrupted is repeated."
)
@click.argument("file", type=_FILE)
@click.option("--dry-run", is_flag=True, help="Only list what was written at the old cluster meanwhile.")
@new_topics_option
@yes_option
@json_option
def back(file: Path, dry_run: bool, new_topics: bool, yes: bool, as_json: bool) -> int:
    run_failback(_settings(file)[1], dry_run=dry_run, new_topics=new_topics, yes=yes, as_json=as_json)
    return 0


@click.command(help="Show how far the migration is: records that are not copied, and where the groups are.")
@click.argument("file", type=_FILE)
@json_option
def report(file: Path, as_json: bool) -> int:
    from ottla.mirror.migration.groups import GroupPlace, find_groups
    from ottla.mirror.progress import find_progress
    from ottla.mirror.state import FlowStates

    _, flow = _settings(file)
    output = Output(as_json=as_json)
    summary: dict[str, Any] = {}

    async def work(source: Cluster, target: Cluster) -> None:
        states = FlowStates(flow, target)
        try:
            summary["state"] = (await states.read()).phase.value
        finally:
            await states.close()
        topics = await _topics(flow, source)
        progress = await find_progress(flow, source, target)
        summary["topics"] = len(topics)
        summary["partitions"] = sum(topics.values())
        summary["copied_partitions"] = len(progress)
        summary["missing_offsets"] = sum(partition.missing for partition in progress)
        summary["groups"] = await find_groups(flow, source, target)

    _run(flow, work)
    places: list[GroupPlace] = summary.pop("groups")
    output.emit({**summary, "groups": [json_fields(place) for place in places]})
    output.say(
        f"{flow.name} is {summary['state']}: {summary['copied_partitions']} of {summary['partitions']} partitions of "
        f"{summary['topics']} topics have a copy, {summary['missing_offsets']} offsets are not copied yet."
    )
    output.table(
        ("GROUP", f"MEMBERS AT {flow.source}", f"MEMBERS AT {flow.target}", "PARTITIONS", "OFFSETS SET"),
        [
            (place.group, place.members_at_source, place.members_at_target, place.partitions, place.moved_partitions)
            for place in places
        ],
        right=(1, 2, 3, 4),
        none="No group has offsets in these topics.",
    )
    return 0


def _show_rights(output: Output, rights: CopiedRights) -> None:
    output.say(f"{rights.acls} ACLs and quotas of {rights.quotas} users, client ids and addresses are new.")
    if rights.users_without_password:
        output.say(
            "Passwords cannot be read from a cluster. Set them at the new one (ottla configs alter --user NAME ...): "
            f"{', '.join(rights.users_without_password)}."
        )
    for sentence in rights.not_copied:
        output.say(sentence)


async def _topics(flow: FlowSettings, source: Cluster) -> dict[str, int]:
    from ottla.client.admin.topics import Topics
    from ottla.mirror.copying.pairs import is_copied

    return {
        name: len(info.partitions)
        for name, info in (await Topics(source).all()).items()
        if info.error is None and is_copied(flow, name, is_internal=info.is_internal)
    }


def _run(flow: FlowSettings, work: Callable[[Cluster, Cluster], Awaitable[None]]) -> None:
    from ottla.client.cluster import Cluster
    from ottla.mirror.settings import MirrorError

    async def connected() -> None:
        source, target = Cluster(flow.source_client), Cluster(flow.target_client)
        try:
            await work(source, target)
        finally:
            await asyncio.gather(source.close(), target.close())

    running: Coroutine[Any, Any, None] = connected()
    try:
        run_async(running)
    except MirrorError as error:
        raise Failure(str(error)) from error


def _settings(file: Path) -> tuple[MirrorSettings, FlowSettings]:
    from ottla.mirror.migration.settings import migration_settings
    from ottla.mirror.settings import MirrorError

    try:
        return migration_settings(without_references(read_properties(str(file)), str(file)))
    except (MirrorError, ClientError) as error:
        raise Failure(f"{file}: {error}") from error
