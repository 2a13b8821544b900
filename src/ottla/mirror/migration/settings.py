"""The flow of a migration: a properties file of a mirror, with other defaults."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.mirror.names import IdentityPolicy
from ottla.mirror.settings import FlowSettings, MirrorError, MirrorSettings, read_settings

__all__ = ["migration_settings"]

# Topics keep their names and offsets, all groups are followed, and all rights are copied at once (`rights`).
_DEFAULTS = {
    "replication.policy.class": "IdentityReplicationPolicy",
    "ottla.offsets": "exact",
    "sync.group.offsets.enabled": "true",
    "emit.checkpoints.interval.seconds": "5",
    "refresh.groups.interval.seconds": "10",
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    # Unlike a mirror, a migration copies the settings of timestamps and unclean elections. The number of in-sync
    # replicas is not copied, since the new cluster may have fewer brokers.
    "config.properties.exclude": (
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"min\.insync\.replicas"
    ),
}


def migration_settings(properties: Mapping[str, str]) -> tuple[MirrorSettings, FlowSettings]:
    """The settings, and their only flow. Raises MirrorError."""
    settings = read_settings({**_DEFAULTS, **properties})
    if len(settings.flows) != 1:
        names = ", ".join(flow.name for flow in settings.flows)
        raise MirrorError(f"A migration has one flow, from the old cluster to the new one; the file has {names}.")
    (flow,) = settings.flows
    if not isinstance(flow.policy, IdentityPolicy):
        raise MirrorError("A migration keeps the names of topics: remove replication.policy.class from the file.")
    return settings, flow
