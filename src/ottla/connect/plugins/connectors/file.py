"""Files of lines: a line is a record.

**Source.** The offset is the position behind the last line that was read, with the file's inode and a checksum of its
first bytes. A truncated or replaced file (`logrotate`) is therefore recognised and read from its beginning. The rest of
a renamed file is read under its new name in the same directory. A line is read when its newline is there.

**Sink.** Before a batch is appended, its identity and the size of the file are stored in `<file>.batch`. A repeated
batch first truncates the file to that size, so every record is in the file exactly once.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    Batch,
    ConfigDefinitions,
    ConfigType,
    ConnectError,
    Delivery,
    DeliveryClaim,
    Importance,
    NonEmpty,
    ReadLimit,
    SinkConnector,
    SinkWriter,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
)
from ottla.connect.plugins.connectors.durable import write_durably

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["FileStreamSinkConnector", "FileStreamSourceConnector", "LineReader", "LineWriter"]

JAVA = "org.apache.kafka.connect.file"
# The number of first bytes that identify a file.
FINGERPRINT_BYTES = 256
# A longer line is an error, because waiting for its newline might never end.
LINE_BYTES_MAX = 64 * 1024 * 1024


class FileStreamSourceConnector(SourceConnector):
    """Reads lines of a growing file as records."""

    aliases = (f"{JAVA}.FileStreamSourceConnector",)
    claim = DeliveryClaim(Delivery.EXACTLY_ONCE, "lines are only appended, or the file is replaced as a whole")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("file", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The file to read. It may appear later.")
            .define("topic", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The topic to write to.")
            .define("batch.size", ConfigType.INT, default=0, importance=Importance.LOW,
                    documentation="How many lines a batch may have at most; 0 leaves it to the worker.")
        )  # fmt: skip

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        # A file is read in order, so there is one task.
        return [dict(config)]

    def reader(self, task: Task) -> SourceReader:
        return LineReader(Path(task.config["file"]), batch_size=int(task.config.get("batch.size", "0")))


class LineReader(SourceReader):
    """Reads ranges of lines."""

    def __init__(self, path: Path, *, batch_size: int = 0) -> None:
        self._path = path
        self._batch_size = batch_size

    def partitions(self) -> Sequence[SourcePartition]:
        return [{"filename": str(self._path)}]

    def schema(self, partition: SourcePartition) -> str:
        return "value string"

    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        unfinished = self._unfinished(start)
        if unfinished is not None:
            # The file was renamed before it was read completely: its rest comes first.
            end = self._lines_end(unfinished, _position(start), limit)
            if end > _position(start):
                return _offset(end, unfinished)
        if not self._path.exists():
            return start
        begin = _position(start) if _is_same(self._path, start) else 0
        end = self._lines_end(self._path, begin, limit)
        if end == begin:
            return start
        return _offset(end, self._path)

    def waits_for(self) -> str | None:
        return None if self._path.exists() else f"the file {self._path} does not exist"

    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        import pyarrow.compute

        path = self._file_of(end)
        begin = _position(start) if _is_same(path, start) else 0
        with path.open("rb") as file:
            file.seek(begin)
            data = file.read(_position(end) - begin)
        if len(data) != _position(end) - begin:
            raise ConnectError(f"{path} became shorter while it was read")
        text = pyarrow.array([data.decode("utf-8", "replace")], pyarrow.large_string())
        lines = pyarrow.compute.split_pattern(text, "\n").values[:-1]
        if b"\r" in data:
            lines = pyarrow.compute.replace_substring_regex(lines, "\r$", "")
        yield pyarrow.RecordBatch.from_arrays([lines.cast(pyarrow.string())], ["value"])

    def _lines_end(self, path: Path, begin: int, limit: ReadLimit) -> int:
        """The position behind the last complete line of a batch."""
        most = min(limit.records, self._batch_size) if self._batch_size else limit.records
        wanted = max(limit.bytes, 1)
        with path.open("rb") as file:
            while True:
                file.seek(begin)
                data = file.read(wanted)
                end = data.rfind(b"\n") + 1
                if end or len(data) < wanted:
                    break
                if wanted >= LINE_BYTES_MAX:
                    raise ConnectError(f"{path} has a line of more than {LINE_BYTES_MAX} bytes at {begin}")
                wanted = min(wanted * 4, LINE_BYTES_MAX)
        if data.count(b"\n", 0, end) > most:
            end = 0
            for _ in range(most):
                end = data.index(b"\n", end) + 1
        return begin + end

    def _unfinished(self, start: SourceOffset | None) -> Path | None:
        """The file that was read last, if it was renamed."""
        if start is None or start.get("inode") is None or _is_same(self._path, start):
            return None
        return self._renamed(start)

    def _renamed(self, offset: SourceOffset) -> Path | None:
        try:
            candidates = list(self._path.parent.iterdir())
        except OSError:
            return None
        return next(
            (candidate for candidate in candidates if candidate.is_file() and _is_same(candidate, offset)), None
        )

    def _file_of(self, offset: SourceOffset) -> Path:
        if _is_same(self._path, offset):
            return self._path
        path = self._renamed(offset)
        if path is None:
            raise ConnectError(f"{self._path} was replaced, and the unread rest of the old file was deleted")
        return path


class FileStreamSinkConnector(SinkConnector):
    """Writes records as lines of a file."""

    aliases = (f"{JAVA}.FileStreamSinkConnector",)
    claim = DeliveryClaim(Delivery.EXACTLY_ONCE, "no other program writes to the file")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "file", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
            documentation="The file to append to.",
        )  # fmt: skip

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        return [dict(config)]

    def writer(self, task: Task) -> SinkWriter:
        return LineWriter(Path(task.config["file"]))


class LineWriter(SinkWriter):
    """Appends batches of lines."""

    columns = ("value",)

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = path.with_name(path.name + ".batch")

    def write(self, frame: DataFrame, batch: Batch) -> None:
        from ottla.connect.api import schema
        from ottla.connect.api.spark_functions import sql
        from ottla.connect.plugins.converters.text import text_of

        given = schema.schema_of(frame, "value")
        value_schema = given or schema.schema_from_spark(frame.schema["value"].dataType)
        text = sql.coalesce(text_of(sql.col("value"), value_schema, schemaless=given is None), sql.lit("null"))
        table = frame.select(text.alias("line")).toArrow()
        self.append_bytes([_as_lines(chunk) for chunk in table.column("line").chunks], batch.identity)

    def append(self, lines: Sequence[str], identity: str) -> None:
        """Appends the lines of a batch."""
        self.append_bytes(["".join(f"{line}\n" for line in lines).encode()], identity)

    def append_bytes(self, data: Sequence[bytes | memoryview], identity: str) -> None:
        """Appends the content of a batch, after removing what an earlier attempt with its identity has appended."""
        with self._path.open("ab") as file:
            size = file.seek(0, os.SEEK_END)
            noted = self._noted()
            if noted.get("identity") == identity:
                size = min(size, int(noted["size"]))
                file.truncate(size)
            else:
                write_durably(self._note, json.dumps({"identity": identity, "size": size}))
            file.seek(size)
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())

    def _noted(self) -> dict[str, Any]:
        try:
            noted = json.loads(self._note.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ConnectError(f"{self._note} holds the last written batch and is not readable: {error}") from error
        assert isinstance(noted, dict)
        return noted


def _as_lines(texts: pyarrow.Array) -> memoryview:
    """The texts with newlines as one buffer, without work in Python for each line."""
    import pyarrow
    import pyarrow.compute

    kind = pyarrow.large_string()
    joined = pyarrow.compute.binary_join_element_wise(
        texts.cast(kind), pyarrow.scalar("", kind), pyarrow.scalar("\n", kind)
    )
    _, offsets, data = joined.buffers()
    if data is None or not len(joined):
        return memoryview(b"")
    ends = memoryview(offsets).cast("b").cast("q")
    return memoryview(data)[ends[joined.offset] : ends[joined.offset + len(joined)]]


def _position(offset: SourceOffset | None) -> int:
    return 0 if offset is None else int(offset.get("position") or 0)


def _offset(position: int, path: Path) -> SourceOffset:
    length = min(position, FINGERPRINT_BYTES)
    return {
        "position": position,
        "inode": path.stat().st_ino,
        "length": length,
        "checksum": _checksum(path, length),
    }


def _is_same(path: Path, offset: SourceOffset | None) -> bool:
    """True if an offset belongs to this file: same inode, not shorter, same first bytes.

    Offsets that were set over REST have only a position and apply to the present file.
    """
    if offset is None or offset.get("inode") is None:
        return True
    try:
        status = path.stat()
        if status.st_ino != offset["inode"] or status.st_size < _position(offset):
            return False
        return _checksum(path, int(offset.get("length") or 0)) == offset.get("checksum")
    except OSError:
        return False


def _checksum(path: Path, length: int) -> int:
    with path.open("rb") as file:
        return zlib.crc32(file.read(length))
