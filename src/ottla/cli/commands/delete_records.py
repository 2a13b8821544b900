"""`ottla delete-records`: deletes the records before an offset."""

from __future__ import annotations

import click

from ottla.cli.logic.delete_plan import parse_plan, parse_words
from ottla.cli.names import TOPIC
from ottla.cli.output import counted
from ottla.cli.session import Session, cluster_options, confirm, parsed_file, yes_option
from ottla.client.admin import AdminClient
from ottla.model.errors import KafkaError

__all__ = ["delete_records"]


@click.command(help="Delete records before an offset, -1 for all of them (kafka-delete-records).")
@click.argument("words", nargs=-1, type=TOPIC, metavar="[TOPIC:PARTITION:OFFSET]...")
@click.option(
    "--offset-json-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Kafka's format."
)
@yes_option
@cluster_options
def delete_records(session: Session, words: tuple[str, ...], offset_json_file: str | None, yes: bool) -> int:
    before = parse_words(words)
    if offset_json_file is not None:
        before.update(parsed_file(offset_json_file, parse_plan))
    if not before:
        raise click.UsageError(
            "Nothing to delete is given: name topic:partition:offset, or a file with --offset-json-file."
        )

    async def work(admin: AdminClient) -> None:
        confirm(f"Delete records of {counted(len(before), 'partition')} for good?", yes=yes)
        rows = []
        for partition, answer in sorted((await admin.offsets.delete_records(before)).items()):
            if isinstance(answer, KafkaError):
                session.output.complain(str(partition), answer)
            else:
                rows.append((partition.topic, partition.partition, answer))
        session.output.table(("TOPIC", "PARTITION", "FIRST OFFSET"), rows, right=(1, 2))
        session.output.emit([{"topic": row[0], "partition": row[1], "lowWatermark": row[2]} for row in rows])

    return session.run(work)
