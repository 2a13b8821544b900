"""The connectors of a Kafka Connect cluster: `ottla connect list`, `status`, `create` and the other verbs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.connectors import Connector, cause_of, connector_of, parse_connector
from ottla.cli.logic.words import parse_key_values
from ottla.cli.output import Output
from ottla.cli.session import authority_option, confirm, parsed_file, trusted_authority, yes_option
from ottla.connect.rest_client import DEFAULT_URL, ConnectRest, RestError

__all__ = ["CONNECTOR_COMMANDS"]

Run = Callable[..., Any]


def _rest_options(function: Run) -> Run:
    """Gives a command the options of the REST interface, and calls it with the client and the output first."""

    @click.option(
        "-u",
        "--url",
        envvar="OTTLA_CONNECT_URL",
        metavar="URL",
        help=f"The address of a worker, or several.  [default: the profile's, else {DEFAULT_URL}]",
    )
    @authority_option("OTTLA_CONNECT_CA")
    @click.option("--profile", envvar="OTTLA_PROFILE", metavar="NAME", help="The profile.  [default: the current one]")
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
    def wrapper(
        url: str | None, authority: str | None, profile: str | None, as_json: bool, timeout_ms: int, **options: Any
    ) -> Any:
        address = url or _profile_url(profile) or DEFAULT_URL
        client = ConnectRest(address, timeout_ms=timeout_ms, tls=trusted_authority(authority))
        output = Output(as_json=as_json)
        try:
            return function(client, output, **options) or output.exit_code
        except RestError as error:
            raise Failure(str(error)) from None

    return wrapper


def _profile_url(name: str | None) -> str | None:
    from ottla.cli.profiles import CONNECT_KEY, Profiles

    profiles = Profiles()
    chosen = name or profiles.current()
    return None if chosen is None else profiles.read(chosen).get(CONNECT_KEY)


@click.command("list", help="List the connectors of a Connect cluster.")
@_rest_options
def list_(client: ConnectRest, output: Output) -> None:
    connectors = _all(client)
    output.table(
        ("NAME", "TYPE", "STATE", "TASKS", "CLASS"),
        [
            (
                connector.name,
                connector.kind,
                connector.state,
                connector.tasks_in_words,
                (connector.connector_class or "").rpartition(".")[2],
            )
            for connector in connectors
        ],
        fold=(0, 3, 4),
        none=f"There are no connectors at {client.where}.",
    )
    output.emit([connector.as_json() for connector in connectors])


@click.command(help="Show connectors and their tasks, with the cause of failures; all connectors without a name.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_rest_options
def status(client: ConnectRest, output: Output, names: tuple[str, ...]) -> None:
    connectors = [connector_of(client.get("connectors", name, "status")) for name in names] if names else _all(client)
    if not connectors:
        output.say_none(f"There are no connectors at {client.where}.")
    for number, connector in enumerate(connectors):
        if number:
            output.say()
        output.say(f"{connector.name}: {connector.kind}, {connector.state} on {connector.worker or 'no worker'}")
        if connector.trace:
            output.say(f"  {cause_of(connector.trace)}")
        output.table(
            ("TASK", "STATE", "WORKER", "CAUSE"),
            [
                (task.id, task.state, task.worker, cause_of(task.trace) if task.trace else "")
                for task in connector.tasks
            ],
            right=(0,),
            fold=(2, 3),
            seldom=(3,),
            none="It has no tasks.",
        )
    output.emit([connector.as_json() for connector in connectors])


@click.command(help="Show what failed connectors and tasks report, and the log levels of the worker.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--trace", "whole", is_flag=True, help="Whole stack traces, and not only the cause.")
@click.option("--levels", is_flag=True, help="Show the loggers of the worker and their levels instead.")
@click.option("--level", "changes", multiple=True, metavar="LOGGER=LEVEL", help="Change a log level; may be repeated.")
@_rest_options
def logs(
    client: ConnectRest,
    output: Output,
    names: tuple[str, ...],
    whole: bool,
    levels: bool,
    changes: tuple[str, ...],
) -> None:
    for logger, level in parse_key_values(changes, option="--level").items():
        client.put("admin", "loggers", logger, body={"level": level.upper()})
        output.say(f"{logger} logs at {level.upper()} now.")
    if levels or changes:
        _show_levels(client, output, are_wanted=levels)
        return
    connectors = [connector_of(client.get("connectors", name, "status")) for name in names] if names else _all(client)
    reports = [
        (connector.name, part, trace)
        for connector in connectors
        for part, trace in (
            ("connector", connector.trace),
            *((f"task {task.id}", task.trace) for task in connector.tasks),
        )
        if trace
    ]
    for name, part, trace in reports:
        output.say(f"{name}, {part}: {trace.rstrip() if whole else cause_of(trace)}")
    if not reports:
        output.say_none("No connector and no task reports a failure.")
    output.emit([{"name": name, "of": part, "cause": cause_of(trace), "trace": trace} for name, part, trace in reports])


def _show_levels(client: ConnectRest, output: Output, *, are_wanted: bool) -> None:
    loggers = client.get("admin", "loggers") if are_wanted or output.as_json else {}
    rows = [(name, entry.get("level")) for name, entry in sorted(loggers.items())]
    if are_wanted:
        output.table(("LOGGER", "LEVEL"), rows, fold=(0,), none="No logger has a level of its own.")
    output.emit([{"logger": name, "level": level} for name, level in rows])


@click.command(help="Create connectors from files (JSON or properties; - is standard input) or from --set.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--name", metavar="NAME", help="The name, instead of the file's.")
@click.option("--set", "settings", multiple=True, metavar="K=V", help="A setting, before those of the file.")
@click.option("--replace", is_flag=True, help="Change the configuration of a connector that exists.")
@click.option("--dry-run", is_flag=True, help="Only check the configuration.")
@_rest_options
def create(
    client: ConnectRest,
    output: Output,
    files: tuple[str, ...],
    name: str | None,
    settings: tuple[str, ...],
    replace: bool,
    dry_run: bool,
) -> None:
    if not files and not settings:
        raise click.UsageError("Name a file with the connector's configuration, or add --set.")
    if name is not None and len(files) > 1:
        raise click.UsageError("--name is about one connector.")
    own = parse_key_values(settings, option="--set")
    parsed = [_read(path, name, own) for path in files] or [parse_connector("", name=name or own.get("name"))]
    answers = []
    for new_name, config in parsed:
        whole = {**config, **own, "name": new_name}
        if dry_run:
            _validate(client, output, new_name, whole)
            continue
        if replace:
            client.put("connectors", new_name, "config", body=whole)
        else:
            client.post("connectors", body={"name": new_name, "config": whole})
        output.say(
            f"{'Changed' if replace else 'Created'} connector {new_name}. 'ottla connect status {new_name}' shows it."
        )
        answers.append({"name": new_name, "config": whole})
    if not dry_run:
        output.emit(answers)


def _read(path: str, name: str | None, own: dict[str, str]) -> tuple[str, dict[str, str]]:
    parse = functools.partial(parse_connector, name=name or own.get("name"))
    if path != "-":
        return parsed_file(path, parse)
    try:
        return parse(sys.stdin.read())
    except ValueError as error:
        raise Failure(f"Standard input: {error}") from None


def _validate(client: ConnectRest, output: Output, name: str, config: dict[str, str]) -> None:
    connector_class = config.get("connector.class")
    if not connector_class:
        raise Failure(f"{name}: the setting connector.class is missing.")
    answer = client.put("connector-plugins", connector_class.rpartition(".")[2], "config", "validate", body=config)
    wrong = {
        entry["value"]["name"]: entry["value"]["errors"] for entry in answer["configs"] if entry["value"].get("errors")
    }
    for key, errors in wrong.items():
        output.say(f"{name}: {key}: {' '.join(errors)}")
    output.failed |= bool(wrong)
    if not wrong:
        output.say(f"{name}: the configuration is valid.")
    output.emit({"name": name, "errors": wrong})


def _change(verb: str, done: str, help: str) -> click.Command:
    """A command that sends the request `verb` for each named connector."""

    @click.command(verb, help=help)
    @click.argument("names", nargs=-1, required=True, metavar="NAME...")
    @_rest_options
    def command(client: ConnectRest, output: Output, names: tuple[str, ...]) -> None:
        for name in names:
            client.put("connectors", name, verb)
            output.say(f"{done} connector {name}.")
        output.emit([{"name": name, "asked": verb} for name in names])

    return command


@click.command(help="Restart connectors; by default with those of their tasks that have failed.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--task", type=click.IntRange(0), metavar="N", help="Only this task.")
@click.option("--all-tasks", is_flag=True, help="All tasks, and not only failed ones.")
@click.option("--only-connector", is_flag=True, help="No task.")
@_rest_options
def restart(
    client: ConnectRest, output: Output, names: tuple[str, ...], task: int | None, all_tasks: bool, only_connector: bool
) -> None:
    if sum((task is not None, all_tasks, only_connector)) > 1:
        raise click.UsageError("--task, --all-tasks and --only-connector exclude each other.")
    for name in names:
        if task is not None:
            client.post("connectors", name, "tasks", str(task), "restart")
        elif only_connector:
            client.post("connectors", name, "restart")
        else:
            client.post("connectors", name, "restart", includeTasks="true", onlyFailed="false" if all_tasks else "true")
        output.say(f"Restarting {f'task {task} of ' if task is not None else ''}connector {name}.")
    output.emit([{"name": name, "asked": "restart"} for name in names])


@click.command(help="Delete connectors.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@yes_option
@_rest_options
def delete(client: ConnectRest, output: Output, names: tuple[str, ...], yes: bool) -> None:
    confirm(f"Delete {', '.join(names)}? Committed offsets stay.", yes=yes)
    for name in names:
        client.delete("connectors", name)
        output.say(f"Deleted connector {name}.")
    output.emit([{"name": name, "asked": "delete"} for name in names])


@click.command(help="Show the configuration of a connector.")
@click.argument("name")
@_rest_options
def config(client: ConnectRest, output: Output, name: str) -> None:
    settings: dict[str, str] = client.get("connectors", name, "config")
    for key, value in sorted(settings.items()):
        output.say(f"{key}={value}")
    output.emit(settings)


def _all(client: ConnectRest) -> list[Connector]:
    entries = client.get("connectors", expand=["status", "info"])
    return [
        connector_of(entry["status"], (entry.get("info") or {}).get("config")) for _, entry in sorted(entries.items())
    ]


CONNECTOR_COMMANDS = (
    list_,
    status,
    create,
    config,
    _change("pause", "Pausing", "Pause connectors: tasks stay, and move nothing."),
    _change("resume", "Resuming", "Resume paused or stopped connectors."),
    _change("stop", "Stopping", "Stop connectors: their tasks end."),
    restart,
    delete,
    logs,
)
