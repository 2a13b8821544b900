"""The options of a sink, and the messages for refused options."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType, TimestampType

from ottla.client.errors import TimedOut
from ottla.records.compression import Codec
from ottla.spark.options import OptionError
from ottla.spark.sink import writers
from ottla.spark.sink.options import ExtraRecord, extra_records_option, sink_options
from ottla.spark.sink.schema import check_schema

SERVERS = {"bootstrap.servers": "localhost:9092"}


def schema(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])  # type: ignore[arg-type]


def test_a_stream_is_written_exactly_once_unless_told_otherwise() -> None:
    assert sink_options(SERVERS, streaming=True).exactly_once
    assert not sink_options(SERVERS, streaming=False).exactly_once
    assert not sink_options({**SERVERS, "delivery": "at-least-once"}, streaming=True).exactly_once
    numbered = {**SERVERS, "query.name": "q", "batch.id": "0"}
    assert sink_options(numbered, streaming=False).exactly_once


def test_names_of_kafkas_producer_are_understood_with_and_without_prefix() -> None:
    options = sink_options(
        {**SERVERS, "kafka.compression.type": "zstd", "batch.size": "1000", "kafka.acks": "1", "queryName": "orders"},
        streaming=False,
    )
    assert (options.compression, options.batch_bytes, options.acks, options.query_name) == (
        Codec.ZSTD,
        1000,
        1,
        "orders",
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delivery": "perhaps"}, "delivery='perhaps' is neither 'exactly-once' nor 'at-least-once'"),
        ({"topics": "t"}, "Option 'topics' is unknown to an ottla sink"),
        ({"batch.id": "1"}, "Option 'batch.id' needs 'query.name'"),
        ({"batch.id": "x", "query.name": "q"}, "Option 'batch.id' is 'x', not a number"),
        ({"delivery": "exactly-once", "acks": "1"}, "delivery=exactly-once needs acks=all"),
        ({"acks": "2"}, "acks='2' is none of all, 1 and 0"),
        ({"compression.type": "rar"}, "compression.type='rar' is none of"),
        ({"compression.level": "high"}, "Option 'compression.level' is 'high', not a number"),
        ({"extra.records": "{"}, "Option 'extra.records' cannot be read"),
        ({"extra.records": "[]", "delivery": "at-least-once"}, None),
        ({"extra.records": '[{"topic": "t"}]', "delivery": "at-least-once"}, "needs delivery=exactly-once"),
        ({"delivery.timeout.ms": "5000"}, "must be at least request.timeout.ms, which is 30000"),
        ({"delivery.timeout.ms": "5000", "request.timeout.ms": "5000"}, None),
        ({"request.timeout.ms": "300000"}, None),
        ({"batch.size": "0"}, "Option 'batch.size' is '0', not a positive number"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, str], sentence: str | None) -> None:
    if sentence is None:
        sink_options({**SERVERS, **options}, streaming=False)
        return
    with pytest.raises(OptionError, match=sentence):
        sink_options({**SERVERS, **options}, streaming=False)


def test_a_stream_counts_its_own_batches() -> None:
    with pytest.raises(OptionError, match=r"Option 'batch\.id' is for batch writes"):
        sink_options({**SERVERS, "batch.id": "1", "query.name": "q"}, streaming=True)


def test_extra_records_travel_as_text() -> None:
    records = [ExtraRecord("t", b"\xff", None), ExtraRecord("u", None, b"", 3)]
    options = sink_options({**SERVERS, "extra.records": extra_records_option(records)}, streaming=False)
    assert list(options.extra_records) == records
    assert options.exactly_once


@pytest.mark.parametrize(
    ("types", "topic", "sentence"),
    [
        ({"id": IntegerType()}, "t", "The column 'value' is missing"),
        ({"value": IntegerType()}, "t", "The column 'value' is int; it must be binary or string"),
        ({"value": StringType()}, None, "There is no topic to write to"),
        ({"value": StringType(), "keys": StringType()}, "t", "A record has no 'keys'"),
        ({"value": StringType(), "partition": StringType()}, "t", "The column 'partition' is string; it must be int"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "t", "The column 'headers' is array<string>"),
    ],
)
def test_columns_that_make_no_record_are_refused(types: dict[str, object], topic: str | None, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        check_schema(schema(**types), topic=topic)


def test_what_a_source_gives_can_be_written_as_it_is() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    check_schema(
        schema(
            key=BinaryType(),
            value=BinaryType(),
            topic=StringType(),
            partition=IntegerType(),
            offset=IntegerType(),
            timestamp=TimestampType(),
            timestampType=IntegerType(),
            headers=ArrayType(header),
        ),
        topic=None,
    )


def test_what_could_not_be_ended_is_looked_for_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that restarts a second later still has to end its predecessor's transactions."""
    looked_up: list[str] = []

    async def away(_: object, query_name: str) -> list[str]:
        looked_up.append(query_name)
        raise TimedOut("The cluster is away.")

    class Client:
        admin = None

        def call(self, work: Coroutine[Any, Any, Any]) -> Any:
            return asyncio.run(work)

    monkeypatch.setattr(writers, "_requested_at", {})
    monkeypatch.setattr(writers, "end_open_transactions", away)
    monkeypatch.setattr(writers, "sink_client", lambda _: Client())
    for _ in range(2):
        with pytest.raises(TimedOut):
            writers.stream_writer({**SERVERS, "topic": "t", "query.name": "q"}, schema(value=BinaryType()))
    assert looked_up == ["q", "q"]
