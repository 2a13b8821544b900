"""The settings of mirrors, from MirrorMaker 2's properties file as it is.

`clusters` names the clusters. A key without a prefix holds for every flow, `a->b.KEY` for one flow, and `a.KEY` is a
client's key for a cluster. A misspelt key is refused with a suggestion; keys of the Connect workers on which
MirrorMaker 2 runs are accepted and have no effect.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.client.settings import ClientSettings, settings_from_properties
from ottla.mirror.names import (
    CONFIGS_EXCLUDED,
    GROUPS_EXCLUDED,
    TOPICS_EXCLUDED,
    IdentityPolicy,
    NameFilter,
    PrefixPolicy,
    ReplicationPolicy,
)

__all__ = ["FlowSettings", "MirrorError", "MirrorSettings", "OffsetMode", "read_settings"]


class MirrorError(Exception):
    """A mirror cannot run as it is configured; the message has the reason."""


class OffsetMode(Enum):
    TRANSLATED = "translated"
    """Records get new offsets at the target; a map translates the offsets of groups."""
    EXACT = "exact"
    """Records keep their offsets. The target is a cluster of Ottla."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One direction: from a source cluster to a target cluster."""

    source: str
    target: str
    source_client: ClientSettings
    target_client: ClientSettings
    policy: ReplicationPolicy
    topics: NameFilter
    groups: NameFilter
    configs: NameFilter
    offset_mode: OffsetMode
    tasks: int
    replication_factor: int
    internal_replication_factor: int
    commit_interval_ms: int
    bytes_per_second: int
    cuts_cycles: bool
    """Records carry their way in a header, and records that were at the target before are not copied."""
    starts_at: str
    """Where a partition begins that was never copied: earliest or latest."""
    refresh_topics_s: float
    sync_configs_s: float
    sync_acls_s: float
    heartbeats_s: float
    refresh_groups_s: float
    checkpoints_s: float
    sync_groups_s: float
    """Intervals in seconds; 0 where the part is switched off."""
    role: str = ""
    """Names a flow of a failback, whose workers and positions are apart from those of the file's flow."""

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def state_name(self) -> str:
        """The name under which the state of this flow is stored at the target."""
        return f"{self.name} ({self.role})" if self.role else self.name

    @property
    def group_id(self) -> str:
        """The group whose offsets at the target are the positions of this flow at the source."""
        name = f"mirror-{self.source}-{self.target}"
        return f"{name}-{self.role}" if self.role else name


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    clusters: Mapping[str, ClientSettings]
    flows: tuple[FlowSettings, ...]


# The keys of a flow, and their defaults.
_FLOW_KEYS: Mapping[str, str] = {
    "enabled": "false",
    "topics": ".*",
    "topics.exclude": TOPICS_EXCLUDED,
    "topics.blacklist": "",
    "groups": ".*",
    "groups.exclude": GROUPS_EXCLUDED,
    "groups.blacklist": "",
    "config.properties.exclude": CONFIGS_EXCLUDED,
    "config.properties.blacklist": "",
    "use.defaults.from": "target",
    "tasks.max": "1",
    "replication.factor": "-1",
    "replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "replication.policy.internal.topic.separator.enabled": "true",
    "refresh.topics.enabled": "true",
    "refresh.topics.interval.seconds": "600",
    "refresh.groups.enabled": "true",
    "refresh.groups.interval.seconds": "600",
    "sync.topic.configs.enabled": "true",
    "sync.topic.configs.interval.seconds": "600",
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": "600",
    "emit.heartbeats.enabled": "true",
    "emit.heartbeats.interval.seconds": "1",
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": "60",
    "sync.group.offsets.enabled": "false",
    "sync.group.offsets.interval.seconds": "60",
    "heartbeats.topic.replication.factor": "3",
    "checkpoints.topic.replication.factor": "3",
    "offset-syncs.topic.replication.factor": "3",
    "consumer.auto.offset.reset": "earliest",
    "ottla.offsets": "translated",
    "ottla.commit.interval.ms": "1000",
    "ottla.bytes.per.second": "0",
    "ottla.cut.cycles": "",
}
# Accepted without effect, with the reason in docs/mirror.md: keys of workers, and of parts that work differently here.
_IGNORED = re.compile(
    r"(offset|status|config)\.storage\..*|offset\.flush\..*|dedicated\.mode\..*|exactly\.once\..*|listeners?|"
    r"(key|value|header)\.converter.*|name|group\.id|task\.shutdown.*|offset\.lag\.max|offset-syncs\.topic\.location|"
    r"forwarding\.admin\.class|add\.source\.alias\.to\.metrics|(offset-syncs\.)?(source|target)\..*|rest\..*|"
    r"(topic|group|config\.property)\.filter\.class|admin\.timeout\.ms|consumer\.poll\.timeout\.millis|metrics?\..*|"
    r"emit\.offset-syncs\.enabled|plugin\.(path|discovery)|scheduled\.rebalance.*|connector\.client\.config.*|"
    r"consumer\..*|producer\..*|admin\..*|auto\.create\.mirror.*"
)
_DEFAULT_FILTERS = re.compile(r"(org\.apache\.kafka\.connect\.mirror\.)?Default\w+Filter")
_POLICIES = {"DefaultReplicationPolicy": PrefixPolicy, "IdentityReplicationPolicy": IdentityPolicy}
# MirrorMaker 2 may have a different login for each role.
_SECURITY_OF_ROLE = re.compile(r"(?:consumer|producer|admin)\.((?:security|ssl|sasl)\..+)")
_COMMIT_INTERVAL_MS_MAX = 30_000
_FLOW = re.compile(r"([^.>\s]+)->([^.>\s]+)\.(.+)")


