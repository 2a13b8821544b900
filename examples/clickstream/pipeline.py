"""The pipeline: two connectors, which are configuration, and a Spark query between them."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import ottla.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["CLICKS", "ENRICHED", "SPARK", "enrich", "files", "generator", "make_users", "worker_settings"]

CLICKS, ENRICHED = "clicks", "clicks-enriched"
USERS = 1000
TRIGGER_MS = 500
# Connectors and the query share the cores; file footers hold the oldest and the newest time of a file.
SPARK = {"spark.scheduler.mode": "FAIR", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}

# The columns that the query reads from `clicks`, and those that the sink reads from `clicks-enriched`.
CLICK = "click_id bigint, at bigint, user_id bigint, page string, status int, duration_ms double"
ENRICHED_FIELDS = {
    "click_id": "int64",
    "at": "timestamp",
    "received": "timestamp",
    "user_id": "int64",
    "name": "string",
    "plan": "string",
    "region": "string",
    "page": "string",
    "status": "int32",
    "duration_ms": "double",
}


def worker_settings(bootstrap: str) -> dict[str, str]:
    """A Connect worker that keeps its state in topics, so that offsets of sources are in their transactions."""
    stores = {f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")}
    replicas = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "demo",
        "listeners": "http://127.0.0.1:0",
        "key.converter": "LongConverter",
        "trigger.interval.ms": str(TRIGGER_MS),
        **stores,
        **replicas,
        **JSON,
    }


def generator(rate: int) -> dict[str, str]:
    """Generated clicks into the topic `clicks`; `at` is the scheduled time of a click."""
    return {
        "name": "clicks",
        "connector.class": "GeneratorSource",
        "template": "clickstream",
        "topic": CLICKS,
        "key.field": "user_id",
        "rate": str(rate),
        "start.time.ms": str(int(time.time() * 1000)),
    }


def make_users(database: Path) -> None:
    """The table that clicks are enriched from."""
    chance = random.Random(7)
    regions, plans = ("north", "south", "east", "west"), ("free", "free", "free", "plus", "pro")
    rows = [(number, f"user-{number}", chance.choice(regions), chance.choice(plans)) for number in range(1, USERS + 1)]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY, name TEXT, region TEXT, plan TEXT)")
        connection.executemany("INSERT INTO users VALUES (?, ?, ?, ?)", rows)


def enrich(spark: SparkSession, bootstrap: str, database: Path, checkpoint: Path) -> StreamingQuery:
    """Adds the user to each click: a join of a stream with a table, written exactly once."""
    from pyspark.sql import functions as sql

    clicks = (
        spark.readStream.format("ottla")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", CLICKS)
        .option("startingOffsets", "earliest")
        .option("group.id", "enrich")
        .load()
        .select("key", "timestamp", sql.from_json(sql.col("value").cast("string"), CLICK).alias("click"))
        .select("key", "click.*", sql.unix_millis("timestamp").alias("received"))
    )
    enriched = clicks.join(sql.broadcast(_users(spark, database)), "user_id", "left")
    value = sql.to_json(sql.struct(*ENRICHED_FIELDS))
    writer = (
        enriched.select("key", value.alias("value"))
        .writeStream.format("ottla")
        .option("bootstrap.servers", bootstrap)
        .option("topic", ENRICHED)
        .option("checkpointLocation", str(checkpoint))
        .queryName("enrich")
    )
    return ottla.spark.start(writer, processingTime=f"{TRIGGER_MS} milliseconds")


def files(path: Path) -> dict[str, str]:
    """The enriched clicks as Parquet files, a directory for each region."""
    return {
        "name": "files",
        "connector.class": "DirectorySink",
        "topics": ENRICHED,
        "path": str(path),
        "format": "parquet",
        "partition.by": "region",
        "columns.metadata": "timestamp",
        "files.per.batch": "1",
        "value.converter": "JsonConverter",
        "value.converter.schema.content": json.dumps(_schema()),
    }


def _users(spark: SparkSession, database: Path) -> DataFrame:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT user_id, name, region, plan FROM users").fetchall()
    return spark.createDataFrame(rows, "user_id bigint, name string, region string, plan string")


def _schema() -> dict[str, object]:
    """The schema of an enriched click, as Kafka Connect writes schemas."""
    times = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}
    fields = [
        {"field": name, "optional": True, **(times if kind == "timestamp" else {"type": kind})}
        for name, kind in ENRICHED_FIELDS.items()
    ]
    return {"type": "struct", "optional": False, "fields": fields}
