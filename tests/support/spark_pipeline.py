"""A pipeline in a separate process for crash tests: topic to topic on Spark, exactly once.

    python -m tests.support.spark_pipeline '{"bootstrap": ..., "source": ..., "target": ..., "checkpoint": ..., ...}'

runs until it is killed. Kinds of query: `copy` (no state), `distinct` (`dropDuplicates`), `counts` (running counts by
`groupBy`, through `each_batch`), `processor` (the same counts by a `StatefulProcessor`, whose state is in RocksDB).
`Pipeline` starts the process repeatedly, and kills its driver or workers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

__all__ = ["Pipeline"]

ROOT = Path(__file__).resolve().parent.parent.parent
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Pipeline:
    """A driver and its child processes; a context manager that leaves no process behind."""

    def __init__(
        self,
        directory: Path,
        *,
        program: str = "tests.support.spark_pipeline",
        command: Sequence[str] = (),
        **settings: str,
    ) -> None:
        """`command` replaces the program with its settings."""
        self.directory = directory
        self.settings = {"checkpoint": str(directory / "checkpoint"), "master": "local[2,4]", **settings}
        self._command = list(command) or [sys.executable, "-m", program, json.dumps(self.settings)]
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        # The process sessions of all starts: processes that survive in them are ended at exit.
        self._sessions: list[int] = []

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions:
            for process in psutil.process_iter():
                try:
                    if os.getsid(process.pid) == session:
                        process.kill()
                except (psutil.Error, OSError):
                    continue
        if self._process is not None:
            self._process.wait()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        if self._process is not None:
            self._process.wait()
        self.starts += 1
        log = (self.directory / f"driver-{self.starts}.log").open("wb")
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        self._sessions.append(self._process.pid)
        log.close()

    def kill_driver(self) -> None:
        """Kills Python and the JVM, as the loss of a machine does; workers are not killed."""
        assert self._process is not None
        victims = [
            self._process.pid,
            *[process.pid for process in self._descendants("java") if process.ppid() == self._process.pid],
        ]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def wait_for_end(self, seconds: float) -> bool:
        """Waits until the driver has ended, for example because its JVM was killed."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill_worker(self, chance: random.Random, *, executor: bool = False, is_connected: bool = False) -> bool:
        """Kills a Python worker, or the JVM of an executor; returns False if there is none.

        `is_connected`: not a process from which workers are forked, but one with a connection to a broker.
        """
        assert self._process is not None
        if executor:
            candidates = [process for process in self._descendants("java") if process.ppid() != self._process.pid]
        else:
            candidates = [process for process in self._descendants("python") if process.pid != self._process.pid]
            if is_connected:
                candidates = [process for process in candidates if _is_connected(process)]
        if not candidates:
            return False
        try:
            chance.choice(candidates).kill()
        except psutil.NoSuchProcess:
            return False
        return True

    def batches(self) -> int:
        """The number of committed batches; Spark removes old commit files, so the newest file has the number."""
        names = [path.name for path in Path(self.settings["checkpoint"], "commits").glob("*")]
        return max((int(name) + 1 for name in names if name.isdecimal()), default=0)

    def said(self) -> str:
        """The end of the last driver's output."""
        return (self.directory / f"driver-{self.starts}.log").read_text(errors="replace")[-2000:]

    def _descendants(self, name: str) -> list[psutil.Process]:
        assert self._process is not None
        processes = []
        try:
            for process in psutil.Process(self._process.pid).children(recursive=True):
                try:
                    if name in process.name():
                        processes.append(process)
                except psutil.Error:
                    continue
        except psutil.NoSuchProcess:
            return []
        return processes


def _is_connected(process: psutil.Process) -> bool:
    try:
        return any(connection.status == psutil.CONN_ESTABLISHED for connection in process.net_connections("tcp"))
    except psutil.Error:
        return False


def frame_of(spark: SparkSession, settings: dict[str, str]) -> DataFrame:
    stream = (
        spark.readStream.format("ottla")
        .option("bootstrap.servers", settings["bootstrap"])
        .option("subscribe", settings["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.get("records_per_batch", "3000"))
        .load()
    )
    kind = settings["kind"]
    if kind == "copy":
        return stream.select("value")
    if kind == "distinct":
        return stream.select("value").dropDuplicates(["value"])
    groups = stream.selectExpr("CAST(CAST(value AS STRING) AS INT) % 50 AS number").groupBy("number")
    if kind == "counts":
        counted = groups.count()
    else:
        assert kind == "processor"
        counted = processed(spark, groups)
    return counted.selectExpr("CAST(number AS STRING) AS key", "CAST(count AS STRING) AS value")


def processed(spark: SparkSession, groups: GroupedData) -> DataFrame:
    """Running counts by a custom processor, which emits every new count as a separate row."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", "count BIGINT")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            before = self._count.get()
            count = (0 if before is None else before[0]) + sum(1 for _ in rows)
            self._count.update((count,))
            yield Row(number=key[0], count=count)

        def close(self) -> None:
            pass

    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    return groups.transformWithState(Counter(), "number INT, count BIGINT", "Append", "None")


def main(settings: dict[str, str]) -> None:
    import ottla.spark
    from ottla.spark.sink import each_batch
    from tests.support.spark_crashes import CrashingDataSource
    from tests.support.spark_java import SHORT_LIVED

    spark = ottla.spark.session("pipeline", master=settings["master"], settings=SHORT_LIVED)
    spark.dataSource.register(CrashingDataSource)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    (Path(settings["checkpoint"]).parent / "pid").write_text(str(jvm.java.lang.ProcessHandle.current().pid()))
    options = {
        "bootstrap.servers": settings["bootstrap"],
        "topic": settings["target"],
        "query.name": settings["target"],
        "crash.directory": str(Path(settings["checkpoint"]).parent),
        "crash.markers": settings.get("markers", "true"),
    }
    writer = frame_of(spark, settings).writeStream.option("checkpointLocation", settings["checkpoint"])
    if settings["kind"] == "counts":
        writer = writer.outputMode("update").foreachBatch(each_batch(options, source="ottla-crashing"))
    else:
        writer = writer.format("ottla-crashing").options(**options)
    query = ottla.spark.start(writer, processingTime="300 milliseconds")
    print("started", time.time(), flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
