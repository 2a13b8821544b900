"""An archive of the classes that Spark loads at its start, which Java maps into memory instead of loading them.

With it the JVM of a session takes half of the CPU time to start, and two thirds from there to the first batch. The
first session of an environment starts a process of the lowest priority that makes the archive for later sessions: the
process starts a small Spark of its own, takes about a minute of CPU time and writes 200 MB beside the installed
packages. The archive is made once for each Java and PySpark, under a lock, and appears as a whole; a failure is not
repeated. `OTTLA_CLASS_ARCHIVE=off` prevents it, `python -m ottla.spark.class_archive` makes it at once. Java ignores an
archive that does not belong to its version or its jars.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

__all__ = ["archive_options", "archive_path", "main", "make_for_later"]

log = logging.getLogger(__name__)

SWITCH = "OTTLA_CLASS_ARCHIVE"
# A disk with less space than this is left alone.
FREE_BYTES_MIN = 2 * 1024**3
_LOWEST_PRIORITY = 19
_COMMAND = (sys.executable, "-m", "ottla.spark.class_archive", "--background")
_SHELL_SECONDS_MAX = 30
# An archive that does not fit is no reason for a warning.
_QUIET = "-Xlog:cds=off,cds+dynamic=off,class+path=off"
_EXIT_SECONDS_MAX = 300


def archive_path(java: str) -> Path:
    """The file with the archive for this `java` and the installed PySpark."""
    import pyspark

    program = Path(java).resolve()
    key = f"{program} {program.stat().st_mtime_ns} {pyspark.__version__} {pyspark.__file__}"
    # Beside its environment: two hundred megabytes that no other environment can use.
    place = Path(sys.prefix) if sys.prefix != sys.base_prefix else Path.home() / ".cache"
    return place / "ottla" / f"spark-classes-{zlib.crc32(key.encode()):08x}.jsa"


def archive_options(java: str) -> str:
    """Options for Spark's JVM to use the archive; empty if there is none."""
    try:
        path = archive_path(java)
        return f" -XX:SharedArchiveFile={path} {_QUIET}" if path.exists() else ""
    except OSError:
        return ""


def make_for_later(java: str) -> None:
    """Starts a process that makes the archive, unless it exists, is not wanted or cannot be made here."""
    try:
        path = archive_path(java)
        if path.exists() or _failed(path).exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        reason = _reason_against(path.parent)
    except OSError as error:
        reason = str(error)
    if reason is not None:
        log.debug("No archive of Spark's classes is made: %s.", reason)
        return
    log.debug("An archive of Spark's classes is made in the background for later sessions: %s", path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        # A shell in between, so that the process has no parent that would have to wait for it.
        subprocess.run(
            ["/bin/sh", "-c", '"$@" > /dev/null 2>&1 < /dev/null &', "sh", *_COMMAND],
            start_new_session=True,
            env=environment,
            timeout=_SHELL_SECONDS_MAX,
            check=True,
        )


def _reason_against(directory: Path) -> str | None:
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "false", "no"):
        return f"{SWITCH} is off"
    if not os.access(directory, os.W_OK):
        return f"{directory} is read-only"
    if shutil.disk_usage(directory).free < FREE_BYTES_MIN:
        return f"{directory} has too little space"
    if (os.cpu_count() or 1) < 2:
        return "there is one core only"
    return None


def main(arguments: Sequence[str] = ()) -> int:
    """Makes the archive, unless it exists: Java writes it at the end of a session that did a little of everything."""
    from ottla.spark.java import find_java

    in_background = "--background" in arguments
    path = archive_path(find_java())
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if in_background else 0))
        except BlockingIOError:
            return 0
        if path.exists():
            return 0
        if in_background:
            os.nice(_LOWEST_PRIORITY)
        for left_behind in path.parent.glob("spark-classes-*.making"):
            shutil.rmtree(left_behind, ignore_errors=True)
        try:
            _make(path)
        except Exception:
            if in_background:
                # Later sessions do not try again.
                _failed(path).touch()
            raise
    return 0


def _failed(path: Path) -> Path:
    return path.with_suffix(".failed")


def _make(path: Path) -> None:
    from ottla.spark.sessions import JAVA_OPTIONS, session

    os.environ[SWITCH] = "off"
    scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix="spark-classes-", suffix=".making"))
    try:
        written = scratch / "archive.jsa"
        options = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={written} {_QUIET}"
        settings = {"spark.driver.extraJavaOptions": options, "spark.log.level": "ERROR"}
        spark = session("class-archive", master="local[2,4]", settings=settings)
        _practise(spark, scratch)
        process = spark.sparkContext._gateway.proc
        spark.stop()
        process.stdin.close()
        process.wait(_EXIT_SECONDS_MAX)
        # Renamed when Java has ended: no other process sees a part of it.
        written.replace(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _practise(spark: Any, scratch: Path) -> None:
    """Does what pipelines do, so that their classes are loaded: Python sources and sinks, Arrow, Parquet, shuffles."""
    spark.dataSource.register(_PracticeSource)
    stream = spark.readStream.format("ottla-practice").load()
    counts = stream.groupBy("value").count().selectExpr("cast(count as string) value")
    for number, (frame, mode) in enumerate([(stream, "append"), (counts, "complete")]):
        writer = frame.writeStream.format("ottla-practice").outputMode(mode)
        query = writer.option("checkpointLocation", str(scratch / f"checkpoint-{number}")).start()
        query.processAllAvailable()
        query.stop()
    rows = spark.read.format("ottla-practice").load().mapInArrow(_same, "value string")
    rows.selectExpr("value", "from_json(value, 'a int') parsed").write.parquet(str(scratch / "parquet"))
    spark.read.parquet(str(scratch / "parquet")).orderBy("value").toArrow()
    rows.write.format("ottla-practice").mode("append").save()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


class _PracticeReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
        import pyarrow

        yield pyarrow.RecordBatch.from_pydict({"value": ["1", "2", "2"]})


class _PracticeStreamReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"offset": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"offset": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(0), InputPartition(1)]

    read = _PracticeReader.read


class _PracticeWriter(DataSourceWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        from pyspark.sql.datasource import WriterCommitMessage

        for _ in iterator:
            pass
        return WriterCommitMessage()


class _PracticeStreamWriter(DataSourceStreamWriter):
    write = _PracticeWriter.write

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        pass


class _PracticeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla-practice"

    def schema(self) -> str:
        return "value string"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        return _PracticeReader()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _PracticeStreamReader()

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        return _PracticeWriter()

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        return _PracticeStreamWriter()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
