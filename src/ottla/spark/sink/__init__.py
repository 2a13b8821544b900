"""The sink of `format("ottla")`: batch and streaming writes, at least once or exactly once. See README.md."""

from __future__ import annotations

from ottla.spark.sink.options import ExtraRecord, SinkOptions, extra_records_option, sink_options
from ottla.spark.sink.recovery import end_open_transactions
from ottla.spark.sink.writers import batch_writer, each_batch, stream_writer

__all__ = [
    "ExtraRecord",
    "SinkOptions",
    "batch_writer",
    "each_batch",
    "end_open_transactions",
    "extra_records_option",
    "sink_options",
    "stream_writer",
]
