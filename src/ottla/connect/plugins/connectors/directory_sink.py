"""A sink that writes records as rows of CSV, JSON, Parquet or Avro files in a directory.

Spark writes a batch to a staging directory. Then a manifest is created atomically, unless there is one already; it
lists all files under names that contain the batch's identity. Then the files are moved to their places. The manifest
commits the batch. After a crash the batch is repeated: with a manifest only the remaining files are moved; without one
the batch is written again. So every record is in exactly one file, also if two workers run the task at once. The
files of a batch appear one after the other.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    Batch,
    ConfigDefinitions,
    ConfigType,
    ConfigValue,
    ConnectError,
    Delivery,
    DeliveryClaim,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    Settings,
    SinkConnector,
    SinkWriter,
    SomeOf,
    Task,
)
from ottla.connect.plugins.connectors.directory_source import FORMATS, is_hidden
from ottla.connect.plugins.connectors.durable import create_durably, sync_directory, sync_tree
from ottla.connect.plugins.connectors.rows import METADATA, rows_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["DirectorySinkConnector", "DirectoryWriter"]

# The manifests to keep of a task: of the batch that may be repeated, and of the batch before.
MANIFESTS_KEPT = 2
TIME_COLUMN = "time"


class DirectorySinkConnector(SinkConnector):
    """Writes records as rows of files in a directory."""

    claim = DeliveryClaim(
        Delivery.EXACTLY_ONCE, "the file system has atomic renames, and driver and executors share it"
    )

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("path", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The directory; it is made where there is none.")
            .define("format", ConfigType.STRING, importance=Importance.HIGH, validator=OneOf(*FORMATS),
                    documentation="What the files are: " + ", ".join(FORMATS) + ".")
            .define("partition.by", ConfigType.LIST, default=(), importance=Importance.HIGH,
                    documentation="Columns that become directories, name=value, in this order.")
            .define("partition.time", ConfigType.STRING, default="", importance=Importance.HIGH,
                    documentation="A format of the record's time, such as yyyy-MM-dd: becomes directories, time=..., "
                    "before those of partition.by.")
            .define("columns.metadata", ConfigType.LIST, default=(), validator=SomeOf(*METADATA, may_be_empty=True),
                    documentation="Which of topic, partition, offset, timestamp, key become columns too, "
                    "with an underscore before their names.")
            .define("compression", ConfigType.STRING, default=None,
                    documentation="A codec that Spark knows for the format: gzip, snappy, zstd, none and others.")
            .define("files.per.batch", ConfigType.INT, default=0, validator=Range(minimum=0),
                    documentation="How many files a batch becomes (in each partition); 0: as many as Spark has tasks.")
            .define("csv.header", ConfigType.BOOLEAN, default=True, documentation="Whether the first line has names.")
        )  # fmt: skip

    def validate(self, config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
        if re.match(r"^[a-z0-9]+://", config.get("path", "")) and not config["path"].startswith("file://"):
            values["path"].errors.append("path must be a directory that this machine can rename in, not an address.")

    def writer(self, task: Task) -> SinkWriter:
        return DirectoryWriter(self.config_definitions().parse(task.config))


class DirectoryWriter(SinkWriter):
    """Writes batches of files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = Path(settings.text("path").removeprefix("file://"))
        self._control = self._path / "_ottla"

    def write(self, frame: DataFrame, batch: Batch) -> None:
        self._control.mkdir(parents=True, exist_ok=True)
        manifest = self._control / f"{batch.identity}.json"
        if not manifest.exists():
            # A unique name: a worker that was fenced but still writes must not write here.
            staging = self._control / f"{batch.identity}.{uuid.uuid4().hex[:12]}.staging"
            self._stage(frame, staging)
            files = _staged_files(staging, batch.identity)
            # The files must be durable before the manifest, also after a power failure.
            sync_tree(staging)
            create_durably(manifest, json.dumps({"staging": staging.name, "files": files}, indent=1))
        written = json.loads(manifest.read_text())
        self._move(written["files"], self._control / written["staging"])
        self._forget_old(batch)

    def _stage(self, frame: DataFrame, staging: Path) -> None:
        rows, columns = self._rows(frame)
        count = self._settings.integer("files.per.batch")
        if count:
            rows = rows.coalesce(count)
        kind = self._settings.text("format")
        if kind == "avro":
            _write_avro(rows, columns, staging, self._settings.text_or_none("compression"))
            return
        writer = rows.write.format(kind).mode("overwrite")
        if columns:
            writer = writer.partitionBy(*columns)
        codec = self._settings.text_or_none("compression")
        if codec:
            writer = writer.option("compression", codec)
        if kind == "csv":
            writer = writer.option("header", str(self._settings.flag("csv.header")).lower())
        if kind == "json":
            writer = writer.option("ignoreNullFields", "false")
        writer.save(str(staging))

    def _rows(self, frame: DataFrame) -> tuple[DataFrame, list[str]]:
        """The rows, and the columns that become directories."""
        from pyspark.sql import types as spark

        from ottla.connect.api.spark_functions import sql
        from ottla.connect.plugins.transforms.times import format_utc

        pattern = self._settings.text("partition.time")
        columns = self._settings.texts("partition.by")
        moment = format_utc(sql.col("timestamp"), pattern) if pattern else None
        if moment is not None:
            frame = frame.withColumn("__time", moment)
        rows = rows_of(frame, self._settings.texts("columns.metadata"), {"__time": TIME_COLUMN} if pattern else {})
        missing = [name for name in columns if name not in rows.columns]
        if missing:
            raise ConnectError(f"partition.by names {', '.join(missing)}, which the records do not have")
        if self._settings.text("format") == "csv":
            nested = (spark.StructType, spark.ArrayType, spark.MapType, spark.VariantType)
            written = {
                field.name: sql.to_json(sql.col(f"`{field.name}`"))
                for field in rows.schema.fields
                if isinstance(field.dataType, nested)
            }
            rows = rows.withColumns(written) if written else rows
        return rows, [*([TIME_COLUMN] if pattern else []), *columns]

    def _move(self, files: Sequence[Mapping[str, str]], staging: Path) -> None:
        touched: set[Path] = set()
        for file in files:
            source, target = staging / file["from"], self._path / file["to"]
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                source.replace(target)
            except FileNotFoundError:
                # The file was moved before, by this worker or a previous owner of the task.
                if not target.exists():
                    raise ConnectError(f"{target} is in a manifest, but neither there nor staged") from None
            # Including parent directories, which may be new.
            touched.update(above for above in target.parents if above.is_relative_to(self._path))
        for directory in touched:
            sync_directory(directory)

    def _forget_old(self, batch: Batch) -> None:
        """Removes staging directories and old manifests of earlier batches of this task.

        A fenced worker may finish this batch after the task's new worker has staged a later batch, whose files must
        stay. Ids of different epochs have no order, so the time of the manifest decides for other epochs.
        """
        pattern = re.compile(rf"{re.escape(f'{batch.task.connector}-{batch.task.number}')}-([^-]+)-(\d{{20}})\.")
        matches = [(path, match) for path in self._control.iterdir() if (match := pattern.match(path.name))]
        committed_ns = _modified_ns(self._control / f"{batch.identity}.json")
        for path, match in matches:
            epoch, number = match.groups()
            is_old = int(number) <= batch.id if epoch == batch.epoch else _modified_ns(path) < committed_ns
            if path.suffix == ".staging" and is_old:
                shutil.rmtree(path, ignore_errors=True)
        paths = [path for path, _ in matches]
        manifests = [path for path in paths if path.suffix == ".json" and not path.name.startswith(batch.identity)]
        manifests.sort(key=lambda path: (_modified_ns(path), path.name))
        for manifest in manifests[: 1 - MANIFESTS_KEPT]:
            manifest.unlink(missing_ok=True)


