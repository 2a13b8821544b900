"""Tables with a row for each key, of compacted topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lake.lakes import Lake
from tests.support.spark_topics import Content, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def rows_by_key(lake: Lake, topic: str) -> dict[bytes, bytes]:
    rows = lake.all_rows(topic)
    values = {row["key"]: row["value"] for row in rows}
    assert len(values) == len(rows)
    return values


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_the_last_record_of_a_key_is_its_row(
    spark: SparkSession, topics: Topics, tmp_path: Path, table_format: str
) -> None:
    name = topics.create(partitions=2, cleanup_policy="compact")
    lake = Lake(topics, tmp_path, mode="upsert", upsert_buckets="4", format=table_format)
    expected: dict[bytes, bytes] = {}

    def send(changes: list[tuple[int, int | None]]) -> None:
        sent: dict[int, list[Content]] = {0: [], 1: []}
        for number, value in changes:
            key = b"%d" % number
            sent[number % 2].append((key, None if value is None else b"%d" % value, []))
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = b"%d" % value
        for partition, contents in sent.items():
            topics.send(name, contents, partition=partition)

    send([(number, 0) for number in range(40)] + [(3, 1), (3, 2), (5, None), (100, None)])
    assert lake.pipeline(spark, name).step() == 44
    assert rows_by_key(lake, name) == expected
    files = paths(lake, name)

    # One bucket changes: the files of the other buckets stay.
    send([(7, 9)])
    assert lake.pipeline(spark, name).step() == 1
    assert rows_by_key(lake, name) == expected
    assert (len(files - paths(lake, name)), len(paths(lake, name) - files)) == (1, 1)

    # The buckets are those that the table was made with.
    send([(number, None) for number in range(40)] + [(8, 1)])
    Lake(topics, tmp_path, mode="upsert", upsert_buckets="7", format=table_format).pipeline(spark, name).step()
    assert rows_by_key(lake, name) == expected == {b"8": b"1"}
    if table_format == "iceberg":
        snapshot: Any = lake.table(name).current_snapshot()
        assert snapshot.summary["ottla.topic"] == name


def paths(lake: Lake, topic: str) -> set[str]:
    if lake.settings.table(topic, {}).format == "delta":
        return set(lake.delta(topic).table.file_uris())
    return {task.file.file_path for task in lake.table(topic).scan().plan_files()}
