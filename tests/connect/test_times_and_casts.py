"""Times are those of UTC in every time zone of the session, and numbers are cast as Java casts them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ottla.connect.api.schema import Schema
from ottla.connect.plugins.converters.text import time_text, timestamp_text
from ottla.connect.plugins.transforms.cast import cast
from ottla.connect.plugins.transforms.times import format_utc, parse_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

# On this day, 02:30 does not exist in New York.
MISSING_HOUR = datetime.datetime(2024, 3, 10, 2, 30, tzinfo=datetime.UTC)
SECOND = "yyyy-MM-dd HH:mm:ss"


@pytest.fixture
def new_york(plain_spark: SparkSession) -> Iterator[SparkSession]:
    before = plain_spark.conf.get("spark.sql.session.timeZone")
    plain_spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield plain_spark
    plain_spark.conf.set("spark.sql.session.timeZone", before)


def millis(moment: datetime.datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (SECOND, "2024-03-10 02:30:00"),
        ("yyyy-MM-dd'T'HH:mmXXX", "2024-03-10T02:30Z"),
        ("yyyy-MM-dd'\"'HH:mm", '2024-03-10"02:30'),
        ("yyyy-MM-dd'\\'HH:mm", "2024-03-10\\02:30"),
        ("yyyy-MM-dd''HH:mm", "2024-03-10'02:30"),
    ],
)
def test_an_hour_that_the_session_does_not_have(new_york: SparkSession, pattern: str, text: str) -> None:
    from pyspark.sql import functions as sql

    moment = sql.timestamp_millis(sql.lit(millis(MISSING_HOUR)))
    row = new_york.range(1).select(
        format_utc(moment, pattern), sql.unix_millis(parse_utc(sql.lit(text), pattern)), timestamp_text(moment)
    )
    assert row.collect() == [(text, millis(MISSING_HOUR), "2024-03-10T02:30:00.000Z")]


def test_texts_of_times(new_york: SparkSession) -> None:
    from pyspark.sql import functions as sql

    at_seven = datetime.datetime(2024, 7, 1, 7, tzinfo=datetime.UTC)
    cases: list[tuple[str, str | None, datetime.datetime | None]] = [
        ("yyyy-MM-dd HH:mmXXX", "2024-07-01 09:00+02:00", at_seven),
        ("yyyy-MM-dd HH:mm VV", "2024-07-01 16:00 Asia/Tokyo", at_seven),
        ("yyyy-MM-dd'Z'HH:mm", "2024-07-01Z07:00", at_seven),
        *((SECOND, text, None) for text in (None, "", "null", '"', "\\", '2024-07-01 07:00:00", "x": "', "2024-07-01")),
    ]
    parsed = [sql.unix_millis(parse_utc(sql.lit(text).cast("string"), pattern)) for pattern, text, _ in cases]
    nothing = sql.lit(None)
    formatted = [format_utc(nothing.cast("timestamp"), SECOND), timestamp_text(nothing.cast("timestamp"))]
    (row,) = new_york.range(1).select(sql.array(*parsed), *formatted, time_text(nothing.cast("int"))).collect()
    assert list(row) == [[millis(moment) for _, _, moment in cases], None, None, None]


@pytest.mark.parametrize(
    ("given", "text", "results"),
    [
        # (byte) 3e9 is the low byte of (int) 3e9, which is the largest int.
        ("double", "3e9", {"int8": -1, "int16": -1, "int32": 2**31 - 1, "int64": 3_000_000_000}),
        ("double", "-3e9", {"int8": 0, "int16": 0, "int32": -(2**31), "int64": -3_000_000_000}),
        ("double", "1e300", {"int8": -1, "int32": 2**31 - 1, "int64": 2**63 - 1, "boolean": True}),
        ("double", "300.7", {"int8": 44, "int16": 300, "int32": 300, "int64": 300}),
        ("double", "0.5", {"int32": 0, "boolean": False}),
        ("double", "NaN", {"int8": 0, "int32": 0, "int64": 0, "boolean": False}),
        ("float", "-Infinity", {"int8": 0, "int32": -(2**31), "int64": -(2**63), "boolean": True}),
        ("float", None, {"int8": None, "int64": None, "boolean": None}),
        # Whole numbers lose their high bits.
        ("int64", "3000000000", {"int8": 0, "int32": 3_000_000_000 - 2**32, "int64": 3_000_000_000}),
        ("int64", "9007199254740993", {"int64": 9_007_199_254_740_993}),
    ],
)
def test_casts_of_numbers(plain_spark: SparkSession, given: str, text: str | None, results: dict[str, Any]) -> None:
    from pyspark.sql import functions as sql

    number = sql.lit(text).cast("bigint" if given == "int64" else given)
    columns = [cast(number, Schema(type=given, optional=True), kind)[0] for kind in results]
    assert plain_spark.range(1).select(*columns).collect() == [tuple(results.values())]
