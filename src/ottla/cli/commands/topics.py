"""`ottla topics`: create, list, describe, alter, delete."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.topic_filters import Filters, wanted_partitions
from ottla.cli.logic.words import matching, parse_assignments, parse_key_values, topic_pattern
from ottla.cli.names import TOPIC
from ottla.cli.output import Output, counted, numbers
from ottla.cli.session import Session, cluster_options, confirm, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource, ResourceType
from ottla.client.admin.partitions import OngoingReassignment
from ottla.client.admin.topics import DescribedTopic, NewTopic
from ottla.client.errors import RequestUnsupported
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid

__all__ = ["topics"]


@click.group(cls=VerbGroup, help="Create, list, describe, alter and delete topics (kafka-topics).")
def topics() -> None:
    """The verbs are below."""


def topic_names(function: Any) -> Any:
    """Names as arguments, or with --topic."""
    function = click.argument("names", nargs=-1, type=TOPIC, metavar="[TOPIC]...")(function)
    return click.option(
        "--topic", "-t", "more", multiple=True, type=TOPIC, metavar="TOPIC", help="A topic; may be repeated."
    )(function)


@topics.command("list", help="List topics; names are regular expressions.")
@topic_names
@click.option("--exclude-internal", is_flag=True, help="Leave out internal topics.")
@cluster_options
def list_topics(session: Session, names: tuple[str, ...], more: tuple[str, ...], exclude_internal: bool) -> int:
    async def work(admin: AdminClient) -> None:
        matches = matching(await admin.topics.names(internal=not exclude_internal), names + more)
        session.output.emit(matches)
        for name in matches:
            session.output.say(name)
        if not matches:
            session.output.say_none("No topic matches." if names + more else "There are no topics.")

    return session.run(work)


@topics.command("create", help="Create topics.")
@topic_names
@click.option("-p", "--partitions", type=click.IntRange(1), metavar="N", help="How many.  [default: the cluster's]")
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="How many replicas.  [default: the cluster's]",
)
@click.option("--replica-assignment", metavar="1:2,2:3", help="Brokers of each partition, instead of numbers.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Accept topics that exist already.")
@cluster_options
def create(
    session: Session,
    names: tuple[str, ...],
    more: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> int:
    wanted = _needed(names + more)
    if replica_assignment and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment excludes --partitions and --replication-factor.")
    assignment = parse_assignments(replica_assignment) if replica_assignment else {}
    new = [
        NewTopic(
            name=name,
            partitions=partitions or -1,
            replication_factor=replication_factor or -1,
            assignment=assignment,
            configs=parse_key_values(configs, option="--config"),
        )
        for name in wanted
    ]

    async def work(admin: AdminClient) -> None:
        created = []
        for name, result in (await admin.topics.create(new)).items():
            if not isinstance(result, KafkaError):
                created.append({"topic": name, "topicId": str(result.topic_id), "partitions": result.partitions})
                session.output.say(f"Created topic {name}.")
            elif not (if_not_exists and result.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                session.output.complain(name, result)
        session.output.emit(created)

    return session.run(work)


@topics.command("delete", help="Delete topics; names are regular expressions.")
@topic_names
@click.option("--topic-id", metavar="ID", help="A topic by its id.")
@click.option("--if-exists", is_flag=True, help="Accept topics that do not exist.")
@yes_option
@cluster_options
def delete(
    session: Session, names: tuple[str, ...], more: tuple[str, ...], topic_id: str | None, if_exists: bool, yes: bool
) -> int:
    if not names + more and topic_id is None:
        raise click.UsageError("Name a topic to delete.")

    async def work(admin: AdminClient) -> None:
        existing = await _existing(admin, names + more, None, if_exists=if_exists) if names + more else []
        ids = [Uuid.parse(topic_id)] if topic_id else []
        shown = ", ".join([*existing, *map(str, ids)])
        if not shown:
            session.output.emit([])
            return
        confirm(f"Delete {shown} with all records?", yes=yes)
        deleted = []
        for name, error in (await admin.topics.delete(existing, topic_ids=ids)).items():
            if error is None:
                deleted.append(name)
                session.output.say(f"Deleted topic {name}.")
            else:
                session.output.complain(name, error)
        session.output.emit(deleted)

    return session.run(work)


@topics.command("alter", help="Add partitions; names are regular expressions.")
@topic_names
@click.option("-p", "--partitions", type=click.IntRange(1), required=True, metavar="N", help="How many there shall be.")
@click.option("--replica-assignment", metavar="1:2,2:3", help="Brokers of each partition, old and new.")
@click.option("--if-exists", is_flag=True, help="Accept topics that do not exist.")
@cluster_options
def alter(
    session: Session,
    names: tuple[str, ...],
    more: tuple[str, ...],
    partitions: int,
    replica_assignment: str | None,
    if_exists: bool,
) -> int:
    _needed(names + more)

    async def work(admin: AdminClient) -> None:
        existing = await _existing(admin, names + more, None, if_exists=if_exists)
        assignments = None
        if replica_assignment:
            replicas = parse_assignments(replica_assignment)
            described = await admin.topics.describe(existing)
            assignments = {
                name: [replicas[number] for number in sorted(replicas)][len(topic.partitions) :]
                for name, topic in described.items()
                if isinstance(topic, DescribedTopic)
            }
        altered = []
        for name, error in (
            await admin.topics.grow(dict.fromkeys(existing, partitions), assignments=assignments)
        ).items():
            if error is None:
                altered.append(name)
                session.output.say(f"{name} has {partitions} partitions now.")
            else:
                session.output.complain(name, error)
        session.output.emit(altered)

    return session.run(work)


@topics.command("describe", help="Show partitions, replicas and settings; names are regular expressions.")
@topic_names
@click.option("--topic-id", metavar="ID", help="A topic by its id.")
@click.option("--exclude-internal", is_flag=True, help="Leave out internal topics.")
@click.option("--topics-with-overrides", is_flag=True, help="Only topics with overridden settings, and those settings.")
@click.option("--under-replicated-partitions", is_flag=True, help="Only with replicas out of sync.")
@click.option("--unavailable-partitions", is_flag=True, help="Only without a leader.")
@click.option("--under-min-isr-partitions", is_flag=True, help="Only with too few replicas in sync.")
@click.option("--at-min-isr-partitions", is_flag=True, help="Only with just enough replicas in sync.")
@click.option("--if-exists", is_flag=True, help="Accept topics that do not exist.")
@click.option("--partition-size-limit-per-response", type=int, hidden=True)
@cluster_options
def describe(
    session: Session,
    names: tuple[str, ...],
    more: tuple[str, ...],
    topic_id: str | None,
    exclude_internal: bool,
    if_exists: bool,
    partition_size_limit_per_response: int | None,  # noqa: ARG001
    **filters: bool,
) -> int:
    chosen = Filters(**filters)

    async def work(admin: AdminClient) -> None:
        existing = await _existing(admin, names + more, topic_id, if_exists=if_exists, internal=not exclude_internal)
        described = [
            topic for topic in (await admin.topics.describe(existing)).values() if isinstance(topic, DescribedTopic)
        ]
        settings = await admin.configs.describe([ConfigResource(ResourceType.TOPIC, topic.name) for topic in described])
        live = set(admin.connections.metadata.brokers)
        moving = await _moving(admin) if chosen.under_replicated_partitions else {}
        answers = []
        for topic in described:
            entries = settings[ConfigResource(ResourceType.TOPIC, topic.name)]
            listed = entries if isinstance(entries, list) else []
            overrides = [entry for entry in listed if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG]
            min_isr = next((int(entry.value or 1) for entry in listed if entry.name == "min.insync.replicas"), 1)
            partitions = wanted_partitions(topic, chosen, min_isr=min_isr, live=live, moving=moving)
            if chosen.topics_with_overrides and not overrides:
                continue
            if chosen.about_partitions and not partitions:
                continue
            answers.append(_as_json(topic, overrides, partitions))
            _print(session.output, topic, overrides, partitions, chosen)
        if not answers:
            session.output.say_none("No topic or partition is like that." if described else "There are no topics.")
        session.output.emit(answers)

    return session.run(work)


async def _moving(admin: AdminClient) -> dict[TopicPartition, OngoingReassignment]:
    """The reassignments in progress; none if the user or the cluster cannot list them, as in Kafka's tool."""
    try:
        return await admin.partitions.reassignments()
    except RequestUnsupported:
        return {}
    except KafkaError as error:
        if error.code not in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
            raise
        return {}


