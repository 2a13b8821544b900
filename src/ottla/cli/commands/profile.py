"""`ottla profile`: names for the addresses and credentials of clusters."""

from __future__ import annotations

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.words import parse_key_values
from ottla.cli.names import PROFILE
from ottla.cli.output import Output
from ottla.cli.profiles import CONNECT_KEY, OWN_PREFIX, REGISTRY_KEY, Profiles, is_secret
from ottla.cli.session import confirm, json_option, read_properties, yes_option
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.errors import ClientError
from ottla.client.settings import parse_bootstrap

__all__ = ["profile"]

_HIDDEN = "[hidden]"


@click.group(cls=VerbGroup, verbs={}, help=COMMANDS["profile"].help)
def profile() -> None:
    pass


@profile.command(help="Write a profile and make it the current one.")
@click.argument("name")
@click.option("-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT", help="Addresses of brokers.")
@click.option("--registry", metavar="URL", help="The address of the schema registry.")
@click.option("--connect", metavar="URL", help="The address of Kafka Connect.")
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A Java client's properties file, which is copied: security and other settings.",
)
@click.option("--set", "settings", multiple=True, metavar="K=V", help="A client's property; may be repeated.")
@click.option("--replace", is_flag=True, help="Replace a profile of this name.")
def create(
    name: str,
    bootstrap: str | None,
    registry: str | None,
    connect: str | None,
    command_config: str | None,
    settings: tuple[str, ...],
    replace: bool,
) -> None:
    profiles = Profiles()
    if name in profiles.names() and not replace:
        raise Failure(f"There is a profile {name!r} already. Add --replace to replace it.")
    properties = {} if command_config is None else read_properties(command_config)
    properties |= parse_key_values(settings, option="--set")
    for key, value in (("bootstrap.servers", bootstrap), (REGISTRY_KEY, registry), (CONNECT_KEY, connect)):
        if value is not None:
            properties[key] = value
    properties.setdefault("bootstrap.servers", "localhost:9092")
    try:
        parse_bootstrap(properties["bootstrap.servers"])
    except ClientError as error:
        raise ValueError(str(error)) from None
    for key in (REGISTRY_KEY, CONNECT_KEY):
        if key in properties and not properties[key].startswith(("http://", "https://")):
            raise ValueError(f"{properties[key]!r} is not an address like http://localhost:8083.")
    profiles.write(name, properties)
    profiles.use(name)
    click.echo(f"Created profile {name}, which is the current one now.")


@profile.command(help="Make a profile the current one.")
@click.argument("name", type=PROFILE)
def use(name: str) -> None:
    profiles = Profiles()
    profiles.read(name)
    profiles.use(name)
    click.echo(f"Commands use the profile {name} now.")


@profile.command("list", help="List all profiles.")
@json_option
def list_(as_json: bool) -> None:
    profiles = Profiles()
    current = profiles.current()
    read = {name: profiles.read(name) for name in profiles.names()}
    output = Output(as_json=as_json)
    output.table(
        ("", "NAME", "BOOTSTRAP SERVERS", "CONNECT"),
        [
            ("*" if name == current else " ", name, properties.get("bootstrap.servers"), properties.get(CONNECT_KEY))
            for name, properties in read.items()
        ],
        fold=(2,),
        none="There are no profiles. 'ottla profile create NAME -b HOST:PORT' makes one.",
    )
    output.emit(
        [
            {
                "name": name,
                "isCurrent": name == current,
                "bootstrapServers": properties.get("bootstrap.servers"),
                "registryUrl": properties.get(REGISTRY_KEY),
                "connectUrl": properties.get(CONNECT_KEY),
            }
            for name, properties in read.items()
        ]
    )


@profile.command(help="Show a profile, or the current one. Secrets are hidden.")
@click.argument("name", type=PROFILE, required=False)
@json_option
def show(name: str | None, as_json: bool) -> None:
    profiles = Profiles()
    chosen = name or profiles.current()
    if chosen is None:
        raise Failure("There is no current profile. 'ottla profile list' shows all profiles.")
    properties = {key: _HIDDEN if is_secret(key) else value for key, value in profiles.read(chosen).items()}
    output = Output(as_json=as_json)
    output.say(f"{chosen}{' (current)' if chosen == profiles.current() else ''}: {profiles.path(chosen)}")
    for key, value in properties.items():
        output.say(f"  {key}={value}")
    output.emit(
        {
            "name": chosen,
            "isCurrent": chosen == profiles.current(),
            "path": str(profiles.path(chosen)),
            "bootstrapServers": properties.get("bootstrap.servers"),
            "registryUrl": properties.get(REGISTRY_KEY),
            "connectUrl": properties.get(CONNECT_KEY),
            "properties": {key: value for key, value in properties.items() if not key.startswith(OWN_PREFIX)},
        }
    )


@profile.command(help="Delete a profile.")
@click.argument("name", type=PROFILE)
@yes_option
def delete(name: str, yes: bool) -> None:
    profiles = Profiles()
    profiles.read(name)
    confirm(f"Delete the profile {name}?", yes=yes)
    profiles.delete(name)
    click.echo(f"Deleted profile {name}.")
