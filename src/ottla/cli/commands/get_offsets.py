"""`ottla get-offsets`: offsets of partitions: first, last, of the largest timestamp, or of a given time."""

from __future__ import annotations

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.offset_times import parse_time
from ottla.cli.logic.partition_filter import parse_partition_filter
from ottla.cli.names import TOPIC
from ottla.cli.session import Session, cluster_options
from ottla.client.admin import AdminClient
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["get_offsets"]


@click.command(help="Show offsets of partitions, by position or by time (kafka-get-offsets).")
@click.argument("names", nargs=-1, type=TOPIC, metavar="[TOPIC]...")
@click.option("-t", "--topic", help="Topics, as a regular expression.")
@click.option("--partitions", metavar="0,1", help="Partitions of those topics.")
@click.option("--topic-partitions", metavar="T1:0-2,T2", help="Topics (patterns) with partitions or ranges.")
@click.option(
    "--time",
    "when",
    default="latest",
    show_default=True,
    metavar="TIME",
    help="latest, earliest, max-timestamp, earliest-local, latest-tiered, or milliseconds since 1970.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave out internal topics.")
@cluster_options
def get_offsets(
    session: Session,
    names: tuple[str, ...],
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    when: str,
    exclude_internal_topics: bool,
) -> int:
    time = parse_time(when)
    if topic_partitions and (topic or partitions or names):
        raise click.UsageError("--topic-partitions excludes --topic and --partitions.")
    wanted = parse_partition_filter(topic_partitions, "|".join([*names, *([topic] if topic else [])]), partitions)

    async def work(admin: AdminClient) -> None:
        selected = [
            TopicPartition(name, number)
            for name, info in sorted((await admin.topics.all()).items())
            if not (exclude_internal_topics and info.is_internal)
            for number in info.partitions
            if wanted(name, number)
        ]
        if not selected and (topic_partitions or topic or partitions or names):
            raise Failure("No partition matches. 'ottla topics list' shows all topics.")
        offsets = await admin.offsets.find(dict.fromkeys(selected, time))
        rows = []
        for selected_partition in selected:
            answer = offsets[selected_partition]
            if isinstance(answer, KafkaError):
                session.output.complain(str(selected_partition), answer)
            else:
                rows.append(
                    (
                        selected_partition.topic,
                        selected_partition.partition,
                        answer.offset if answer.offset >= 0 else None,
                    )
                )
        session.output.table(
            ("TOPIC", "PARTITION", "OFFSET"), rows, right=(1, 2), fold=(0,), none="There are no topics."
        )
        session.output.emit([{"topic": name, "partition": number, "offset": offset} for name, number, offset in rows])

    return session.run(work)
