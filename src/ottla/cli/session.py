"""Common options of the commands that talk to a cluster, and the event loop of one run.

`cluster_options` gives a command `-b`, `--command-config`, `--json` and `--timeout`, and calls it with a `Session`
first. Kafka's own spellings are accepted in addition to the short ones.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.failures import Failure
from ottla.cli.output import Output
from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties

if TYPE_CHECKING:
    import ssl

__all__ = [
    "Session",
    "authority_option",
    "cluster_options",
    "cluster_options_with",
    "confirm",
    "controller_options",
    "is_explicit",
    "json_option",
    "make_session",
    "parsed_file",
    "pause",
    "read_properties",
    "registry_option",
    "run_async",
    "stop_signals",
    "trusted_authority",
    "without_references",
    "yes_option",
]

T = TypeVar("T")

# Older names of --command-config in Kafka's tools.
_OLD_NAMES = ("--admin.config", "--producer.config", "--consumer.config")


class Session:
    """One run of one command."""

    def __init__(self, settings: ClientSettings, output: Output, *, is_told_where: bool = True) -> None:
        self.settings = settings
        self.output = output
        # True if the command line names the cluster: then bootstrap.servers of the properties file is ignored.
        self.is_told_where = is_told_where
        # The properties of --command-config, for keys that only this command understands, and the name of the file.
        self.properties: dict[str, str] = {}
        self.properties_file: str | None = None

    def take(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Adds a Java client's properties and applies those about the connection; returns all properties so far."""
        self.properties |= properties
        address = properties.get("bootstrap.servers")
        if address is not None and not self.is_told_where:
            servers = parse_bootstrap(address, option="bootstrap.servers")
            self.settings = replace(self.settings, bootstrap_servers=servers)
        self.settings = settings_from_properties(self.settings, properties)
        return self.properties

    def run(self, work: Callable[[AdminClient], Awaitable[Any]]) -> int:
        """Runs `work` with a client; returns the exit code."""

        async def whole() -> Any:
            async with AdminClient(self.settings) as admin:
                return await work(admin)

        result = run_async(whole())
        return result if isinstance(result, int) and not isinstance(result, bool) else self.output.exit_code


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on uvloop. Its ValueError is a failure; before it, a ValueError is about the command line."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(work)
        except ValueError as error:
            raise Failure(str(error)) from error


def stop_signals() -> list[int]:
    """A list to which SIGTERM and SIGINT are added from now on, for commands that end in order."""
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.append, number)
    return stopped


async def pause(seconds: float, stopped: list[int]) -> None:
    """Waits, at most until one of `stop_signals` has come."""
    end = time.monotonic() + seconds
    while not stopped and (remaining := end - time.monotonic()) > 0:
        await asyncio.sleep(min(remaining, 0.2))


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator that turns a function of a `Session` and options into one that click can call."""
    return cluster_options_with(timeout="--timeout")(function)


def cluster_options_with(
    *, timeout: str, properties: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`cluster_options` for a command with another meaning of `--timeout` or other names of the properties file."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "-b",
            "--bootstrap-server",
            "--bootstrap-servers",
            "bootstrap",
            envvar="OTTLA_BOOTSTRAP_SERVER",
            metavar="HOST:PORT",
            help="Addresses of brokers, separated by commas.  [default: localhost:9092]",
        )
        @click.option(
            "--command-config",
            "--config-file",
            type=click.Path(exists=True, dir_okay=False),
            metavar="FILE",
            help="A Java client's properties file.",
        )
        @click.option(
            "--profile",
            envvar="OTTLA_PROFILE",
            metavar="NAME",
            help="The profile of the cluster.  [default: the current one, if -b and --command-config are missing]",
        )
        @click.option(*_OLD_NAMES, *properties, "older", type=click.Path(exists=True, dir_okay=False), hidden=True)
        @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
        @click.option(
            timeout,
            "timeout_ms",
            type=click.IntRange(1),
            default=30_000,
            metavar="MS",
            help="How long one call may take.  [default: 30000]",
        )
        @functools.wraps(function)
        def wrapper(
            bootstrap: str | None,
            command_config: str | None,
            profile: str | None,
            older: str | None,
            as_json: bool,
            timeout_ms: int,
            **options: Any,
        ) -> Any:
            if command_config is not None and older is not None:
                raise click.UsageError("--command-config and its older names exclude each other.")
            path = command_config or older
            session = make_session(bootstrap, path, profile, as_json=as_json, timeout_ms=timeout_ms)
            return function(session, **options)

        return wrapper

    return decorate


def controller_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`cluster_options` for commands that can also talk to controllers directly, without a broker (KIP-919)."""

    @click.option(
        "--bootstrap-controller",
        "controllers",
        metavar="HOST:PORT",
        help="Addresses of controllers instead, separated by commas.",
    )
    @functools.wraps(function)
    def wrapper(session: Session, controllers: str | None, **options: Any) -> Any:
        if controllers is not None:
            if is_explicit("bootstrap"):
                raise click.UsageError("--bootstrap-server and --bootstrap-controller exclude each other.")
            session.settings = replace(
                session.settings,
                bootstrap_servers=parse_bootstrap(controllers, option="--bootstrap-controller"),
                are_controllers=True,
            )
        return function(session, **options)

    return cluster_options(wrapper)


