"""Rows of sources on their way to topics: their columns, and the topic of rows without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from ottla.connect.api import ConnectError
from ottla.connect.api.spark_functions import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["outgoing_columns", "together", "with_topic"]

# The columns after the converters: keys and values are bytes.
_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
}


def outgoing_columns(*frames: DataFrame) -> list[str]:
    """The columns of records that at least one of the frames has."""
    return [name for name in _TYPES if any(name in frame.columns for frame in frames)]


def with_topic(frame: DataFrame, config: Mapping[str, str]) -> DataFrame:
    """The frame with the configured topic for rows that have none."""
    named = config.get("topic")
    if "topic" in frame.columns:
        return frame if not named else frame.withColumn("topic", sql.coalesce(sql.col("topic"), sql.lit(named)))
    if not named:
        raise ConnectError("The rows of this source have no topic, and its configuration names none.")
    return frame.withColumn("topic", sql.lit(named))


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """The union of frames, with the columns that at least one of them has.

    Unused columns are left out: on the way to Python, Spark counts the bytes of a batch again for every row, and lists
    of structs, such as headers, cost ten times as much as all other columns, even if they are null.
    """
    wanted = outgoing_columns(*frames)
    parts = [
        frame.select(
            *(
                (sql.col(name) if name in frame.columns else sql.lit(None)).cast(_TYPES[name]).alias(name)
                for name in wanted
            )
        )
        for frame in frames
    ]
    return reduce(lambda first, second: first.unionByName(second), parts)
