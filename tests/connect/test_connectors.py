"""Our connectors at work: a worker, a broker and Spark, from files to topics to files, directories and web services."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from ottla.connect.plugins.connectors.generator import GeneratorReader, GeneratorSourceConnector
from ottla.model.errors import KafkaError
from ottla.testing import cluster
from tests.support.connect_live import LiveWorker, visible_files, worker_properties
from tests.support.spark_topics import Topics
from tests.unit.connect.test_http_sink import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with cluster() as running:
        client = Topics(running.bootstrap)
        yield client
        client.close()


@pytest.fixture(scope="module")
def worker(topics: Topics, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWorker]:
    checkpoints = str(tmp_path_factory.mktemp("checkpoints"))
    properties = worker_properties(topics.bootstrap, "live", checkpoint_location=checkpoints)
    with LiveWorker(properties, spark) as running:
        yield running


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_file_to_topic_to_file(worker: LiveWorker, topics: Topics, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    topic = topics.create(partitions=1)
    source.write_text("".join(f"line {number}\n" for number in range(1000)))
    worker.put("lines-in", connector_class="FileStreamSource", file=str(source), topic=topic, value_converter=STRING)
    worker.put(
        "lines-out",
        connector_class="org.apache.kafka.connect.file.FileStreamSinkConnector",
        file=str(target),
        topics=topic,
        value_converter=STRING,
    )
    worker.wait(lambda: len(lines(target)) >= 1000, "lines-in", "lines-out")
    with source.open("a") as file:
        file.write("one more\n")
    worker.wait(lambda: len(lines(target)) >= 1001, "lines-in", "lines-out")
    assert lines(target) == lines(source)
    offsets = worker.request("GET", "/connectors/lines-in/offsets")["offsets"]
    assert offsets[0]["partition"] == {"filename": str(source)}
    assert offsets[0]["offset"]["position"] == source.stat().st_size
    for name in ("lines-in", "lines-out"):
        worker.request("DELETE", f"/connectors/{name}")


def test_made_up_orders_to_partitioned_files_of_every_kind(worker: LiveWorker, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=2)
    worker.put(
        "orders",
        connector_class="GeneratorSource",
        template="orders",
        count="500",
        rate="0",
        key_field="order_id",
        topic=topic,
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        value_converter_schemas_enable="true",
        key_converter="org.apache.kafka.connect.converters.LongConverter",
    )
    kinds = ("parquet", "json")
    for kind in kinds:
        worker.put(
            f"files-{kind}",
            connector_class="DirectorySink",
            path=str(tmp_path / kind),
            format=kind,
            topics=topic,
            partition_by="paid",
            tasks_max="2",
            value_converter="JsonConverter",
            value_converter_schemas_enable="true",
            key_converter="LongConverter",
        )
    names = [f"files-{kind}" for kind in kinds]
    worker.wait(lambda: len(_parquet_ids(tmp_path / "parquet")) >= 500, "orders", *names)
    worker.wait(lambda: len(_json_rows(tmp_path / "json")) >= 500, "orders", *names)
    assert sorted(_parquet_ids(tmp_path / "parquet")) == list(range(500))
    settings = GeneratorSourceConnector.config_definitions().parse({"topic": topic, "template": "orders", "rate": "0"})
    generated = GeneratorReader(settings).read({}, None, {"record": 500})
    wanted = {row["value"]["order_id"]: row["value"] for batch in generated for row in batch.to_pylist()}
    for row in _json_rows(tmp_path / "json"):
        order = wanted.pop(row["order_id"])
        assert (row["item"], row["quantity"], row["price"]) == (order["item"], order["quantity"], order["price"])
        assert row["at"] == order["at"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    assert not wanted
    for name in ("orders", *names):
        worker.request("DELETE", f"/connectors/{name}")


def test_files_of_a_directory_become_records(worker: LiveWorker, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    for number in range(3):
        rows = [{"id": number * 10 + index, "name": f"n{index}"} for index in range(10)]
        (tmp_path / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    worker.put(
        "dir", connector_class="DirectorySource", path=str(tmp_path), format="json", topic=topic, settle_ms="0",
        key_field="id", key_converter="LongConverter", tasks_max="2",
    )  # fmt: skip
    records: list[Any] = []

    def arrived() -> bool:
        records[:] = topics.read(topic)
        return len(records) >= 30

    worker.wait(arrived, "dir")
    assert sorted(json.loads(record.value)["id"] for record in records) == list(range(30))
    worker.request("DELETE", "/connectors/dir")


def test_records_reach_a_web_service_that_stumbles(worker: LiveWorker, topics: Topics) -> None:
    topic = topics.create()
    topics.send(topic, [(None, json.dumps({"id": number}).encode(), ()) for number in range(25)])
    service = Service()
    service.answers = [503, 200, None, 429]
    try:
        worker.put(
            "web", connector_class="HttpSink", http_url=service.url + "/${topic}", http_batch_records="10",
            http_retry_backoff_ms="10", topics=topic,
        )  # fmt: skip
        taken: dict[str, list[int]] = {}

        def arrived() -> bool:
            for request in list(service.requests):
                rows = json.loads(request["body"])
                taken[request["headers"]["Idempotency-Key"]] = [row["id"] for row in rows]
            return sum(len(rows) for rows in taken.values()) >= 25

        worker.wait(arrived, "web")
        assert sorted(row for rows in taken.values() for row in rows) == list(range(25))
    finally:
        worker.request("DELETE", "/connectors/web")
        service.server.shutdown()
        service.server.server_close()


def test_bad_records_go_to_the_dead_letters_and_the_rest_goes_on(
    worker: LiveWorker, topics: Topics, tmp_path: Path
) -> None:
    topic, dead = topics.create(), topics.name()
    messages = [b"junk" if number % 5 == 2 else json.dumps({"id": number}).encode() for number in range(20)]
    topics.send(topic, [(b"k", message, ()) for message in messages])
    target = tmp_path / "out.txt"
    worker.put(
        "tolerant", connector_class="FileStreamSink", file=str(target), topics=topic, errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead, errors_deadletterqueue_topic_replication_factor="1",
        errors_deadletterqueue_context_headers_enable="true", transforms="x", transforms_x_type="ExtractField$Value",
        transforms_x_field="id",
    )  # fmt: skip
    worker.wait(lambda: len(lines(target)) >= 16, "tolerant")
    records: list[Any] = []

    def arrived() -> bool:
        # The first record creates the topic.
        with contextlib.suppress(KafkaError):
            records[:] = topics.read(dead)
        return len(records) >= 4

    worker.wait(arrived, "tolerant")
    assert [int(line) for line in lines(target)] == [number for number in range(20) if number % 5 != 2]
    assert {record.value for record in records} == {b"junk"}
    headers = [dict(record.headers) for record in records]
    assert sorted(int(header["__connect.errors.offset"]) for header in headers) == [2, 7, 12, 17]
    assert headers[0]["__connect.errors.topic"] == topic.encode()
    worker.request("DELETE", "/connectors/tolerant")


def test_without_tolerance_a_bad_record_fails_the_task(worker: LiveWorker, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.send(topic, [(None, b"junk", ())])
    worker.put(
        "strict", connector_class="FileStreamSink", file=str(tmp_path / "out.txt"), topics=topic,
        tasks_restart_max_attempts="0",
    )  # fmt: skip
    assert "VALUE_CONVERTER in JsonConverter failed" in worker.wait_for_failure("strict")
    worker.request("DELETE", "/connectors/strict")


def test_any_sink_of_spark(worker: LiveWorker, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.send(topic, [(None, json.dumps({"id": number}).encode(), ()) for number in range(10)])
    worker.put(
        "orc", connector_class="SparkSink", spark_format="parquet", spark_option_path=str(tmp_path / "out"),
        topics=topic, columns_metadata="offset",
    )  # fmt: skip
    worker.wait(lambda: len(_parquet_ids(tmp_path / "out", "id")) >= 10, "orc")
    assert sorted(_parquet_ids(tmp_path / "out", "_offset")) == list(range(10))
    worker.request("DELETE", "/connectors/orc")


def test_any_streaming_source_of_spark(worker: LiveWorker, topics: Topics, spark: SparkSession) -> None:
    topic = topics.create()
    # An earlier run of the task took too long to stop, and its query is still there.
    left_behind = spark.readStream.format("rate").load().writeStream.format("noop").queryName("live-rate-0").start()
    worker.put(
        "rate", connector_class="SparkSource", spark_format="rate-micro-batch", spark_option_rowsPerBatch="20",
        spark_option_numPartitions="1", spark_key="CAST(value AS STRING)", topic=topic,
    )  # fmt: skip
    records: list[Any] = []

    def arrived(wanted: int) -> bool:
        records[:] = topics.read(topic)
        return len(records) >= wanted

    worker.wait(lambda: arrived(60), "rate")
    assert not left_behind.isActive
    worker.request("PUT", "/connectors/rate/pause")
    worker.request("PUT", "/connectors/rate/resume")
    more = len(records) + 60
    worker.wait(lambda: arrived(more), "rate")
    worker.request("DELETE", "/connectors/rate")
    assert [json.loads(record.value)["value"] for record in records] == list(range(len(records)))
    assert [record.key for record in records] == [str(number).encode() for number in range(len(records))]


def _parquet_ids(path: Path, column: str = "order_id") -> list[int]:
    values: list[int] = []
    for file in visible_files(path, ".parquet"):
        values += pyarrow.parquet.ParquetFile(file).read([column]).column(0).to_pylist()
    return values


def _json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in visible_files(path, ".json") for line in file.read_text().splitlines()]
