"""The options of a sink, read once in the driver and sent to the workers.

Names are those of Spark's own connector and of Kafka's producer (with or without the prefix `kafka.`), and few of our
own: `delivery`, `query.name`, `query.id`, `batch.id`, `lineage`, `extra.records`, `markers.topic`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ottla.client.settings import ClientSettings
from ottla.records.compression import Codec
from ottla.spark.options import OptionError, boolean, client_settings, is_client_option, number, without_prefix

__all__ = ["MARKERS_TOPIC", "ExtraRecord", "SinkOptions", "extra_records_option", "sink_options"]

MARKERS_TOPIC = "__ottla_batches"
"""A topic without records: sinks commit offsets of its partitions as markers of written batches."""

# Far below the default limit of topics (1 MiB), and large enough that costs per batch do not matter.
BATCH_BYTES = 256 * 1024
BUFFER_BYTES = 32 * 1024 * 1024
# Longer than any task of a healthy query; readers of committed records wait this long in the worst case.
TRANSACTION_TIMEOUT_MS = 300_000
RETRY_BACKOFF_MS = 20

_SINK_NAMES = {
    "acks",
    "batch.id",
    "batch.size",
    "bootstrap.servers",
    "buffer.memory",
    "compression.level",
    "compression.type",
    "delivery",
    "delivery.timeout.ms",
    "extra.records",
    "lineage",
    "markers.topic",
    "query.id",
    "query.name",
    "topic",
    "transaction.timeout.ms",
    # Options that Spark gives to every sink.
    "checkpointlocation",
    "outputmode",
    "path",
    "queryname",
    # Accepted without effect: batches do not linger, and idempotence is always on.
    "enable.idempotence",
    "includeheaders",
    "linger.ms",
}


class ExtraRecord(NamedTuple):
    """A record that is not a row, written in the same transaction as the rows of the first task."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    client: ClientSettings
    # The topic of all rows; None: the column `topic` of each row.
    topic: str | None = None
    exactly_once: bool = False
    # The query's name, in transactional ids and in the group of the markers.
    query_name: str | None = None
    # The query's id: markers of other ids are ignored.
    query_id: str | None = None
    # For batch writes only; a streaming query has its own batch ids.
    batch_id: int | None = None
    lineage: bool = False
    checkpoint: str | None = None
    extra_records: tuple[ExtraRecord, ...] = ()
    markers_topic: str = MARKERS_TOPIC
    acks: int = -1
    compression: Codec = Codec.NONE
    compression_level: int | None = None
    batch_bytes: int = BATCH_BYTES
    buffer_bytes: int = BUFFER_BYTES
    delivery_timeout_ms: int = 120_000
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS


def sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Reads the options of a sink. Raises OptionError."""
    given = without_prefix(options)
    unknown = sorted(name for name in set(given) - _SINK_NAMES if not is_client_option(name))
    if unknown:
        raise OptionError(f"Option {unknown[0]!r} is unknown to an ottla sink.")
    client = client_settings(given, client_id=given.get("client.id", "ottla-spark-sink"))
    if "retry.backoff.ms" not in given:
        client = replace(client, retry_backoff_ms=RETRY_BACKOFF_MS)
    exactly_once = _delivery(given, streaming=streaming)
    name = given.get("query.name") or given.get("queryname") or None
    if streaming and "batch.id" in given:
        raise OptionError("Option 'batch.id' is for batch writes: a streaming query counts its batches itself.")
    batch_id = _batch_id(given)
    if batch_id is not None and name is None:
        raise OptionError("Option 'batch.id' needs 'query.name': batches are counted for each query.")
    acks = _acks(given)
    if exactly_once and acks != -1:
        raise OptionError("delivery=exactly-once needs acks=all.")
    extra = _extra_records(given)
    if extra and not exactly_once:
        raise OptionError("Option 'extra.records' needs delivery=exactly-once: they share the rows' transaction.")
    delivery_timeout_ms = number(given, "delivery.timeout.ms") or max(120_000, client.request_timeout_ms)
    if delivery_timeout_ms < client.request_timeout_ms:
        raise OptionError(
            f"Option delivery.timeout.ms={delivery_timeout_ms} must be at least request.timeout.ms, "
            f"which is {client.request_timeout_ms}."
        )
    return SinkOptions(
        client=client,
        topic=given.get("topic") or None,
        exactly_once=exactly_once,
        query_name=name,
        query_id=given.get("query.id") or None,
        batch_id=batch_id,
        lineage=boolean(given, "lineage", False),
        checkpoint=given.get("checkpointlocation") or None,
        extra_records=extra,
        markers_topic=given.get("markers.topic") or MARKERS_TOPIC,
        acks=acks,
        compression=_codec(given),
        compression_level=_level(given),
        batch_bytes=number(given, "batch.size") or BATCH_BYTES,
        buffer_bytes=number(given, "buffer.memory") or BUFFER_BYTES,
        delivery_timeout_ms=delivery_timeout_ms,
        transaction_timeout_ms=number(given, "transaction.timeout.ms") or TRANSACTION_TIMEOUT_MS,
    )


def extra_records_option(records: list[ExtraRecord]) -> str:
    """The text of the option `extra.records`."""

    def encoded(content: bytes | None) -> str | None:
        return None if content is None else base64.b64encode(content).decode()

    return json.dumps(
        [
            {
                "topic": record.topic,
                "key": encoded(record.key),
                "value": encoded(record.value),
                "partition": record.partition,
            }
            for record in records
        ]
    )


def _extra_records(given: Mapping[str, str]) -> tuple[ExtraRecord, ...]:
    text = given.get("extra.records")
    if not text:
        return ()

    def decoded(content: str | None) -> bytes | None:
        return None if content is None else base64.b64decode(content, validate=True)

    try:
        return tuple(
            ExtraRecord(entry["topic"], decoded(entry.get("key")), decoded(entry.get("value")), entry.get("partition"))
            for entry in json.loads(text)
        )
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error) as error:
        raise OptionError(f"Option 'extra.records' cannot be read: {error}.") from None


def _delivery(given: Mapping[str, str], *, streaming: bool) -> bool:
    wanted = given.get("delivery")
    if wanted is None:
        return streaming or "batch.id" in given or "extra.records" in given
    if wanted not in ("exactly-once", "at-least-once"):
        raise OptionError(f"delivery={wanted!r} is neither 'exactly-once' nor 'at-least-once'.")
    return wanted == "exactly-once"


def _batch_id(given: Mapping[str, str]) -> int | None:
    text = given.get("batch.id")
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise OptionError(f"Option 'batch.id' is {text!r}, not a number.")
    return int(text)


def _acks(given: Mapping[str, str]) -> int:
    text = given.get("acks", "all")
    known = {"all": -1, "-1": -1, "1": 1, "0": 0}
    if text not in known:
        raise OptionError(f"acks={text!r} is none of all, 1 and 0.")
    return known[text]


def _codec(given: Mapping[str, str]) -> Codec:
    text = given.get("compression.type", "none")
    try:
        return Codec[text.upper()]
    except KeyError:
        raise OptionError(f"compression.type={text!r} is none of none, gzip, snappy, lz4 and zstd.") from None


def _level(given: Mapping[str, str]) -> int | None:
    text = given.get("compression.level")
    if text is None:
        return None
    if not text.lstrip("-").isdecimal():
        raise OptionError(f"Option 'compression.level' is {text!r}, not a number.")
    return int(text)
