"""`ottla console`: the web console in the foreground."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module

import click

from ottla.cli.console_child import missing_libraries
from ottla.cli.failures import Failure
from ottla.cli.session import Session, cluster_options, registry_option, run_async

__all__ = ["console"]


@click.command(
    help="Run the web console in the foreground, until SIGTERM or Ctrl-C. A line that begins with 'ready' and the "
    "address is printed once requests are answered. It works with Apache Kafka too."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, metavar="PORT", help="[default: 8080]")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A name by which browsers reach it; repeatable.")
@registry_option
@click.option("--connect", "connect_url", envvar="OTTLA_CONNECT", metavar="URL", help="A worker of Kafka Connect.")
@click.option(
    "--metrics", "metrics_urls", multiple=True, metavar="URL", help="The metrics page of a node; one for each node."
)
@click.option("--ready-word", default="ready", hidden=True)
@cluster_options
def console(
    session: Session,
    port: int,
    host: str,
    names: tuple[str, ...],
    registry: str | None,
    connect_url: str | None,
    metrics_urls: tuple[str, ...],
    ready_word: str,
) -> int:
    if missing := missing_libraries():
        raise Failure(f"The console needs {', '.join(missing)}: run `pip install '.[console]'` in a checkout.")
    # The console stands above the command line, whose decisions it shares. So it is found by name here.
    process = import_module("ottla.console.process")
    settings = import_module("ottla.console.settings")

    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    told = settings.ConsoleSettings(
        client=session.settings,
        host=host,
        port=port,
        names=frozenset(names),
        registry_url=registry,
        connect_url=connect_url,
        metrics_urls=metrics_urls,
    )
    lifeline = sys.stdin.fileno() if os.environ.get("OTTLA_LIFELINE") == "stdin" else None
    try:
        run_async(process.run_console(told, on_ready=lambda url: click.echo(f"{ready_word} {url}"), lifeline=lifeline))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise Failure(f"Cannot listen on {host}:{port}: {reason}.") from error
    return 0
