"""A source that reads rows of CSV, JSON, Parquet or Avro files in a directory.

A source partition is a file; its offset is the number of rows read. A file is read when it has not changed for
`settle.ms`, once, by the task that the hash of its name selects. Names that begin with a dot or an underscore, or end
in `.tmp`, are ignored; directories `_name=value` are partitions.
"""

from __future__ import annotations

import fnmatch
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    ConfigDefinitions,
    ConfigType,
    ConnectError,
    Delivery,
    DeliveryClaim,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    ReadLimit,
    Settings,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
)
from ottla.connect.plugins.connectors.ddl import parse_ddl

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

__all__ = ["FORMATS", "DirectoryReader", "DirectorySourceConnector", "is_hidden"]

# The most files in a batch. Every file is a Spark task.
FILES_MAX = 200
FORMATS = ("parquet", "json", "csv", "avro")


class DirectorySourceConnector(SourceConnector):
    """Reads rows of files in a directory as records."""

    claim = DeliveryClaim(Delivery.EXACTLY_ONCE, "files do not change once reading begins, and executors can read them")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("path", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The directory, with what is below it.")
            .define("topic", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The topic to write to.")
            .define("format", ConfigType.STRING, importance=Importance.HIGH, validator=OneOf(*FORMATS),
                    documentation="What the files are: " + ", ".join(FORMATS) + ".")
            .define("files", ConfigType.STRING, default="*", documentation="A pattern for names, such as *.csv.")
            .define("schema", ConfigType.STRING, default=None,
                    documentation="The columns, as Spark's DDL; without it, what the file says or looks like.")
            .define("key.field", ConfigType.STRING, default=None, documentation="The column that is the key as well.")
            .define("settle.ms", ConfigType.INT, default=1000, importance=Importance.LOW, validator=Range(minimum=0),
                    documentation="How long a file must not have changed before it is read.")
            .define("csv.header", ConfigType.BOOLEAN, default=True, documentation="Whether the first line has names.")
            .define("csv.delimiter", ConfigType.STRING, default=",", documentation="What stands between columns.")
        )  # fmt: skip

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        return [{**config, "task.number": str(number), "task.count": str(max_tasks)} for number in range(max_tasks)]

    def reader(self, task: Task) -> SourceReader:
        return DirectoryReader(
            self.config_definitions().parse(task.config),
            task=int(task.config.get("task.number", task.number)),
            tasks=int(task.config.get("task.count", "1")),
        )


class DirectoryReader(SourceReader):
    """Reads ranges of rows of files."""

    def __init__(self, settings: Settings, *, task: int = 0, tasks: int = 1) -> None:
        self._settings = settings
        self._path = Path(settings.text("path"))
        self._task, self._tasks = task, tasks
        self._schemas: dict[str, StructType] = {}
        self._counts: dict[str, int] = {}
        # The files of the batch that is planned.
        self._files = 0
        # Files that this reader has seen to be read completely.
        self._done: set[str] = set()

    def partitions(self) -> Sequence[SourcePartition]:
        partitions = []
        newest = time.time() - self._settings.integer("settle.ms") / 1000
        for path in sorted(self._path.rglob("*")):
            name = str(path.relative_to(self._path))
            if is_hidden(name) or not fnmatch.fnmatch(path.name, self._settings.text("files")):
                continue
            if not path.is_file() or path.stat().st_mtime > newest:
                continue
            if name not in self._done and zlib.crc32(name.encode()) % self._tasks == self._task:
                partitions.append({"file": name})
        self._files = 0
        return partitions

    def schema(self, partition: SourcePartition) -> StructType:
        from pyspark.sql import types as spark

        name = str(partition["file"])
        if name not in self._schemas:
            columns = self._columns(self._path / name)
            fields = [spark.StructField("value", columns)]
            key = self._settings.text_or_none("key.field")
            if key is not None:
                if key not in columns.fieldNames():
                    raise ConnectError(f"{name} has no column {key}, which key.field names")
                fields.insert(0, spark.StructField("key", columns[key].dataType))
            self._schemas[name] = spark.StructType(fields)
        return self._schemas[name]

    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        name = str(partition["file"])
        if start is not None and start.get("done"):
            self._forget(name)
            return start
        if self._files == FILES_MAX:
            return start
        self._files += 1
        if name not in self._counts:
            self._counts[name] = self._row_count(self._path / name)
        rows = self._counts[name]
        end = min(_row(start) + limit.records, rows)
        if end == rows:
            return {"row": rows, "done": True}
        return {"row": end, "done": False}

    def waits_for(self) -> str | None:
        return None if self._path.is_dir() else f"the directory {self._path} does not exist"

    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        first, last = _row(start), _row(end)
        key = self._settings.text_or_none("key.field")
        position = 0
        for batch in self._batches(self._path / str(partition["file"])):
            begin, stop = max(first - position, 0), min(last - position, batch.num_rows)
            position += batch.num_rows
            if begin < stop:
                part = batch.slice(begin, stop - begin)
                value = pyarrow.StructArray.from_arrays(part.columns, part.schema.names)
                arrays, names = [value], ["value"]
                if key is not None:
                    arrays, names = [part.column(key), value], ["key", "value"]
                yield pyarrow.RecordBatch.from_arrays(arrays, names)
            if position >= last:
                return

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        if offset.get("done"):
            self._forget(str(partition["file"]))

    def _forget(self, name: str) -> None:
        self._done.add(name)
        self._counts.pop(name, None)
        self._schemas.pop(name, None)

    def _columns(self, path: Path) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        ddl = self._settings.text_or_none("schema")
        if ddl:
            return parse_ddl(ddl)
        return from_arrow_schema(self._arrow_schema(path))

    def _arrow_schema(self, path: Path) -> pyarrow.Schema:
        import pyarrow

        kind = self._settings.text("format")
        if kind == "parquet":
            import pyarrow.parquet

            return _spark_sized(pyarrow.parquet.read_schema(path))
        if kind == "avro":
            import fastavro
            from pyspark.sql.pandas.types import to_arrow_type

            from ottla.connect.api.schema import spark_type
            from ottla.connect.plugins.converters.avro_schema import schema_from_avro

            with path.open("rb") as file:
                given = spark_type(schema_from_avro(fastavro.reader(file).writer_schema))
            return pyarrow.schema(list(to_arrow_type(given, timezone="UTC")))
        for batch in self._batches(path):
            return batch.schema
        raise ConnectError(f"{path} is empty and has no column names: set schema")

    def _row_count(self, path: Path) -> int:
        if self._settings.text("format") == "parquet":
            import pyarrow.parquet

            return int(pyarrow.parquet.read_metadata(path).num_rows)
        return sum(batch.num_rows for batch in self._batches(path))

    def _batches(self, path: Path) -> Iterator[pyarrow.RecordBatch]:
        """All rows of a file, in order. Columns are cast to the configured schema."""
        wanted = self._wanted()
        for batch in self._raw_batches(path):
            sized = _sized(batch)
            if wanted is None:
                yield sized
            else:
                yield _conformed(sized, wanted)

    def _wanted(self) -> pyarrow.Schema | None:
        ddl = self._settings.text_or_none("schema")
        if not ddl:
            return None
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(parse_ddl(ddl), timezone="UTC")

    def _raw_batches(self, path: Path) -> Iterator[pyarrow.RecordBatch]:
        kind = self._settings.text("format")
        if kind == "parquet":
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(path) as file:
                yield from file.iter_batches()
        elif kind == "csv":
            import pyarrow.csv

            names = None if self._settings.flag("csv.header") else (self._wanted_names() or None)
            options = pyarrow.csv.ReadOptions(
                column_names=names, autogenerate_column_names=names is None and not self._settings.flag("csv.header")
            )
            parse = pyarrow.csv.ParseOptions(delimiter=self._settings.text("csv.delimiter"), newlines_in_values=True)
            if path.stat().st_size:
                yield from pyarrow.csv.read_csv(path, options, parse, self._conversions()).to_batches()
        elif kind == "json":
            import pyarrow.json

            if path.stat().st_size:
                yield from pyarrow.json.read_json(path).to_batches()
        else:
            yield from _avro_batches(path, self._arrow_schema(path))

    def _conversions(self) -> pyarrow.csv.ConvertOptions:
        """Reads text columns as text: inferred numbers would lose leading zeros."""
        import pyarrow.csv

        wanted = self._wanted()
        kinds = {} if wanted is None else {field.name: field.type for field in wanted}
        texts = {name: kind for name, kind in kinds.items() if kind in (pyarrow.string(), pyarrow.binary())}
        return pyarrow.csv.ConvertOptions(column_types=texts)

    def _wanted_names(self) -> list[str]:
        wanted = self._wanted()
        return [] if wanted is None else list(wanted.names)


def _avro_batches(path: Path, schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
    import fastavro
    import pyarrow

    with path.open("rb") as file:
        rows: list[Any] = []
        for row in fastavro.reader(file):
            rows.append(row)
            if len(rows) >= 10_000:
                yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)
                rows = []
        if rows:
            yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def _conformed(batch: pyarrow.RecordBatch, wanted: pyarrow.Schema) -> pyarrow.RecordBatch:
    """The wanted columns in the wanted types; missing columns are null."""
    import pyarrow

    arrays = []
    for field in wanted:
        place = batch.schema.get_field_index(field.name)
        arrays.append(pyarrow.nulls(batch.num_rows, field.type) if place < 0 else batch.column(place).cast(field.type))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=wanted)


