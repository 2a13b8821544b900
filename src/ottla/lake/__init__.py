"""Lake tables: topics as Iceberg and Delta tables, kept current by Spark, exactly once. See README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

__all__ = ["read_records"]


def read_records(options: Mapping[str, str]) -> Iterator[pyarrow.RecordBatch]:
    """The records of a topic with their past in its table, partition by partition in the order of their offsets.

    The options are those of `spark.read.format("ottla")` with `history`; no Spark session is needed.
    """
    from ottla.spark.options import source_options
    from ottla.spark.source.history import read_in_order

    yield from read_in_order(source_options(options, streaming=False))
