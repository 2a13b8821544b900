"""`ottla consume`: prints records of topics until told to stop."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import click

from ottla.cli.commands.consume_records import Reading, consume_records
from ottla.cli.logic.client_properties import consumer_settings
from ottla.cli.logic.deserializers import deserializer
from ottla.cli.logic.format_string import format_string
from ottla.cli.logic.formatters import Formatter, make_formatter
from ottla.cli.logic.offset_times import parse_moment, parse_time
from ottla.cli.logic.record_encryption import Decrypt, decryption, take_settings
from ottla.cli.logic.record_filter import make_filter
from ottla.cli.logic.record_formats import FORMATS, Decode, decoding
from ottla.cli.logic.record_json import ENCODINGS
from ottla.cli.logic.words import parse_key_values
from ottla.cli.names import GROUP, TOPIC
from ottla.cli.session import Session, cluster_options, read_properties, registry_option, run_async
from ottla.client.admin.offsets import EARLIEST, LATEST

__all__ = ["consume"]


@click.command(help="Read records of topics (kafka-console-consumer).")
@click.argument("names", nargs=-1, type=TOPIC, metavar="[TOPIC]...")
@click.option("-t", "--topic", "more", multiple=True, type=TOPIC, metavar="TOPIC", help="A topic; may be repeated.")
@click.option("--include", "--whitelist", "include", metavar="REGEX", help="Topics by a regular expression.")
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="Only this partition, without a group.")
@click.option("-o", "--offset", metavar="N", help="Where to begin in it: a number, earliest or latest.")
@click.option("-F", "--from-beginning", is_flag=True, help="From the first record, without a committed offset.")
@click.option("--from", "from_", metavar="TIME", help="Begin there: 10m (ago), 2026-05-31T12:00, ms, earliest, latest.")
@click.option("--to", metavar="TIME", help="Stop before the first record of this time or later.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Begin with the last N records.")
@click.option("-e", "--exit", "until_end", is_flag=True, help="Stop at the end, as it is now.")
@click.option("-n", "--max-messages", type=click.IntRange(1), metavar="N", help="Stop after N records.")
@click.option(
    "--timeout-ms", "idle_ms", type=click.IntRange(1), metavar="MS", help="Stop after this time without a record."
)
@click.option("--wait", is_flag=True, help="Wait for a topic that does not exist.")
@click.option("--key", "only_keys", multiple=True, metavar="TEXT", help="Only records with this key; may be repeated.")
@click.option("--header", "only_headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="EXPRESSION",
    help="Only records for which it is true: key, value, json, headers, topic, partition, offset, timestamp.",
)
@click.option("-g", "--group", type=GROUP, metavar="GROUP", help="The group.  [default: a new one]")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether records of open and aborted transactions are printed.",
)
@click.option("--skip-message-on-error", is_flag=True, help="Continue after a record that cannot be read.")
@click.option(
    "-f", "--formatter", default="default", metavar="NAME", help="default, json, logging, checksum, noop, ..."
)
@click.option(
    "--format",
    "template",
    metavar="TEXT",
    help="kcat's tokens: %s value, %k key, %h headers, %t topic, %p partition, %o offset, %T ms, %D date, %S %K "
    r"lengths; \n, \t, \xHH.",
)
@click.option(
    "--encoding",
    type=click.Choice(ENCODINGS),
    default="text",
    help="How keys, values and headers are printed.  [default: text]",
)
@click.option("--key-format", type=click.Choice(FORMATS), metavar="FORMAT", help="As --value-format, for keys.")
@click.option(
    "--value-format",
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    help=f"How values are encoded; they are printed decoded. {', '.join(FORMATS)}.",
)
@registry_option
@click.option(
    "--formatter-property", "--property", "printing", multiple=True, metavar="K=V", help="print.key=true, ..."
)
@click.option("-k", "--keys", is_flag=True, help="Print keys, too.")
@click.option("-v", "--verbose", is_flag=True, help="Print time, topic, partition, offset, headers and key, too.")
@click.option(
    "--command-property", "--consumer-property", "extra", multiple=True, metavar="K=V", help="A property of the client."
)
@click.option(
    "--formatter-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The formatter's properties, in a file.",
)
@click.option("--enable-systest-events", is_flag=True, hidden=True, expose_value=False)
@cluster_options
def consume(
    session: Session,
    names: tuple[str, ...],
    more: tuple[str, ...],
    isolation_level: str | None,
    group: str | None,
    extra: tuple[str, ...],
    **options: Any,
) -> int:
    properties = dict(session.take(parse_key_values(extra, option="--command-property")))
    if isolation_level is not None:
        properties["isolation.level"] = isolation_level
    is_member = group is not None or "group.id" in properties
    decode = decoding(options["key_format"], options["value_format"], options["registry"])
    decrypt = _chained(decryption(take_settings(properties)), decode)
    reading = replace(_reading(session, names + more, options, is_member=is_member), decrypt=decrypt)
    if options["from_beginning"] or (reading.to_time is not None and not is_member):
        properties["auto.offset.reset"] = "earliest"
    if _needs_no_group(reading, is_member=is_member):
        properties.pop("group.id", None)
    else:
        fresh = f"console-consumer-{random.randrange(100_000)}"
        properties["group.id"] = group or properties.get("group.id", fresh)
        if properties["group.id"] == fresh:
            properties.setdefault("enable.auto.commit", "false")
    # A mistyped name must not create a topic; the property allows it.
    properties.setdefault("allow.auto.create.topics", "false")
    return run_async(consume_records(session.settings, consumer_settings(properties), reading))


def _chained(first: Decrypt | None, then: Decode | None) -> Decrypt | None:
    if first is None or then is None:
        return first or then
    return lambda record: then(first(record))


def _needs_no_group(reading: Reading, *, is_member: bool) -> bool:
    """Whether partitions are assigned by this command: at once, and without a trace in the cluster."""
    if reading.partition is not None or reading.last is not None:
        return True
    return not is_member and (reading.from_time is not None or reading.to_time is not None)


def _reading(session: Session, topics: tuple[str, ...], options: dict[str, Any], *, is_member: bool) -> Reading:
    partition, offset = options["partition"], options["offset"]
    _check(topics, options, is_member=is_member)
    now_ms = int(time.time() * 1000)
    from_time = None if options["from_"] is None else parse_moment(options["from_"], now_ms=now_ms)
    to_time = None if options["to"] is None else parse_moment(options["to"], now_ms=now_ms)
    if offset is not None and not offset.isdecimal():
        from_time = parse_time(offset)
        if from_time not in (EARLIEST, LATEST):
            raise click.UsageError(f"--offset {offset!r} must be a number, earliest or latest.")
    return Reading(
        topics=topics,
        pattern=options["include"],
        partition=partition,
        offset=int(offset) if offset is not None and offset.isdecimal() else None,
        from_time=from_time,
        to_time=LATEST if options["until_end"] and to_time is None else to_time,
        last=options["last"],
        limit=options["max_messages"],
        idle_ms=options["idle_ms"],
        skips_bad_records=options["skip_message_on_error"],
        waits=options["wait"],
        accept=make_filter(keys=options["only_keys"], headers=options["only_headers"], expressions=options["filters"]),
        write=_formatter(options, as_json=session.output.as_json),
    )


def _check(topics: tuple[str, ...], options: dict[str, Any], *, is_member: bool) -> None:
    if bool(topics) == bool(options["include"]):
        raise click.UsageError("Name a topic, as an argument or with --topic, or several with --include.")
    if (options["partition"] is not None or options["offset"] is not None) and len(topics) != 1:
        raise click.UsageError("--partition and --offset are about one topic.")
    if options["offset"] is not None and options["partition"] is None:
        raise click.UsageError("--offset is about one partition; say which with --partition.")
    begins = {"--offset": "offset", "--from-beginning": "from_beginning", "--from": "from_", "--last": "last"}
    flags = [flag for flag, name in begins.items() if options[name]]
    if len(flags) > 1:
        raise click.UsageError(f"{' and '.join(flags)} exclude each other.")
    if options["last"] is not None and is_member:
        raise click.UsageError("--last reads without a group; remove --group.")


def _formatter(options: dict[str, Any], *, as_json: bool) -> Formatter:
    name, template, encoding = options["formatter"], options["template"], options["encoding"]
    if template is None and "%" in name:
        # kcat's -f is a format string, and no formatter has a percent sign in its name.
        template = name
    config = options["formatter_config"]
    properties = {} if config is None else read_properties(config)
    properties |= parse_key_values(options["printing"], option="--formatter-property", literal=True)
    if template is not None:
        if as_json:
            raise click.UsageError("--format and --json exclude each other.")
        return format_string(template, show=None if encoding == "text" else deserializer(encoding))
    if as_json or name == "json":
        return make_formatter("json", properties | ({} if encoding == "text" else {"encoding": encoding}))
    if options["verbose"] and name == "default" and not properties:
        show = None if encoding == "text" else deserializer(encoding)
        return format_string(r"%D\t%t-%p@%o\t%h\t%k\t%s\n", show=show, null=b"null")
    if options["keys"] or options["verbose"]:
        properties["print.key"] = "true"
    if options["verbose"]:
        properties |= {f"print.{what}": "true" for what in ("timestamp", "partition", "offset", "headers")}
    if encoding != "text":
        properties |= {f"{part}.deserializer": encoding for part in ("key", "value", "headers")}
    return make_formatter(name, properties)
