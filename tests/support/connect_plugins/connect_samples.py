"""Connectors for tests on Spark, loaded from `plugin.path`: a source that counts, and a sink that writes files.

Files in the directory `control` make them fail.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    Batch,
    ConfigDefinitions,
    ConfigType,
    Delivery,
    DeliveryClaim,
    ReadLimit,
    RetriableError,
    SinkConnector,
    SinkWriter,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["CountingSource", "KeepingSink"]


class CountingSource(SourceConnector):
    """Counts to `until` in each of `partitions`, `step` numbers in a batch."""

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("topic", ConfigType.STRING)
            .define("until", ConfigType.INT)
            .define("partitions", ConfigType.INT, default=1)
            .define("step", ConfigType.INT, default=100)
            .define("control", ConfigType.STRING, default=None)
        )

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        count = int(config.get("partitions", "1"))
        tasks = min(max_tasks, count)
        return [
            {**config, "mine": ",".join(str(counter) for counter in range(count) if counter % tasks == number)}
            for number in range(tasks)
        ]

    def reader(self, task: Task) -> SourceReader:
        return _CountingReader(task.config)


class _CountingReader(SourceReader):
    def __init__(self, config: Mapping[str, str]) -> None:
        self._until = int(config["until"])
        self._step = int(config.get("step", "100"))
        self._mine = [int(word) for word in config["mine"].split(",")]
        self._control = Path(config["control"]) if config.get("control") else None

    def partitions(self) -> Sequence[SourcePartition]:
        return [{"counter": counter} for counter in self._mine]

    def schema(self, partition: SourcePartition) -> str:
        return "key string, value string"

    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        if self._control is not None and (self._control / "fail").exists():
            raise RuntimeError("told to fail")
        at, until = 0 if start is None else int(str(start["at"])), self._until
        if self._control is not None and (self._control / "until").exists():
            until = int((self._control / "until").read_text())
        return start if at >= until else {"at": min(at + self._step, until)}

    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        if self._control is not None and (self._control / "retry").exists():
            raise RetriableError("come back later")
        if self._control is not None and (self._control / "die").exists():
            _die_at_the_first_attempt()
        if self._control is not None and (self._control / "retry-once").exists():
            (self._control / "retry-once").unlink()
            raise RetriableError("come back now")
        first = 0 if start is None else int(str(start["at"]))
        numbers = range(first, int(str(end["at"])))
        keys = [f"{partition['counter']}" for _ in numbers]
        values = [f"{partition['counter']}-{number}" for number in numbers]
        yield pyarrow.RecordBatch.from_pydict({"value": values, "key": keys})


def _die_at_the_first_attempt() -> None:
    """Ends the process as a batch does that is too large for its writer; processes that only read it survive."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        os._exit(1)


class KeepingSink(SinkConnector):
    """Writes a file per batch, named by the batch's identity: a repeated batch replaces its file."""

    claim = DeliveryClaim(Delivery.EXACTLY_ONCE)

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("directory", ConfigType.STRING)
            .define("control", ConfigType.STRING, default=None)
        )

    def writer(self, task: Task) -> SinkWriter:
        return _KeepingWriter(task.config)


class _KeepingWriter(SinkWriter):
    def __init__(self, config: Mapping[str, str]) -> None:
        self._directory = Path(config["directory"])
        self._control = Path(config["control"]) if config.get("control") else None

    def write(self, frame: DataFrame, batch: Batch) -> None:
        if self._control is not None and (self._control / "retry").exists():
            raise RetriableError("the target is away")
        if self._control is not None:
            with contextlib.suppress(FileNotFoundError):
                time.sleep(float((self._control / "slow").read_text()))
        rows: list[Any] = [
            {"topic": row.topic, "partition": row.partition, "offset": row.offset, "value": row.value}
            for row in frame.select("topic", "partition", "offset", "value").collect()
        ]
        self._directory.mkdir(parents=True, exist_ok=True)
        beside = self._directory / f".{batch.identity}"
        beside.write_text("".join(json.dumps(row) + "\n" for row in rows))
        beside.replace(self._directory / f"{batch.identity}.json")
        if self._control is not None and (self._control / "fail").exists():
            raise RuntimeError("told to fail after the write")
