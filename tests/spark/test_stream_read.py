"""Streams over topics: `spark.readStream.format("ottla")`.

Each test runs queries over the available records (`availableNow`) one after another on one checkpoint: a stream at the
pace of the test. The plans and reads of the source are tested without Spark, in `tests/integration`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from ottla.spark import start
from tests.support.spark_topics import Topics, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


class Stream:
    """A query that runs repeatedly on one checkpoint."""

    source = "ottla"

    def __init__(self, spark: SparkSession, topics: Topics, place: Path, **options: str) -> None:
        self._spark = spark
        self._place = place
        self._options = {"bootstrap.servers": topics.bootstrap, "startingOffsets": "earliest", **options}
        self.query: StreamingQuery | None = None

    def run(self, **options: str) -> list[Any]:
        """The rows that are available now, in the order of their offsets."""
        frame = self._spark.readStream.format(self.source).options(**self._options, **options).load()
        rows: list[Any] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect())).option(
            "checkpointLocation", str(self._place)
        )
        self.query = start(writer, availableNow=True)
        assert self.query.awaitTermination(300)
        return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))

    def progress(self) -> list[Any]:
        assert self.query is not None
        return [json.loads(progress.json) for progress in self.query.recentProgress]


def values(rows: list[Any]) -> list[bytes]:
    return [row.value for row in rows]


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name = topics.create(partitions=2)
    topics.send(name, numbered(0, 100))
    topics.send(name, numbered(100, 200), partition=1)
    stream = Stream(spark, topics, tmp_path, subscribe=name, maxOffsetsPerTrigger="60")
    assert values(stream.run()) == numbered(0, 200)
    sizes = [report["numInputRows"] for report in stream.progress()]
    assert [size for size in sizes if size] == [60, 60, 60, 20]
    assert stream.progress()[-1]["sources"][0]["latestOffset"] == {
        name: {"0": 100, "1": 100},
        "@id": {name: topics.id_of(name)},
    }

    assert stream.run() == []
    topics.send(name, numbered(200, 210))
    # A partition that appears later is read from its first record.
    topics.grow(name, 3)
    topics.send(name, numbered(210, 215), partition=2)
    assert sorted(values(stream.run())) == numbered(200, 215)


def test_checkpoints_on_a_local_disk_have_the_faster_file_manager(spark: SparkSession) -> None:
    """Every query of these tests runs with it; an unknown class would end them all."""
    manager = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    assert manager is not None
    assert manager.endswith(".FileSystemBasedCheckpointFileManager")


def test_a_log_that_was_trimmed(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 10))
    stream = Stream(spark, topics, tmp_path, subscribe=name)
    assert values(stream.run()) == numbered(0, 10)
    topics.send(name, numbered(10, 30))
    topics.delete_records(name, before=15)
    with pytest.raises(StreamingQueryException, match="offsets 10 to 14 were deleted"):
        stream.run()
    assert values(stream.run(onDataLoss="report")) == numbered(15, 30)
    lost = [report["sources"][0]["endOffset"].get("@lost") for report in stream.progress()]
    assert {name: {"0": 5}} in lost
