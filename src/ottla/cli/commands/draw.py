"""`ottla draw`: pictures of a log on disk, of a group, and of the replicas of a partition."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ottla.cli.drawing import Chart, as_svg, as_text
from ottla.cli.drawing.assignment import draw_assignment
from ottla.cli.drawing.in_sync import draw_in_sync, partition_history, read_metadata_log
from ottla.cli.drawing.segments import draw_segments, read_segments
from ottla.cli.failures import Failure
from ottla.cli.logic.group_lag import group_rows
from ottla.cli.names import GROUP
from ottla.cli.session import Session, cluster_options
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.model.errors import KafkaError
from ottla.records.errors import CorruptRecords

__all__ = ["draw"]

_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(cls=VerbGroup, verbs={}, help="Draw segments, assignments and in-sync replicas, as text or SVG.")
def draw() -> None:
    """The verbs are below."""


def svg_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--svg",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write an SVG file instead of text.",
    )(function)


@draw.command("segments", help="Draw the segments in directories of partitions. The node may run.")
@click.argument("directories", nargs=-1, required=True, type=_DIRECTORY, metavar="DIRECTORY...")
@svg_option
def segments(directories: tuple[Path, ...], svg: Path | None) -> int:
    if svg is not None and len(directories) > 1:
        raise click.UsageError("--svg takes one directory.")
    for directory in directories:
        try:
            chart = draw_segments(directory.resolve().name, read_segments(directory))
        except (ValueError, CorruptRecords) as error:
            raise Failure(f"{directory}: {error}" if isinstance(error, CorruptRecords) else str(error)) from None
        _show(chart, svg)
    return 0


@draw.command("assignment", help="Draw the members of a group with their partitions and lag.")
@click.argument("group", type=GROUP)
@svg_option
@cluster_options
def assignment(session: Session, group: str, svg: Path | None) -> int:
    async def work(admin: AdminClient) -> None:
        described = (await admin.groups.describe([group]))[group]
        if isinstance(described, KafkaError):
            session.output.complain(group, described)
            return
        rows = await group_rows(admin, described)
        _show(draw_assignment(described, rows), svg)

    return session.run(work)


@draw.command(
    "isr", help="Draw leader and in-sync replicas of a partition over time, from a controller's metadata log."
)
@click.argument("topic")
@click.option("-p", "--partition", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="Which one.")
@click.option("--data", required=True, type=_DIRECTORY, metavar="DIR", help="The data of a node that is a controller.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N changes.")
@svg_option
def isr(topic: str, partition: int, data: Path, last: int | None, svg: Path | None) -> int:
    try:
        changes = partition_history(read_metadata_log(data), topic, partition)
    except (ValueError, CorruptRecords) as error:
        raise Failure(str(error)) from None
    if not changes:
        raise Failure(f"The metadata log below {data} has no partition {topic}-{partition}.")
    _show(draw_in_sync(f"{topic}-{partition}", changes if last is None else changes[-last:]), svg)
    return 0


def _show(chart: Chart, svg: Path | None) -> None:
    if svg is None:
        click.echo(as_text(chart, width=shutil.get_terminal_size().columns))
    else:
        svg.write_text(as_svg(chart))
        click.echo(f"Drawn: {svg}")
