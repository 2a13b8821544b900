"""`ottla mirror`: copies topics and groups between clusters, by a properties file of MirrorMaker 2, and switches."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.failures import Failure
from ottla.cli.mirror_files import read_mirror_file
from ottla.cli.output import Output, json_fields
from ottla.cli.session import (
    confirm,
    json_option,
    run_async,
    stop_signals,
    yes_option,
)
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup

if TYPE_CHECKING:
    from ottla.mirror.settings import FlowSettings, MirrorSettings
    from ottla.mirror.switching.report import SwitchReport

__all__ = ["mirror", "new_topics_option", "run_failback"]

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

    async def look() -> list[tuple[FlowSettings, str, FlowLag]]:
        statuses = []
        for flow in settings.flows:
            driver = FlowDriver(flow)
            try:
                statuses.append((flow, (await driver.state()).phase.value, await driver.lag()))
            finally:
                await driver.close()
        return statuses

    output = Output(as_json=as_json)
    statuses = run_async(look())
    output.emit(
        [
            {"flow": flow.name, "state": state, "offsets": flow.offset_mode.value, **json_fields(lag)}
            for flow, state, lag in statuses
        ]
    )
    output.table(
        ("FLOW", "STATE", "OFFSETS", "PARTITIONS", "LAG", "WORST PARTITION", "ITS LAG"),
        [
            (
                flow.name,
                state,
                flow.offset_mode.value,
                lag.partitions,
                lag.records,
                lag.worst_partition,
                lag.worst_records,
            )
            for flow, state, lag in statuses
        ],
        right=(3, 4, 6),
    )
    return 0


def _flow_options(function: Any) -> Any:
    function = yes_option(json_option(function))
    function = click.option("--dry-run", is_flag=True, help="Only verify, and list what is not copied.")(function)
    function = click.option("--flow", "name", metavar="A->B", help="The flow.  [default: the only one of FILE]")(
        function
    )
    return click.argument("file", type=_FILE)(function)


new_topics_option = click.option(
    "--new-topics", is_flag=True, help="Also bring topics that were created after the switch."
)


@mirror.command(
    help="Switch the clients of a flow to its target: verify what is copied, stop the copying for good, commit the "
    "offsets of groups at the target, and say what clients have to do. The source may be lost. A command that was "
    "interrupted is repeated."
)
@_flow_options
def failover(file: Path, name: str | None, dry_run: bool, as_json: bool, yes: bool) -> int:
    from ottla.mirror.switching.failover import Failover

    flow = _flow(file, name)
    output = Output(as_json=as_json)

    async def work() -> None:
        command = Failover(flow, lambda step: output.say(f"{step} ..."))
        try:
            if dry_run or not (yes or as_json):
                _show_switch(output, await command.verify(), flow.source)
            if not dry_run:
                confirm(f"Stop {flow.name} and let clients use {flow.target}?", yes=yes)
                _show_switch(output, await command.run(), flow.source, is_done=True)
        finally:
            await command.close()

    _run_switch(work())
    return 0


@mirror.command(
    help="Bring the clients of a flow back to its source: copy there what was written at the target, and to the target "
    "what was left behind at the source; commit the offsets of groups at the source; let the mirror run again. A "
    "command that was interrupted is repeated."
)
@new_topics_option
@_flow_options
def failback(file: Path, name: str | None, dry_run: bool, new_topics: bool, as_json: bool, yes: bool) -> int:
    run_failback(_flow(file, name), dry_run=dry_run, new_topics=new_topics, yes=yes, as_json=as_json)
    return 0


def run_failback(flow: FlowSettings, *, dry_run: bool, new_topics: bool, yes: bool, as_json: bool) -> None:
    from ottla.mirror.switching.failback import Failback

    output = Output(as_json=as_json)

    async def before_stop() -> None:
        output.say(f"{flow.source} has what {flow.target} has. Stop the clients of {flow.target} now.")
        question = f"Have all clients of {flow.target} stopped?"
        try:
            # A thread asks, because the answer may take long and the event loop has to keep connections alive.
            await asyncio.to_thread(confirm, question, yes=yes)
        except Failure as error:
            raise Failure(
                f"{question} The clients were not switched. Stop them, and repeat the command with --yes: it continues "
                "from here."
            ) from error

    async def work() -> None:
        command = Failback(flow, lambda step: output.say(f"{step} ..."), before_stop, brings_new_topics=new_topics)
        try:
            if dry_run:
                _show_switch(output, await command.verify(), flow.source)
            else:
                _show_switch(output, await command.run(), flow.source, is_done=True)
        finally:
            await command.close()

    _run_switch(work())


def _run_switch(work: Coroutine[Any, Any, None]) -> None:
    from ottla.mirror.settings import MirrorError

    try:
        run_async(work)
    except MirrorError as error:
        raise Failure(str(error)) from error


def _show_switch(output: Output, report: SwitchReport, old_side: str, *, is_done: bool = False) -> None:
    output.emit(json_fields(report))
    if not report.source_answers:
        output.say(f"{old_side} does not answer.")
    elif report.not_copied:
        output.say(f"Written at {old_side} and not copied:")
        output.table(
            ("TOPIC", "PARTITION", "FIRST OFFSET", "END OFFSET", "OFFSETS"),
            [
                (uncopied.topic, uncopied.partition, uncopied.first_offset, uncopied.end_offset, uncopied.offsets)
                for uncopied in report.not_copied
            ],
            right=(1, 2, 3, 4),
        )
    else:
        output.say(f"Everything that was written at {old_side} is copied.")
    if report.new_topics and not is_done:
        output.say(f"Not at {old_side}, and brought there by --new-topics alone: {', '.join(report.new_topics)}")
    if is_done:
        if report.groups:
            output.table(("GROUP", "PARTITIONS"), sorted(report.groups.items()), right=(1,))
        output.say(f"{report.flow} is {report.phase}.")
        for sentence in report.what_to_do:
            output.say(sentence)


def _flow(file: Path, name: str | None) -> FlowSettings:
    flows = _settings(file).flows
    names = ", ".join(flow.name for flow in flows)
    if name is None and len(flows) > 1:
        raise Failure(f"{file} has several flows: choose one with --flow ({names}).")
    for flow in flows:
        if name is None or flow.name == name.replace(" ", ""):
            return flow
    raise Failure(f"{file} has no flow {name}; it has {names}.")


def _settings(file: Path) -> MirrorSettings:
    return read_mirror_file(str(file))