def make_session(
    bootstrap: str | None, properties_file: str | None, profile: str | None, *, as_json: bool, timeout_ms: int
) -> Session:
    try:
        servers = parse_bootstrap(bootstrap or "localhost:9092")
    except ClientError as error:
        raise ValueError(str(error)) from None
    settings = ClientSettings(
        bootstrap_servers=servers,
        client_id="ottla-cli",
        api_timeout_ms=timeout_ms,
        bootstrap_timeout_ms=1_000,
        request_timeout_ms=min(30_000, timeout_ms),
    )
    session = Session(settings, Output(as_json=as_json), is_told_where=bootstrap is not None)
    properties = _profile_properties(profile, is_wanted=bootstrap is None and properties_file is None)
    session.take(without_references(properties, "the profile"))
    if properties_file is not None:
        session.properties_file = properties_file
        session.take(without_references(read_properties(properties_file), properties_file))
    return session


def _profile_properties(name: str | None, *, is_wanted: bool) -> dict[str, str]:
    """The client properties of a profile. Without a name it is the current profile, if the line names no cluster.

    The passwords of the current profile must not reach a cluster that the command line names.
    """
    if name is None and not is_wanted:
        return {}
    from ottla.cli.profiles import OWN_PREFIX, Profiles

    profiles = Profiles()
    chosen = name or profiles.current()
    if chosen is None:
        return {}
    return {key: value for key, value in profiles.read(chosen).items() if not key.startswith(OWN_PREFIX)}


def read_properties(path: str) -> dict[str, str]:
    from ottla.model.config import decode_properties, parse_properties

    with open(path, "rb") as file:
        return parse_properties(decode_properties(file.read()))


def without_references(properties: dict[str, str], origin: str) -> dict[str, str]:
    """A user's own file may refer to secrets: `${file:PATH:KEY}`, `${env:NAME}`."""
    if not any("${" in text for text in properties.values()):
        return properties
    from ottla.host.references import resolve_own_file
    from ottla.model.config.references import ReferenceFailed

    try:
        return resolve_own_file(properties).properties
    except ReferenceFailed as error:
        raise Failure(f"{origin}: {error}") from None


def parsed_file(path: str, parse: Callable[[str], T]) -> T:
    """The parsed content of a file. An invalid file is a failure of the command, not an invalid command line."""
    with open(path, encoding="utf-8") as file:
        try:
            return parse(file.read())
        except ValueError as error:
            raise Failure(f"{path}: {error}") from None


def is_explicit(option: str) -> bool:
    """Whether an option was given on the command line: then it takes precedence over properties."""
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, for commands that talk to no cluster."""
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")(function)


def registry_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--registry`, for commands that work without a registry."""
    return click.option(
        "--registry", envvar="OTTLA_REGISTRY", metavar="URL", help="The Schema Registry, for formats with schemas."
    )(function)


def authority_option(variable: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--ca`, for commands that speak HTTPS; `variable` of the environment may name the file as well."""
    return click.option(
        "--ca",
        "authority",
        envvar=variable,
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="The certificates to trust for https, in PEM.  [default: those of the machine]",
    )


def trusted_authority(path: str | None) -> ssl.SSLContext | None:
    """The TLS of a command with `--ca`; None without it."""
    if path is None:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=path)
    except (ssl.SSLError, OSError):
        raise Failure(f"{path} has no certificates in PEM; --ca names the file of the certificate authority.") from None


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--yes`, for commands that cannot be undone."""
    return click.option("-y", "--yes", is_flag=True, help="Do it without asking.")(function)


def confirm(question: str, *, yes: bool) -> None:
    """Asks on a terminal; without a terminal the command is refused."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{question} Standard input is not a terminal; add --yes to confirm.")
    if not click.confirm(question, default=False, err=True):
        raise Failure("Nothing was changed.")
