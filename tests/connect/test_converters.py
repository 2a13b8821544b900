"""Converters in both directions: the bytes that Kafka's converters write, types, and messages that do not fit."""

from __future__ import annotations

import base64
import decimal
import io
import json
import struct
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from ottla.connect.api import ConfigError, ConnectError, record_failures
from ottla.connect.api.schema import is_schemaless, schema_of
from ottla.connect.plugins import converters
from ottla.connect.plugins.converters.base import ColumnConverter
from tests.support.connect_frames import records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def configured(converter: ColumnConverter, **config: str) -> ColumnConverter:
    converter.configure({name.replace("_", "."): text for name, text in config.items()}, is_key=False)
    return converter


def decoded(spark: SparkSession, converter: ColumnConverter, *values: bytes | None) -> DataFrame:
    frame = record_failures.with_failures(records(spark, [{"value": value} for value in values]))
    return converter.from_bytes(frame, "value")


def values_of(frame: DataFrame) -> list[Any]:
    """The values; a record that failed is the word `failed`."""
    rows = frame.select("value", record_failures.FAILURE).collect()
    return ["failed" if row[1] is not None else row[0] for row in rows]


def round_trip(spark: SparkSession, converter: ColumnConverter, *values: bytes | None) -> list[Any]:
    return [
        value if value is None or value == "failed" else bytes(value)
        for value in values_of(converter.to_bytes(decoded(spark, converter, *values), "value"))
    ]


def test_primitives_are_as_kafka_writes_them(plain_spark: SparkSession) -> None:
    cases: list[tuple[ColumnConverter, list[bytes], list[Any]]] = [
        (converters.ShortConverter(), [struct.pack(">h", n) for n in (0, -1, 32767, -32768)], [0, -1, 32767, -32768]),
        (converters.IntegerConverter(), [struct.pack(">i", n) for n in (7, -(2**31))], [7, -(2**31)]),
        (converters.LongConverter(), [struct.pack(">q", n) for n in (2**63 - 1, -(2**63))], [2**63 - 1, -(2**63)]),
        (converters.BooleanConverter(), [b"\x01", b"\x00"], [True, False]),
        (converters.StringConverter(), ["grüß".encode(), b""], ["grüß", ""]),
        (converters.ByteArrayConverter(), [b"\x00\xff"], [b"\x00\xff"]),
    ]
    for converter, data, wanted in cases:
        assert values_of(decoded(plain_spark, converter, *data, None)) == [*wanted, None], converter
        assert round_trip(plain_spark, converter, *data, None) == [*data, None], converter


def test_floating_point_numbers(plain_spark: SparkSession) -> None:
    data = [struct.pack(">d", n) for n in (1.5, -0.1)]
    assert round_trip(plain_spark, converters.DoubleConverter(), *data, None, b"xx") == [*data, None, "failed"]
    data = [struct.pack(">f", n) for n in (1.5, -0.1)]
    assert round_trip(plain_spark, converters.FloatConverter(), *data, None) == [*data, None]


def test_bytes_of_the_wrong_length_fail_by_themselves(plain_spark: SparkSession) -> None:
    for converter in (converters.ShortConverter(), converters.IntegerConverter(), converters.LongConverter()):
        assert values_of(decoded(plain_spark, converter, b"\x00", None)) == ["failed", None]
    assert values_of(decoded(plain_spark, converters.BooleanConverter(), b"\x02", b"\x01")) == ["failed", True]


def test_a_converter_refuses_what_is_not_its_type(plain_spark: SparkSession) -> None:
    frame = decoded(plain_spark, converters.StringConverter(), b"text")
    for converter in (converters.LongConverter(), converters.BooleanConverter(), converters.ByteArrayConverter()):
        with pytest.raises(ConnectError):
            converter.to_bytes(frame, "value")


