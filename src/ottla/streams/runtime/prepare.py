"""Before workers start: finds the topics of users, creates those of the application, removes members that are gone."""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.cluster import Cluster
from ottla.model.errors import ErrorCode, KafkaError
from ottla.streams.errors import StreamsError, TopologyError
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.plan import PlannedTopic, TaskPlan, plan_tasks
from ottla.streams.runtime.upgrade import find_change
from ottla.streams.topology.topology import SourceNode, Topology

__all__ = ["Prepared", "prepare", "remove_surplus_members"]

_log = logging.getLogger(__name__)


class Prepared(NamedTuple):
    topology: Topology
    plan: TaskPlan
    cluster_id: str
    # The ids of the application's topics: state on disk belongs to a topic, not to a name.
    topic_ids: dict[str, str]


async def prepare(topology: Topology, config: ApplicationConfig, cluster: Cluster | None = None) -> Prepared:
    """`cluster` is a connection of the caller; without one there is a connection for this call."""
    async with AdminClient(config.client if cluster is None else cluster) as admin:
        topics = await admin.topics.all()
        partitions = {name: len(info.partitions) for name, info in topics.items() if info.partitions}
        _resolve_patterns(topology, set(partitions))
        plan = plan_tasks(
            topology,
            config.tasks,
            partitions,
            topic_configs=config.topic_configs,
            additional_retention_ms=config.additional_retention_ms,
        )
        await _check_change(admin, plan, config, partitions)
        await _create_topics(admin, plan, config, partitions)
        return Prepared(topology, plan, (await admin.cluster.describe()).cluster_id, await _topic_ids(admin, plan))


async def _check_change(
    admin: AdminClient, plan: TaskPlan, config: ApplicationConfig, existing: dict[str, int]
) -> None:
    """Raises StreamsError if stores would start empty because the topology has changed."""
    application_id = config.application_id
    groups = [group.group_id for group in await admin.groups.find()]
    other_ids = [group_id for group_id in groups if group_id != application_id]
    change = find_change(application_id, [topic.name for topic in plan.topics], existing, other_ids)
    if change.loses_state and not config.accepts_change:
        raise StreamsError(change.explain())
    if change.unused:
        _log.warning("%s", change.explain())


async def _topic_ids(admin: AdminClient, plan: TaskPlan) -> dict[str, str]:
    names = sorted({topic for task in plan.tasks for topic in task.changelogs.values()} | set(plan.global_topics))
    descriptions = await admin.topics.describe(names) if names else {}
    return {name: str(topic.topic_id) for name, topic in descriptions.items() if not isinstance(topic, KafkaError)}


def _resolve_patterns(topology: Topology, names: set[str]) -> None:
    """A pattern reads the topics that exist when the application starts."""
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and node.pattern is not None:
            node.topics = tuple(sorted(name for name in names if node.pattern.fullmatch(name)))
            if not node.topics:
                raise TopologyError(f"No topic matches the pattern {node.pattern.pattern} of source {node.name}.")


async def remove_surplus_members(config: ApplicationConfig, process_id: str) -> None:
    """Removes members of an earlier, crashed run that had more workers: their tasks need not wait for time-outs."""
    name = config.instance_name or process_id
    async with AdminClient(config.client) as admin:
        group = (await admin.groups.describe([config.application_id]))[config.application_id]
        if isinstance(group, KafkaError):
            return
        own_ids = {f"{name}-{number}" for number in range(config.workers)}
        known = {member.instance_id for member in group.members if member.instance_id}
        # Behind the name there is a number; the name of another instance may begin with this one.
        surplus = [
            instance_id
            for instance_id in known
            if instance_id.startswith(f"{name}-")
            and instance_id[len(name) + 1 :].isdigit()
            and instance_id not in own_ids
        ]
        if surplus:
            await admin.groups.remove_members(
                config.application_id, surplus, reason="the worker does not exist any more"
            )


async def _create_topics(
    admin: AdminClient, plan: TaskPlan, config: ApplicationConfig, existing: dict[str, int]
) -> None:
    for topic in plan.topics:
        if topic.name in existing and existing[topic.name] != topic.partitions:
            raise StreamsError(
                f"Topic {topic.name} has {existing[topic.name]} partitions, but the application needs "
                f"{topic.partitions}; reset the application with: ottla streams reset"
            )
    wanted = [topic for topic in plan.topics if topic.name not in existing]
    if not wanted:
        return
    answers = await admin.topics.create([_new_topic(topic, config) for topic in wanted])
    for name, answer in answers.items():
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise StreamsError(f"Topic {name} could not be created: {answer.message}")


def _new_topic(topic: PlannedTopic, config: ApplicationConfig) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=config.replication_factor,
        configs=topic.configs,
    )
