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
from ottla.cli.output import Output, json_fields
from ottla.cli.session import json_option, read_properties, without_references
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from ottla.lake.iceberg import IcebergTable
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
    # pyiceberg logs a line for every access to a table.
    logging.getLogger("pyiceberg").setLevel(logging.WARNING)
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
        states = table_states(_settings(file))
    except LakeError as error:
        raise Failure(str(error)) from error
    output.emit([state.to_json() for state in states])
    output.table(
        ("TOPIC", "TABLE", "FORMAT", "MODE", "ROWS", "FILES", "SNAPSHOTS", "LAG"),
        [
            (state.topic, state.table, state.format, state.mode, state.rows, state.files, state.snapshots, state.lag)
            for state in states
            if not state.problem
        ],
        right=(4, 5, 6, 7),
    )
    for state in states:
        if state.problem:
            output.complain(state.topic, Failure(state.problem))
    return output.exit_code


_TOPIC = click.option("--topic", metavar="NAME", help="Only the table of this topic.")


@lake.command(help="Merge small files of the tables of FILE. May run beside `ottla lake run`.")
@click.argument("file", type=_FILE)
@_TOPIC
@click.option("--files", default=2, show_default=True, help="Small files from which on a partition is compacted.")
@click.option("--master", metavar="URL", help="The Spark master.  [default: local, all cores]")
@json_option
def compact(file: Path, topic: str | None, files: int, master: str | None, as_json: bool) -> int:
    from ottla.lake import maintenance
    from ottla.spark import session

    settings = _settings(file)
    tables = _tables(settings, topic)
    spark = session("ottla lake", master=master, settings=settings.spark)
    try:
        done = {name: maintenance.compact(spark, table, files_min=files) for name, table in tables.items()}
    finally:
        spark.stop()
    output = Output(as_json=as_json)
    output.emit([{"topic": name, **json_fields(result)} for name, result in done.items()])
    output.table(
        ("TOPIC", "FILES", "NOW"),
        [(name, result.files_before, result.files_after) for name, result in done.items()],
        right=(1, 2),
    )
    return 0


@lake.command(help="Remove old snapshots of the tables of FILE, and files that no snapshot needs.")
@click.argument("file", type=_FILE)
@_TOPIC
@click.option("--older-than", default="7d", show_default=True, metavar="TIME", help="Age of snapshots: 30m, 12h, 7d.")
@click.option("--keep", default=1, show_default=True, help="Newest snapshots that are kept.")
@click.option(
    "--orphans",
    metavar="TIME",
    help="Also delete files of batches that were never committed and are older than this; longer than any batch takes.",
)
@json_option
def expire(file: Path, topic: str | None, older_than: str, keep: int, orphans: str | None, as_json: bool) -> int:
    from ottla.lake import maintenance

    older_than_ms, orphans_ms = _milliseconds(older_than), None if orphans is None else _milliseconds(orphans)
    rows = []
    for name, table in _tables(_settings(file), topic).items():
        snapshots, files = maintenance.expire(table, older_than_ms=older_than_ms, keep=max(1, keep))
        lost = 0 if orphans_ms is None else maintenance.remove_orphans(table, older_than_ms=orphans_ms)
        rows.append((name, snapshots, files, lost))
    output = Output(as_json=as_json)
    output.emit([dict(zip(("topic", "snapshots", "files", "orphans"), row, strict=True)) for row in rows])
    output.table(("TOPIC", "SNAPSHOTS", "FILES", "ORPHANS"), rows, right=(1, 2, 3))
    return 0


@lake.command(
    help="Write the records of a raw table to a new topic: every record once, in the order of each partition, with "
    "keys, headers and timestamps. After an interruption the same command continues."
)
@click.argument("file", type=_FILE)
@click.option("--topic", required=True, metavar="NAME", help="The topic of the table; it need not exist any more.")
@click.option("--to", required=True, metavar="NAME", help="The new topic, which is created if it does not exist.")
@click.option(
    "--portion",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    metavar="OFFSETS",
    help="Offsets of each partition that are written at once; a task sorts them in memory.",
)
@click.option("--master", metavar="URL", help="The Spark master.  [default: local, all cores]")
@json_option
def backfill(file: Path, topic: str, to: str, portion: int, master: str | None, as_json: bool) -> int:
    from ottla.lake.backfill import Backfill
    from ottla.lake.errors import LakeError
    from ottla.spark import session

    settings = _settings(file)
    try:
        work = Backfill(settings, topic, to, portion=portion)
        spark = session("ottla lake", master=master, settings=settings.spark)
        try:
            work.run(spark)
        finally:
            spark.stop()
    except LakeError as error:
        raise Failure(str(error)) from error
    output = Output(as_json=as_json)
    output.emit({"topic": to, "offsets": {str(number): end for number, end in work.ends.items()}})
    output.say(f"Topic {to} has the records of table {work.table} up to offset {sum(work.ends.values())} in total.")
    return 0


def _milliseconds(text: str) -> int:
    units = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    if text[-1:] not in units or not text[:-1].isdecimal():
        raise click.UsageError(f"{text!r} is not a time like 30m, 12h or 7d.")
    return int(text[:-1]) * units[text[-1]]


def _tables(settings: LakeSettings, topic: str | None) -> dict[str, IcebergTable]:
    from ottla.lake.driver import find_tables
    from ottla.lake.errors import LakeError
    from ottla.lake.iceberg import IcebergTable
    from ottla.spark.tables import open_catalog

    try:
        catalog = open_catalog(settings.catalog)
        tables, problems = find_tables(settings)
        if topic is not None and topic not in tables:
            raise problems.get(topic) or Failure(f"Topic {topic} has no table.")
        return {
            name: IcebergTable(catalog, table.identifier)
            for name, table in tables.items()
            if topic in (None, name) and catalog.table_exists(table.identifier)
        }
    except LakeError as error:
        raise Failure(str(error)) from error


def _settings(file: Path) -> LakeSettings:
    from ottla.lake.errors import LakeError
    from ottla.lake.settings import read_settings

    try:
        return read_settings(without_references(read_properties(str(file)), str(file)))
    except (LakeError, ClientError) as error:
        raise Failure(f"{file}: {error}") from error
