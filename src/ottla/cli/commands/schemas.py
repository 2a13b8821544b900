"""`ottla schemas`: the schemas of a registry."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.output import Output, counted
from ottla.cli.session import authority_option, confirm, trusted_authority, yes_option
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.serdes.registry_client import RegistryClient, RegistryClientError, quoted

__all__ = ["schemas"]

Run = Callable[..., Any]
DEFAULT_URL = "http://localhost:8081"
_LEVELS = ("none", "backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")
_TYPES = {".avsc": "avro", ".json": "json", ".proto": "protobuf"}


def _options(function: Run) -> Run:
    @click.option(
        "-u",
        "--registry",
        "url",
        envvar="OTTLA_REGISTRY",
        default=DEFAULT_URL,
        metavar="URL",
        help=f"The address of the registry, or several.  [default: {DEFAULT_URL}]",
    )
    @authority_option("OTTLA_REGISTRY_CA")
    @click.option("--user", envvar="OTTLA_REGISTRY_USER", metavar="NAME:PASSWORD", help="For a registry with a login.")
    @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    @functools.wraps(function)
    def wrapper(url: str, authority: str | None, user: str | None, as_json: bool, **options: Any) -> Any:
        name, _, password = (user or "").partition(":")
        client = RegistryClient(url, user=name or None, password=password, tls=trusted_authority(authority))
        output = Output(as_json=as_json)
        try:
            return function(client, output, **options) or output.exit_code
        except RegistryClientError as error:
            raise Failure(str(error)) from None
        finally:
            client.close()

    return wrapper


@click.group(cls=VerbGroup, verbs={}, help=COMMANDS["schemas"].help)
def schemas() -> None:
    pass


@schemas.command("list", help="List the subjects with their latest version.")
@click.argument("prefix", default="")
@click.option("--deleted", is_flag=True, help="Deleted ones, too.")
@_options
def list_(client: RegistryClient, output: Output, prefix: str, deleted: bool) -> None:
    query = f"latestOnly=true&subjectPrefix={quoted(':*:' + prefix)}" + ("&deleted=true" if deleted else "")
    versions = client.call("GET", f"/schemas?{query}")
    output.table(
        ("SUBJECT", "VERSION", "ID", "TYPE"),
        [
            (version["subject"], version["version"], version["id"], version.get("schemaType", "AVRO"))
            for version in versions
        ],
        right=(1, 2),
        fold=(0,),
        none="There are no schemas.",
    )
    output.emit(versions)


@schemas.command(help="Show a schema, by its subject or its id.")
@click.argument("name", metavar="SUBJECT|ID")
@click.option("--version", default="latest", metavar="N", help="[default: latest]")
@_options
def show(client: RegistryClient, output: Output, name: str, version: str) -> None:
    if name.isdecimal():
        answer = client.call("GET", f"/schemas/ids/{name}")
    else:
        answer = client.call("GET", f"{_path(name)}/versions/{quoted(version)}?deleted=true")
    output.say(answer["schema"])
    output.emit(answer)


@schemas.command(help="Register the schema of a file (.avsc, .proto, .json) under a subject.")
@click.argument("subject")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--type", "kind", type=click.Choice(["avro", "json", "protobuf"]), help="[default: by the file's name]")
@click.option("--normalize", is_flag=True, help="Ignore the order of parts whose order has no meaning.")
@click.option("--reference", "references", multiple=True, metavar="NAME=SUBJECT:VERSION", help="What it refers to.")
@_options
def register(
    client: RegistryClient,
    output: Output,
    subject: str,
    file: Path,
    kind: str | None,
    normalize: bool,
    references: tuple[str, ...],
) -> None:
    body = _body(file, kind, references)
    registered = client.call("POST", f"{_path(subject)}/versions{'?normalize=true' if normalize else ''}", body)
    output.say(f"{subject} version {registered.get('version', '?')} has the id {registered['id']}.")
    output.emit(registered)


@schemas.command(help="Check whether the schema of a file is compatible with the versions of a subject.")
@click.argument("subject")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--type", "kind", type=click.Choice(["avro", "json", "protobuf"]), help="[default: by the file's name]")
@click.option("--reference", "references", multiple=True, metavar="NAME=SUBJECT:VERSION", help="What it refers to.")
@_options
def check(
    client: RegistryClient, output: Output, subject: str, file: Path, kind: str | None, references: tuple[str, ...]
) -> int:
    path = f"/compatibility/subjects/{quoted(subject)}/versions?verbose=true"
    verdict = client.call("POST", path, _body(file, kind, references))
    output.say("It is compatible." if verdict["is_compatible"] else "It is not compatible:")
    for message in verdict.get("messages", ()):
        output.say(f"  {message}")
    output.emit(verdict)
    return 0 if verdict["is_compatible"] else 1


@schemas.command("hash-password", help="Print a line for 'ottla registry --users'; the password is asked for.")
@click.argument("name")
@click.password_option(help="Better left out: other users of the machine see options of commands.")
def hash_password(name: str, password: str) -> int:
    from ottla.registry.node.passwords import hashed_password

    click.echo(f"{name}={hashed_password(password)}")
    return 0


@schemas.command(help="Delete a subject, or one version of it; it stays readable by its id unless --permanent.")
@click.argument("subject")
@click.option("--version", metavar="N", help="Only this version.")
@click.option("--permanent", is_flag=True, help="Delete permanently what was deleted without this option before.")
@yes_option
@_options
def delete(
    client: RegistryClient, output: Output, subject: str, version: str | None, permanent: bool, yes: bool
) -> None:
    if permanent:
        confirm(f"Records with a schema of {subject} can no longer be read afterwards. Delete it permanently?", yes=yes)
    path = _path(subject) + ("" if version is None else f"/versions/{quoted(version)}")
    deleted = client.call("DELETE", path + ("?permanent=true" if permanent else ""))
    numbers = deleted if isinstance(deleted, list) else [deleted]
    output.say(f"Deleted {counted(len(numbers), 'version')} of {subject}.")
    output.emit(numbers)


@schemas.command(help="Show or set the level of compatibility, of a subject or of all.")
@click.argument("subject", required=False)
@click.option(
    "--set",
    "level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    metavar="LEVEL",
    help=f"One of {', '.join(_LEVELS)}.",
)
@_options
def compatibility(client: RegistryClient, output: Output, subject: str | None, level: str | None) -> None:
    path = "/config" if subject is None else f"/config/{quoted(subject)}"
    if level is not None:
        client.call("PUT", path, {"compatibility": level.upper()})
    config = client.call("GET", path + "?defaultToGlobal=true")
    output.say(config["compatibilityLevel"])
    output.emit(config)


def _path(subject: str) -> str:
    return f"/subjects/{quoted(subject)}"


def _body(file: Path, kind: str | None, references: tuple[str, ...]) -> dict[str, Any]:
    chosen = kind or _TYPES.get(file.suffix)
    if chosen is None:
        raise click.UsageError(f"The type of {file} is unknown: add --type avro, json or protobuf.")
    body: dict[str, Any] = {"schema": file.read_text(encoding="utf-8"), "schemaType": chosen.upper()}
    for reference in references:
        name, equals, target = reference.partition("=")
        subject, colon, version = target.rpartition(":")
        if not equals or not colon or not version.isdecimal():
            raise click.UsageError(f"--reference {reference} does not look like NAME=SUBJECT:VERSION.")
        body.setdefault("references", []).append({"name": name, "subject": subject, "version": int(version)})
    return body
