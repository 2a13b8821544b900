"""The handling of records that failed, by Kafka Connect's settings `errors.*`.

A tolerated record that failed in a converter or transform is logged if configured, and goes to the dead-letter topic as
it was read. Its headers describe its origin and the failure, under the names that Kafka Connect's tools expect.
(`task_loop` retries failures of a whole batch.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.connect.api.record_failures import FAILURE
from ottla.connect.api.spark_functions import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "HEADER_PREFIX",
    "RAW_HEADERS",
    "RAW_KEY",
    "RAW_TOPIC",
    "RAW_VALUE",
    "ErrorPolicy",
    "dead_letters",
    "log_failures",
]

log = logging.getLogger(__name__)

HEADER_PREFIX = "__connect.errors."
# The record as it was read, before converters and transforms.
RAW_KEY, RAW_VALUE, RAW_HEADERS, RAW_TOPIC = "__key", "__value", "__headers", "__topic"
LOGGED_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """The settings `errors.*` of a connector."""

    tolerates_all: bool = False
    logs: bool = False
    logs_messages: bool = False
    dead_letter_topic: str = ""
    dead_letter_replication_factor: int = 3
    dead_letter_headers: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ErrorPolicy:
        return cls(
            tolerates_all=config.get("errors.tolerance", "none").lower() == "all",
            logs=config.get("errors.log.enable", "false").lower() == "true",
            logs_messages=config.get("errors.log.include.messages", "false").lower() == "true",
            dead_letter_topic=config.get("errors.deadletterqueue.topic.name", "").strip(),
            dead_letter_replication_factor=int(config.get("errors.deadletterqueue.topic.replication.factor", "3")),
            dead_letter_headers=config.get("errors.deadletterqueue.context.headers.enable", "false").lower() == "true",
        )

    @property
    def looks_at_failures(self) -> bool:
        """True if failed records are logged or sent to a topic; otherwise they are dropped."""
        return self.tolerates_all and (self.logs or bool(self.dead_letter_topic))


def dead_letters(frame: DataFrame, policy: ErrorPolicy, *, connector: str, task: int) -> DataFrame:
    """The failed records as they were read, for the dead-letter topic."""
    headers = sql.coalesce(sql.col(RAW_HEADERS), sql.array().cast("array<struct<key:string,value:binary>>"))
    if policy.dead_letter_headers:
        failure = sql.col(FAILURE)
        context = {
            "topic": sql.col(RAW_TOPIC),
            "partition": sql.col("partition"),
            "offset": sql.col("offset"),
            "connector.name": sql.lit(connector),
            "task.id": sql.lit(str(task)),
            "stage": failure.getField("stage"),
            "class.name": failure.getField("plugin"),
            "exception.class.name": failure.getField("exception"),
            "exception.message": failure.getField("message"),
            "exception.stacktrace": sql.concat_ws(": ", failure.getField("exception"), failure.getField("message")),
        }
        added = [
            sql.struct(sql.lit(HEADER_PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in context.items()
        ]
        headers = sql.concat(headers, sql.array(*added).cast("array<struct<key:string,value:binary>>"))
    return frame.select(
        sql.col(RAW_KEY).alias("key"),
        sql.col(RAW_VALUE).alias("value"),
        headers.alias("headers"),
        sql.lit(policy.dead_letter_topic).alias("topic"),
        sql.col("timestamp"),
    )


def log_failures(frame: DataFrame, policy: ErrorPolicy, *, connector: str, task: int) -> int:
    """Logs failed records, at most a hundred of a batch; returns the number of logged records."""
    place = [sql.col(name) for name in ("partition", "offset") if name in frame.columns]
    topic = [sql.col(RAW_TOPIC)] if RAW_TOPIC in frame.columns else []
    rows = frame.select(FAILURE, *topic, *place).limit(LOGGED_MAX + 1).collect()
    for row in rows[:LOGGED_MAX]:
        fields = row.asDict()
        failure = fields.pop(FAILURE)
        where = ""
        if policy.logs_messages:
            where = ", of the record " + ", ".join(f"{name.strip('_')}={value}" for name, value in fields.items())
        log.error(
            "Task %s-%d: %s failed in %s%s: %s", connector, task, failure["stage"], failure["plugin"], where,
            failure["message"],
        )  # fmt: skip
    if len(rows) > LOGGED_MAX:
        log.error("Task %s-%d: more records of this batch failed", connector, task)
    return min(len(rows), LOGGED_MAX)
