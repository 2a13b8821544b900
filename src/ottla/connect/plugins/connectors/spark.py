"""Connectors for all sources and sinks of Spark, by name and options.

    connector.class=SparkSource            connector.class=SparkSink
    spark.format=rate                      spark.format=delta
    spark.option.rowsPerSecond=100         spark.option.path=/data/orders
    topic=ticks                            topics=orders

Spark keeps the offsets of its streaming sources in the checkpoint directory of the task. A sink gets every batch as an
ordinary append, which may be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.connect.api import (
    Batch,
    ConfigDefinitions,
    ConfigType,
    Delivery,
    DeliveryClaim,
    Importance,
    NonEmpty,
    OneOf,
    Settings,
    SinkConnector,
    SinkWriter,
    SomeOf,
    SourceConnector,
    Task,
)
from ottla.connect.plugins.connectors.rows import METADATA, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkSinkConnector", "SparkSourceConnector", "SparkWriter"]

OPTION = "spark.option."


class SparkSourceConnector(SourceConnector):
    """Reads rows of any streaming source of Spark as records."""

    claim = DeliveryClaim(
        Delivery.EXACTLY_ONCE, "the source can be read again from an offset, and the checkpoint directory is kept"
    )

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("topic", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The topic to write to.")
            .define("spark.format", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The name of the source, as in readStream.format; its options are spark.option.*.")
            .define("spark.schema", ConfigType.STRING, default=None,
                    documentation="The schema of the rows, as DDL, where the source wants to be told.")
            .define("spark.key", ConfigType.STRING, default=None,
                    documentation="An SQL expression over the columns that gives the key.")
            .define("spark.value", ConfigType.STRING, default=None,
                    documentation="An SQL expression that gives the value; without it, a struct of all columns.")
            .define("spark.timestamp", ConfigType.STRING, default=None,
                    documentation="An SQL expression that gives the timestamp of the record.")
        )  # fmt: skip

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        return [dict(config)]

    def stream(self, task: Task, spark: SparkSession) -> DataFrame:
        settings = self.config_definitions().parse(task.config)
        stream = spark.readStream.format(settings.text("spark.format")).options(**_options(settings))
        ddl = settings.text_or_none("spark.schema")
        if ddl:
            stream = stream.schema(ddl)
        return as_records(stream.load(), settings)


class SparkSinkConnector(SinkConnector):
    """Appends records to any sink of Spark."""

    claim = DeliveryClaim(Delivery.AT_LEAST_ONCE, "a batch that was in progress at a crash may come twice")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("spark.format", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The name of the sink, as in write.format; its options are spark.option.*.")
            .define("spark.mode", ConfigType.STRING, default="append",
                    validator=OneOf("append", "overwrite", "ignore", "error"),
                    documentation="What to do with what is there already.")
            .define("spark.table", ConfigType.STRING, default=None,
                    documentation="A table of the catalog, where the sink is no path.")
            .define("spark.partition.by", ConfigType.LIST, default=(), documentation="Columns to partition by.")
            .define("columns.metadata", ConfigType.LIST, default=(), validator=SomeOf(*METADATA, may_be_empty=True),
                    documentation="Which of topic, partition, offset, timestamp, key become columns too, "
                    "with an underscore before their names.")
        )  # fmt: skip

    def writer(self, task: Task) -> SinkWriter:
        return SparkWriter(self.config_definitions().parse(task.config))


class SparkWriter(SinkWriter):
    """Appends batches."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def write(self, frame: DataFrame, batch: Batch) -> None:
        rows = rows_of(frame, self._settings.texts("columns.metadata"))
        writer = rows.write.format(self._settings.text("spark.format")).mode(self._settings.text("spark.mode"))
        writer = writer.options(**_options(self._settings))
        columns = self._settings.texts("spark.partition.by")
        if columns:
            writer = writer.partitionBy(*columns)
        table = self._settings.text_or_none("spark.table")
        if table:
            writer.saveAsTable(table)
        else:
            writer.save()


def as_records(rows: DataFrame, settings: Settings) -> DataFrame:
    """Rows of a source as records of a topic."""
    from ottla.connect.api.spark_functions import sql

    value = settings.text_or_none("spark.value")
    columns = [sql.expr(value) if value else sql.struct(*rows.columns)]
    names = ["value"]
    for name in ("key", "timestamp"):
        expression = settings.text_or_none(f"spark.{name}")
        if expression:
            columns.append(sql.expr(expression))
            names.append(name)
    return rows.select(*[column.alias(name) for column, name in zip(columns, names, strict=True)])


def _options(settings: Settings) -> dict[str, str]:
    return {name.removeprefix(OPTION): text for name, text in settings.original.items() if name.startswith(OPTION)}