def test_text_in_another_encoding_and_text_of_other_types(plain_spark: SparkSession) -> None:
    latin = configured(converters.StringConverter(), converter_encoding="ISO-8859-1")
    assert values_of(decoded(plain_spark, latin, b"\xe4")) == ["ä"]
    assert round_trip(plain_spark, latin, b"\xe4") == [b"\xe4"]
    frame = plain_spark.sql(
        "SELECT named_struct('a', 1, 'b', CAST(NULL AS STRING), 'c', array(1, 2), 'd', map('k', true), 'e', 1.5D) value"
    )
    text = converters.StringConverter().to_bytes(frame, "value").collect()[0][0]
    assert bytes(text) == b"Struct{a=1,c=[1, 2],d={k=true},e=1.5}"


@pytest.mark.parametrize(
    ("encoding", "data", "text", "written"),
    [
        ("US-ASCII", b"a\xe4b", "a\ufffdb", b"a?b"),
        ("UTF-16", "\ufeffä€".encode("utf-16-be"), "ä€", "\ufeffä€".encode("utf-16-be")),
        ("UTF-16", "\ufeffä€".encode("utf-16-le"), "ä€", "\ufeffä€".encode("utf-16-be")),
        ("UTF-16", "ä€".encode("utf-16-be"), "ä€", "\ufeffä€".encode("utf-16-be")),
        ("utf-16le", "ä".encode("utf-16-le") + b"x", "ä\ufffd", "ä\ufffd".encode("utf-16-le")),
        ("UTF-32", "\ufeffä".encode("utf-32-le"), "ä", "ä".encode("utf-32-be")),
        ("UTF-32", b"\xff" * 4, "\ufffd", "\ufffd".encode("utf-32-be")),
        ("ISO-8859-1", b"\xff", "ÿ", b"\xff"),
    ],
)
def test_bytes_that_are_not_text_of_the_encoding(
    plain_spark: SparkSession, encoding: str, data: bytes, text: str, written: bytes
) -> None:
    """Java writes and reads replacement characters instead, and reads byte order marks."""
    converter = configured(converters.StringConverter(), converter_encoding=encoding)
    assert values_of(decoded(plain_spark, converter, data, None)) == [text, None]
    assert round_trip(plain_spark, converter, data, None) == [written, None]


@pytest.mark.parametrize(("encoding", "data"), [("US-ASCII", b"a??"), ("ISO-8859-1", b"a??")])
def test_text_that_the_encoding_does_not_have(plain_spark: SparkSession, encoding: str, data: bytes) -> None:
    converter = configured(converters.StringConverter(), converter_encoding=encoding)
    frame = decoded(plain_spark, converters.StringConverter(), "a€\N{GRINNING FACE}".encode(), None)
    assert [row and bytes(row) for row in values_of(converter.to_bytes(frame, "value"))] == [data, None]


ENVELOPE = {
    "schema": {
        "type": "struct",
        "fields": [
            {"type": "int32", "optional": False, "field": "id"},
            {"type": "string", "optional": True, "default": "none", "field": "name"},
            {
                "type": "bytes",
                "optional": False,
                "name": DECIMAL,
                "version": 1,
                "parameters": {"scale": "2"},
                "field": "price",
            },
            {
                "type": "int64",
                "optional": False,
                "name": "org.apache.kafka.connect.data.Timestamp",
                "version": 1,
                "field": "at",
            },
        ],
        "optional": False,
        "name": "Order",
    },
    "payload": {"id": 1, "name": "x", "price": "MDk=", "at": 1_700_000_000_123},
}


def envelope(**payload: Any) -> bytes:
    return json.dumps({**ENVELOPE, "payload": {**ENVELOPE["payload"], **payload}}).encode()  # type: ignore[dict-item]