def _modified_ns(path: Path) -> int:
    """0 if another worker has removed the path meanwhile."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _staged_files(staging: Path, identity: str) -> list[dict[str, str]]:
    """The staged files with their final names, which are unique to this batch."""
    files: list[dict[str, str]] = []
    for path in sorted(staging.rglob("*")):
        relative = path.relative_to(staging)
        if not path.is_file() or is_hidden(str(relative)):
            continue
        ending = "".join(Path(re.sub(r"^part-[0-9a-f-]+(\.c\d+|-c\d+)?", "part", path.name)).suffixes)
        name = f"{identity}-{len(files):05d}{ending}"
        files.append({"from": str(relative), "to": str(relative.with_name(name))})
    return files


def _write_avro(rows: DataFrame, columns: list[str], staging: Path, codec: str | None) -> None:
    """Writes Avro with fastavro in executors: a file for each Spark partition and directory."""
    from ottla.connect.api.schema import schema_from_spark
    from ottla.connect.plugins.converters.avro_schema import avro_from_schema

    kept = rows.drop(*columns)
    avro = avro_from_schema(schema_from_spark(kept.schema, nullable=False), path="Row")
    target, names = str(staging), kept.columns

    def written(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import fastavro
        import pyarrow
        from pyspark import TaskContext

        from ottla.connect.plugins.converters.avro import plain

        parsed = fastavro.parse_schema(avro)
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        groups: dict[str, list[dict[str, Any]]] = {}
        for batch in batches:
            kind = pyarrow.struct([batch.schema.field(name) for name in names])
            for row in batch.to_pylist():
                place = "/".join(f"{name}={_directory_value(row[name])}" for name in columns)
                groups.setdefault(place, []).append(plain(row, kind))
        for place, group in groups.items():
            directory = Path(target) / place
            directory.mkdir(parents=True, exist_ok=True)
            attempt = context.taskAttemptId() if context is not None else 0
            temporary = directory / f".part-{number:05d}-{attempt}.avro"
            with temporary.open("wb") as file:
                fastavro.writer(
                    file, parsed, group, codec={None: "null", "gzip": "deflate"}.get(codec, codec or "null")
                )
            # A repeated task replaces the file of its first attempt.
            temporary.replace(directory / f"part-{number:05d}.avro")
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([len(groups)], pyarrow.int64())], ["files"])

    staging.mkdir(parents=True, exist_ok=True)
    rows.mapInArrow(written, "files bigint").collect()


def _directory_value(value: Any) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else re.sub(r"[^A-Za-z0-9_.@ -]", _escaped, str(value))


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode())
