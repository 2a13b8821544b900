"""A sink whose processes die at given steps: `format("ottla-crashing")`.

It has the options `crash.directory` and `crash.markers` besides those of the sink. A file in the directory, named after
a step, requests a crash: the first process to reach that step removes the file and dies.

    begun, written, marked, committed     the worker that runs a task, by SIGKILL (see `ottla.spark.sink.task`)
    commit                                the driver's commit of the batch fails, which ends the query
    driver-<step>                         the driver, whose process id is in the file `pid`, by SIGKILL

With `crash.markers=false` markers are ignored, which shows the sink's behaviour without them.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import TaskContext, cloudpickle

from ottla.spark.datasource import OttlaDataSource
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task import TaskIdentity
from ottla.spark.sink.writers import BatchWriter, StreamWriter, batch_writer, stream_writer

__all__ = ["CrashingDataSource", "arm"]


def arm(directory: Path, step: str) -> None:
    (directory / step).touch()


class CrashingDataSource(OttlaDataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla-crashing"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        writer = stream_writer(self.ours(), schema, overwrite)
        return CrashingStreamWriter(writer.options, **self.crashes())

    def writer(self, schema: Any, overwrite: bool) -> Any:
        writer = batch_writer(self.ours(), schema, overwrite)
        return CrashingBatchWriter(writer.options, **self.crashes())

    def ours(self) -> dict[str, str]:
        return {key: value for key, value in dict(self.options).items() if not key.lower().startswith("crash.")}

    def crashes(self) -> Any:
        options: Mapping[str, str] = self.options
        return {"directory": options["crash.directory"], "markers": options.get("crash.markers") != "false"}


class _Crashing:
    def __init__(self, options: SinkOptions, *, directory: str, markers: bool) -> None:
        self.options = options
        self.directory = directory
        self.markers = markers

    def passed(self, step: str) -> None:
        if self.take(step):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.take(f"driver-{step}"):
            os.kill(int(Path(self.directory, "pid").read_text()), signal.SIGKILL)

    def take(self, step: str) -> bool:
        try:
            Path(self.directory, step).unlink()
        except FileNotFoundError:
            return False
        return True

    def commit(self, messages: Any, *_: Any) -> None:
        if self.take("commit"):
            raise RuntimeError("the driver dies before the batch is noted")

    def life(self, identity: TaskIdentity) -> TaskIdentity:
        return identity if self.markers else replace(identity, query_id=str(uuid.uuid4()))


class CrashingStreamWriter(_Crashing, StreamWriter):
    def identity(self, context: TaskContext) -> TaskIdentity:
        return self.life(super().identity(context))


class CrashingBatchWriter(_Crashing, BatchWriter):
    def identity(self, context: TaskContext) -> TaskIdentity:
        return self.life(super().identity(context))


# Workers have no `tests` on their path, so this module is pickled by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
