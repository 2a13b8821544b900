"""`ottla registry`: one instance of the Schema Registry in the foreground."""

from __future__ import annotations

import logging
import os
import sys

import click

from ottla.cli.failures import Failure
from ottla.cli.registry_child import missing_libraries
from ottla.cli.session import Session, cluster_options, run_async

__all__ = ["registry"]


@click.command(
    help="Run a Schema Registry in the foreground, until SIGTERM or Ctrl-C. A line that begins with 'ready' and the "
    "address is printed once requests are answered. (schema-registry-start)"
)
@click.option("--port", type=click.IntRange(0, 65535), default=8081, metavar="PORT", help="[default: 8081]")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--advertise", metavar="NAME", help="The name by which other instances reach this one.")
@click.option("--topic", default="_schemas", metavar="TOPIC", help="Where schemas are stored.  [default: _schemas]")
@click.option(
    "--group",
    default="schema-registry",
    metavar="GROUP",
    help="The group in which instances elect their writer.  [default: schema-registry]",
)
@click.option(
    "--replicas", type=click.IntRange(1), metavar="N", help="Replicas of a new topic.  [default: 3, or all brokers]"
)
@click.option("--follower", is_flag=True, help="This instance is never elected to write.")
@click.option("--ready-word", default="ready", hidden=True)
@cluster_options
def registry(
    session: Session,
    port: int,
    host: str,
    advertise: str | None,
    topic: str,
    group: str,
    replicas: int | None,
    follower: bool,
    ready_word: str,
) -> int:
    if missing := missing_libraries():
        raise Failure(f"The registry needs {', '.join(missing)}: run `pip install 'ottla[registry]'`.")
    from ottla.registry.node.process import run_registry
    from ottla.registry.node.service import ServiceSettings

    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = ServiceSettings(topic=topic, group_id=group, replicas=replicas, is_eligible=not follower)
    try:
        run_async(
            run_registry(
                session.settings,
                host=host,
                port=port,
                advertised_host=advertise,
                settings=settings,
                lifeline=sys.stdin.fileno() if os.environ.get("OTTLA_LIFELINE") == "stdin" else None,
                on_ready=lambda url: click.echo(f"{ready_word} {url}"),
            )
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise Failure(f"Cannot listen on {host}:{port}: {reason}.") from error
    return 0