def test_json_with_schemas_finds_the_schema_in_the_messages(plain_spark: SparkSession) -> None:
    converter = converters.JsonConverter()
    frame = decoded(plain_spark, converter, envelope(), envelope(id=2, name=None, price=7.5), None)
    first, second, third = values_of(frame)
    assert (first["id"], first["name"], first["price"]) == (1, "x", decimal.Decimal("123.45"))
    assert (second["name"], second["price"]) == ("none", decimal.Decimal("7.50"))
    assert third is None
    written = [json.loads(bytes(row)) for row in values_of(converter.to_bytes(frame, "value")) if row is not None]
    assert written[0] == ENVELOPE
    assert written[1]["payload"]["price"] == "Au4="
    numeric = configured(converters.JsonConverter(), decimal_format="numeric", schemas_enable="false")
    assert json.loads(bytes(values_of(numeric.to_bytes(frame, "value"))[0]))["price"] == 123.45


def test_messages_that_do_not_fit_fail_by_themselves(plain_spark: SparkSession) -> None:
    messages = [
        b"not json",
        b'{"id": 1}',
        b'{"schema": {"type": "int32"}, "payload": 1, "more": 2}',
        envelope(id="text"),
        envelope(id=None),
        envelope(),
        b'{"schema": {"type": "what"}, "payload": 1}',
    ]
    values = values_of(decoded(plain_spark, converters.JsonConverter(), *messages))
    assert [value == "failed" for value in values] == [True, True, True, True, True, False, True]


def test_schemas_of_one_batch_become_one(plain_spark: SparkSession) -> None:
    older = {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}
    newer = {"type": "struct", "fields": [{"type": "int64", "field": "id"}, {"type": "string", "field": "name"}]}
    messages = [
        json.dumps({"schema": older, "payload": {"id": 1}}).encode(),
        json.dumps({"schema": newer, "payload": {"id": 2**40, "name": "x"}}).encode(),
    ]
    frame = decoded(plain_spark, converters.JsonConverter(), *messages)
    assert [tuple(value) for value in values_of(frame)] == [(1, None), (2**40, "x")]
    other = json.dumps({"schema": {"type": "string"}, "payload": "x"}).encode()
    values = values_of(decoded(plain_spark, converters.JsonConverter(), messages[0], messages[0], other))
    assert values[2] == "failed"
    assert values[0]["id"] == 1


def test_json_without_schemas_looks_at_the_batch(plain_spark: SparkSession) -> None:
    converter = configured(converters.JsonConverter(), schemas_enable="false")
    frame = decoded(
        plain_spark,
        converter,
        b'{"a": 1, "b": {"c": "x"}, "mixed": 1}',
        b'{"a": 2.5, "list": [1, 2], "mixed": "text", "none": null}',
        b"{broken",
        None,
    )
    assert is_schemaless(frame, "value")
    first, second, broken, nothing = values_of(frame)
    assert (first["a"], first["b"]["c"]) == (1.0, "x")
    assert (second["a"], second["list"], second["none"]) == (2.5, [1, 2], None)
    assert (broken, nothing) == ("failed", None)
    texts = [json.loads(bytes(row)) for row in values_of(converter.to_bytes(frame, "value")) if isinstance(row, bytes)]
    assert texts[0]["mixed"] == 1
    assert texts[1]["mixed"] == "text"
    single = decoded(plain_spark, converter, b'"text"', b'"more"')
    assert values_of(single) == ["text", "more"]


def test_a_schema_in_the_configuration_saves_the_look(plain_spark: SparkSession) -> None:
    content = json.dumps(ENVELOPE["schema"])
    converter = configured(converters.JsonConverter(), schema_content=content)
    frame = decoded(plain_spark, converter, json.dumps(ENVELOPE["payload"]).encode())
    assert values_of(frame)[0]["id"] == 1
    assert schema_of(frame, "value") is not None
    with pytest.raises(ConfigError):
        configured(converters.JsonConverter(), schema_content="{}")


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
    ],
}


def avro_bytes(**values: Any) -> bytes:
    import datetime

    row = {
        "id": 1,
        "name": None,
        "tags": ["a"],
        "counts": {"x": 1},
        "at": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        "price": decimal.Decimal("1.50"),
        **values,
    }
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(AVRO), row)
    return buffer.getvalue()


