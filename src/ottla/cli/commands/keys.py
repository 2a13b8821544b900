"""`ottla keys`: the keys of end-to-end encryption in a file, and re-encryption of topics after a rotation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.record_encryption import keys_of, take_settings
from ottla.cli.names import TOPIC
from ottla.cli.output import Output, counted
from ottla.cli.session import Session, cluster_options, confirm, json_option, run_async, yes_option
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.producer import Producer, ProducerSettings
from ottla.encryption.envelope import EnvelopeError
from ottla.encryption.file_keys import KeyFile
from ottla.encryption.keys import KeyServiceError
from ottla.encryption.reencryption import Reencryption
from ottla.model.ids import TopicPartition

__all__ = ["keys"]

POLL_RECORDS_MAX = 500


@click.group(cls=VerbGroup, verbs={}, help=COMMANDS["keys"].help)
def keys() -> None:
    """The verbs are below."""


file_option = click.option(
    "-f",
    "--file",
    "path",
    envvar="OTTLA_KEY_FILE",
    default="keys.json",
    metavar="FILE",
    help="The file of keys.  [default: keys.json]",
)


@contextmanager
def _explained() -> Iterator[None]:
    """The reason of a key service as the sentence of a failed command."""
    try:
        yield
    except KeyServiceError as error:
        raise Failure(str(error)) from None


@keys.command("list", help="List the keys of a file and their versions.")
@file_option
@json_option
def list_keys(path: str, as_json: bool) -> int:
    output = Output(as_json=as_json)
    with _explained():
        entries = sorted(KeyFile(path).read().items())
    rows = [(name, key.current, ", ".join(map(str, sorted(key.versions)))) for name, key in entries]
    output.table(("KEY", "CURRENT", "VERSIONS"), rows, right=(1,))
    output.emit([{"name": name, "current": key.current, "versions": sorted(key.versions)} for name, key in entries])
    return output.exit_code


@keys.command("create", help="Add a key to a file, which is created if it does not exist.")
@click.argument("name")
@file_option
@json_option
def create(name: str, path: str, as_json: bool) -> int:
    with _explained():
        KeyFile(path).create(name)
    return _say(f"Created the key {name} in {path}.", {"name": name, "version": 1}, as_json=as_json)


@keys.command("rotate", help="Add a version, which encrypts from now on; earlier versions still decrypt.")
@click.argument("name")
@file_option
@json_option
def rotate(name: str, path: str, as_json: bool) -> int:
    with _explained():
        version = KeyFile(path).rotate(name)
    sentence = f"Version {version} of the key {name} encrypts from now on."
    return _say(sentence, {"name": name, "version": version}, as_json=as_json)


@keys.command("retire", help="Remove an earlier version: what it protects can never be read again.")
@click.argument("name")
@click.argument("version", type=click.IntRange(1))
@file_option
@yes_option
@json_option
def retire(name: str, version: int, path: str, yes: bool, as_json: bool) -> int:
    confirm(f"Remove version {version} of {name} for good? Records under it can never be read again.", yes=yes)
    with _explained():
        KeyFile(path).retire(name, version)
    sentence = f"Removed version {version} of the key {name}."
    return _say(sentence, {"name": name, "version": version}, as_json=as_json)


@keys.command("re-encrypt", help="Copy a topic to another one, encrypted under the current version of its keys.")
@click.argument("source", type=TOPIC)
@click.argument("target", type=TOPIC)
@click.option("--key-name", metavar="NAME", help="Encrypt under this key, also records that are not encrypted.")
@cluster_options
def re_encrypt(session: Session, source: str, target: str, key_name: str | None) -> int:
    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same: a copied value could overwrite a newer one.")
    _, data_keys = keys_of(take_settings(session.properties))
    renewal = Reencryption(data_keys, source_topic=source, target_topic=target, key_name=key_name)
    count = run_async(_copy(session, source, target, renewal))
    session.output.emit({"source": source, "target": target, "records": count})
    if not session.output.as_json:
        click.echo(f"Copied {counted(count, 'record')} from {source} to {target}.")
    return session.output.exit_code


async def _copy(session: Session, source: str, target: str, renewal: Reencryption) -> int:
    """Copies the records that exist now, each to the same partition; returns their number."""
    cluster = Cluster(session.settings)
    count = 0
    try:
        async with (
            Producer(session.settings, ProducerSettings()) as producer,
            Consumer(cluster, ConsumerSettings(read_committed=True)) as consumer,
        ):
            partitions = await consumer.partitions(source)
            targets = [TopicPartition(target, partition.partition) for partition in partitions]
            if len(partitions) != len(await consumer.partitions(target)):
                raise Failure(f"{source} and {target} must have the same number of partitions.")
            begins, ends = await consumer.beginning_offsets(targets), await consumer.end_offsets(targets)
            if begins != ends:
                raise Failure(f"{target} has records already; copy to an empty topic.")
            ends = await consumer.end_offsets(partitions)
            await consumer.assign(partitions)
            for partition, begin in (await consumer.beginning_offsets(partitions)).items():
                consumer.seek(partition, begin)
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                for record in await consumer.poll(100, max_records=POLL_RECORDS_MAX):
                    if record.offset < ends[TopicPartition(source, record.partition)]:
                        await _send(producer, target, record, renewal)
                        count += 1
            await producer.flush()
    finally:
        await cluster.close()
    return count


async def _send(producer: Producer, target: str, record: ConsumedRecord, renewal: Reencryption) -> None:
    try:
        value, headers = renewal.value(record.value), renewal.headers(record.headers)
    except (EnvelopeError, KeyServiceError) as error:
        raise Failure(f"{record.topic}-{record.partition} at {record.offset} cannot be decrypted: {error}") from None
    await producer.send(
        target,
        value,
        record.key,
        headers=headers,
        partition=record.partition,
        timestamp_ms=record.timestamp,
    )


def _say(sentence: str, value: object, *, as_json: bool) -> int:
    output = Output(as_json=as_json)
    output.emit(value)
    if not as_json:
        click.echo(sentence)
    return output.exit_code
