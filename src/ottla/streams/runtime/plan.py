"""What an application needs in its cluster, as a plain value: tasks, repartition topics and changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ottla.streams.errors import TopologyError
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.state.specification import StoreKind, StoreSpecification
from ottla.streams.topology.topology import ProcessorNode, SinkNode, SourceNode, Topology

__all__ = ["PlannedTask", "PlannedTopic", "TaskPlan", "plan_tasks", "versioned_changelogs"]

_DAY_MS = 24 * 60 * 60 * 1000
# Kafka Streams' settings of internal topics.
_REPARTITION_CONFIG = {
    "cleanup.policy": "delete",
    "segment.bytes": "52428800",
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """One partition of a sub-topology."""

    group: int
    partition: int
    names: tuple[str, ...]
    # Topics with this partition.
    topics: tuple[str, ...]
    # Store -> changelog topic.
    changelogs: Mapping[str, str] = field(default_factory=dict)

    @property
    def task_id(self) -> str:
        return f"{self.group}_{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    name: str
    partitions: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    tasks: tuple[PlannedTask, ...]
    topics: tuple[PlannedTopic, ...]
    repartition_topics: frozenset[str]
    global_topics: tuple[str, ...]
    global_names: tuple[str, ...]
    # The partition counts of all topics when the application starts, for partitioners.
    partitions: Mapping[str, int]


def plan_tasks(
    topology: Topology,
    settings: TaskSettings,
    partitions: Mapping[str, int],
    *,
    topic_configs: Mapping[str, str] = MappingProxyType({}),
    additional_retention_ms: int = _DAY_MS,
) -> TaskPlan:
    """`partitions` are those of the topics that users made. Raises TopologyError for missing or unequal topics."""
    missing = [topic for topic in topology.source_topics() if topic not in topology.internal_topics | partitions.keys()]
    if missing:
        raise TopologyError(f"There is no topic {missing[0]}; create it before the application starts.")
    topology.check(partitions)
    counts = _all_partitions(topology, partitions)
    tasks, topics, repartitions = [], {}, set()
    for group, names in topology.node_groups().items():
        if topology.is_global(names):
            continue
        sources = [node for name in names if isinstance(node := topology.nodes[name], SourceNode)]
        read = [topic for source in sources for topic in source.topics]
        number = max(counts[topic] for topic in read)
        changelogs = {}
        for store in _stores(topology, names):
            name = topology.store_source_topics.get(store.name)
            if name is None and store.is_logged:
                name = settings.changelog(store.name)
                configs = changelog_config(store, topic_configs, additional_retention_ms)
                topics[name] = PlannedTopic(name=name, partitions=number, configs=configs)
            if name is not None:
                changelogs[store.name] = name
        for topic in read:
            if topic in topology.internal_topics:
                full = settings.internal_topic(topic)
                repartitions.add(full)
                topics[full] = PlannedTopic(
                    name=full, partitions=counts[topic], configs={**_REPARTITION_CONFIG, **topic_configs}
                )
        for partition in range(number):
            inputs = tuple(
                settings.internal_topic(topic) if topic in topology.internal_topics else topic
                for topic in read
                if partition < counts[topic]
            )
            tasks.append(
                PlannedTask(
                    group=group, partition=partition, names=tuple(names), topics=inputs, changelogs=dict(changelogs)
                )
            )
    global_names = [name for names in topology.node_groups().values() if topology.is_global(names) for name in names]
    return TaskPlan(
        tasks=tuple(tasks),
        topics=tuple(topics.values()),
        repartition_topics=frozenset(repartitions),
        global_topics=tuple(topology.source_topics(global_names)),
        global_names=tuple(global_names),
        partitions={**partitions, **{name: topic.partitions for name, topic in topics.items()}},
    )


def changelog_config(
    store: StoreSpecification,
    topic_configs: Mapping[str, str] = MappingProxyType({}),
    additional_retention_ms: int = _DAY_MS,
) -> dict[str, str]:
    """Kafka Streams' settings of the changelog of a store; those of the user win."""
    config = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    if store.is_windowed:
        config["cleanup.policy"] = "compact,delete"
        config["retention.ms"] = str(store.retention_ms + additional_retention_ms)
    elif store.kind is StoreKind.VERSIONED:
        config["min.compaction.lag.ms"] = str(store.retention_ms + _DAY_MS)
    return {**config, **topic_configs, **store.log_config}


def versioned_changelogs(topology: Topology, settings: TaskSettings) -> list[str]:
    """Changelogs that need every change of a key, not only the last one of a commit."""
    return [settings.changelog(store.name) for store in topology.stores.values() if store.kind is StoreKind.VERSIONED]


def _stores(topology: Topology, names: list[str]) -> list[StoreSpecification]:
    specifications: dict[str, StoreSpecification] = {}
    for name in names:
        node = topology.nodes[name]
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            if store in topology.stores:
                specifications[store] = topology.stores[store]
    return list(specifications.values())


def _all_partitions(topology: Topology, partitions: Mapping[str, int]) -> dict[str, int]:
    """The numbers of partitions of all topics; repartition topics get that of the largest topic before them."""
    counts = dict(partitions)
    for internal in topology.internal_topics.values():
        if internal.partitions is not None:
            counts[internal.name] = internal.partitions
    waiting = [name for name in topology.internal_topics if name not in counts]
    while waiting:
        before = len(waiting)
        for name in list(waiting):
            upstream = _topics_before(topology, name)
            if all(topic in counts for topic in upstream):
                counts[name] = max((counts[topic] for topic in upstream), default=1)
                waiting.remove(name)
        if len(waiting) == before:
            # Topics that feed each other in a circle, as in foreign-key joins: the known topics before one decide.
            for name in list(waiting):
                known = [counts[topic] for topic in _topics_before(topology, name) if topic in counts]
                if known:
                    counts[name] = max(known)
                    waiting.remove(name)
            if len(waiting) == before:
                counts.update(dict.fromkeys(waiting, 1))
                break
    for group in topology.copartitioned:
        topics = topology.source_topics(name for name in group if name in topology.nodes)
        number = max((counts[topic] for topic in topics), default=1)
        for topic in topics:
            if topic not in topology.internal_topics:
                continue
            if not topology.internal_topics[topic].enforces_partitions:
                counts[topic] = number
            elif counts[topic] != number:
                raise TopologyError(
                    f"Repartition topic {topic} has {counts[topic]} partitions, but a topic that it is joined with has "
                    f"{number}; leave the number out, or use {number}."
                )
    return counts


def _topics_before(topology: Topology, topic: str) -> set[str]:
    """The source topics of the sub-topologies that write to a topic."""
    source_topics: set[str] = set()
    for names in topology.node_groups().values():
        sinks = [node for name in names if isinstance(node := topology.nodes[name], SinkNode)]
        if any(sink.topic == topic for sink in sinks):
            source_topics.update(topology.source_topics(names))
    source_topics.discard(topic)
    return source_topics
