"""A task of a source that is a streaming query of Spark: its rows go to topics exactly once.

Spark keeps the offsets of such a source in the query's checkpoint directory (below `checkpoint.location`, one directory
for each task). A worker that takes the task over continues there if it reaches that directory. Markers of batches in
the cluster (`spark/sink`) prevent a batch from being written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ottla.spark
from ottla.connect.api import ConnectError, ReadLimit, SourceConnector
from ottla.connect.work.chain_interface import Chain
from ottla.connect.work.outgoing import outgoing_columns, with_topic
from ottla.connect.work.task_loop import TaskLoop, TaskStart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["StreamTask"]


class StreamTask(TaskLoop):
    def __init__(
        self,
        start: TaskStart,
        *,
        spark: SparkSession,
        chain: Chain,
        options: Mapping[str, str],
        checkpoint: str,
    ) -> None:
        super().__init__(start)
        self._spark = spark
        self._chain = chain
        self._options = options
        self._checkpoint = checkpoint
        self._query: StreamingQuery | None = None
        self._seen = -1

    def open(self) -> None:
        """Does nothing: the first batch starts the query, so that a task that starts paused has no query."""

    def batch(self, limit: ReadLimit) -> bool:
        if self._query is None:
            self._query = self._start()
            return False
        failure = self._query.exception()
        if failure is not None:
            raise failure
        if not self._query.isActive:
            raise ConnectError("The query has ended.")
        return self._look_at(self._query.lastProgress, limit)

    def on_pause(self) -> None:
        self.close()

    def close(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.stop()

    def cancel(self) -> None:
        self.close()

    def _start(self) -> StreamingQuery:
        connector = self.spec.connector()
        assert isinstance(connector, SourceConnector)
        # Spark looks for data sources in the session of the current thread, which has none yet. Making a frame from
        # Python rows sets it.
        self._spark.createDataFrame([], "nothing int")
        stream = connector.stream(self.spec.task, self._spark)
        if stream is None:
            raise ConnectError(f"{self.spec.connector.__name__} has neither a reader nor a stream.")
        frame: DataFrame = self._chain.source(with_topic(stream, self.spec.config)).good
        writer = (
            frame.select(*outgoing_columns(frame))
            .writeStream.format("ottla")
            .options(**self._options)
            .option("query.name", self.spec.transactional_id)
            .option("checkpointLocation", self._checkpoint)
            .queryName(self.spec.transactional_id)
            .trigger(processingTime=f"{self.setting('trigger.interval.ms', 1_000)} milliseconds")
        )
        _stop_left_behind(self._spark, self.spec.transactional_id)
        return ottla.spark.start(writer)

    def _look_at(self, progress: Any, limit: ReadLimit) -> bool:
        del limit
        if progress is None or progress["batchId"] == self._seen:
            return False
        self._seen = progress["batchId"]
        if progress["numInputRows"]:
            seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
            self.progress.on_batch(records=progress["numInputRows"], size=0, seconds=seconds)
            topic = self.spec.config.get("topic")
            if topic:
                self.used_topic(topic)
        return False


def _stop_left_behind(spark: SparkSession, name: str) -> None:
    """Stops the query of an earlier run of the task that took too long to stop: query names are unique."""
    for query in spark.streams.active:
        if query.name == name:
            query.stop()
