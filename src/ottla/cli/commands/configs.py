"""`ottla configs`: settings of topics, brokers, groups and client metrics, levels of loggers, and quotas."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.commands.quota_configs import alter_quotas, describe_quotas
from ottla.cli.failures import Failure
from ottla.cli.logic.config_entities import DEFAULT, Entity, changes_of, named_entities
from ottla.cli.logic.quota_entities import ENTITY_DEFAULT, named_quotas
from ottla.cli.names import GROUP, TOPIC
from ottla.cli.output import Output
from ottla.cli.session import Session, cluster_options, read_properties
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource, ResourceType
from ottla.client.admin.quotas import QuotaComponent
from ottla.model.errors import KafkaError

__all__ = ["configs"]

# The width of the largest number and of the column separator.
VALUE_WIDTH_MIN = 23

_OWN_SOURCE = {
    ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ResourceType.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    ResourceType.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    ResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
}


@click.group(cls=VerbGroup, help="Show and change settings (kafka-configs).")
def configs() -> None:
    """The verbs are below."""


def entity_options(function: Any) -> Any:
    """Options that select the entity: the short options, or Kafka's pairs of type and name."""
    options = (
        click.option("-t", "--topic", "topics", multiple=True, type=TOPIC, metavar="TOPIC", help="A topic."),
        click.option("--broker", "brokers", multiple=True, metavar="ID", help="A broker."),
        click.option("--broker-defaults", is_flag=True, help="What all brokers have."),
        click.option("--broker-logger", "loggers", multiple=True, metavar="ID", help="The loggers of a broker."),
        click.option("-g", "--group", "groups", multiple=True, type=GROUP, metavar="GROUP", help="A group."),
        click.option("--client-metrics", "metrics", multiple=True, metavar="NAME", help="A subscription to metrics."),
        click.option("--user", "users", multiple=True, metavar="USER", help="A user's quotas and credentials."),
        click.option("--user-defaults", is_flag=True, help="Those of users without their own."),
        click.option("--client", "clients", multiple=True, metavar="ID", help="A client id's quotas."),
        click.option("--client-defaults", is_flag=True, help="Those of client ids without their own."),
        click.option("--ip", "addresses", multiple=True, metavar="ADDRESS", help="An address's quotas."),
        click.option("--ip-defaults", is_flag=True, help="Those of addresses without their own."),
        click.option("--entity-type", "types", multiple=True, metavar="TYPE", help="Kafka's way: topics, brokers, ..."),
        click.option("--entity-name", "names", multiple=True, metavar="NAME", help="The name of the entity."),
        click.option("--entity-default", is_flag=True, expose_value=False, help="The default of that type."),
    )
    for option in reversed(options):
        function = option(function)
    return function