def read_settings(properties: Mapping[str, str]) -> MirrorSettings:
    """The clusters and the enabled flows of a properties file. Raises MirrorError."""
    aliases = [alias.strip() for alias in properties.get("clusters", "").split(",") if alias.strip()]
    if len(aliases) < 2:
        raise MirrorError("A mirror needs two clusters at least: set clusters = a, b and a.bootstrap.servers.")
    if len(set(aliases)) < len(aliases):
        raise MirrorError(f"clusters = {properties['clusters']} names a cluster twice.")
    clusters = {alias: _client(alias, properties) for alias in aliases}
    _check_keys(properties, aliases)
    flows = []
    for source in aliases:
        for target in aliases:
            if source != target:
                values = dict(_values(properties, source, target))
                if _flag("enabled", values["enabled"]):
                    flows.append(_flow(source, target, clusters, values, properties))
    if not flows:
        pairs = f"{aliases[0]}->{aliases[1]}"
        raise MirrorError(f"No flow is enabled: set {pairs}.enabled = true to copy from {aliases[0]} to {aliases[1]}.")
    return MirrorSettings(clusters, tuple(flows))


def _client(alias: str, properties: Mapping[str, str]) -> ClientSettings:
    own = {key.removeprefix(f"{alias}."): value for key, value in properties.items() if key.startswith(f"{alias}.")}
    shared = {
        key: value for key, value in properties.items() if key.startswith(("security.", "ssl.", "sasl.", "client."))
    }
    if not own.get("bootstrap.servers"):
        raise MirrorError(f"The address of cluster {alias} is missing: set {alias}.bootstrap.servers = host:9092.")
    merged = {**shared, **own}
    for key, value in [*properties.items(), *own.items()]:
        match = _SECURITY_OF_ROLE.fullmatch(key)
        if match is not None and merged.setdefault(match[1], value) != value:
            raise MirrorError(
                f"{key} of cluster {alias} is not the same as another value of {match[1]}: a mirror has one login for "
                f"each cluster. Set {alias}.{match[1]} alone."
            )
    base = ClientSettings(bootstrap_servers=(), client_id=f"mirror-{alias}")
    return settings_from_properties(base, merged)


def _values(properties: Mapping[str, str], source: str, target: str) -> Iterator[tuple[str, str]]:
    for key, default in _FLOW_KEYS.items():
        cluster = properties.get(f"{source}.{key}") if key.startswith("consumer.") else None
        shared = None if key == "enabled" else properties.get(key)
        # An empty value counts as well: with an empty topics.exclude nothing is excluded.
        configured = [
            value for value in (properties.get(f"{source}->{target}.{key}"), cluster, shared) if value is not None
        ]
        yield key, configured[0] if configured else default


def _check_keys(properties: Mapping[str, str], aliases: list[str]) -> None:
    known = [*_FLOW_KEYS, "clusters"]
    for key in properties:
        flow = _FLOW.fullmatch(key)
        if flow is not None:
            source, target, name = flow.groups()
            for alias in (source, target):
                if alias not in aliases:
                    raise MirrorError(
                        f"{key} names the cluster {alias}, which clusters does not: {', '.join(aliases)}."
                    )
            if (match := _SECURITY_OF_ROLE.fullmatch(name)) is not None:
                raise MirrorError(f"{key} has no effect: set {source}.{match[1]} or {target}.{match[1]}.")
        elif key.partition(".")[0] in aliases or key.startswith(("security.", "ssl.", "sasl.", "client.")):
            continue
        else:
            name = key
        if name not in known and _IGNORED.fullmatch(name) is None:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else " docs/mirror.md lists the keys."
            raise MirrorError(f"{key} is not a key of a mirror.{hint}")
        if name.endswith(".filter.class") and _DEFAULT_FILTERS.fullmatch(properties[key]) is None:
            raise MirrorError(f"{key} names a class of Java, which cannot run here: use topics, groups and excludes.")


