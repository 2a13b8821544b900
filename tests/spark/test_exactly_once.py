"""Exactly once, when workers die at any step of a task, and the driver before it records a batch.

The same with processes that are really killed, for any duration: tests/faults/test_spark_exactly_once.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla.spark
from ottla.spark.sink import each_batch
from tests.support.spark_crashes import CrashingDataSource, arm
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = pytest.mark.spark

RECORDS = 120


def stream(spark: SparkSession, topics: Topics, source: str) -> DataFrame:
    return (
        spark.readStream.format("ottla")
        .option("bootstrap.servers", topics.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS // 3)
        .load()
    )


def options_of(topics: Topics, target: str, directory: Path, *, markers: bool = True) -> dict[str, str]:
    return {
        "bootstrap.servers": topics.bootstrap,
        "topic": target,
        "query.name": f"crashing-{target}",
        "crash.directory": str(directory),
        "crash.markers": str(markers).lower(),
    }


def run(writer: DataStreamWriter, directory: Path) -> None:
    """Runs a query until everything is written, starting it again as often as it fails."""
    for _ in range(5):
        try:
            query = writer.option("checkpointLocation", str(directory / "checkpoint"))
            ottla.spark.start(query, availableNow=True).awaitTermination(400)
        except Exception as error:
            if "the driver dies" not in str(error):
                raise
        else:
            return
    raise AssertionError("the query never came to its end")


@pytest.fixture(autouse=True)
def crashing(spark: SparkSession) -> None:
    spark.dataSource.register(CrashingDataSource)


def filled(topics: Topics) -> str:
    source = topics.create(partitions=2)
    for partition in range(2):
        topics.send(source, [f"{number}".encode() for number in range(partition, RECORDS, 2)], partition=partition)
    return source


def test_every_record_arrives_once_despite_kills(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = filled(topics), topics.create(partitions=3)
    for step in ("marked", "committed", "commit"):
        arm(tmp_path, step)
    copy = stream(spark, topics, source).select("value").writeStream.format("ottla-crashing")
    run(copy.options(**options_of(topics, target, tmp_path)), tmp_path)
    assert sorted(int(record.value or b"") for record in topics.read(target)) == list(range(RECORDS))
    assert not [path for path in tmp_path.iterdir() if path.is_file()], "a process did not die"
    ongoing = topics.admin.call(lambda admin: admin.transactions.find(states=["Ongoing"]))
    assert not [transaction for transaction in ongoing if transaction.transactional_id.startswith(f"crashing-{target}")]


def test_without_the_marker_the_same_death_shows_duplicates(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, target = filled(topics), topics.create(partitions=3)
    arm(tmp_path, "committed")
    copy = stream(spark, topics, source).select("value").writeStream.format("ottla-crashing")
    run(copy.options(**options_of(topics, target, tmp_path, markers=False)), tmp_path)
    counts = Counter(int(record.value or b"") for record in topics.read(target))
    assert set(counts) == set(range(RECORDS))
    assert max(counts.values()) == 2


def test_state_and_what_was_written_agree(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """A skipped task must still consume its rows: otherwise the state would lose a value and emit it again."""
    source, target = filled(topics), topics.create(partitions=3)
    for partition in range(2):
        again = [str(number).encode() for number in range(partition, RECORDS, 2)]
        topics.send(source, again, partition=partition)
    for step in ("written", "committed"):
        arm(tmp_path, step)
    distinct = stream(spark, topics, source).select("value").dropDuplicates(["value"])
    run(distinct.writeStream.format("ottla-crashing").options(**options_of(topics, target, tmp_path)), tmp_path)
    assert sorted(int(record.value or b"") for record in topics.read(target)) == list(range(RECORDS))


@pytest.mark.faults
def test_running_counts_through_foreach_batch(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """The output mode `update`, which Spark does not offer to Python sinks: a growing count is never written twice."""
    source, target = filled(topics), topics.create(partitions=3)
    for step in ("committed", "commit"):
        arm(tmp_path, step)
    counts = (
        stream(spark, topics, source)
        .selectExpr("CAST(CAST(value AS STRING) AS INT) % 5 AS number")
        .groupBy("number")
        .count()
        .selectExpr("CAST(number AS STRING) AS key", "CAST(count AS STRING) AS value")
    )
    write = each_batch(options_of(topics, target, tmp_path), source="ottla-crashing")
    run(counts.writeStream.outputMode("update").foreachBatch(write), tmp_path)
    counts_written = [(int(record.key or b""), int(record.value or b"")) for record in topics.read(target)]
    assert len(counts_written) == len(set(counts_written)), "a count was said twice"
    assert {
        number: max(count for key, count in counts_written if key == number) for number in range(5)
    } == dict.fromkeys(range(5), RECORDS // 5)
