"""Spark's source and sink and Connect's tasks in a secured cluster, with the settings of Kafka's clients."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla.spark
from ottla.model.config import parse_properties
from tests.support.connect_live import LiveWorker, worker_properties
from tests.support.secured_up import SecuredUp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredUp]:
    with SecuredUp(tmp_path_factory.mktemp("secured") / "one") as running:
        yield running


def client_properties(cluster: SecuredUp) -> dict[str, str]:
    return parse_properties(cluster.file("client.properties").read_text())


def options(cluster: SecuredUp) -> dict[str, str]:
    """The options of the cluster in the form of Spark's own connector."""
    return {f"kafka.{name}": text for name, text in client_properties(cluster).items()}


def read(spark: SparkSession, cluster: SecuredUp, topic: str) -> DataFrame:
    return spark.read.format("ottla").options(**options(cluster)).option("subscribe", topic).load()


def test_spark_writes_and_reads_over_tls_with_a_login(spark: SparkSession, secured: SecuredUp, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("k", "one espresso")], "key string, value string")
    rows.write.format("ottla").options(**options(secured)).option("topic", "written").mode("append").save()
    stream = spark.readStream.format("ottla").options(**options(secured)).option("subscribe", "written")
    copied = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("ottla")
        .options(**options(secured))
        .option("topic", "copied")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = ottla.spark.start(copied, availableNow=True)
    query.awaitTermination(240)
    assert query.exception() is None
    frame = read(spark, secured, "copied")
    assert [row["value"] for row in frame.selectExpr("cast(value as string) value").collect()] == ["one espresso"]
    with redirect_stdout(io.StringIO()) as output:
        frame.explain(extended=True)
    assert secured.librdkafka()["sasl.password"] not in output.getvalue()


def test_a_wrong_password_says_so(spark: SparkSession, secured: SecuredUp) -> None:
    reader_options = options(secured)
    password = secured.librdkafka()["sasl.password"]
    reader_options["kafka.sasl.jaas.config"] = reader_options["kafka.sasl.jaas.config"].replace(password, "guess")
    with pytest.raises(Exception, match="refused the login of admin") as failure:
        spark.read.format("ottla").options(**reader_options).option("subscribe", "written").load().count()
    assert password not in str(failure.value)


def test_connect_moves_records_of_a_secured_cluster(spark: SparkSession, secured: SecuredUp, tmp_path: Path) -> None:
    """The worker's own settings hold for its group, its topics and the records of its connectors."""
    source = tmp_path / "lines.txt"
    source.write_text("espresso\nristretto\n")
    settings = {**worker_properties(secured.bootstrap, "secured"), **client_properties(secured)}
    text = "org.apache.kafka.connect.storage.StringConverter"
    copy = tmp_path / "copy.txt"
    with LiveWorker(settings, spark) as worker:
        worker.put("lines", connector_class="FileStreamSource", file=str(source), topic="lines", value_converter=text)
        worker.put("files", connector_class="FileStreamSink", file=str(copy), topics="lines", value_converter=text)
        worker.wait(lambda: copy.exists() and copy.read_text().count("\n") == 2, "lines", "files")
    assert sorted(copy.read_text().split()) == ["espresso", "ristretto"]
