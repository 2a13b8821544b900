"""`format("ottla")`: the data source that Spark calls. Other modules are imported on first use."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from ottla.spark.failures import in_one_sentence
from ottla.spark.options import boolean, source_options, without_prefix
from ottla.spark.schema import spark_schema

__all__ = ["OttlaDataSource"]


class OttlaDataSource(DataSource):
    """Topics of a cluster, as Spark's own Kafka connector shows them."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    @in_one_sentence
    def schema(self) -> str:
        return spark_schema(boolean(without_prefix(self.options), "includeheaders", True))

    @in_one_sentence
    def reader(self, schema: Any) -> Any:  # noqa: ARG002
        from ottla.spark.source.batch import OttlaBatchReader

        return OttlaBatchReader(source_options(self.options, streaming=False))

    @in_one_sentence
    def streamReader(self, schema: Any) -> Any:  # noqa: ARG002, N802
        from ottla.spark.source.stream import OttlaStreamReader

        return OttlaStreamReader(source_options(self.options, streaming=True))

    @in_one_sentence
    def writer(self, schema: Any, overwrite: bool) -> Any:
        from ottla.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @in_one_sentence
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        from ottla.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
