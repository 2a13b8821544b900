"""`ottla produce`: produces records from lines, JSON objects or files."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TextIO

import click

from ottla.cli.commands.produce_records import Common, Writer, records_of_files, records_of_lines
from ottla.cli.logic.client_properties import producer_settings
from ottla.cli.logic.line_reader import line_format, parse_line
from ottla.cli.logic.record_encryption import encryption, take_settings
from ottla.cli.logic.record_formats import FORMATS, encoding
from ottla.cli.logic.record_json import parse_record
from ottla.cli.logic.words import parse_key_values
from ottla.cli.names import TOPIC
from ottla.cli.session import Session, cluster_options_with, is_explicit, read_properties, registry_option, run_async
from ottla.client.settings import parse_bootstrap

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


@click.command(
    help="Write the lines of standard input to a topic, or each of several files as one record "
    "(kafka-console-producer)."
)
@click.argument("words", nargs=-1, type=TOPIC, metavar="[TOPIC] [FILE]...")
@click.option("-t", "--topic", type=TOPIC, metavar="TOPIC", help="The topic.")
@click.option(
    "-i",
    "--input",
    "kind",
    type=click.Choice(["lines", "json"]),
    help="What standard input has in each line: a value, or a JSON object with key, value, headers, timestamp and "
    "partition, as 'ottla consume --json' prints it.  [default: lines]",
)
@click.option("--key", metavar="TEXT", help="The key of all records that have none.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of all records; may be repeated."
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="At most so many records a second.")
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
@click.option("--key-format", type=click.Choice(FORMATS), metavar="FORMAT", help="As --value-format, for keys.")
@click.option(
    "--value-format",
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    help=f"How values, which are read as JSON or text, are written. {', '.join(FORMATS)}.",
)
@click.option(
    "--key-schema",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="The schema of keys.  [default: the latest version in the registry]",
)
@click.option(
    "--value-schema",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="The schema of values.  [default: the latest version in the registry]",
)
@registry_option
@click.option("--reader-property", "--property", "reader", multiple=True, metavar="K=V", help="parse.key=true, ...")
@click.option(
    "--command-property", "--producer-property", "extra", multiple=True, metavar="K=V", help="A property of the client."
)
@click.option(
    "--reader-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The reader's properties, in a file.",
)
@click.option("--broker-list", "brokers", hidden=True)
@cluster_options_with(timeout="--call-timeout")
def produce(
    session: Session,
    words: tuple[str, ...],
    topic: str | None,
    kind: str | None,
    key: str | None,
    headers: tuple[str, ...],
    rate: float | None,
    sync: bool,
    partition: int | None,
    key_separator: str | None,
    reader: tuple[str, ...],
    reader_config: str | None,
    extra: tuple[str, ...],
    brokers: str | None,
    key_format: str | None,
    value_format: str | None,
    key_schema: TextIO | None,
    value_schema: TextIO | None,
    registry: str | None,
    **flags: object,
) -> int:
    if not words and topic is None:
        raise click.UsageError("Name a topic, as an argument or with --topic.")
    chosen, files = (words[0], words[1:]) if topic is None else (topic, words)
    properties = {} if reader_config is None else read_properties(reader_config)
    properties |= parse_key_values(reader, option="--reader-property", literal=True)
    if key_separator is not None:
        properties |= {"parse.key": "true", "key.separator": key_separator}
    if brokers is not None:
        session.settings = replace(session.settings, bootstrap_servers=parse_bootstrap(brokers, option="--broker-list"))
        session.is_told_where = True
    session.take(parse_key_values(extra, option="--command-property"))
    client_properties = _properties(session, flags, sync=sync)
    encrypt = encryption(take_settings(client_properties))
    settings = producer_settings(client_properties)
    how = line_format(properties)
    if files and (kind is not None or properties):
        raise click.UsageError("A file is one record: --input and the properties of lines are about standard input.")
    if kind == "json" and properties:
        raise click.UsageError("--input json and the properties of lines exclude each other.")
    common = _common(key, headers, partition)
    if files:
        records = records_of_files(files)
    elif kind == "json":
        records = records_of_lines(parse_record)
    else:
        records = records_of_lines(functools.partial(parse_line, how=how))
    convert = encoding(
        key_format,
        value_format,
        registry,
        key_schema=None if key_schema is None else key_schema.read(),
        value_schema=None if value_schema is None else value_schema.read(),
    )
    writer = Writer(session.output, chosen, common, sync=sync, rate=rate, encrypt=encrypt, convert=convert)
    return run_async(writer.run(session.settings, settings, records, prompts=not files and sys.stdin.isatty()))


def _common(key: str | None, headers: tuple[str, ...], partition: int | None) -> Common:
    pairs = parse_key_values(headers, option="--header", literal=True).items()
    return Common(
        key=None if key is None else key.encode(),
        headers=[(name, value.encode()) for name, value in pairs],
        partition=partition,
    )


def _properties(session: Session, flags: Mapping[str, object], *, sync: bool) -> dict[str, str]:
    """A given flag takes precedence over a property, and a property over the default of a flag."""
    values = {name: str(value) for name, value in flags.items() if value is not None}
    defaults = {_PROPERTIES[name]: value for name, value in values.items() if not is_explicit(name)}
    explicit = {_PROPERTIES[name]: value for name, value in values.items() if is_explicit(name)}
    session.take({name: value for name, value in explicit.items() if name in _OF_CONNECTION})
    whole = {"compression.type": "none", **defaults, **session.properties, **explicit}
    return whole | {"linger.ms": "0"} if sync else whole
