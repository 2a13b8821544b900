"""The entity that kafka-configs' options name, and the changes that they request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.cli.logic.quota_entities import ENTITY_DEFAULT
from ottla.cli.logic.words import parse_settings
from ottla.client.admin.configs import ConfigChange, ConfigOperation, ResourceType

__all__ = ["DEFAULT", "Entity", "changes_of", "named_entities"]

DEFAULT = "<default>"

# (type, name): None as the name selects all entities of the type.
Entity = tuple[ResourceType, str | None]

_TYPES = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}


def named_entities(
    *,
    topics: Sequence[str] = (),
    brokers: Sequence[str] = (),
    broker_defaults: bool = False,
    loggers: Sequence[str] = (),
    groups: Sequence[str] = (),
    metrics: Sequence[str] = (),
    types: Sequence[str] = (),
    names: Sequence[str] = (),
) -> list[Entity]:
    entities: list[Entity] = []
    entities += [(ResourceType.TOPIC, name) for name in topics]
    entities += [(ResourceType.BROKER, name) for name in brokers]
    if broker_defaults:
        entities.append((ResourceType.BROKER, DEFAULT))
    entities += [(ResourceType.BROKER_LOGGER, name) for name in loggers]
    entities += [(ResourceType.GROUP, name) for name in groups]
    entities += [(ResourceType.CLIENT_METRICS, name) for name in metrics]
    for position, text in enumerate(types):
        kind = _TYPES.get(text)
        if kind is None:
            kinds = ", ".join(_TYPES)
            raise ValueError(f"--entity-type {text} is none of {kinds}, users, clients, ips.")
        name = names[position] if position < len(names) else None
        entities.append((kind, DEFAULT if name == ENTITY_DEFAULT else name))
    if not entities:
        raise ValueError("Missing entity: add --topic, --broker, --broker-defaults, --group or --entity-type.")
    for kind, name in entities:
        if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name not in (None, DEFAULT):
            assert name is not None
            if not name.isdecimal():
                raise ValueError(f"A broker is named by its id, a number, not {name!r}.")
    return entities


def changes_of(add: Sequence[str], from_file: Mapping[str, str], remove: Sequence[str]) -> list[ConfigChange]:
    """Keys to set (the command line takes precedence over the file) and keys to delete; no key may be in both."""
    wanted = dict(from_file)
    for text in add:
        wanted.update(parse_settings(text))
    deleted = [name.strip() for text in remove for name in text.split(",") if name.strip()]
    conflicts = sorted(set(deleted) & set(wanted))
    if conflicts:
        raise ValueError(f"{conflicts[0]} is set and deleted at once.")
    return [
        *[ConfigChange(name, value, ConfigOperation.SET) for name, value in wanted.items()],
        *[ConfigChange(name, None, ConfigOperation.DELETE) for name in deleted],
    ]
