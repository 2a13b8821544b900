"""Lines to records, records to lines."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from ottla.cli.logic.client_properties import consumer_settings, producer_settings
from ottla.cli.logic.deserializers import deserializer
from ottla.cli.logic.format_string import format_string
from ottla.cli.logic.formatters import make_formatter
from ottla.cli.logic.line_reader import line_format, parse_line
from ottla.cli.logic.offset_times import parse_moment
from ottla.cli.logic.record_json import ENCODINGS, parse_record
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.consumer import ConsumedRecord
from ottla.client.metadata import PartitionInfo
from ottla.records.compression import Codec


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, "a\tb", (None, b"a\tb", [])),
        ({"parse.key": "true"}, "k\tv\tw", (b"k", b"v\tw", [])),
        ({"parse.key": "true", "key.separator": ":"}, "k:v", (b"k", b"v", [])),
        ({"parse.key": "true", "null.marker": "N"}, "N\tN", (None, None, [])),
        ({"parse.headers": "true"}, "a:1,b:2\tv", (None, b"v", [("a", b"1"), ("b", b"2")])),
        (
            {"parse.headers": "true", "parse.key": "true", "null.marker": "N"},
            "a:N\tk\tv",
            (b"k", b"v", [("a", None)]),
        ),
        ({"parse.headers": "true", "null.marker": "N"}, "N\tv", (None, b"v", [])),
        ({"parse.key": "true", "ignore.error": "true"}, "v", (None, b"v", [])),
        ({"null.marker": "N"}, "N", (None, None, [])),
    ],
)
def test_lines(properties: dict[str, str], line: str, expected: tuple[Any, ...]) -> None:
    assert tuple(parse_line(line.encode(), line_format(properties), number=1))[:3] == expected


@pytest.mark.parametrize(
    ("properties", "line", "complaint"),
    [
        ({"parse.key": "true"}, "v", "Line 9"),
        ({"parse.headers": "true"}, "a\tv", "header"),
    ],
)
def test_lines_that_do_not_fit(properties: dict[str, str], line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_line(line.encode(), line_format(properties), number=9)


@pytest.mark.parametrize("properties", [{"parse.kee": "true"}, {"parse.headers": "true", "headers.separator": "\t"}])
def test_formats_that_make_no_sense(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        line_format(properties)


RECORD = ConsumedRecord("t", 2, 7, 1234, 0, b"k", b"v", [("h", b"x"), ("n", None)], 4)
BARE = ConsumedRecord("t", 2, 8, -1, 0, None, None, (), 4)


@pytest.mark.parametrize(
    ("name", "properties", "record", "expected"),
    [
        ("default", {}, RECORD, b"v\n"),
        ("default", {"print.key": "true"}, BARE, b"null\tnull\n"),
        ("default", {"print.key": "true", "null.literal": "-", "key.separator": "|"}, BARE, b"-|-\n"),
        (
            "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
            {f"print.{field}": "true" for field in ("timestamp", "partition", "offset", "epoch", "headers", "key")},
            RECORD,
            b"CreateTime:1234\tPartition:2\tOffset:7\tEpoch:4\th:x,n:null\tk\tv\n",
        ),
        ("default", {"print.timestamp": "true", "print.headers": "true"}, BARE, b"NO_TIMESTAMP\tNO_HEADERS\tnull\n"),
        ("default", {"print.value": "false", "print.offset": "true", "line.separator": ";"}, RECORD, b"Offset:7;"),
        ("default", {"print.timestamp": "true"}, RECORD._replace(timestamp_type=1), b"LogAppendTime:1234\tv\n"),
        ("logging", {}, RECORD, b"v\nINFO CreateTime:1234, key:k, value:v\n"),
        ("checksum", {}, RECORD, b"CreateTime:1234, checksum:2125886618\n"),
        ("NoOpMessageFormatter", {}, RECORD, b""),
    ],
)
def test_formatters(name: str, properties: dict[str, str], record: ConsumedRecord, expected: bytes) -> None:
    assert make_formatter(name, properties)(record) == expected


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", (-5).to_bytes(8, "big", signed=True), b"-5"),
        ("IntegerDeserializer", b"\x00\x00\x01\x00", b"256"),
        ("short", b"\xff\xff", b"-1"),
        ("DoubleDeserializer", struct.pack(">d", 1.5), b"1.5"),
        ("DoubleDeserializer", struct.pack(">d", 1e10), b"1.0E10"),
        ("DoubleDeserializer", struct.pack(">d", 1.25e-5), b"1.25E-5"),
        ("FloatDeserializer", struct.pack(">f", 0.1), b"0.1"),
        ("DoubleDeserializer", struct.pack(">d", float("-inf")), b"-Infinity"),
        ("BooleanDeserializer", b"\x01", b"true"),
        ("UUIDDeserializer", b"123e4567-e89b-12d3-a456-426614174000", b"123e4567-e89b-12d3-a456-426614174000"),
        ("StringDeserializer", b"as it is", b"as it is"),
    ],
)
def test_deserializers(name: str, content: bytes, shown: bytes) -> None:
    record = RECORD._replace(key=content, value=None)
    properties = {"print.key": "true", "key.deserializer": name, "value.deserializer": name}
    assert make_formatter("default", properties)(record) == shown + b"\tnull\n"


def test_what_a_deserializer_cannot_read() -> None:
    write = make_formatter("default", {"value.deserializer": "LongDeserializer"})
    with pytest.raises(ValueError, match="no long, which has 8"):
        write(RECORD._replace(value=b"abc"))
    with pytest.raises(ValueError, match="There is no deserializer"):
        make_formatter("default", {"key.deserializer": "com.example.Mine"})


def test_json_formatter() -> None:
    parsed = json.loads(make_formatter("json", {})(RECORD))
    assert (parsed["offset"], parsed["key"], parsed["headers"]) == (7, "k", [["h", "x"], ["n", None]])


@pytest.mark.parametrize(
    ("name", "properties"), [("fancy", {}), ("default", {"print.everything": "x"}), ("noop", {"a": "b"})]
)
def test_formatters_that_are_not_there(name: str, properties: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        make_formatter(name, properties)


def test_java_properties_of_clients() -> None:
    producer = producer_settings({"acks": "all", "compression.type": "zstd", "linger.ms": "7", "client.id": "x"})
    assert (producer.acks, producer.compression, producer.linger_ms) == (-1, Codec.ZSTD, 7)
    choose = producer_settings({"partitioner.ignore.keys": "true"}).partitioner
    assert choose is not None
    led = {number: PartitionInfo(number, 1, 0, (), (), ()) for number in range(100)}
    assert len({choose(b"%d" % key, led) for key in range(50)}) == 1
    consumer = consumer_settings(
        {
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "enable.auto.commit": "false",
        }
    )
    assert (consumer.read_committed, consumer.assignors, consumer.auto_commit) == (True, ("roundrobin",), False)
    for wrong in ({"acks": "2"}, {"compression.type": "rar"}, {"linger": "1"}, {"linger.ms": "soon"}):
        with pytest.raises(ValueError):
            producer_settings(wrong)
    for wrong in ({"isolation.level": "some"}, {"auto.offset.reset": "middle"}, {"nothing": "x"}):
        with pytest.raises(ValueError):
            consumer_settings(wrong)


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        (r"%t-%p@%o %k=%s\n", RECORD, b"t-2@7 k=v\n"),
        (r"%T %D|%h", RECORD, b"1234 1970-01-01T00:00:01.234Z|h=x,n="),
        ("%K %S|%k%s|%D", BARE, b"-1 -1||-"),
        (r"%R%%\x00\t\\", RECORD, b"\x00\x00\x00\x01%\x00\t\\"),
    ],
)
def test_format_strings(text: str, record: ConsumedRecord, expected: bytes) -> None:
    assert format_string(text)(record) == expected


def test_format_strings_encode() -> None:
    assert format_string("%k %s %h", show=deserializer("hex"))(RECORD) == b"6b 76 h=78,n="


@pytest.mark.parametrize(("text", "complaint"), [("%q", "no token %q"), (r"\q", "escape"), ("5%", "twice")])
def test_format_strings_that_make_no_sense(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        format_string(text)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("value", [b"", b"text \xc5\xaf", b"\xff\xfe\x00", None, b'{"base64": "x"}'])
def test_json_keeps_every_byte(value: bytes | None, encoding: str) -> None:
    record = RECORD._replace(key=value, value=value, headers=[("h", value), ("n", None)])
    line = make_formatter("json", {"encoding": encoding})(record)
    read = parse_record(line, number=1)
    assert (read.key, read.value, read.headers) == (value, value, record.headers)
    assert (read.partition, read.timestamp_ms) == (2, 1234)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"value": {"a": [1, "ů"]}}', (None, '{"a":[1,"ů"]}'.encode(), [], None, None)),
        ('{"key": 5, "value": "v", "headers": {"a": "1"}}', (b"5", b"v", [("a", b"1")], None, None)),
        ('{"value": {"hex": "00ff"}, "timestamp": 9, "partition": 1}', (None, b"\x00\xff", [], 9, 1)),
        ('{"key": "k"}', (b"k", None, [], None, None)),
        ('{"value": "v", "timestamp": -1}', (None, b"v", [], None, None)),
    ],
)
def test_json_lines(line: str, expected: tuple[Any, ...]) -> None:
    assert tuple(parse_record(line.encode(), number=1)) == expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x", "Line 3 is not JSON"),
        ("[]", "not a JSON object"),
        ('{"vlaue": 1}', "Did you mean 'value'"),
        ('{"headers": 5}', "headers must be"),
        ('{"partition": "1"}', "whole number"),
        ('{"value": {"base64": "%"}}', "is not base64"),
    ],
)
def test_json_lines_that_do_not_fit(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_record(line.encode(), number=3)


NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", NOW - 600_000),
        ("1h30m", NOW - 5_400_000),
        ("2d", NOW - 172_800_000),
        ("500ms", NOW - 500),
        ("PT1H", NOW - 3_600_000),
        ("beginning", EARLIEST),
        ("end", LATEST),
        ("latest", LATEST),
        ("2024-06-01", 1_717_200_000_000),
        ("2024-06-01 12:00", 1_717_243_200_000),
        ("2024-06-01T12:00:00.5+02:00", 1_717_236_000_500),
        ("1717200000000", 1_717_200_000_000),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert parse_moment(text, now_ms=NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "10x", "2024-13-01"])
def test_moments_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match=r"no point in time|no date"):
        parse_moment(text, now_ms=NOW)