def _flow(
    source: str,
    target: str,
    clusters: Mapping[str, ClientSettings],
    values: Mapping[str, str],
    properties: Mapping[str, str],
) -> FlowSettings:
    policy = _policy(values)
    mode = _word("ottla.offsets", values["ottla.offsets"], [mode.value for mode in OffsetMode])
    starts_at = _word("consumer.auto.offset.reset", values["consumer.auto.offset.reset"], ["earliest", "latest"])
    cuts = values["ottla.cut.cycles"]
    has_way_back = _flag("enabled", properties.get(f"{target}->{source}.enabled", "false"))
    is_identity = isinstance(policy, IdentityPolicy)
    if OffsetMode(mode) is OffsetMode.EXACT and is_identity and has_way_back:
        raise MirrorError(
            f"{source}->{target} and {target}->{source} copy topics of the same name: with ottla.offsets = exact only "
            "one of them can be enabled, because the copy has one writer."
        )
    internal = min(
        _number(f"{kind}.topic.replication.factor", values, at_least=1) for kind in ("checkpoints", "heartbeats")
    )
    _word("use.defaults.from", values["use.defaults.from"], ["target"])
    commit_interval_ms = _number("ottla.commit.interval.ms", values, at_least=1)
    if commit_interval_ms > _COMMIT_INTERVAL_MS_MAX:
        raise MirrorError(f"ottla.commit.interval.ms = {commit_interval_ms} must be {_COMMIT_INTERVAL_MS_MAX} or less.")
    return FlowSettings(
        source=source,
        target=target,
        source_client=clusters[source],
        target_client=clusters[target],
        policy=policy,
        topics=_filter("topics", values),
        groups=_filter("groups", values, also_excluded=_position_groups(clusters)),
        configs=NameFilter(".*", values["config.properties.blacklist"] or values["config.properties.exclude"]),
        offset_mode=OffsetMode(mode),
        tasks=_number("tasks.max", values, at_least=1),
        replication_factor=_number("replication.factor", values, at_least=-1),
        internal_replication_factor=internal,
        commit_interval_ms=commit_interval_ms,
        bytes_per_second=_number("ottla.bytes.per.second", values, at_least=0),
        cuts_cycles=_flag("ottla.cut.cycles", cuts) if cuts else is_identity and has_way_back,
        starts_at=starts_at,
        refresh_topics_s=_interval("refresh.topics", values),
        sync_configs_s=_interval("sync.topic.configs", values),
        sync_acls_s=_interval("sync.topic.acls", values),
        heartbeats_s=_interval("emit.heartbeats", values),
        refresh_groups_s=_interval("refresh.groups", values),
        checkpoints_s=_interval("emit.checkpoints", values),
        sync_groups_s=_interval("sync.group.offsets", values),
    )


def _policy(values: Mapping[str, str]) -> ReplicationPolicy:
    name = values["replication.policy.class"]
    policy_class = _POLICIES.get(name.rpartition(".")[2])
    if policy_class is None:
        raise MirrorError(f"replication.policy.class = {name} is unknown; it is one of {', '.join(sorted(_POLICIES))}.")
    own_separator = _flag("separator", values["replication.policy.internal.topic.separator.enabled"])
    return policy_class(values["replication.policy.separator"], own_separator)


def _position_groups(clusters: Iterable[str]) -> str:
    """A pattern of the groups in which mirrors keep their positions (`FlowSettings.group_id`), with or without a role.

    Their offsets are those of another cluster, so the groups do not follow their topics to the next cluster.
    """
    alias = "|".join(map(re.escape, clusters))
    return f"mirror-(?:{alias})-(?:{alias})(?:-[a-z]+)?"


def _filter(kind: str, values: Mapping[str, str], *, also_excluded: str = "") -> NameFilter:
    excluded = values[f"{kind}.blacklist"] or values[f"{kind}.exclude"]
    try:
        return NameFilter(values[kind], ",".join(names for names in (excluded, also_excluded) if names))
    except re.error as error:
        raise MirrorError(f"{kind} is a list of names and patterns, but one is no pattern: {error}.") from None


def _flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise MirrorError(f"{name} = {value} must be true or false.")
    return value.strip().lower() == "true"


def _word(name: str, value: str, allowed: list[str]) -> str:
    if value not in allowed:
        raise MirrorError(f"{name} = {value} must be one of {', '.join(allowed)}.")
    return value


def _number(name: str, values: Mapping[str, str], *, at_least: int) -> int:
    try:
        number = int(values[name])
    except ValueError:
        raise MirrorError(f"{name} = {values[name]} must be a number.") from None
    if number < at_least:
        raise MirrorError(f"{name} = {number} must be {at_least} or more.")
    return number


def _interval(kind: str, values: Mapping[str, str]) -> float:
    if not _flag(f"{kind}.enabled", values[f"{kind}.enabled"]):
        return 0.0
    return float(max(1, _number(f"{kind}.interval.seconds", values, at_least=-1)))
