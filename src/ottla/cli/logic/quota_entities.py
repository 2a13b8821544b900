"""The quota entities that kafka-configs' options name: users, clients, addresses, and users with clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.client.admin.configs import ConfigChange
from ottla.client.admin.quotas import QuotaComponent, QuotaEntity, QuotaMatch

__all__ = ["ENTITY_DEFAULT", "entity_of", "in_words", "named_quotas", "quota_changes"]

# Stands for --entity-default among the names, whose order matters; no entity has this name.
ENTITY_DEFAULT = "\0default"

_KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}


def named_quotas(
    *,
    users: Sequence[str] = (),
    clients: Sequence[str] = (),
    addresses: Sequence[str] = (),
    defaults: Mapping[str, bool],
    types: Sequence[str] = (),
    names: Sequence[str] = (),
) -> list[QuotaComponent]:
    """Empty if the options name no quota entity. `defaults` are the flags --user-defaults and so on, by kind."""
    components = [
        QuotaComponent(kind, QuotaMatch.EXACT, name)
        for kind, entity_names in (("user", users), ("client-id", clients), ("ip", addresses))
        for name in entity_names
    ]
    components += [QuotaComponent(kind, QuotaMatch.DEFAULT) for kind, is_given in defaults.items() if is_given]
    quota_types = [text for text in types if text in _KINDS]
    if not components and not quota_types:
        return []
    if len(quota_types) < len(types):
        raise ValueError("Quotas of users, clients and ips are shown and changed alone, without other settings.")
    if len(names) > len(types):
        raise ValueError("There are more names than types of entities.")
    for position, text in enumerate(types):
        if position >= len(names):
            components.append(QuotaComponent(_KINDS[text], QuotaMatch.ANY))
        elif names[position] == ENTITY_DEFAULT:
            components.append(QuotaComponent(_KINDS[text], QuotaMatch.DEFAULT))
        else:
            components.append(QuotaComponent(_KINDS[text], QuotaMatch.EXACT, names[position]))
    kinds = [component.kind for component in components]
    if len(set(kinds)) < len(kinds):
        raise ValueError("Each kind of entity can be given once; an entity is a user, a client, both, or an ip.")
    return components


def entity_of(components: Sequence[QuotaComponent]) -> QuotaEntity:
    """The one entity to change."""
    if any(component.match is QuotaMatch.ANY for component in components):
        raise ValueError("Missing entity: give a name, or --entity-default for entities without a quota of their own.")
    return tuple(sorted(((component.kind, component.name) for component in components), key=lambda part: part[0]))


def quota_changes(changes: Sequence[ConfigChange]) -> dict[str, float | None]:
    wanted: dict[str, float | None] = {}
    for change in changes:
        try:
            wanted[change.name] = None if change.value is None else float(change.value)
        except ValueError:
            raise ValueError(f"{change.name} has to be a number, not {change.value!r}.") from None
    return wanted


def in_words(entity: QuotaEntity) -> str:
    names = dict(entity)
    return ", ".join(
        f"{kind} {names[kind]}" if names[kind] is not None else f"default {kind}"
        for kind in ("user", "client-id", "ip")
        if kind in names
    )
