"""Chains as configurations ask for them: converters, transforms behind predicates, tolerance, dead letters, the log."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from ottla.connect.api import ConfigError, ConnectError
from ottla.connect.api.schema import schema_of
from tests.support.connect_frames import chain_of, records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PLAIN = {
    "key_converter": "org.apache.kafka.connect.storage.StringConverter",
    "value_converter": "org.apache.kafka.connect.json.JsonConverter",
    "value_converter_schemas_enable": "false",
    "value_converter_schema_content": json.dumps(
        {
            "type": "struct",
            "fields": [{"type": "int32", "field": "id"}, {"type": "string", "optional": True, "field": "n"}],
        }
    ),
}


def message(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def ids(frame: DataFrame) -> list[int]:
    return [row["value"]["id"] for row in frame.collect()]


def test_a_sink_gets_typed_values_and_only_the_columns_of_records(plain_spark: SparkSession) -> None:
    frame = records(plain_spark, [{"key": b"k", "value": message(id=1)}, {"value": None}])
    good = chain_of(**PLAIN).sink(frame).good
    first, second = good.collect()
    assert (first["key"], first["value"]["id"], second["value"]) == ("k", 1, None)
    assert not [name for name in good.columns if name.startswith("__")]


def test_without_tolerance_the_first_bad_record_ends_the_batch(plain_spark: SparkSession) -> None:
    frame = records(plain_spark, [{"value": message(id=1)}, {"value": b"junk"}])
    result = chain_of(**PLAIN).sink(frame)
    assert result.failed is None
    with pytest.raises(Exception, match="VALUE_CONVERTER in JsonConverter failed"):
        result.good.collect()


def test_a_tolerated_record_does_not_disturb_the_others(plain_spark: SparkSession) -> None:
    frame = records(plain_spark, [{"value": message(id=n)} if n != 1 else {"value": b"junk"} for n in range(4)])
    result = chain_of(**PLAIN, errors_tolerance="all").sink(frame)
    assert ids(result.good) == [0, 2, 3]
    assert (result.failed, result.report) == (None, None)


def test_dead_letters_are_the_records_as_they_were_read(plain_spark: SparkSession) -> None:
    frame = records(
        plain_spark,
        [
            {"value": message(id=0)},
            {"key": b"k", "value": b"junk", "headers": [("h", b"1")], "timestamp_ms": 1_700_000_000_500},
            {"value": message(id=300, n="not a number")},
        ],
    )
    chain = chain_of(
        **PLAIN,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dead",
        errors_deadletterqueue_context_headers_enable="true",
        transforms="c,r",
        transforms_c_type="Cast$Value",
        transforms_c_spec="n:int32",
        transforms_r_type="RegexRouter",
        transforms_r_regex="(.*)",
        transforms_r_replacement="routed-$1",
    )
    result = chain.sink(frame)
    assert ids(result.good) == [0]
    assert result.failed is not None
    first, second = result.failed.collect()
    assert (bytes(first["key"]), bytes(first["value"]), first["topic"]) == (b"k", b"junk", "dead")
    assert first["timestamp"].timestamp() == pytest.approx(1_700_000_000.5)
    headers = {header["key"]: bytes(header["value"]).decode() for header in first["headers"]}
    assert headers.pop("h") == "1"
    headers.pop("__connect.errors.exception.stacktrace")
    assert headers.pop("__connect.errors.exception.message").endswith("junk")
    assert headers == {
        "__connect.errors.topic": "orders",
        "__connect.errors.partition": "0",
        "__connect.errors.offset": "1",
        "__connect.errors.connector.name": "test",
        "__connect.errors.task.id": "0",
        "__connect.errors.stage": "VALUE_CONVERTER",
        "__connect.errors.class.name": "JsonConverter",
        "__connect.errors.exception.class.name": "org.apache.kafka.connect.errors.DataException",
    }
    headers = {header["key"]: bytes(header["value"]).decode() for header in second["headers"]}
    assert headers["__connect.errors.stage"] == "TRANSFORMATION"
    assert headers["__connect.errors.class.name"] == "CastValue"


def test_failures_are_logged_where_asked_for(plain_spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    frame = records(plain_spark, [{"value": b"junk"}, {"value": message(id=1)}])
    chain = chain_of(**PLAIN, errors_tolerance="all", errors_log_enable="true", errors_log_include_messages="true")
    result = chain.sink(frame)
    assert result.report is not None
    with caplog.at_level(logging.ERROR):
        assert result.report() == 1
    assert "topic=orders, partition=0, offset=0" in caplog.text


def test_a_source_transforms_first_and_then_converts(plain_spark: SparkSession) -> None:
    frame = plain_spark.sql("SELECT named_struct('id', 5, 'secret', 'x') AS value")
    chain = chain_of(
        topic="out",
        value_converter="JsonConverter",
        value_converter_schemas_enable="false",
        transforms="mask,key,route",
        transforms_mask_type="org.apache.kafka.connect.transforms.MaskField$Value",
        transforms_mask_fields="secret",
        transforms_key_type="ValueToKey",
        transforms_key_fields="id",
        transforms_route_type="RegexRouter",
        transforms_route_regex="out",
        transforms_route_replacement="in",
        key_converter_schemas_enable="false",
    )
    row = chain.source(frame).good.collect()[0]
    assert (row["topic"], bytes(row["key"]), bytes(row["value"])) == ("in", b'{"id":5}', b'{"id":5,"secret":""}')


def test_predicates_choose_records(plain_spark: SparkSession) -> None:
    rows = [
        {"value": message(id=0), "topic": "a"},
        {"value": message(id=1), "topic": "b", "headers": [("mark", b"x")]},
        {"value": None, "topic": "a"},
    ]
    base = {**PLAIN, "predicates": "p", "transforms": "f", "transforms_f_type": "Filter", "transforms_f_predicate": "p"}
    java = "org.apache.kafka.connect.transforms.predicates."

    def offsets(**config: str) -> list[int]:
        good = chain_of(**{**base, **config}).sink(records(plain_spark, rows)).good
        return [row["offset"] for row in good.select("offset").collect()]

    assert offsets(predicates_p_type=java + "RecordIsTombstone") == [0, 1]
    assert offsets(predicates_p_type="RecordIsTombstone", transforms_f_negate="true") == [2]
    assert offsets(predicates_p_type="HasHeaderKey", predicates_p_name="mark") == [0, 2]
    assert offsets(predicates_p_type="TopicNameMatches", predicates_p_pattern="a|c") == [1]
    assert offsets(predicates_p_type="TopicNameMatches", predicates_p_pattern="a|c", transforms_f_negate="true") == [
        0,
        2,
    ]


def test_a_transform_of_some_records_makes_a_column_for_all(plain_spark: SparkSession) -> None:
    rows = [{"value": message(id=0), "topic": "a"}, {"value": message(id=1), "topic": "b"}]
    config = {
        **PLAIN,
        "predicates": "p",
        "predicates_p_type": "TopicNameMatches",
        "predicates_p_pattern": "b",
        "transforms": "i",
        "transforms_i_predicate": "p",
        "transforms_i_type": "InsertField$Value",
        "transforms_i_topic_field": "from!",
    }
    good = chain_of(**config).sink(records(plain_spark, rows)).good
    assert [tuple(row["value"]) for row in good.collect()] == [(0, None, None), (1, None, "b")]
    value_schema = schema_of(good, "value")
    assert value_schema is not None
    inserted = value_schema.field("from")
    assert inserted is not None
    assert inserted.optional
    config["transforms_i_type"] = "HoistField$Value"
    config["transforms_i_field"] = "n"
    del config["transforms_i_topic_field"]
    with pytest.raises(ConnectError, match="predicate"):
        chain_of(**config).sink(records(plain_spark, rows))


def test_headers_by_the_converter_of_headers(plain_spark: SparkSession) -> None:
    rows = [{"value": message(id=7, n="x")}]
    config = {
        **PLAIN,
        "transforms": "h",
        "transforms_h_type": "HeaderFrom$Value",
        "transforms_h_fields": "id,n",
        "transforms_h_headers": "one,two",
        "transforms_h_operation": "copy",
        "header_converter": "JsonConverter",
        "header_converter_schemas_enable": "false",
    }
    row = chain_of(**config).sink(records(plain_spark, rows)).good.collect()[0]
    assert [(header["key"], bytes(header["value"])) for header in row["headers"]] == [("one", b"7"), ("two", b'"x"')]


def test_configurations_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConnectError, match="predicate"):
        chain_of(transforms="f", transforms_f_type="Filter", transforms_f_predicate="none")
    with pytest.raises(ConnectError, match="There is no"):
        chain_of(value_converter="NoConverter")
    with pytest.raises(ConfigError):
        chain_of(transforms="c", transforms_c_type="Cast$Value", transforms_c_spec="a:int128")
    with pytest.raises(ConfigError):
        chain_of(transforms="c", transforms_c_type="RegexRouter", transforms_c_regex="(", transforms_c_replacement="x")