def test_avro_with_its_schema_in_the_configuration(plain_spark: SparkSession) -> None:
    converter = configured(converters.AvroConverter(), schema=json.dumps(AVRO))
    data = [avro_bytes(), avro_bytes(name="tea", tags=[])]
    frame = decoded(plain_spark, converter, *data, None, b"\x01", data[0] + b"more")
    first, second, nothing, short, long = values_of(frame)
    assert (first["id"], first["tags"], first["counts"], first["price"]) == (
        1,
        ["a"],
        {"x": 1},
        decimal.Decimal("1.50"),
    )
    assert second["name"] == "tea"
    assert (nothing, short, long) == (None, "failed", "failed")
    written = [bytes(row) for row in values_of(converter.to_bytes(frame, "value")) if isinstance(row, bytes)]
    assert written == data


def test_a_decimal_with_too_many_digits_fails_by_itself(plain_spark: SparkSession) -> None:
    """The bytes of a decimal in Avro may have more digits than the precision of its schema."""
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    converter = configured(converters.AvroConverter(), schema=json.dumps(price))
    frame = decoded(plain_spark, converter, b"\x04\x27\x0f", b"\x04\x27\x10", None, b"\x02\x01")
    assert values_of(frame) == [decimal.Decimal("99.99"), "failed", None, decimal.Decimal("0.01")]


def test_a_source_without_an_avro_schema_writes_its_own(plain_spark: SparkSession) -> None:
    frame = plain_spark.sql("SELECT named_struct('id', 7, 'name', 'x') AS value")
    data = bytes(converters.AvroConverter().to_bytes(frame, "value").collect()[0][0])
    schema = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}],
    }
    assert fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None) == {"id": 7, "name": "x"}


def test_avro_schemas_are_checked() -> None:
    for text in ("nothing", '{"type": "record"}', '["int", "string"]'):
        with pytest.raises((ConfigError, KeyError)):
            configured(converters.AvroConverter(), schema=text)
    with pytest.raises(ConfigError, match="exclude"):
        configured(converters.AvroConverter(), schema='"int"', schema_file="/x")


def test_decimals_are_read_by_the_scale_of_their_own_message(plain_spark: SparkSession) -> None:
    def message(scale: int, price: str) -> bytes:
        kind = {"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": str(scale)}, "field": "price"}
        return json.dumps({"schema": {"type": "struct", "fields": [kind]}, "payload": {"price": price}}).encode()

    # 12345 with two digits behind the point, and with four: as before and after a column was changed.
    frame = decoded(plain_spark, converters.JsonConverter(), message(2, "MDk="), message(4, "MDk="))
    assert [value["price"] for value in values_of(frame)] == [decimal.Decimal("123.45"), decimal.Decimal("1.2345")]


def test_what_json_has_and_cannot_be_held_fails_and_is_not_null(plain_spark: SparkSession) -> None:
    too_many = base64.b64encode((10**38).to_bytes(16, "big")).decode()
    nothing = json.dumps({**ENVELOPE, "payload": None}).encode()
    without = b'{"schema": null, "payload": null}'
    values = values_of(
        decoded(
            plain_spark, converters.JsonConverter(), envelope(price=too_many), envelope(price="?"), nothing, without
        )
    )
    assert values == ["failed", "failed", "failed", None]


def test_avro_values_of_types_that_connect_does_not_have(plain_spark: SparkSession) -> None:
    avro = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "who", "type": ["null", {"type": "string", "logicalType": "uuid"}]},
            {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "fine", "type": {"type": "long", "logicalType": "time-micros"}},
        ],
    }
    buffer = io.BytesIO()
    row = {"who": "12345678-1234-1234-1234-123456789abc", "clock": 45_296_789, "fine": 45_296_789_000}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(avro), row)
    frame = decoded(plain_spark, configured(converters.AvroConverter(), schema=json.dumps(avro)), buffer.getvalue())
    assert [value.asDict() for value in values_of(frame)] == [row]
