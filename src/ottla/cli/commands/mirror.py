"""`ottla mirror`: copies topics and groups between clusters, by a properties file of MirrorMaker 2."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.failures import Failure
from ottla.cli.output import Output, json_fields
from ottla.cli.session import json_option, read_properties, run_async, stop_signals, without_references
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from ottla.mirror.settings import FlowSettings, MirrorSettings

__all__ = ["mirror"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(
    cls=VerbGroup,
    default="run",
    verbs={},
    help=COMMANDS["mirror"].help,
)
def mirror() -> None:
    """The verbs are below."""


@mirror.command(
    help="Run all flows of FILE in the foreground, until SIGTERM or Ctrl-C. A line that begins with 'ready' is printed "
    "once the topics exist at the target. `ottla mirror FILE` is the same."
)
@click.argument("file", type=_FILE)
@click.option("--clusters", metavar="ALIASES", help="Only flows to these clusters, with commas (as with Kafka's tool).")
@click.option("--threads", is_flag=True, help="Copy in this process, without Spark.")
@click.option("--master", metavar="URL", help="The Spark master.  [default: local, with a core for each worker]")
def run(file: Path, clusters: str | None, threads: bool, master: str | None) -> int:
    from ottla.mirror.mirror import Mirror
    from ottla.mirror.settings import MirrorError, MirrorSettings

    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = _settings(file)
    if clusters is not None:
        wanted = [alias.strip() for alias in clusters.split(",")]
        flows = tuple(flow for flow in settings.flows if flow.target in wanted)
        if not flows:
            raise Failure(f"No flow goes to {clusters}; {file} has {', '.join(flow.name for flow in settings.flows)}.")
        settings = MirrorSettings(settings.clusters, flows)
    names = ", ".join(flow.name for flow in settings.flows)

    async def work() -> None:
        copying = Mirror(settings, runs_on="threads" if threads else "spark", master=master)
        stopped = stop_signals()
        running = asyncio.ensure_future(copying.run(lambda: click.echo(f"ready {names}")))
        while not running.done() and not stopped:
            await asyncio.wait([running], timeout=0.2)
        copying.stop()
        await running

    try:
        run_async(work())
    except MirrorError as error:
        raise Failure(str(error)) from error
    return 0


@mirror.command(help="Show how far each flow of FILE is behind its source.")
@click.argument("file", type=_FILE)
@json_option
def status(file: Path, as_json: bool) -> int:
    from ottla.mirror.flow import FlowDriver, FlowLag

    settings = _settings(file)

    async def look() -> list[tuple[FlowSettings, FlowLag]]:
        found = []
        for flow in settings.flows:
            driver = FlowDriver(flow)
            try:
                found.append((flow, await driver.lag()))
            finally:
                await driver.close()
        return found

    output = Output(as_json=as_json)
    found = run_async(look())
    output.emit([{"flow": flow.name, "offsets": flow.offset_mode.value, **json_fields(lag)} for flow, lag in found])
    output.table(
        ("FLOW", "OFFSETS", "PARTITIONS", "LAG", "WORST PARTITION", "ITS LAG"),
        [
            (flow.name, flow.offset_mode.value, lag.partitions, lag.records, lag.worst_partition, lag.worst_records)
            for flow, lag in found
        ],
        right=(2, 3, 5),
    )
    return 0


def _settings(file: Path) -> MirrorSettings:
    from ottla.mirror.settings import MirrorError, read_settings

    try:
        return read_settings(without_references(read_properties(str(file)), str(file)))
    except (MirrorError, ClientError) as error:
        raise Failure(f"{file}: {error}") from error
