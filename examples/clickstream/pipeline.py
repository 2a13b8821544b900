"""The pipeline: two connectors, which are configuration, and a Spark query between them."""

from __future__ import annotations

import json
import random
import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import ottla.spark
from ottla.spark.sessions import JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "CLICKS",
    "ENRICHED",
    "SPARK",
    "enrich",
    "files",
    "first_click",
    "generator",
    "make_users",
    "warm_up",
    "worker_settings",
]

CLICKS, ENRICHED = "clicks", "clicks-enriched"
USERS = 1000
TRIGGER_MS = 500
# Connectors and the query share the cores; file footers hold the oldest and the newest time of a file.
SPARK = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The optimising compiler of Java pays off after minutes; until then it takes half of the CPU.
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1",
}
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


def first_click() -> tuple[bytes, bytes]:
    """Key and value of a click that goes through the pipeline before the stream starts."""
    click = {"click_id": -1, "user_id": 1, "page": "/", "status": 200, "duration_ms": 1.0}
    return struct.pack(">q", 1), json.dumps(click | {"at": int(time.time() * 1000)}).encode()


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
    clicks = (
        spark.readStream.format("ottla")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", CLICKS)
        .option("startingOffsets", "earliest")
        .option("group.id", "enrich")
        .load()
    )
    writer = (
        _with_users(clicks, _users(spark, database))
        .writeStream.format("ottla")
        .option("bootstrap.servers", bootstrap)
        .option("topic", ENRICHED)
        .option("checkpointLocation", str(checkpoint))
        .queryName("enrich")
    )
    return ottla.spark.start(writer, processingTime=f"{TRIGGER_MS} milliseconds")


def warm_up(spark: SparkSession, bootstrap: str, database: Path, scratch: Path) -> None:
    """Takes one click through the steps of the pipeline, so that Spark has loaded and compiled them before the stream.

    Reads the topic while it is empty; the click is a row of its own.
    """
    from pyspark.sql import functions as sql

    options = {"bootstrap.servers": bootstrap, "subscribe": CLICKS}
    topic = spark.read.format("ottla").options(**options).load()
    value = """'{"click_id": 0, "at": 0, "user_id": 1, "page": "/", "status": 200, "duration_ms": 1.0}'"""
    click = spark.range(1).selectExpr("cast(null as binary) AS key", f"{value} AS value", "now() AS timestamp")
    enriched = _with_users(click.unionByName(topic.select(*click.columns)), _users(spark, database))
    row = sql.from_json("value", "click_id bigint, at bigint, name string, region string").alias("row")
    enriched.select(row).select("row.*").coalesce(1).write.partitionBy("region").parquet(str(scratch))


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


def _with_users(clicks: DataFrame, users: DataFrame) -> DataFrame:
    """Key and value of an enriched click for each record of a click."""
    from pyspark.sql import functions as sql

    parsed = clicks.select("key", "timestamp", sql.from_json(sql.col("value").cast("string"), CLICK).alias("click"))
    flat = parsed.select("key", "click.*", sql.unix_millis("timestamp").alias("received"))
    enriched = flat.join(sql.broadcast(users), "user_id", "left")
    return enriched.select("key", sql.to_json(sql.struct(*ENRICHED_FIELDS)).alias("value"))


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
