"""`format("ottla")`: the data source that Spark calls. Other modules are imported on first use."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from ottla.spark.options import boolean, source_options, without_prefix
from ottla.spark.schema import spark_schema

__all__ = ["OttlaDataSource"]


class OttlaDataSource(DataSource):
    """Topics of a cluster, as Spark's own Kafka connector shows them."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        return spark_schema(boolean(without_prefix(self.options), "includeheaders", True))

    def reader(self, schema: Any) -> Any:  # noqa: ARG002
        from ottla.spark.source.batch import OttlaBatchReader

        return OttlaBatchReader(source_options(self.options, streaming=False))

    def streamReader(self, schema: Any) -> Any:  # noqa: ARG002, N802
        from ottla.spark.source.stream import OttlaStreamReader

        return OttlaStreamReader(source_options(self.options, streaming=True))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        from ottla.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        from ottla.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
