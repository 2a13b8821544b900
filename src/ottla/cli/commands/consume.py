"""`ottla consume`: prints records of topics until told to stop."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from typing import NamedTuple

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.client_properties import consumer_settings
from ottla.cli.logic.formatters import Formatter, make_formatter
from ottla.cli.logic.offset_times import parse_time
from ottla.cli.logic.words import parse_key_values
from ottla.cli.names import GROUP, TOPIC
from ottla.cli.session import Session, cluster_options, read_properties, run_async
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords

__all__ = ["consume"]


class _Where(NamedTuple):
    topics: tuple[str, ...]
    pattern: str | None
    partition: int | None
    offset: str | None


@click.command(help="Read records of topics (kafka-console-consumer).")
@click.argument("names", nargs=-1, type=TOPIC, metavar="[TOPIC]...")
@click.option("-t", "--topic", "more", multiple=True, type=TOPIC, metavar="TOPIC", help="A topic; may be repeated.")
@click.option("--include", "--whitelist", "include", metavar="REGEX", help="Topics by a regular expression.")
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="Only this partition, without a group.")
@click.option("-o", "--offset", metavar="N", help="Where to begin in it: a number, earliest or latest.")
@click.option("-F", "--from-beginning", is_flag=True, help="From the first record, without a committed offset.")
@click.option("-n", "--max-messages", type=click.IntRange(1), metavar="N", help="Stop after so many.")
@click.option(
    "--timeout-ms", "idle_ms", type=click.IntRange(1), metavar="MS", help="Stop after this time without a record."
)
@click.option("-g", "--group", type=GROUP, metavar="GROUP", help="The group.  [default: a new one]")
@click.option(
    "--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), help="About transactions."
)
@click.option("--skip-message-on-error", is_flag=True, help="Continue after a record that cannot be read.")
@click.option(
    "-f", "--formatter", default="default", metavar="NAME", help="default, json, logging, checksum, noop, ..."
)
@click.option(
    "--formatter-property", "--property", "printing", multiple=True, metavar="K=V", help="print.key=true, ..."
)
@click.option("-k", "--keys", is_flag=True, help="Print keys, too.")
@click.option("-v", "--verbose", is_flag=True, help="Print time, partition, offset, headers and key.")
@click.option("--command-property", "--consumer-property", "extra", multiple=True, metavar="K=V", help="A client's.")
@click.option(
    "--formatter-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The formatter's, in a file.",
)
@click.option("--enable-systest-events", is_flag=True, hidden=True, expose_value=False)
@cluster_options
def consume(
    session: Session,
    names: tuple[str, ...],
    more: tuple[str, ...],
    include: str | None,
    partition: int | None,
    offset: str | None,
    from_beginning: bool,
    max_messages: int | None,
    idle_ms: int | None,
    group: str | None,
    isolation_level: str | None,
    skip_message_on_error: bool,
    formatter: str,
    printing: tuple[str, ...],
    keys: bool,
    verbose: bool,
    extra: tuple[str, ...],
    formatter_config: str | None,
) -> int:
    where = _where(names + more, include, partition, offset)
    if offset is not None and from_beginning:
        raise click.UsageError("--offset and --from-beginning exclude each other.")
    properties = {} if formatter_config is None else read_properties(formatter_config)
    properties |= parse_key_values(printing, option="--formatter-property", literal=True)
    if keys or verbose:
        properties["print.key"] = "true"
    if verbose:
        properties |= {f"print.{what}": "true" for what in ("timestamp", "partition", "offset", "headers")}
    write = make_formatter("json" if session.output.as_json else formatter, properties)
    given = dict(session.take(parse_key_values(extra, option="--command-property")))
    if isolation_level is not None:
        given["isolation.level"] = isolation_level
    if from_beginning:
        given["auto.offset.reset"] = "earliest"
    if where.partition is not None:
        given.pop("group.id", None)
    else:
        fresh = f"console-consumer-{random.randrange(100_000)}"
        given["group.id"] = group or given.get("group.id", fresh)
        if given["group.id"] == fresh:
            given.setdefault("enable.auto.commit", "false")
    given["max.poll.records"] = str(max_messages if max_messages is not None and max_messages < 500 else 500)
    settings = consumer_settings(given)
    return run_async(
        _consume(session, where, settings, write, limit=max_messages, idle_ms=idle_ms, skip=skip_message_on_error)
    )


async def _consume(
    session: Session,
    where: _Where,
    settings: ConsumerSettings,
    write: Formatter,
    *,
    limit: int | None,
    idle_ms: int | None,
    skip: bool,
) -> int:
    count = 0
    out = sys.stdout.buffer
    task = asyncio.current_task()
    assert task is not None
    # A signal ends the command in order: the consumer leaves its group, so that the session need not expire.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Consumer(session.settings, settings) as consumer:
        try:
            await _begin(consumer, where)
            while limit is None or count < limit:
                try:
                    left = None if limit is None else limit - count
                    records = await consumer.poll(idle_ms or 1_000, max_records=min(left or 500, 500))
                except CorruptRecords as error:
                    if not skip:
                        raise Failure(f"{error}. --skip-message-on-error continues behind it.") from None
                    continue
                if not records and idle_ms is not None:
                    break
                out.write(_written(records, write, skip=skip))
                out.flush()
                count += len(records)
        except asyncio.CancelledError:
            # Ctrl-C: records read so far are committed and counted.
            pass
    print(f"Processed a total of {count} messages", file=sys.stderr)
    return 0


def _written(records: list[ConsumedRecord], write: Formatter, *, skip: bool) -> bytes:
    """The printed records; a record that cannot be deserialized is skipped or ends the command."""
    lines = []
    for record in records:
        try:
            lines.append(write(record))
        except ValueError as error:
            where = f"{record.topic}-{record.partition} at {record.offset}"
            if not skip:
                raise Failure(f"{where}: {error}. --skip-message-on-error skips it.") from None
            print(f"ottla: {where} skipped: {error}.", file=sys.stderr)
    return b"".join(lines)


async def _begin(consumer: Consumer, where: _Where) -> None:
    if where.partition is None:
        await consumer.subscribe(where.topics, pattern=where.pattern)
        for topic in where.topics:
            if not await consumer.knows(topic):
                print(
                    f"ottla: There is no topic {topic!r} yet; waiting for it. Ctrl-C ends the command.", file=sys.stderr
                )
        return
    partition = TopicPartition(where.topics[0], where.partition)
    if partition not in await consumer.partitions(partition.topic):
        raise Failure(
            f"There is no partition {partition}. 'ottla topics describe {partition.topic}' shows all partitions."
        )
    await consumer.assign([partition])
    text = where.offset or ("earliest" if consumer.settings.auto_offset_reset == "earliest" else "latest")
    if text.isdecimal():
        consumer.seek(partition, int(text))
    else:
        await consumer.seek_to(EARLIEST if text == "earliest" else LATEST, partition)


def _where(topics: tuple[str, ...], include: str | None, partition: int | None, offset: str | None) -> _Where:
    if bool(topics) == bool(include):
        raise click.UsageError("Name a topic, as an argument or with --topic, or several with --include.")
    if (partition is not None or offset is not None) and len(topics) != 1:
        raise click.UsageError("--partition and --offset are about one topic.")
    if offset is not None and partition is None:
        raise click.UsageError("--offset is about one partition; say which with --partition.")
    if offset is not None and not offset.isdecimal() and parse_time(offset) not in (EARLIEST, LATEST):
        raise click.UsageError(f"--offset {offset!r} must be a number, earliest or latest.")
    return _Where(topics, include, partition, offset)
