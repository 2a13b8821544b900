"""A new topic from a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.lake.backfill import Backfill
from ottla.lake.errors import LakeError
from tests.lake.lakes import Lake
from tests.support.spark_topics import Content, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def contents(topics: Topics, name: str) -> list[tuple[Any, ...]]:
    return [
        (record.partition, record.key, record.value, list(record.headers), record.timestamp)
        for record in topics.read(name)
    ]


def test_every_record_once_and_in_order_also_after_an_interruption(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, copy = topics.create(partitions=2, retention_ms="-1"), topics.name()
    lake = Lake(topics, tmp_path)
    pipeline = lake.pipeline(spark, name)
    for first in (0, 6):
        for partition in (0, 1):
            some: list[Content] = [
                (b"%d" % number, None if number == 3 else b"v", [("h", None)]) for number in range(first, first + 6)
            ]
            topics.send(name, some[: 6 - partition], partition=partition, timestamp_ms=1_000 + first)
        pipeline.step()
    expected = contents(topics, name)

    # It ends after the first portion; the table grows before it continues.
    work = Backfill(lake.settings, name, copy)
    ends = work.ends
    work.ends = dict.fromkeys(ends, 5)
    work.run(spark, portion=5)
    topics.send(name, [b"late"])
    pipeline.step()
    topics.delete(name)
    again = Backfill(lake.settings, name, copy)
    assert again.ends == ends == {0: 12, 1: 10}
    again.run(spark, portion=5)
    again.run(spark, portion=5)
    assert contents(topics, copy) == expected

    other = topics.create(partitions=2)
    topics.send(other, [b"x"])
    with pytest.raises(LakeError, match="has records already"):
        Backfill(lake.settings, name, other)
    with pytest.raises(LakeError, match="There is no table"):
        Backfill(lake.settings, "unknown", copy)
