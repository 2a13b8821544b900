"""`ottla lake`: keeps Iceberg and Delta tables of topics current."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.failures import Failure
from ottla.cli.output import Output
from ottla.cli.session import json_option, read_properties, without_references
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from ottla.lake.settings import LakeSettings

__all__ = ["lake"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(
    cls=VerbGroup,
    default="run",
    verbs={},
    help=COMMANDS["lake"].help,
)
def lake() -> None:
    """The verbs are below."""


@lake.command(
    help="Keep the tables of FILE current in the foreground, until SIGTERM or Ctrl-C. A line that begins with 'ready' "
    "names the topics. `ottla lake FILE` is the same."
)
@click.argument("file", type=_FILE)
@click.option("--once", is_flag=True, help="End when the tables have all records that are there.")
@click.option("--master", metavar="URL", help="The Spark master.  [default: local, all cores]")
def run(file: Path, once: bool, master: str | None) -> int:
    from ottla.lake.driver import LakeDriver
    from ottla.lake.errors import LakeError
    from ottla.spark import session

    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = _settings(file)
    spark = session("ottla lake", master=master, settings=settings.spark)
    try:
        driver = LakeDriver(settings, spark)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: driver.stop())
        driver.run(lambda topics: click.echo(f"ready {', '.join(topics)}"), until_current=once)
    except LakeError as error:
        raise Failure(str(error)) from error
    finally:
        spark.stop()
    if driver.failed:
        raise Failure("; ".join(f"{topic}: {why}" for topic, why in driver.failed.items()))
    return 0


@lake.command(help="Show the tables of FILE, and how far each is behind its topic.")
@click.argument("file", type=_FILE)
@json_option
def status(file: Path, as_json: bool) -> int:
    from ottla.lake.errors import LakeError
    from ottla.lake.status import table_states

    output = Output(as_json=as_json)
    try:
        found = table_states(_settings(file))
    except LakeError as error:
        raise Failure(str(error)) from error
    output.emit([state.to_json() for state in found])
    output.table(
        ("TOPIC", "TABLE", "FORMAT", "MODE", "ROWS", "FILES", "SNAPSHOTS", "LAG"),
        [
            (state.topic, state.table, state.format, state.mode, state.rows, state.files, state.snapshots, state.lag)
            for state in found
        ],
        right=(4, 5, 6, 7),
    )
    return 0


def _settings(file: Path) -> LakeSettings:
    from ottla.lake.errors import LakeError
    from ottla.lake.settings import read_settings

    try:
        return read_settings(without_references(read_properties(str(file)), str(file)))
    except (LakeError, ClientError) as error:
        raise Failure(f"{file}: {error}") from error
