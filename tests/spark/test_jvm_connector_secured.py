"""Spark's own Kafka connector with the file that `ottla up --secure` wrote: TLS, a login with SCRAM, and ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.cli.app import run
from ottla.model.config import parse_properties
from ottla.spark.jvm_connector import ConnectorUnavailableError, connector_jars
from tests.support.secured_up import SecuredUp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredUp]:
    try:
        connector_jars()
    except ConnectorUnavailableError as error:
        pytest.skip(str(error))
    with SecuredUp(tmp_path_factory.mktemp("secured") / "one") as running:
        yield running


def options(cluster: SecuredUp) -> dict[str, str]:
    properties = parse_properties(cluster.file("client.properties").read_text())
    return {f"kafka.{name}": text for name, text in properties.items()}


def test_a_job_copies_a_topic(spark: SparkSession, secured: SecuredUp, tmp_path: Path) -> None:
    secured_options = options(secured)
    rows = spark.sql("SELECT CAST(id AS STRING) AS key, concat('v', id) AS value FROM range(20)")
    rows.write.format("kafka").options(**secured_options).option("topic", "written").save()
    stream = spark.readStream.format("kafka").options(**secured_options).option("subscribe", "written")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .options(**secured_options)
        .option("topic", "copied")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(240)
    assert query.exception() is None
    copied = spark.read.format("kafka").options(**secured_options).option("subscribe", "copied").load()
    values = sorted(bytes(row.value).decode() for row in copied.select("value").collect())
    assert values == sorted(f"v{number}" for number in range(20))


def test_a_user_without_rights_reads_nothing(spark: SparkSession, secured: SecuredUp) -> None:
    config = ["--command-config", str(secured.file("client.properties"))]
    assert run(["topics", "create", "private", *config]) == 0
    assert run(["configs", "alter", "--user", "carol", "--set", "SCRAM-SHA-512=[password=carols]", *config]) == 0
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = {"kafka.sasl.jaas.config": f'{module} required username="carol" password="carols";'}
    reader = spark.read.format("kafka").options(**{**options(secured), **login}).option("subscribe", "private")
    with pytest.raises(Exception, match=r"[Nn]ot authorized to access|TopicAuthorization"):
        reader.load().count()
