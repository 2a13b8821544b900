"""`ottla host`: all cores of a machine as one thing to operate, a node for each."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.output import Output
from ottla.cli.session import json_option
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup

__all__ = ["host"]

UNIT = "/etc/systemd/system/ottla-host.service"
_STATUS_SECONDS = 10.0

_config_option = click.option(
    "--config", "config_file", required=True, metavar="FILE", type=click.Path(exists=True, dir_okay=False),
    help="The properties file of the machine: that of a node, with ottla.host.nodes.",
)  # fmt: skip


@click.group(cls=VerbGroup, default="run", verbs={}, help=COMMANDS["host"].help)
def host() -> None:
    """The verbs are below."""


@host.command(
    help="Run a node for each core in the foreground, until SIGTERM or Ctrl-C. Nodes that end are started again. "
    "SIGHUP reads the file again. A line that begins with 'ready' is printed once all nodes serve clients. "
    "`ottla host --config FILE` is the same."
)
@_config_option
def run(config_file: str) -> int:
    from ottla.cli.hosting.plan import HostError
    from ottla.cli.hosting.run import run_host
    from ottla.host.logs import set_up_logging

    set_up_logging(level=os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper())
    try:
        asyncio.run(run_host(config_file, lambda addresses, url: click.echo(f"ready {addresses} {url}")))
    except HostError as error:
        raise Failure(str(error)) from None
    return 0


@host.command(help="Show the nodes of the running host.")
@_config_option
@json_option
def status(config_file: str, as_json: bool) -> int:
    return _show(_ask(config_file, "status", timeout_seconds=_STATUS_SECONDS), as_json=as_json)


@host.command(help="Restart the nodes one by one, each when all replicas are in sync again.")
@_config_option
@json_option
def restart(config_file: str, as_json: bool) -> int:
    return _show(_ask(config_file, "restart", timeout_seconds=None), as_json=as_json)


@host.command(
    help="Read the file again: nodes are added or removed, and those whose settings have changed restart one by one. A "
    "node that is removed must have no replicas."
)
@_config_option
@json_option
def reload(config_file: str, as_json: bool) -> int:
    return _show(_ask(config_file, "reload", timeout_seconds=None), as_json=as_json)


@host.command(help="Write the unit file with which systemd runs the host.")
@_config_option
@click.option("--user", metavar="NAME", help="The user that the nodes run as.  [default: root]")
@click.option(
    "--unit", default=UNIT, metavar="PATH", show_default=True, help="Where to write it; - for standard output."
)
def install(config_file: str, user: str | None, unit: str) -> int:
    from ottla.cli.hosting.plan import HostError
    from ottla.cli.hosting.run import read_plan
    from ottla.cli.hosting.unit import unit_file

    try:
        # A file that the host would refuse gets no unit.
        read_plan(config_file)
        text = unit_file(config_file, user=user)
    except HostError as error:
        raise Failure(str(error)) from None
    if unit == "-":
        click.echo(text, nl=False)
        return 0
    try:
        with open(unit, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Failure(f"Cannot write {unit}: {error.strerror}. With --unit - it is printed instead.") from None
    name = os.path.basename(unit)
    click.echo(f"Written: {unit}. To start it now and at every boot: systemctl enable --now {name}")
    return 0


def _ask(config_file: str, word: str, *, timeout_seconds: float | None) -> list[dict[str, Any]]:
    from ottla.cli.hosting.control import ask
    from ottla.cli.hosting.plan import HostError

    try:
        return ask(config_file, word, timeout_seconds=timeout_seconds)
    except HostError as error:
        raise Failure(str(error)) from None


def _show(nodes: list[dict[str, Any]], *, as_json: bool) -> int:
    output = Output(as_json=as_json)
    output.emit(nodes)
    output.table(
        ("NODE", "STATE", "PID", "ADDRESSES", "RESTARTS", "READY FOR"),
        [
            (
                node["node"],
                node["state"],
                node["pid"] or "-",
                node["addresses"],
                node["restarts"],
                f"{node['ready_seconds']:.0f} s",
            )
            for node in nodes
        ],
        right=(0, 2, 4, 5),
    )
    return 0
