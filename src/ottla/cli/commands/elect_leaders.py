"""`ottla elect-leaders`: elects the preferred replicas, or replicas that are out of sync."""

from __future__ import annotations

import json

import click

from ottla.cli.logic.words import parse_partition
from ottla.cli.names import TOPIC
from ottla.cli.session import Session, cluster_options, confirm, parsed_file, yes_option
from ottla.client.admin import AdminClient
from ottla.client.admin.partitions import ElectionType
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition

__all__ = ["elect_leaders"]


@click.command(help="Elect leaders of partitions (kafka-leader-election).")
@click.argument("words", nargs=-1, type=TOPIC, metavar="[TOPIC:PARTITION]...")
@click.option(
    "--election-type",
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    default="preferred",
    show_default=True,
    help="Unclean takes a replica that may lack records.",
)
@click.option("-t", "--topic", type=TOPIC, metavar="TOPIC", help="A topic; needs --partition.")
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="A partition of it.")
@click.option(
    "--path-to-json-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Kafka's format."
)
@click.option("--all-topic-partitions", is_flag=True, help="Every partition that needs it.")
@yes_option
@cluster_options
def elect_leaders(
    session: Session,
    words: tuple[str, ...],
    election_type: str,
    topic: str | None,
    partition: int | None,
    path_to_json_file: str | None,
    all_topic_partitions: bool,
    yes: bool,
) -> int:
    election = ElectionType[election_type.upper()]
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition go together.")
    wanted = [parse_partition(word) for word in words]
    if topic is not None and partition is not None:
        wanted.append(TopicPartition(topic, partition))
    if path_to_json_file is not None:
        wanted += parsed_file(path_to_json_file, _read)
    if bool(wanted) == all_topic_partitions:
        raise click.UsageError("Name partitions, or add --all-topic-partitions.")

    async def work(admin: AdminClient) -> None:
        if election is ElectionType.UNCLEAN:
            confirm("An unclean election may lose records. Continue?", yes=yes)
        results = await admin.partitions.elect(election, None if all_topic_partitions else wanted)
        done, needless = [], []
        for topic_partition, error in sorted(results.items()):
            if error is None:
                done.append(str(topic_partition))
            elif error.code == ErrorCode.ELECTION_NOT_NEEDED:
                needless.append(str(topic_partition))
            else:
                session.output.complain(str(topic_partition), error)
        if done:
            session.output.say(f"Elected a leader of {', '.join(done)}.")
        if needless and not all_topic_partitions:
            session.output.say(f"Has the right leader already: {', '.join(needless)}.")
        if not done and not session.output.failed and (all_topic_partitions or not needless):
            session.output.say("Every partition has the right leader already.")
        session.output.emit({"elected": done, "notNeeded": needless})

    return session.run(work)


def _read(text: str) -> list[TopicPartition]:
    try:
        content = json.loads(text)
        return [TopicPartition(str(entry["topic"]), int(entry["partition"])) for entry in content["partitions"]]
    except (ValueError, KeyError, TypeError):
        raise ValueError('The file must look like {"partitions": [{"topic": "t", "partition": 0}]}.') from None
