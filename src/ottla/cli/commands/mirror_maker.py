"""`ottla mirror-maker`: MirrorMaker 1 by its own flags."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import click

from ottla.cli.failures import Failure
from ottla.cli.session import read_properties, run_async, stop_signals, without_references
from ottla.cli.table import COMMANDS

__all__ = ["mirror_maker"]

_FILE = click.Path(path_type=Path)


@click.command(help=COMMANDS["mirror-maker"].help)
@click.option("--consumer.config", "consumer_config", type=_FILE, required=True, help="Of the source, with a group.id.")
@click.option("--producer.config", "producer_config", type=_FILE, required=True, help="Of the target.")
@click.option(
    "--include",
    "--whitelist",
    required=True,
    metavar="REGEX",
    help="Topics to copy: a pattern, or several, with commas.",
)
@click.option(
    "--num.streams", "streams", type=click.IntRange(1), default=1, metavar="N", help="Consumers.  [default: 1]"
)
@click.option(
    "--offset.commit.interval.ms",
    "commit_interval_ms",
    type=click.IntRange(1),
    default=60_000,
    metavar="MS",
    help="Between two commits at the source.  [default: 60000]",
)
@click.option(
    "--abort.on.send.failure",
    "aborts",
    type=bool,
    default=True,
    metavar="BOOLEAN",
    help="End when a record cannot be written; otherwise it is left out.  [default: true]",
)
@click.option("--new.consumer", "new_consumer", is_flag=True, hidden=True)
@click.option("--consumer.rebalance.listener", "listener", hidden=True)
@click.option("--rebalance.listener.args", "listener_arguments", hidden=True)
@click.option("--message.handler", "handler", hidden=True)
@click.option("--message.handler.args", "handler_arguments", hidden=True)
def mirror_maker(
    consumer_config: Path,
    producer_config: Path,
    include: str,
    streams: int,
    commit_interval_ms: int,
    aborts: bool,
    new_consumer: bool,  # noqa: ARG001 (there is no other one)
    listener: str | None,
    listener_arguments: str | None,
    handler: str | None,
    handler_arguments: str | None,
) -> int:
    from ottla.mirror.mirror_maker import MirrorMaker, MirrorMakerOptions
    from ottla.mirror.settings import MirrorError

    if listener or listener_arguments or handler or handler_arguments:
        raise Failure(
            "Message handlers and rebalance listeners are classes of Java, which cannot run here. Topics that need "
            "another name or content are a connector's work: ottla connect."
        )
    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    async def work() -> None:
        copying = MirrorMaker(
            _properties(consumer_config),
            _properties(producer_config),
            MirrorMakerOptions(
                include=include,
                streams=streams,
                commit_interval_ms=commit_interval_ms,
                aborts_on_send_failure=aborts,
            ),
        )
        stopped = stop_signals()
        await copying.run(lambda: bool(stopped), lambda: click.echo("ready"))

    try:
        run_async(work())
    except MirrorError as error:
        raise Failure(str(error)) from error
    return 0


def _properties(file: Path) -> dict[str, str]:
    try:
        return without_references(read_properties(str(file)), str(file))
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}.") from error
