"""`ottla connect`: Connect workers, their plug-ins and connectors, and the skeleton of a connector."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.commands.connectors import CONNECTOR_COMMANDS
from ottla.cli.failures import Failure
from ottla.cli.output import Output
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup

if TYPE_CHECKING:
    from ottla.connect.configuration.worker_config import WorkerConfig

__all__ = ["connect"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=VerbGroup, verbs={}, help=f"{COMMANDS['connect'].help} ({COMMANDS['connect'].kafka})")
def connect() -> None:
    pass


for _command in CONNECTOR_COMMANDS:
    connect.add_command(_command)


@connect.command(help="Run one worker with the connectors of these files (properties or JSON). (connect-standalone)")
@click.argument("worker", metavar="WORKER.PROPERTIES", type=_FILE)
@click.argument("connectors", metavar="[CONNECTOR.PROPERTIES|CONNECTOR.JSON]...", nargs=-1, type=_FILE)
@click.option("--override", "overrides", metavar="KEY=VALUE", multiple=True, help="Overrides a setting of the file.")
def standalone(worker: Path, connectors: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    _run(worker, connectors, overrides, distributed=False)


@connect.command(help="Run a worker that shares the work with the other workers of its group.id. (connect-distributed)")
@click.argument("worker", metavar="WORKER.PROPERTIES", type=_FILE)
@click.option("--override", "overrides", metavar="KEY=VALUE", multiple=True, help="Overrides a setting of the file.")
def distributed(worker: Path, overrides: tuple[str, ...]) -> None:
    _run(worker, (), overrides, distributed=True)


@connect.command(help="Write a connector with its test into a new directory.")
@click.argument("name")
@click.option("--kind", type=click.Choice(["source", "sink"]), default="source", show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), default=Path(), help="Where; here if not said.")
def new(name: str, kind: str, directory: Path) -> None:
    _needs_extra()
    from ottla.connect.api.scaffold import ScaffoldError, write_connector

    try:
        written = write_connector(name, kind=kind, directory=directory)
    except ScaffoldError as error:
        raise Failure(str(error)) from None
    for path in written:
        click.echo(str(path))


@connect.command(help="List the plug-ins that a worker finds. (connect-plugin-path list)")
@click.option("--plugin-path", metavar="DIR,...", default="", help="Directories with Python packages.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def plugins(plugin_path: str, as_json: bool) -> None:
    _needs_extra()
    from ottla.connect.plugins import Plugins

    plugins = Plugins([directory.strip() for directory in plugin_path.split(",") if directory.strip()])
    usable = plugins.all()
    for plugin in () if as_json else usable:
        click.echo(f"{plugin.kind:15} {plugin.version:10} {plugin.name}")
    Output(as_json=as_json).emit(
        [{"kind": plugin.kind, "version": plugin.version, "name": plugin.name} for plugin in usable]
    )
    for name, reason in plugins.failures.items():
        click.echo(f"not usable: {name}: {reason}", err=True)


def _needs_extra() -> None:
    """Fails if the dependencies of Connect are missing. They are an extra of the package."""
    from importlib.util import find_spec

    missing = [name for name in ("aiohttp", "pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise Failure(f"Connect needs {', '.join(missing)}: run `pip install '.[connect]'` in a checkout of Ottla.")


def _run(worker: Path, connectors: tuple[Path, ...], overrides: tuple[str, ...], *, distributed: bool) -> None:
    _needs_extra()
    from ottla.connect.api.config_definitions import ConfigError
    from ottla.connect.control.request_errors import RequestError
    from ottla.connect.worker import read_connector_file, run_worker
    from ottla.spark.java import JavaMissing

    config = _worker_config(worker, overrides, distributed=distributed)
    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    if level not in logging.getLevelNamesMapping():
        raise Failure(f"OTTLA_LOG_LEVEL is {level}, but it must be one of DEBUG, INFO, WARNING, ERROR.")
    logging.basicConfig(level=level, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        connector_configs = [read_connector_file(path) for path in connectors]
        asyncio.run(run_worker(config, connector_configs))
    except (ConfigError, RequestError, JavaMissing) as error:
        raise Failure(str(error)) from None


def _worker_config(worker: Path, overrides: tuple[str, ...], *, distributed: bool) -> WorkerConfig:
    from ottla.connect.api.config_definitions import ConfigError
    from ottla.connect.configuration.worker_config import WorkerConfig
    from ottla.model.config.parse import parse_properties

    properties = dict(parse_properties(worker.read_text()))
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise Failure(f"--override {override} has no '='.")
        properties[key.strip()] = value
    try:
        return WorkerConfig(properties, distributed=distributed)
    except ConfigError as error:
        raise Failure(f"{worker}: {error}") from None
