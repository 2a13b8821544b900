"""`ottla produce`: produces a record per line of standard input."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace

import click

from ottla.cli.failures import Failure, sentence_of
from ottla.cli.logic.client_properties import producer_settings
from ottla.cli.logic.line_reader import LineFormat, line_format, parse_line
from ottla.cli.logic.words import parse_key_values
from ottla.cli.names import TOPIC
from ottla.cli.session import Session, cluster_options_with, is_explicit, read_properties, run_async
from ottla.cli.standard_input import lines_of
from ottla.client.errors import ClientError
from ottla.client.producer import Delivery, Producer, ProducerSettings
from ottla.client.settings import parse_bootstrap
from ottla.model.errors import KafkaError

__all__ = ["produce"]

# Flag -> property of the producer.
_PROPERTIES = {
    "acks": "acks",
    "batch_size": "batch.size",
    "compression_codec": "compression.type",
    "linger_ms": "linger.ms",
    "max_block_ms": "max.block.ms",
    "max_memory_bytes": "buffer.memory",
    "max_partition_memory_bytes": "batch.size",
    "message_send_max_retries": "retries",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "request_timeout_ms": "request.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
}
_OF_CONNECTION = ("max.block.ms", "metadata.max.age.ms", "retry.backoff.ms")

# Deliveries are checked in groups of this size; a failure is reported when its group is complete.
DELIVERIES_MAX = 10_000


@click.command(help="Write the lines of standard input to a topic (kafka-console-producer).")
@click.argument("name", required=False, type=TOPIC, metavar="[TOPIC]")
@click.option("-t", "--topic", type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option("--sync", is_flag=True, help="Wait for each record before the next.")
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="Only to this partition.")
@click.option("-k", "--key-separator", metavar="TEXT", help="Lines are key, TEXT, value.")
@click.option(
    "-z",
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    metavar="[CODEC]",
    help="gzip, snappy, lz4, zstd, none.",
)
@click.option("-a", "--request-required-acks", "--acks", "acks", default="-1", metavar="0|1|all", help="[default: all]")
@click.option("--batch-size", type=click.IntRange(1), default=16_384, metavar="BYTES", help="[default: 16384]")
@click.option("--max-partition-memory-bytes", type=click.IntRange(1), hidden=True)
@click.option(
    "--linger-ms",
    "--timeout",
    "linger_ms",
    type=click.IntRange(0),
    default=1000,
    metavar="MS",
    help="How long a record may wait for its batch to fill.  [default: 1000]",
)
@click.option("--request-timeout-ms", type=click.IntRange(1), default=1500, metavar="MS", help="[default: 1500]")
@click.option("--message-send-max-retries", type=click.IntRange(0), default=3, metavar="N", help="[default: 3]")
@click.option("--retry-backoff-ms", type=click.IntRange(0), hidden=True)
@click.option("--max-block-ms", type=click.IntRange(1), hidden=True)
@click.option("--max-memory-bytes", type=click.IntRange(1), hidden=True)
@click.option("--metadata-expiry-ms", type=click.IntRange(1), hidden=True)
@click.option("--socket-buffer-size", type=int, hidden=True, expose_value=False)
@click.option("--reader-property", "--property", "reader", multiple=True, metavar="K=V", help="parse.key=true, ...")
@click.option("--command-property", "--producer-property", "extra", multiple=True, metavar="K=V", help="A client's.")
@click.option("--reader-config", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Those in a file.")
@click.option("--broker-list", "brokers", hidden=True)
@cluster_options_with(timeout="--call-timeout")
def produce(
    session: Session,
    name: str | None,
    topic: str | None,
    sync: bool,
    partition: int | None,
    key_separator: str | None,
    reader: tuple[str, ...],
    reader_config: str | None,
    extra: tuple[str, ...],
    brokers: str | None,
    **flags: object,
) -> int:
    chosen = topic or name
    if chosen is None:
        raise click.UsageError("Name a topic, as an argument or with --topic.")
    properties = {} if reader_config is None else read_properties(reader_config)
    properties |= parse_key_values(reader, option="--reader-property", literal=True)
    if key_separator is not None:
        properties |= {"parse.key": "true", "key.separator": key_separator}
    if brokers is not None:
        session.settings = replace(session.settings, bootstrap_servers=parse_bootstrap(brokers, option="--broker-list"))
        session.is_told_where = True
    session.take(parse_key_values(extra, option="--command-property"))
    settings = producer_settings(_properties(session, flags, sync=sync))
    how = line_format(properties)
    return run_async(_produce(session, chosen, how, settings, sync=sync, partition=partition))


def _properties(session: Session, flags: Mapping[str, object], *, sync: bool) -> dict[str, str]:
    """A given flag takes precedence over a property, and a property over the default of a flag."""
    given = {name: str(value) for name, value in flags.items() if value is not None}
    defaults = {_PROPERTIES[name]: value for name, value in given.items() if not is_explicit(name)}
    explicit = {_PROPERTIES[name]: value for name, value in given.items() if is_explicit(name)}
    session.take({name: value for name, value in explicit.items() if name in _OF_CONNECTION})
    whole = {"compression.type": "none", **defaults, **session.properties, **explicit}
    return whole | {"linger.ms": "0"} if sync else whole


async def _produce(
    session: Session, topic: str, how: LineFormat, settings: ProducerSettings, *, sync: bool, partition: int | None
) -> int:
    interactive = sys.stdin.isatty()
    count = 0
    failed = 0
    async with Producer(session.settings, settings) as producer:
        await producer.partitions(topic)
        waiting: list[Delivery] = []
        _prompt(interactive)
        async for lines in lines_of(sys.stdin):
            for line in lines:
                count += 1
                record = parse_line(line, how, number=count)
                waiting.append(
                    await producer.send(topic, record.value, record.key, headers=record.headers, partition=partition)
                )
                if sync or len(waiting) >= DELIVERIES_MAX:
                    await producer.flush()
                    failed += _failures(waiting)
                    waiting = []
                elif not count % 100:
                    # Let the sender run even if input never pauses.
                    await asyncio.sleep(0)
                _prompt(interactive)
            # Report failures before the next line arrives, which may take long.
            failed += _failures([delivery for delivery in waiting if delivery.done])
            waiting = [delivery for delivery in waiting if not delivery.done]
        await producer.flush()
        failed += _failures(waiting)
    session.output.emit({"topic": topic, "sent": count - failed, "failed": failed})
    return 1 if failed else 0


def _prompt(interactive: bool) -> None:
    if interactive:
        print(">", end="", flush=True)


def _failures(deliveries: list[Delivery]) -> int:
    failed = 0
    said = set()
    for delivery in deliveries:
        try:
            delivery.result()
        except (KafkaError, ClientError) as error:
            failed += 1
            said.add(sentence_of(error))
        except asyncio.InvalidStateError:
            raise Failure("A record is still pending after a flush.") from None
    for sentence in sorted(said):
        print(f"ottla: {sentence}", file=sys.stderr)
    return failed
