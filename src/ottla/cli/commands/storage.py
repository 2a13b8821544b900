"""`ottla storage`: formats data directories and shows their state."""

from __future__ import annotations

import random
from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.formatting import format_directories
from ottla.cli.logic.node_files import directories, read_node_file
from ottla.cli.node import keep_files_private
from ottla.cli.output import Output
from ottla.cli.verbs import VerbGroup
from ottla.host.files import OsFiles
from ottla.model.ids import Uuid
from ottla.storage.errors import DirectoryRefused
from ottla.storage.meta_properties import read_meta_properties

__all__ = ["storage"]


@click.group(cls=VerbGroup, verbs={}, help="Format and show data directories (kafka-storage).")
def storage() -> None:
    """The verbs are below."""


@storage.command("random-uuid", help="Print an id for a new cluster.")
def random_uuid() -> None:
    click.echo(str(Uuid.random(random.SystemRandom())))


config_option = click.option(
    "-c",
    "--config",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The node's file.",
)


@storage.command("info", help="Show the cluster and node that the directories are formatted for.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def info(config: str, as_json: bool) -> int:
    output = Output(as_json=as_json)
    files = OsFiles()
    rows: list[tuple[object, ...]] = []
    for directory in directories(read_node_file(config)):
        try:
            meta = read_meta_properties(files, directory)
        except (DirectoryRefused, OSError) as error:
            output.complain(directory, error)
            continue
        if meta is None:
            output.complain(directory, Failure(f"{directory} is not formatted; 'ottla storage format' does it"))
        else:
            rows.append((directory, meta.cluster_id, meta.node_id, meta.directory_id))
    output.table(("DIRECTORY", "CLUSTER", "NODE", "DIRECTORY ID"), rows, fold=(0,))
    output.emit([{"directory": row[0], "clusterId": row[1], "nodeId": row[2], "directoryId": row[3]} for row in rows])
    return output.exit_code


@storage.command("format", help="Format a node's directories for the first start.")
@config_option
@click.option("-t", "--cluster-id", required=True, metavar="ID", help="The cluster's id; see random-uuid.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Accept directories that are formatted already.")
@click.option("-s", "--standalone", is_flag=True, help="This controller is the first voter; more can be added.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="This controller joins an existing quorum.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="LIST",
    help="The first voters, as id@host:port:directory-id,...; the same for all of them.",
)
@click.option(
    "-r", "--release-version", metavar="RELEASE", help="Begin with the features of this release, such as 4.2."
)
@click.option("-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="Begin with this level.")
@click.option(
    "-S",
    "--add-scram",
    "credentials",
    multiple=True,
    metavar="CREDENTIAL",
    help="Begin with this user, as SCRAM-SHA-256=[name=alice,password=...]; for nodes that log in with SCRAM.",
)
def format_command(
    config: str,
    cluster_id: str,
    ignore_formatted: bool,
    release_version: str | None,
    features: tuple[str, ...],
    credentials: tuple[str, ...],
    **voters: Any,
) -> int:
    Uuid.parse(cluster_id)
    broker = read_node_file(config)
    keep_files_private()
    files = OsFiles()
    places = directories(broker)
    done = [directory for directory in places if files.exists(f"{directory}/meta.properties")]
    if done and not ignore_formatted:
        raise Failure(f"{done[0]} is formatted already; add --ignore-formatted to accept that.")
    format_directories(
        broker,
        cluster_id,
        release_version=release_version,
        features=features,
        credentials=credentials,
        **voters,
    )
    for directory in places:
        click.echo(f"{directory} was {'formatted before' if directory in done else 'formatted'}.")
    return 0
