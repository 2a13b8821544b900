"""Frames for tests of converters, transforms and chains: literal rows, which Spark reads without a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla.connect.plugins import Plugins
from ottla.connect.work.chain import ConnectorChain, build_chain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["chain_of", "interpreted", "records"]

# For a row or two, compiling generated code would take most of the time.
NO_CODE_GENERATION = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with code generation switched off."""
    for name, value in NO_CODE_GENERATION.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name in NO_CODE_GENERATION:
            spark.conf.unset(name)


def records(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Records as a sink reads them. Rows have `key`, `value` (bytes or None), `topic`, `headers`, `timestamp_ms`."""
    values = ", ".join(_row(row, offset) for offset, row in enumerate(rows))
    return spark.sql(
        f"SELECT key, value, topic, partition, offset, timestamp_millis(at) AS timestamp, 0 AS timestampType, "
        f"CAST(headers AS array<struct<key:string,value:binary>>) AS headers "
        f"FROM VALUES {values} AS t(key, value, topic, partition, offset, at, headers)"
    )


def chain_of(**config: str) -> ConnectorChain:
    """A chain built from settings; underscores stand for dots: `value_converter` → `value.converter`."""
    settings = {name.replace("_", "."): text for name, text in config.items()}
    return build_chain({"name": "test", **settings}, Plugins())


def _row(row: Mapping[str, Any], offset: int) -> str:
    headers = ", ".join(
        f"named_struct('key', '{name}', 'value', {_bytes(value)})" for name, value in row.get("headers", [])
    )
    return (
        f"({_bytes(row.get('key'))}, {_bytes(row.get('value'))}, '{row.get('topic', 'orders')}', 0, "
        f"{offset}L, {row.get('timestamp_ms', 1_700_000_000_000)}L, "
        f"{f'array({headers})' if headers else 'CAST(NULL AS array<struct<key:string,value:binary>>)'})"
    )


def _bytes(value: bytes | None) -> str:
    return "CAST(NULL AS BINARY)" if value is None else f"X'{value.hex()}'"
