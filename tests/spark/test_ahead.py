"""Records of small batches that the planning process reads ahead, without Spark and with it."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import InputPartition

from ottla.spark.datasource import OttlaDataSource
from ottla.spark.options import SourceOptions, source_options
from ottla.spark.source import ahead
from ottla.spark.source.ahead import Ahead
from ottla.spark.source.ranges import Range
from ottla.spark.source.stream import OttlaStreamReader
from tests.spark.test_stream_read import Stream, values
from tests.support.spark_topics import Topics, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def options_of(topics: Topics, name: str) -> SourceOptions:
    return source_options({"bootstrap.servers": topics.bootstrap, "subscribe": name}, streaming=True)


def taken(records: Ahead) -> list[bytes] | None:
    batches = records.take()
    return None if batches is None else [value for batch in batches for value in batch.column("value").to_pylist()]


def test_one_small_task_is_read_ahead(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 30))
    records, full_range = Ahead(options_of(topics, name)), Range(name, topics.id_of(name), 0, 5, 30)
    assert taken(records) is None
    records.request([full_range])
    assert taken(records) == numbered(5, 30)
    assert taken(records) is None, "they are taken once"
    records.request([full_range])
    records.forget()
    assert taken(records) is None
    records.request([full_range, full_range])
    assert taken(records) is None, "Spark would make one task of two"
    records.request([Range(name, topics.id_of(name), 0, 0, 201)])
    assert taken(records) is None, "a large batch is for its task"


def test_records_that_are_too_large_are_left_to_the_task_and_not_requested_again_soon(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, [b"x" * 50_000])
    topics.send(name, [b"y" * 50_000])
    records, piece = Ahead(options_of(topics, name)), Range(name, topics.id_of(name), 0, 0, 2)
    small = Range(name, topics.id_of(name), 0, 0, 1)
    records.request([piece])
    assert taken(records) is None
    for _ in range(ahead._PAUSE_BATCHES):
        records.request([small])
        assert taken(records) is None
    records.request([small])
    assert taken(records) == [b"x" * 50_000]


def test_a_range_that_is_not_there_is_left_to_the_task(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 3))
    records = Ahead(options_of(topics, name))
    records.request([Range(name, topics.id_of(name), 0, 0, 9)])
    assert taken(records) is None


def test_only_the_process_that_plans_a_stream_reads_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ahead.takes_records()
    calls: list[Any] = []
    runner: Any = SimpleNamespace(
        __spec__=SimpleNamespace(name=ahead._RUNNER), partitions_func=lambda *arguments: calls.append(arguments)
    )
    monkeypatch.setitem(ahead.sys.modules, "__main__", runner)
    assert ahead.takes_records()
    prepared = runner.partitions_func
    assert ahead.takes_records()
    assert runner.partitions_func is prepared, "once is enough"

    plain = object()
    runner.partitions_func(plain, 1)
    assert calls.pop() == (plain, 1)
    reader = SimpleNamespace(partitions=lambda *_: ["piece"], records_ahead=lambda *_: "records")
    runner.partitions_func(reader, 2)
    carrier, two = calls.pop()
    assert (carrier.partitions({}, {}), carrier.getCache({}, {}), two) == (["piece"], "records", 2)


def test_spark_takes_records_ahead_for_one_task_only(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    reads = tmp_path / "reads"
    reads.mkdir()

    class Noting(OttlaStreamReader):
        def read(self, partition: InputPartition) -> Any:
            (reads / str(uuid.uuid4())).touch()
            return super().read(partition)

    class Noted(OttlaDataSource):
        @classmethod
        def name(cls) -> str:
            return "noted"

        def streamReader(self, schema: Any) -> Any:
            return Noting(source_options(self.options, streaming=True))

    def tasks_that_read() -> int:
        names = list(reads.iterdir())
        for path in names:
            path.unlink()
        return len(names)

    spark.dataSource.register(Noted)
    name = topics.create(partitions=2)
    stream = Stream(spark, topics, tmp_path / "checkpoint", subscribe=name)
    stream.source = "noted"
    topics.send(name, numbered(0, 5))
    assert values(stream.run()) == numbered(0, 5)
    assert tasks_that_read() == 0, "the batch of one partition"
    topics.send(name, numbered(5, 8))
    topics.send(name, numbered(8, 12), partition=1)
    assert values(stream.run()) == numbered(5, 12)
    assert tasks_that_read() == 2, "Spark would make one task of them"
    topics.send(name, numbered(12, 400))
    assert values(stream.run()) == numbered(12, 400)
    assert tasks_that_read() == 1, "a large batch"
    assert stream.progress()[-1]["sources"][0]["latestOffset"] == {
        name: {"0": 396, "1": 4},
        "@id": {name: topics.id_of(name)},
    }
