"""A sink that writes records as rows of tables.

A batch is one transaction of the database: the rows, and the next offset of every topic partition, in a table of the
target (`offsets.table`). The task starts at the offsets of that table, not of its consumer group. The table's rows are
locked while a batch is written: a repeated batch sees that it was written, and a worker that lost the task sees that
another worker was faster. So every record is applied exactly once, in the order of its partition, whichever process
dies.

Offsets are altered over Connect's REST interface, which changes the table as well. Offsets of the group
`connect-<name>` that other tools set are ignored once the table has offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.connect.api import (
    Batch,
    ConfigDefinitions,
    ConfigType,
    ConfigValue,
    Delivery,
    DeliveryClaim,
    Importance,
    JsonScalar,
    NonEmpty,
    OneOf,
    Settings,
    SinkConnector,
    SinkWriter,
    SourceOffset,
    Task,
)
from ottla.connect.api.config_definitions import names_in
from ottla.connect.api.schema import Schema, schema_from_spark, schema_of
from ottla.connect.plugins.connectors.databases.dialect import connection_definitions, open_database
from ottla.connect.plugins.connectors.databases.sink_batch import BatchPlan, write_batch
from ottla.connect.plugins.connectors.databases.sink_offsets import SinkOffsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["JdbcSinkConnector", "JdbcWriter"]

INSERT_MODES = ("insert", "upsert", "update")
PK_MODES = ("none", "kafka", "record_key", "record_value")


class JdbcSinkConnector(SinkConnector):
    """Writes records as rows of tables in a database."""

    aliases = ("io.confluent.connect.jdbc.JdbcSinkConnector",)
    claim = DeliveryClaim(Delivery.EXACTLY_ONCE, "only the connector changes the table of offsets")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            connection_definitions()
            .define("insert.mode", ConfigType.STRING, default="insert", importance=Importance.HIGH,
                    validator=OneOf(*INSERT_MODES),
                    documentation="insert: each record a new row. upsert: the row with its key is replaced, or made. "
                    "update: the row with its key is changed, if there is one.")
            .define("delete.enabled", ConfigType.BOOLEAN, default=False,
                    documentation="Whether a record without a value deletes the row of its key; "
                    "needs pk.mode=record_key.")
            .define("pk.mode", ConfigType.STRING, default="none", importance=Importance.HIGH,
                    validator=OneOf(*PK_MODES),
                    documentation="Where the primary key comes from: nowhere, from topic, partition and offset, "
                    "from the record's key, or from its value.")
            .define("pk.fields", ConfigType.LIST, default=(),
                    documentation="The columns of the primary key: names for topic, partition and offset, for a key "
                    "that is one value, or which fields; empty: __connect_topic and so on, or all fields.")
            .define("fields.whitelist", ConfigType.LIST, default=(),
                    documentation="Which fields of values to write; empty: all.")
            .define("table.name.format", ConfigType.STRING, default="${topic}", validator=NonEmpty(),
                    documentation="The table, where ${topic} is the topic; the last dot stands before the table.")
            .define("auto.create", ConfigType.BOOLEAN, default=False,
                    documentation="Whether tables are created that are not there.")
            .define("auto.evolve", ConfigType.BOOLEAN, default=False,
                    documentation="Whether columns are added that are not there.")
            .define("offsets.table", ConfigType.STRING, default="ottla_connect_offsets", importance=Importance.LOW,
                    validator=NonEmpty(), documentation="The table where the offsets are; it is created.")
            .define("db.timezone", ConfigType.STRING, default="UTC", importance=Importance.LOW,
                    documentation="The time zone of timestamps without one.")
        )  # fmt: skip

    def validate(self, config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
        mode, keys = config.get("insert.mode", "insert"), config.get("pk.mode", "none")
        if mode in ("upsert", "update") and keys == "none":
            values["pk.mode"].errors.append(f"insert.mode={mode} needs a primary key: pk.mode must not be none.")
        if config.get("delete.enabled", "false").lower() == "true" and keys != "record_key":
            values["delete.enabled"].errors.append("Deleting rows needs pk.mode=record_key.")
        if keys == "record_value" and not config.get("pk.fields"):
            values["pk.fields"].errors.append("pk.mode=record_value needs the names of the fields.")
        if keys == "kafka" and len(names_in(config.get("pk.fields"))) not in (0, 3):
            values["pk.fields"].errors.append("pk.mode=kafka needs three names: for topic, partition and offset.")

    def writer(self, task: Task) -> SinkWriter:
        return JdbcWriter(self.config_definitions().parse(task.config), connector=task.connector)

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, JsonScalar], SourceOffset | None]]
    ) -> bool:
        settings = self.config_definitions().parse(config)
        database = open_database(settings)
        stored = SinkOffsets(database, table=settings.text("offsets.table"), connector=config["name"])
        changes = {
            (str(partition["kafka_topic"]), int(str(partition["kafka_partition"]))): (
                None if offset is None else int(str(offset["kafka_offset"]))
            )
            for partition, offset in offsets
        }
        try:
            with database.transaction(writes=True) as cursor:
                stored.create(cursor)
                stored.change(cursor, changes)
        finally:
            database.close()
        return True


class JdbcWriter(SinkWriter):
    """Writes every batch in one Spark task."""

    def __init__(self, settings: Settings, *, connector: str) -> None:
        self._settings = settings
        self._database = open_database(settings)
        self._offsets = SinkOffsets(self._database, table=settings.text("offsets.table"), connector=connector)

    def stored_offsets(self) -> Mapping[tuple[str, int], int]:
        with self._database.transaction(writes=True) as cursor:
            self._offsets.create(cursor)
            return self._offsets.all(cursor)

    def forget(self, partitions: Sequence[tuple[str, int]]) -> None:
        with self._database.transaction(writes=True) as cursor:
            self._offsets.change(cursor, dict.fromkeys(partitions))

    def write(self, frame: DataFrame, batch: Batch) -> None:
        columns = [name for name in ("key", "value", "topic", "partition", "offset") if name in frame.columns]
        plan = BatchPlan(
            settings=dict(self._settings),
            connector=batch.task.connector,
            ranges=batch.ranges,
            key=_schema(frame, "key"),
            value=_schema(frame, "value"),
        )
        frame.select(*columns).coalesce(1).mapInArrow(partial(write_batch, plan), "rows bigint").collect()

    def close(self) -> None:
        self._database.close()


def _schema(frame: DataFrame, column: str) -> Schema | None:
    """The schema of a column, derived from the values if they are schemaless."""
    if column not in frame.columns:
        return None
    schema = schema_of(frame, column)
    return schema if schema is not None else schema_from_spark(frame.schema[column].dataType)