async def _existing(
    admin: AdminClient,
    patterns: tuple[str, ...],
    topic_id: str | None,
    *,
    if_exists: bool = False,
    internal: bool = True,
) -> list[str]:
    """The selected topics; a named topic that does not exist is an error."""
    known = await admin.topics.all()
    names = [name for name, info in known.items() if internal or not info.is_internal]
    if topic_id is not None:
        names = [name for name in names if known[name].topic_id == Uuid.parse(topic_id)]
        if not names and not if_exists:
            raise Failure(f"There is no topic with the id {topic_id}. 'ottla topics describe' shows ids.")
    matches = matching(names, patterns)
    for pattern in patterns:
        if not if_exists and not any(topic_pattern(pattern).fullmatch(name) for name in matches):
            raise Failure(f"There is no topic {pattern!r}. 'ottla topics list' shows all topics.")
    return matches


def _needed(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise click.UsageError("Name a topic, as an argument or with --topic.")
    return names


def _as_json(topic: DescribedTopic, overrides: list[ConfigEntry], partitions: list[Any]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topicId": str(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": len(topic.partitions[0].replicas) if topic.partitions else 0,
        "configs": {entry.name: entry.value for entry in overrides},
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader if partition.leader >= 0 else None,
                "leaderEpoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "elr": partition.eligible_leader_replicas,
                "lastKnownElr": partition.last_known_eligible_leader_replicas,
                "offline": partition.offline_replicas,
            }
            for partition in partitions
        ],
    }


def _print(
    output: Output, topic: DescribedTopic, overrides: list[ConfigEntry], partitions: list[Any], chosen: Filters
) -> None:
    if not chosen.about_partitions:
        factor = len(topic.partitions[0].replicas) if topic.partitions else 0
        output.say(topic.name)
        shape = f"{counted(len(topic.partitions), 'partition')}, {counted(factor, 'replica')} each"
        output.say(f"  id {topic.topic_id}, {shape}")
        for entry in overrides:
            output.say(f"  {entry.name}={entry.value}")
    else:
        output.say(topic.name)
    if chosen.topics_with_overrides:
        return
    rows = [
        (
            partition.partition,
            partition.leader if partition.leader >= 0 else "none",
            numbers(partition.replicas),
            numbers(partition.isr),
            numbers(partition.eligible_leader_replicas or ()),
            numbers(partition.last_known_eligible_leader_replicas or ()),
            numbers(partition.offline_replicas),
        )
        for partition in partitions
    ]
    output.table(
        ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "ELIGIBLE", "LAST ELIGIBLE", "OFFLINE"),
        rows,
        right=(0,),
        seldom=(4, 5, 6),
    )
    output.say()
