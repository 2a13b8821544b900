"""Failures of single records, kept beside the records until the end of the chain.

A converter or transform that fails on some records must not fail the other records. It notes the failure in the column
`__failure` of the record; later steps of the chain skip such records. At the end the chain decides by
`errors.tolerance`: the first failure fails the task, or failed records are left out of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.connect.api.spark_functions import sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "DATA_ERROR",
    "FAILURE",
    "HEADER_CONVERTER",
    "KEY_CONVERTER",
    "TRANSFORMATION",
    "VALUE_CONVERTER",
    "note_failures",
    "sound",
    "with_failures",
]

FAILURE = "__failure"
FAILURE_TYPE = "struct<stage:string,plugin:string,exception:string,message:string>"

# Stages and the exception have Kafka Connect's names, which tools expect in the headers of dead letters.
KEY_CONVERTER = "KEY_CONVERTER"
VALUE_CONVERTER = "VALUE_CONVERTER"
HEADER_CONVERTER = "HEADER_CONVERTER"
TRANSFORMATION = "TRANSFORMATION"
DATA_ERROR = "org.apache.kafka.connect.errors.DataException"


def with_failures(frame: DataFrame) -> DataFrame:
    """The frame with a column for failures."""
    if FAILURE in frame.columns:
        return frame
    return frame.withColumn(FAILURE, sql.lit(None).cast(FAILURE_TYPE))


def sound() -> Column:
    """A condition: the record has not failed."""
    return sql.col(FAILURE).isNull()


def note_failures(frame: DataFrame, failed: Column, message: Column, *, stage: str, plugin: str) -> DataFrame:
    """Notes a failure on records where `failed` is true and no earlier step failed. Null counts as false."""
    failure = sql.struct(
        sql.lit(stage).alias("stage"),
        sql.lit(plugin).alias("plugin"),
        sql.lit(DATA_ERROR).alias("exception"),
        message.cast("string").alias("message"),
    )
    return with_failures(frame).withColumn(FAILURE, sql.when(sound() & failed, failure).otherwise(sql.col(FAILURE)))
