"""What every command that talks to a cluster shares: its options, and one event loop for one run.

`cluster_options` gives a command `-b`, `--command-config`, `--json` and `--timeout`, and calls it with a `Session`
first. Kafka's own spellings are accepted beside the short ones.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import click

from ottla.cli.failures import Failure
from ottla.cli.output import Output
from ottla.client.admin import AdminClient
from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties

__all__ = ["Session", "cluster_options", "confirm", "controller_options", "run_async", "yes_option"]

T = TypeVar("T")


class Session:
    """One run of one command."""

    def __init__(self, settings: ClientSettings, output: Output, properties: dict[str, str]) -> None:
        self.settings = settings
        self.output = output
        # What --command-config said, for what only this command understands, and which file that was.
        self.properties = properties
        self.properties_file: str | None = None

    def run(self, work: Callable[[AdminClient], Awaitable[Any]]) -> int:
        """Runs `work` with a client, and gives the exit code."""

        async def whole() -> Any:
            async with AdminClient(self.settings) as admin:
                return await work(admin)

        result = run_async(whole())
        return result if isinstance(result, int) and not isinstance(result, bool) else self.output.exit_code


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator that turns a function of a `Session` and options into one that click can call."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "--bootstrap-servers",
        "bootstrap",
        envvar="OTTLA_BOOTSTRAP_SERVER",
        metavar="HOST:PORT",
        help="Where the cluster is; several with commas.  [default: localhost:9092]",
    )
    @click.option(
        "--command-config",
        "--config-file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="A Java client's properties file.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    @click.option(
        "--timeout",
        "timeout_ms",
        type=click.IntRange(1),
        default=30_000,
        metavar="MS",
        help="How long one call may take.  [default: 30000]",
    )
    @functools.wraps(function)
    def wrapper(bootstrap: str | None, command_config: str | None, as_json: bool, timeout_ms: int, **rest: Any) -> Any:
        session = make_session(bootstrap, command_config, as_json, timeout_ms)
        session.properties_file = command_config
        return function(session, **rest)

    return wrapper


def controller_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`cluster_options` for what can be asked of controllers directly, when no broker is there to ask (KIP-919)."""

    @click.option(
        "--bootstrap-controller",
        "controllers",
        metavar="HOST:PORT",
        help="Where controllers are, instead; several with commas.",
    )
    @functools.wraps(function)
    def wrapper(session: Session, controllers: str | None, **rest: Any) -> Any:
        if controllers is not None:
            context = click.get_current_context()
            if context.get_parameter_source("bootstrap") is click.core.ParameterSource.COMMANDLINE:
                raise click.UsageError("--bootstrap-server and --bootstrap-controller exclude each other.")
            session.settings = replace(
                session.settings,
                bootstrap_servers=parse_bootstrap(controllers, option="--bootstrap-controller"),
                are_controllers=True,
            )
        return function(session, **rest)

    return cluster_options(wrapper)


def make_session(bootstrap: str | None, command_config: str | None, as_json: bool, timeout_ms: int) -> Session:
    from ottla.model.config import parse_properties

    properties: dict[str, str] = {}
    if command_config is not None:
        with open(command_config, encoding="utf-8") as file:
            properties = parse_properties(file.read())
    if bootstrap is None:
        bootstrap = properties.get("bootstrap.servers", "localhost:9092")
    settings = ClientSettings(
        bootstrap_servers=parse_bootstrap(bootstrap),
        client_id="ottla-cli",
        api_timeout_ms=timeout_ms,
        bootstrap_timeout_ms=1_000,
    )
    settings = settings_from_properties(settings, properties)
    settings = replace(settings, request_timeout_ms=min(settings.request_timeout_ms, timeout_ms))
    return Session(settings, Output(as_json=as_json), properties)


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--yes`, for what cannot be undone."""
    return click.option("-y", "--yes", is_flag=True, help="Do it without asking.")(function)


def confirm(question: str, *, yes: bool) -> None:
    """Asks on a terminal; refuses elsewhere, where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{question} Nobody is here to answer; add --yes to do it.")
    if not click.confirm(question, default=False, err=True):
        raise Failure("Nothing was changed.")