def _sized(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Casts rows to types of Spark. Times are cut to microseconds; other values must fit."""
    import pyarrow

    wanted = _spark_sized(batch.schema)
    arrays = [
        column.cast(field.type, safe=not pyarrow.types.is_temporal(field.type))
        for column, field in zip(batch.columns, wanted, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=wanted)


def _spark_sized(schema: pyarrow.Schema) -> pyarrow.Schema:
    """The schema in types of Spark: microseconds, signed numbers, no dictionaries, no large strings."""
    import pyarrow

    def sized(kind: pyarrow.DataType) -> pyarrow.DataType:
        if pyarrow.types.is_timestamp(kind):
            return pyarrow.timestamp("us", tz="UTC" if kind.tz is not None else None)
        if pyarrow.types.is_dictionary(kind):
            return sized(kind.value_type)
        if pyarrow.types.is_large_string(kind):
            return pyarrow.string()
        if pyarrow.types.is_large_binary(kind):
            return pyarrow.binary()
        if pyarrow.types.is_null(kind):
            return pyarrow.string()
        if pyarrow.types.is_unsigned_integer(kind):
            return pyarrow.int64()
        if pyarrow.types.is_time(kind):
            return pyarrow.time64("us")
        if pyarrow.types.is_struct(kind):
            return pyarrow.struct([pyarrow.field(field.name, sized(field.type)) for field in kind])
        if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            return pyarrow.list_(sized(kind.value_type))
        return kind

    return pyarrow.schema([pyarrow.field(field.name, sized(field.type)) for field in schema])


def is_hidden(name: str) -> bool:
    """True if a file is ignored. A directory `_name=value` is a partition, as in Spark."""
    return name.endswith(".tmp") or any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/")
    )


def _row(offset: SourceOffset | None) -> int:
    return 0 if offset is None else int(offset.get("row") or 0)