class InOrder(click.Command):
    """Keeps --entity-default at its position among the names: the position alone tells its entity type."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [["--entity-name", ENTITY_DEFAULT] if word == "--entity-default" else [word] for word in args]
        return super().parse_args(ctx, [word for pair in words for word in pair])


@configs.command("describe", cls=InOrder, help="Show settings and where their values come from.")
@entity_options
@click.option("-a", "--all", "everything", is_flag=True, help="Also values that were never set.")
@cluster_options
def describe(session: Session, everything: bool, **options: Any) -> int:
    if quotas := _take_quotas(options):
        return describe_quotas(session, quotas)
    named = named_entities(**options)

    async def work(admin: AdminClient) -> None:
        resources = await _resources(admin, named)
        answers = await admin.configs.describe(resources, synonyms=True)
        result = []
        for resource in resources:
            entries = answers[resource]
            if isinstance(entries, KafkaError):
                session.output.complain(resource.name, entries)
                continue
            shown = [entry for entry in entries if everything or _is_set(resource, entry)]
            result.append(_as_json(resource, shown))
            if len(resources) > 1 or not shown:
                session.output.say(f"{_title(resource)}{'' if shown else ' has no settings of its own.'}")
            if shown:
                _show(session.output, [(entry.name, _value(entry), _source(entry)) for entry in shown])
        session.output.emit(result)

    return session.run(work)


@configs.command("alter", cls=InOrder, help="Change settings; other settings keep their values.")
@entity_options
@click.option("-c", "--add-config", "--set", "add", multiple=True, metavar="K=V,K=[A,B]", help="Set these.")
@click.option(
    "--add-config-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Set those in it."
)
@click.option("-d", "--delete-config", "--unset", "remove", multiple=True, metavar="K,K", help="Back to the default.")
@click.option("--validate-only", is_flag=True, help="Check it, change nothing.")
@cluster_options
def alter(
    session: Session,
    add: tuple[str, ...],
    add_config_file: str | None,
    remove: tuple[str, ...],
    validate_only: bool,
    **options: Any,
) -> int:
    from_file = {} if add_config_file is None else read_properties(add_config_file)
    changes = changes_of(add, from_file, remove)
    if not changes:
        raise click.UsageError("No change is given: add --add-config or --delete-config.")
    if quotas := _take_quotas(options):
        return alter_quotas(session, quotas, changes, validate_only=validate_only)
    named = named_entities(**options)

    async def work(admin: AdminClient) -> None:
        resources = await _resources(admin, named, must_be_named=True)
        altered = []
        if any(resource.type == ResourceType.BROKER for resource in resources):
            await admin.connections.refresh([])
        for resource, error in (
            await admin.configs.alter(dict.fromkeys(resources, changes), validate_only=validate_only)
        ).items():
            if error is None:
                altered.append(resource.name)
                session.output.say(f"{'Could change' if validate_only else 'Changed'} {_title(resource)}.")
            else:
                session.output.complain(_title(resource), error)
        session.output.emit(altered)

    return session.run(work)


def _take_quotas(options: dict[str, Any]) -> list[QuotaComponent]:
    """The quota entity of the options, if they name one; removes the options that apply to quotas only."""
    quotas = named_quotas(
        users=options.pop("users"),
        clients=options.pop("clients"),
        addresses=options.pop("addresses"),
        defaults={
            "user": options.pop("user_defaults"),
            "client-id": options.pop("client_defaults"),
            "ip": options.pop("ip_defaults"),
        },
        types=options["types"],
        names=options["names"],
    )
    if quotas and any(value for name, value in options.items() if name not in ("types", "names")):
        raise ValueError("Quotas of users, clients and ips are shown and changed alone, without other settings.")
    return quotas


async def _resources(admin: AdminClient, named: list[Entity], *, must_be_named: bool = False) -> list[ConfigResource]:
    """Kafka's rule: when settings are described, a type without a name means all entities of the type."""
    resources: list[ConfigResource] = []
    for kind, name in named:
        if name == DEFAULT:
            resources.append(ConfigResource(kind, ""))
        elif name is not None:
            resources.append(ConfigResource(kind, name))
        elif must_be_named:
            raise Failure("Missing entity name: give a name, or --entity-default for the cluster-wide default.")
        elif kind is ResourceType.TOPIC:
            resources += [ConfigResource(kind, topic) for topic in await admin.topics.names()]
        elif kind is ResourceType.BROKER:
            await admin.connections.refresh([])
            resources += [
                ConfigResource(kind, str(broker_id)) for broker_id in sorted(admin.connections.metadata.brokers)
            ]
            resources.append(ConfigResource(kind, ""))
        elif kind is ResourceType.BROKER_LOGGER:
            raise Failure("Loggers belong to a broker; name it by its id.")
        else:
            resources += sorted(await admin.configs.resources(kind))
    return resources


def _is_set(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """Whether a value is set on this very resource: not inherited from the cluster-wide default or a broker."""
    if resource.type is ResourceType.BROKER and not resource.name:
        return entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return entry.source is _OWN_SOURCE[resource.type]


def _title(resource: ConfigResource) -> str:
    kind = resource.type.name.lower().replace("_", " ")
    return f"{kind} {resource.name}" if resource.name else f"default of all {kind}s"


def _show(output: Output, rows: list[tuple[str, str | None, str]]) -> None:
    """A table, or a line per setting if the names leave no room for values."""
    longest = max(len(name) for name, _, _ in rows)
    if not output.has_room_for(longest + VALUE_WIDTH_MIN + max(len(source) for _, _, source in rows)):
        for name, value, source in rows:
            output.say(f"{name} = {value or '-'}{'' if source == 'default' else f'  ({source})'}")
        return
    output.table(("SETTING", "VALUE", "SOURCE"), rows, fold=(1,))


def _value(entry: ConfigEntry) -> str | None:
    return "(hidden)" if entry.is_sensitive else entry.value


def _source(entry: ConfigEntry) -> str:
    if entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG:
        # Kafka's name of this source is so long that values would wrap.
        return "all brokers"
    return entry.source.name.removesuffix("_CONFIG").replace("_", " ").lower()


def _as_json(resource: ConfigResource, entries: list[ConfigEntry]) -> dict[str, Any]:
    return {
        "type": resource.type.name.lower(),
        "name": resource.name,
        "configs": {
            entry.name: {
                "value": entry.value,
                "source": entry.source.name,
                "sensitive": entry.is_sensitive,
                "readOnly": entry.is_read_only,
                "synonyms": [
                    {"source": synonym.source.name, "name": synonym.name, "value": synonym.value}
                    for synonym in entry.synonyms
                ],
            }
            for entry in entries
        },
    }
