"""`ottla verify-replicas`: reads all replicas of partitions and compares their batches."""

from __future__ import annotations

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.replica_compare import ReplicaReport, compare_partition
from ottla.cli.logic.words import matching
from ottla.cli.names import TOPIC
from ottla.cli.output import counted, json_fields
from ottla.cli.session import Session, cluster_options
from ottla.client.admin import AdminClient
from ottla.model.ids import TopicPartition

__all__ = ["verify_replicas"]


@click.command(help="Compare the replicas of partitions (kafka-replica-verification).")
@click.argument("names", nargs=-1, type=TOPIC, metavar="[TOPIC]...")
@click.option("--topics-include", "include", metavar="REGEX", help="Topics by a regular expression.")
@click.option("--fetch-size", type=click.IntRange(1), default=1024 * 1024, metavar="BYTES", help="[default: 1048576]")
@click.option("--max-wait-ms", type=int, hidden=True, expose_value=False)
@click.option("--report-interval-ms", type=int, hidden=True, expose_value=False)
@click.option("--time", hidden=True, expose_value=False)
@cluster_options
def verify_replicas(session: Session, names: tuple[str, ...], include: str | None, fetch_size: int) -> int:
    async def work(admin: AdminClient) -> None:
        known = await admin.topics.all()
        chosen = matching(known, [*names, *([include] if include else [])])
        partitions = [TopicPartition(name, number) for name in chosen for number in known[name].partitions]
        if not partitions:
            raise Failure("No partition matches. 'ottla topics list' shows all topics.")
        reports: list[ReplicaReport] = []
        with session.output.progress("comparing", len(partitions)) as advance:
            for partition in partitions:
                replicas = known[partition.topic].partitions[partition.partition].replicas
                reports.append(await compare_partition(admin.connections, partition, replicas, fetch_size=fetch_size))
                advance(1)
        wrong = [report for report in reports if report.difference is not None]
        session.output.table(
            ("PARTITION", "REPLICAS", "COMPARED", "MAX LAG", "RESULT"),
            [
                (
                    str(report.partition),
                    report.replicas,
                    report.compared,
                    report.max_lag,
                    report.difference or "same",
                )
                for report in reports
                if report.difference is not None or len(reports) <= 50
            ],
            right=(2, 3),
            fold=(0, 4),
        )
        session.output.say(f"{counted(len(reports), 'partition')} compared, {len(wrong)} differ.")
        session.output.emit([{**json_fields(report), "partition": str(report.partition)} for report in reports])
        session.output.failed |= bool(wrong)

    return session.run(work)
